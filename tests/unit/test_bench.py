"""`make bench`: its benches can be run."""

import importlib

import pytest

from tests.bench.__main__ import BENCHES


@pytest.mark.parametrize("name", BENCHES)
def test_every_bench_still_imports_what_it_measures(name: str) -> None:
    assert callable(importlib.import_module(f"tests.bench.{name}").measure)
