"""A stopwatch for the parts of a command."""

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


class Stopwatch:
    """Adds up seconds by name.

    Attributes:
        seconds: Spent on each part so far.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def measure(self, name: str, *, without: str = "") -> Iterator[None]:
        """Time a block.

        Args:
            name: The part that its seconds are added to.
            without: Another part, timed within the block, whose seconds are not counted twice.
        """
        start_s, before_s = time.perf_counter(), self.seconds[without] if without else 0.0
        try:
            yield
        finally:
            inner_s = self.seconds[without] - before_s if without else 0.0
            self.seconds[name] += time.perf_counter() - start_s - inner_s

    def measure_each(self, name: str, items: Iterator[T], *, without: str = "") -> Iterator[T]:
        """Pass items on and time how long each took to come; names as in `measure`."""
        while True:
            with self.measure(name, without=without):
                item = next(items, None)
            if item is None:
                return
            yield item

    def describe(self) -> str:
        """Return the parts that took time, with their shares of the sum, in one line."""
        total_s = max(sum(self.seconds.values()), 1e-9)
        parts = (
            f"{name} {spent_s:.2f} s ({100 * spent_s / total_s:.0f} %)"
            for name, spent_s in self.seconds.items()
            if spent_s
        )
        return ", ".join(parts)
