import time

import pytest

from signloom.cli.translate_clips import Stopwatch


def spend(seconds: float) -> None:
    end_s = time.perf_counter() + seconds
    while time.perf_counter() < end_s:
        pass


def test_inner_parts_are_not_counted_twice() -> None:
    watch = Stopwatch()

    def inner() -> object:
        for item in range(3):
            spend(0.01)
            yield item

    start_s = time.perf_counter()
    with watch.measure("outer", without="inner"):
        assert list(watch.measure_each("inner", inner())) == [0, 1, 2]  # type: ignore[arg-type]
        spend(0.02)
    whole_s = time.perf_counter() - start_s
    assert watch.seconds["inner"] >= 0.03
    assert watch.seconds["outer"] >= 0.02
    assert sum(watch.seconds.values()) == pytest.approx(whole_s, abs=0.005)


def test_the_line_has_every_part_and_its_share() -> None:
    watch = Stopwatch()
    watch.seconds.update(landmarks=3.0, model=1.0)
    assert watch.describe() == "landmarks 3.00 s (75 %), model 1.00 s (25 %)"
