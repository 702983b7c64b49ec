"""What a command may write over, and folders that it makes whole."""

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from signloom.errors import UserError
from signloom.files import check_writable, disk_name

_UNFINISHED = ".unfinished"  # in a folder that is being made


def check_output(path: Path, inputs: Iterable[Path], *, overwrite: bool) -> None:
    """Refuse to write a file onto what a command reads, or over a file that may not be replaced.

    Args:
        inputs: Files that the command reads, under any name or link.
        overwrite: Whether other files may be replaced.

    Raises:
        UserError: If `path` is one of the inputs, or already exists.
        OSError: If it cannot be written.
    """
    check_writable(path)
    if not os.path.lexists(path):
        return
    for input_path in inputs:
        if input_path.exists() and path.exists() and path.samefile(input_path):
            raise UserError(
                f"cannot write to {path}: it is the input {input_path}; give another name"
            )
    if path.is_dir():
        raise UserError(f"{path} is a folder, expected the name of a file")
    if not overwrite:
        raise UserError(
            f"{path} already exists and was not changed; give --overwrite to replace it"
        )


def check_distinct(outputs: Iterable[tuple[Path, object]]) -> None:
    """Refuse to write two things to one file; some disks ignore case.

    Args:
        outputs: Files that are to be written, each with what it is made of.

    Raises:
        UserError: If two of different origin have one name.
    """
    origins: dict[str, object] = {}
    for path, origin in outputs:
        if (earlier := origins.setdefault(disk_name(path), origin)) != origin:
            raise UserError(
                f"{earlier} and {origin} would both be {path}, also where their names differ by "
                "case alone, which some disks ignore; rename one of them"
            )


def begins_as_ours(path: Path, header: str) -> bool:
    """Return whether a table may be replaced: it is not there, or begins as we write it."""
    if not os.path.lexists(path):
        return True
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.readline(len(header) + 1).rstrip("\n") == header


@contextlib.contextmanager
def made_whole(folder: Path) -> Iterator[None]:
    """Make a folder, or fill an empty one; what fails in the block leaves nothing in it.

    What was killed in the block is made anew.

    Raises:
        UserError: If it holds something.
        OSError: If it cannot be written.
    """
    was_there, unfinished = folder.exists(), folder / _UNFINISHED
    if was_there and not (folder.is_dir() and (unfinished.exists() or not any(folder.iterdir()))):
        raise UserError(f"{folder} exists and is no empty folder: name another")
    check_writable(folder)
    if unfinished.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        unfinished.touch()
        yield
        unfinished.unlink()
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        if was_there:
            folder.mkdir(exist_ok=True)
        raise
