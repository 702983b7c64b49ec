"""Figures of the benches, each beside the bar that it is to reach."""

import multiprocessing
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value, and the least or the most that it may be."""

    name: str
    value: float
    at_least: float | None = None
    at_most: float | None = None

    @property
    def bar(self) -> str:
        """The bar as text; empty where there is none."""
        if self.at_least is not None:
            return f"at least {self.at_least:g}"
        return "" if self.at_most is None else f"at most {self.at_most:g}"

    @property
    def verdict(self) -> str:
        """`met`, `missed`, or nothing without a bar."""
        if not self.bar:
            return ""
        low = self.at_least is not None and self.value < self.at_least
        high = self.at_most is not None and self.value > self.at_most
        return "**missed**" if low or high else "met"


def format_table(rows: Sequence[tuple[str, Figure]]) -> str:
    """Return figures with the names of their benches as Markdown."""
    lines = ["| bench | figure | measured | bar | |", "|---|---|---:|---|---|"]
    lines += [
        f"| {bench} | {figure.name} | {figure.value:,.4g} | {figure.bar} | {figure.verdict} |"
        for bench, figure in rows
    ]
    return "\n".join(lines) + "\n"


def in_new_process(function: Callable[..., Any], *arguments: object) -> Any:
    """Return what a function returns in a process that has done nothing else."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def resident(field: str) -> int:
    """Return bytes of this process: VmRSS, now, or VmHWM, the most of it (Linux).

    `ru_maxrss` would be that of the process that started it, if that has more.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    match = re.search(rf"{field}:\s+(\d+) kB", status)
    assert match is not None
    return int(match[1]) * 1024
