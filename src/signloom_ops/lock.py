"""Locks of a project: one process at a time, and who that is.

The system releases a lock however its process ends. A file that is left behind locks nothing; it
only names who was killed.
"""

import contextlib
import json
import logging
import os
import platform
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO

from filelock import lock_descriptor

from signloom.errors import UserError
from signloom.paths import RETRAIN_LOCK

_PAUSE_S = 0.2  # between two tries
_HINT = "wait until it ends, or stop it"

logger = logging.getLogger(__name__)


class BusyError(UserError):
    """Another process holds the lock."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """A lock that is ours."""

    handle: int
    """Handle of the lock file; a child that inherits it keeps the lock if we are killed."""
    left: str
    """Who held the lock last and was killed; empty: its process ended by itself."""


@contextlib.contextmanager
def hold_lock(
    path: Path = RETRAIN_LOCK, *, wait_s: float = 0.0, hint: str = _HINT
) -> Iterator[Held]:
    """Keep other processes away.

    Args:
        path: The lock file; by default that of all commands that change the corpus or the models.
        wait_s: How long to wait for another process, seconds; a warning names it.
        hint: What to do if another one holds it, as the end of the message.

    Raises:
        BusyError: If another process holds it (for longer than that).
        UserError: If the disk does not support locks.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        _wait_for(file, path, wait_s, hint)
        former = _read(file)
        # Without the arguments that follow, which may name people.
        command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:2]])
        since = datetime.now().astimezone().isoformat(timespec="seconds")
        name = f"`{command}`, process {os.getpid()} on {platform.node()}, started {since}"
        _write(file, json.dumps({"pid": os.getpid(), "host": platform.node(), "name": name}))
        try:
            yield Held(handle=file.fileno(), left=former.get("name", ""))
        finally:
            _write(file, "")


def holder(path: Path = RETRAIN_LOCK) -> str:
    """Return who holds the lock; empty: it is free."""
    try:
        with path.open("r+", encoding="utf-8") as file:
            is_free = lock_descriptor(file.fileno(), blocking=False)
            return "" if is_free else _describe(_read(file), _HINT)
    except FileNotFoundError:
        return ""


def _wait_for(file: IO[str], path: Path, wait_s: float, hint: str) -> None:
    deadline, is_first = time.monotonic() + wait_s, True
    try:
        while not lock_descriptor(file.fileno(), blocking=False):
            note = _read(file)
            if time.monotonic() >= deadline:
                raise BusyError(_describe(note, hint))
            if is_first:
                who = note.get("name", "another command")
                logger.warning("waiting for %s, which holds %s", who, path)
            is_first = False
            time.sleep(_PAUSE_S)
    except OSError as error:
        raise UserError(
            f"{path} cannot be locked ({error.strerror}), so two commands could overlap; "
            "put the project on a disk that knows locks"
        ) from None


def _describe(note: dict[str, str], hint: str) -> str:
    if not note:
        return "another command is just starting or ending; try again"
    is_here = note["host"] == platform.node() and Path("/proc").is_dir()
    if is_here and not Path("/proc", note["pid"]).exists():
        return (
            f"{note['name']} is gone, but a stage that it started still runs; wait until that "
            "ends: the next night uses what it makes"
        )
    return f"another command is at work: {note['name']}; {hint}"


def _read(file: IO[str]) -> dict[str, str]:
    try:
        file.seek(0)
        content = json.loads(file.read())
        return {key: str(content[key]) for key in ("pid", "host", "name")}
    except (OSError, ValueError, KeyError, TypeError):  # locked, empty, torn, of another shape
        return {}


def _write(file: IO[str], text: str) -> None:
    file.truncate(0)
    file.write(text)
    file.flush()
