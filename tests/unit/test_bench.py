"""`make bench`: its benches can be run, and its table says what is met."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.__main__ import BENCHES
from tests.bench.board import Figure, format_table


@pytest.mark.parametrize("name", BENCHES)
def test_every_bench_still_imports_what_it_measures(name: str) -> None:
    assert callable(importlib.import_module(f"tests.bench.{name}").measure)


def test_the_table_says_met_missed_or_nothing() -> None:
    figures = [
        Figure("speed", 2.0, at_least=2.0),
        Figure("slow", 1.9, at_least=2.0),
        Figure("memory", 351.0, at_most=350.0),
        Figure("told only", 3.0),
    ]
    assert [one.verdict for one in figures] == ["met", "**missed**", "**missed**", ""]
    assert "| extraction | memory | 351 | at most 350 | **missed** |" in format_table(
        [("extraction", one) for one in figures]
    )


@pytest.mark.slow  # a process; quick twin: the two above
def test_what_is_missing_is_said_before_the_first_minute(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench", "signs"], cwd=tmp_path,
        env={"PYTHONPATH": f"{root}:{root / 'src'}"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 2
    assert "does not exist: run `make demo` first" in done.stderr
