"""`make bench`: its benches can be run, and its table says what is met."""

import importlib

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
