"""Progress bars, on a terminal as they are, in a log file a line now and then; and a stopwatch."""

import io
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

LINE_S = 60.0  # between two lines of a bar that nobody watches


def progress_file() -> "_Lines | None":
    """Return `file` of a `tqdm`: None, which is stderr, where that is a terminal.

    A file of messages would hold every state of a bar; so it gets one a minute, as a line.
    """
    return None if sys.stderr.isatty() else _Lines()


class _Lines(io.TextIOBase):
    """A text file that passes on what a bar writes once a minute, first after a minute."""

    def __init__(self) -> None:
        self._written_s = time.monotonic()

    def write(self, text: str) -> int:
        state, now = text.strip(), time.monotonic()
        if state and now - self._written_s >= LINE_S:
            self._written_s = now
            sys.stderr.write(f"{state}\n")
            sys.stderr.flush()
        return len(text)


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
