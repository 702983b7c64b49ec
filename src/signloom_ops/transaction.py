"""Transactions: several files change as a whole or not at all.

Beside what changes lies a staging folder: a lock, the files to come and, from the moment on that
all of these are on the disk, a journal of the moves and removals that are left. Whoever holds the
lock next does them, so a process may be killed, or the power cut, between any two of them.
"""

import contextlib
import errno
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from signloom.config import check_shape, read_json, shape
from signloom.errors import FULL_DISK, UserError
from signloom.files import copy_folder, flush_to_disk, hash_file, write_file
from signloom_ops.lock import hold_lock

FORMAT_VERSION = 2  # of the journal; 1 was that of a corpus alone and had no number
_WAIT_S = 600.0  # for the lock

Operation = tuple[Path, Path | None]
"""What moves, and where it belongs; None: it is removed."""
Result = TypeVar("Result")
_JOURNAL = shape(
    note=dict[str, Any], unless_changed=list[str | None] | None, operations=list[list[str | None]]
)

logger = logging.getLogger(__name__)


class Transaction:
    """A change of files, made by the one process that holds the lock of its staging folder."""

    def __init__(self, folder: Path) -> None:
        """Take the staging folder; nothing is made."""
        self.folder = folder
        self.staged = folder / "staged"
        self.journal = folder / "journal.json"
        self.operations: list[Operation] = []

    @property
    def note(self) -> dict[str, Any] | None:
        """What the journal notes of a change that is not finished; None: there is none."""
        return self._read()["note"] if self.journal.is_file() else None

    def stage(self, target: Path) -> Path:
        """Return where to write the file or folder that is to become `target`."""
        source = self.staged / "new" / str(len(self.operations)) / target.name
        shutil.rmtree(source.parent, ignore_errors=True)  # of a process that was killed
        source.parent.mkdir(parents=True)
        self.move(source, target)
        return source

    def write(self, target: Path, content: str | bytes) -> None:
        """Have a file replaced, or made."""
        self.stage(target).write_bytes(content.encode() if isinstance(content, str) else content)

    def move(self, source: Path, target: Path) -> None:
        """Have a file moved; a link becomes the file that it leads to."""
        self.operations.append((source, target))

    def remove(self, path: Path) -> None:
        """Have a file, a link or a folder with all in it removed."""
        self.operations.append((path, None))

    def commit(
        self,
        note: Mapping[str, Any],
        then: Callable[[dict[str, Any]], Result],
        *,
        unless_changed: Path | None = None,
    ) -> Result:
        """Write the journal, then do the operations in their order.

        Args:
            note: What `recover` is to know of the change, for JSON.
            then: Called with the note before the journal goes; may be called again after a crash.
            unless_changed: A file that is replaced. If somebody edits it between a crash and
                `recover`, the change is undone; so what comes before it must be new files.

        Returns:
            What `then` returns.
        """
        home = self.folder.resolve()
        for path in [self.staged, *self.staged.rglob("*")]:
            if path.exists():
                flush_to_disk(path)  # the journal must not be there before what it speaks of
        content = {
            "format_version": FORMAT_VERSION,
            "note": note,
            "unless_changed": unless_changed
            and [_relative(home, unless_changed), _hash(unless_changed)],
            "operations": [
                [_relative(home, source), target and _relative(home, target)]
                for source, target in self.operations
            ],
        }
        # In ASCII, which also holds names that are not UTF-8.
        write_file(self.staged / "journal.json", json.dumps(content, indent=1))
        _move(self.staged / "journal.json", self.journal)
        flush_to_disk(self.folder)
        result = self.recover(then)
        assert result is not None, "the journal was there"
        return result

    def recover(self, then: Callable[[dict[str, Any]], Result]) -> Result | None:
        """Do what a journal has left.

        Returns:
            What `then` returns; None if there is no journal, or its change was undone.

        Raises:
            UserError: If the journal is damaged, or of another version of Signloom.
        """
        if not self.journal.is_file():
            return None
        content = self._read()
        home = self.folder.resolve()
        operations = [(home / source, target and home / target)
                      for source, target in content["operations"]]  # fmt: skip
        if content["unless_changed"]:
            name, before = content["unless_changed"]
            guarded = [target for _, target in operations].index(home / name)
            if operations[guarded][0].exists() and _hash(home / name) != before:
                logger.warning("%s was edited after a change was interrupted; that is undone", name)
                _undo(operations[:guarded])
                self._end()
                return None
        _do(operations)
        result = then(content["note"])
        self._end()
        return result

    def _read(self) -> Any:
        hint = "finish the change with the Signloom that began it"
        content = read_json(self.journal, hint=f"restore it, or {hint}")
        found = content.get("format_version") if isinstance(content, dict) else None
        if found != FORMAT_VERSION:
            raise UserError(
                f"{self.journal} is of format {found or 'unknown'}, expected {FORMAT_VERSION}: "
                f"{hint}"
            )
        return check_shape(content, _JOURNAL, where=self.journal, hint=hint)

    def _end(self) -> None:
        self.journal.unlink()
        flush_to_disk(self.folder)
        self.operations.clear()


@contextlib.contextmanager
def open_transaction(folder: Path) -> Iterator[Transaction]:
    """Hold the lock of a staging folder; what was staged and not committed is removed at the end.

    Raises:
        UserError: If another process holds it for too long, or the disk is full.
    """
    change = Transaction(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with hold_lock(folder / "lock", wait_s=_WAIT_S):
            try:
                yield change
            finally:
                if not change.journal.is_file():
                    shutil.rmtree(change.staged, ignore_errors=True)
    except OSError as error:
        if error.errno not in FULL_DISK:
            raise
        left = "the next call goes on" if change.journal.is_file() else "nothing has changed"
        raise UserError(
            f"{error.filename2 or folder}: the disk is full ({os.strerror(error.errno or 0)}); "
            f"{left}. Free some space and run the same again"
        ) from error


def replace_link(path: Path) -> None:
    """Put the file itself in the place of a link to it; whatever else is there stays."""
    if path.is_symlink() and path.is_file():
        _copy(path, path)


def _do(operations: Sequence[Operation]) -> None:
    """Do the operations that were not done before a crash."""
    for source, target in operations:
        if not os.path.lexists(source):
            continue
        if target is None:
            _remove(source)
        else:
            replace_link(source)  # DVC's, say: it would dangle after `dvc gc`
            _move(source, target)
    for path in {path.parent for paths in operations for path in paths if path}:
        if path.is_dir():
            flush_to_disk(path)


def _undo(operations: Sequence[Operation]) -> None:
    """Move back the new files that were moved before a crash."""
    for source, target in operations:
        if target and target.exists() and not source.exists():
            _move(target, source)


def _move(source: Path, target: Path) -> None:
    """Rename a file or a folder, or copy it where that is another disk."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        source.replace(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _copy(source, target)
        _remove(source)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _copy(source: Path, target: Path) -> None:
    temporary = target.with_name(f".{target.name}.tmp")
    if source.is_dir():
        if target.is_dir():  # whole, or it would not be there: a kill came before the removal
            return
        shutil.rmtree(temporary, ignore_errors=True)
    try:
        if source.is_dir():
            copy_folder(source, temporary)
        else:
            shutil.copyfile(source, temporary)
        for path in [temporary, *temporary.rglob("*")]:
            flush_to_disk(path)
    except OSError:  # a full disk needs the room
        if temporary.exists():
            _remove(temporary)
        raise
    temporary.replace(target)


def _relative(home: Path, path: Path) -> str:
    """Return a path as seen from a folder; the file itself may be a link."""
    return os.path.relpath(path.parent.resolve() / path.name, home)


def _hash(path: Path) -> str | None:
    return hash_file(path) if path.is_file() else None
