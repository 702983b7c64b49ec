from collections.abc import Iterator

import pytest

from signloom_tools.stopwatch import Stopwatch


def test_inner_parts_are_not_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    clock_s = [100.0]
    monkeypatch.setattr("time.perf_counter", lambda: clock_s[0])

    def spend(seconds: float) -> None:
        clock_s[0] += seconds

    def inner() -> Iterator[int]:
        for item in range(3):
            spend(0.25)
            yield item

    watch = Stopwatch()
    with watch.measure("outer", without="inner"):
        assert list(watch.measure_each("inner", inner())) == [0, 1, 2]
        spend(0.5)
    assert watch.seconds["inner"] == pytest.approx(0.75)
    assert watch.seconds["outer"] == pytest.approx(0.5)
