"""A power cut before any of the operations by which a program changes files."""

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

RENAMES = ("replace", "rename", "unlink")
ALL = (*RENAMES, "mkdir", "rmdir", "open", "fsync")


class PowerCutError(BaseException):
    """The power is off: nothing that tidies up gets to the disk either."""


@contextmanager
def cut_before(
    number: int | None,
    *,
    only: tuple[str, ...] = ALL,
    cut: Callable[[], Any] | None = None,
    watch: Callable[[str, Path], object] = lambda *_: None,
) -> Iterator[list[int]]:
    """Stop before an operation, counted from 0, and before every later one.

    Args:
        number: Of the operation; None: count them only.
        only: Functions of `os` that count; `open` counts where a file is written.
        cut: Called at the operation instead of raising, as to kill the process.
        watch: Hears of each operation, by name and target, before it is done.

    Yields:
        A list whose only item is how many operations were asked for.
    """
    operations = [0]

    def count(name: str, path: Any) -> None:
        watch(name, Path(path) if not isinstance(path, int) else Path())
        if number is not None and operations[0] >= number:
            if cut:
                cut()
            raise PowerCutError
        operations[0] += 1

    def wrap(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            is_move = name in ("replace", "rename")
            count(name, arguments[1] if is_move else arguments[0])
            return function(*arguments, **named)

        return counted

    opened = io.open

    def open_file(file: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
        if set(mode) & set("wax"):
            count("open", file)
        return opened(file, mode, *arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        for name in only:
            if name == "open":
                patch.setattr(io, "open", open_file)
                patch.setattr("builtins.open", open_file)
            else:
                patch.setattr(os, name, wrap(name, getattr(os, name)))
        yield operations
