"""The lock of a project: one night at a time."""

import contextlib
import json
import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO

from filelock import lock_descriptor

from signloom.errors import UserError
from signloom.paths import RETRAIN_LOCK


class BusyError(UserError):
    """Another retraining is at work in this project."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """A lock that is ours."""

    handle: int
    """Handle of the lock file; a child that inherits it keeps the lock if we are killed."""
    left: str
    """Who held the lock last and was killed, in words; empty: nobody was."""


@contextlib.contextmanager
def hold_lock(path: Path = RETRAIN_LOCK) -> Iterator[Held]:
    """Keep other nights away.

    The system lets go of the lock however the process ends, so a file that is left behind locks
    nothing; it only says who died.

    Raises:
        BusyError: If another process holds it.
        UserError: If the disk knows no locks.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        try:
            is_ours = lock_descriptor(file.fileno(), blocking=False)
        except OSError as error:
            raise UserError(
                f"{path} cannot be locked ({error.strerror}), so two retrainings could overlap; "
                "put the project on a disk that knows locks"
            ) from None
        if not is_ours:
            raise BusyError(_describe_holder(_read(file)))
        left = _read(file)
        me = {"pid": os.getpid(), "host": platform.node(), "since": _now()}
        _write(file, json.dumps(me) + "\n")
        try:
            yield Held(handle=file.fileno(), left=_name(left) if left else "")
        finally:
            _write(file, "")


def holder(path: Path = RETRAIN_LOCK) -> str:
    """Return in words who holds the lock; empty: nobody."""
    try:
        with path.open("r+", encoding="utf-8") as file:
            if lock_descriptor(file.fileno(), blocking=False):
                return ""
            return _describe_holder(_read(file))
    except FileNotFoundError:
        return ""


def _describe_holder(found: dict[str, str]) -> str:
    if not found:
        return "another retraining is just starting or ending; try again"
    is_here = found["host"] == platform.node()
    if is_here and not Path("/proc", found["pid"]).exists() and Path("/proc").is_dir():
        return (
            f"{_name(found)} is gone, but a stage that it started still runs; wait until that "
            "ends: the next retraining uses what it makes"
        )
    return f"another retraining is at work: {_name(found)}; wait until it ends, or stop it"


def _name(found: dict[str, str]) -> str:
    return f"process {found['pid']} on {found['host']}, started {found['since']}"


def _read(file: IO[str]) -> dict[str, str]:
    file.seek(0)
    try:
        found = json.loads(file.read())
        return {key: str(found[key]) for key in ("pid", "host", "since")}
    except (ValueError, KeyError, TypeError):  # empty, torn, or of another shape
        return {}


def _write(file: IO[str], text: str) -> None:
    file.truncate(0)
    file.write(text)
    file.flush()


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")
