"""Records of runs on disk, until MLflow has them.

The folder `data/.tracking/`, the spool, has a folder for each journal and two files for each store:

| file | meaning |
|---|---|
| `TIME-ID/journal.jsonl` | what one process logs of one run, a record a line |
| `TIME-ID/files/` | copies of what was logged |
| `TIME-ID/owner` | locked by the process that writes |
| `TIME-ID/sent.json` | what the store has taken |
| `STORE.lock` | held by the process that sends |
| `STORE.status.json` | what that process notes for others, see `Status` |
"""

import contextlib
import errno
import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
from filelock import FileLock, lock_descriptor

from signloom.files import write_file

RECORDS, OWNER, SENT, FILES = "journal.jsonl", "owner", "sent.json", "files"


class Journal:
    """The writing end: one run of one process."""

    def __init__(self, spool: Path) -> None:
        # After those that are there, even if the clock was set back: they are sent in this order.
        last = max((int(folder.name.partition("-")[0]) for folder in _folders(spool)), default=0)
        self.folder = spool / f"{max(time.time_ns(), last + 1)}-{uuid.uuid4().hex[:8]}"
        hidden = self.folder.with_name(f".{self.folder.name}")
        (hidden / FILES).mkdir(parents=True)
        self._owner = (hidden / OWNER).open("w")
        lock_descriptor(self._owner.fileno())
        self._file = os.open(hidden / RECORDS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        hidden.rename(self.folder)  # whole from the first moment that it can be seen
        self._count = 0
        self._is_torn = False  # the disk was full in the middle of the last record

    def write(self, kind: str, **values: Any) -> None:
        """Append a record; it is with the system when this returns.

        Raises:
            OSError: If the disk is full; what was written of the record is left out by the reader.
        """
        line = "\n" * self._is_torn + json.dumps({"kind": kind, **values}) + "\n"
        self._is_torn = os.write(self._file, line.encode()) < len(line)  # json.dumps gives ASCII
        if self._is_torn:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.folder))

    def keep(self, path: Path) -> str:
        """Copy a file or folder into the journal and return the copy's name."""
        self._count += 1
        name = f"{FILES}/{self._count:04}"
        target = self.folder / name
        target.mkdir()
        if path.is_dir():
            shutil.copytree(path, target, dirs_exist_ok=True)
        else:
            shutil.copy2(path, target)
        return name

    def close(self) -> None:
        """Let go of the journal: nothing more is written."""
        os.close(self._file)
        self._owner.close()


class Outbox:
    """The reading end of a journal."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        sent = folder / SENT
        self.sent: dict[str, Any] = json.loads(sent.read_text()) if sent.is_file() else {}
        records = self._read(0)
        self.start: dict[str, Any] = next((record for _, record in records), {})
        """The first record; empty: it is not there yet."""

    @property
    def name(self) -> str:
        """The name of the run."""
        return str(self.start.get("name", self.folder.name))

    def pending(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the whole records that were not sent, each with the offset at which it ends."""
        return self._read(self.sent.get("offset", 0))

    def _read(self, offset: int) -> Iterator[tuple[int, dict[str, Any]]]:
        with (self.folder / RECORDS).open("rb") as file:
            end = file.seek(offset)
            for line in file:
                if not line.endswith(b"\n"):  # torn by a kill, or being written
                    return
                end += len(line)
                with contextlib.suppress(json.JSONDecodeError):  # torn by a full disk
                    yield end, json.loads(line)

    def is_abandoned(self) -> bool:
        """Return whether the process that wrote here is gone or has let go."""
        try:
            with (self.folder / OWNER).open("r+") as owner:
                return lock_descriptor(owner.fileno(), blocking=False)
        except FileNotFoundError:  # another process has uploaded it meanwhile
            return True

    def confirm(self, **values: Any) -> None:
        """Note what the store has taken."""
        self.sent |= values
        write_file(self.folder / SENT, json.dumps(self.sent))

    def death_ms(self) -> int:
        """Return when the process died that wrote here: its last record's time."""
        return int((self.folder / RECORDS).stat().st_mtime * 1000)

    def remove(self) -> None:
        """Forget a journal that was uploaded."""
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What the process that sends to a store notes for others."""

    problem: str = ""  # why the store did not take everything; empty: it did
    problem_s: float = 0.0  # when that was found
    pid: int = 0  # of the process that uploads; 0: none does
    started_s: float = 0.0  # when that process began; a later one with its number began later
    until: list[int] = field(default_factory=list)  # a `dvc repro`, until whose end it stays
    runs: dict[str, list[str]] = field(default_factory=dict)
    """Experiment and run of the keys that were sent last."""

    def has_uploader(self) -> bool:
        """Return whether the process that uploads is alive."""
        try:
            process = psutil.Process(self.pid)
            is_same = bool(process.create_time() == self.started_s)
            return is_same and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False


class Spool:
    """The records that wait for one store."""

    def __init__(self, folder: Path, store: str) -> None:
        digest = hashlib.sha256(store.encode()).hexdigest()[:8]
        self.folder, self.store = folder, store
        self.lock = FileLock(folder / f"{digest}.lock")
        self._status = folder / f"{digest}.status.json"

    def boxes(self) -> list[Outbox]:
        """Return all journals, also those for other stores, the oldest first."""
        boxes = []
        for folder in _folders(self.folder):
            with contextlib.suppress(FileNotFoundError):  # it was uploaded meanwhile
                boxes.append(Outbox(folder))
        return boxes

    def waiting(self) -> list[Outbox]:
        """Return the journals for this store, the oldest first."""
        boxes = self.boxes()
        for box in boxes:
            if not box.start and box.is_abandoned():  # died before its first record
                box.remove()
        return [b for b in boxes if b.start and b.start.get("store", self.store) == self.store]

    def status(self) -> Status:
        """Return what was noted last."""
        try:
            return Status(**json.loads(self._status.read_text()))
        except (OSError, ValueError):
            return Status()

    def note(self, **changes: Any) -> None:
        """Change the status; the caller holds the lock."""
        before = self.status()
        after = replace(before, **changes)
        if after != before:
            write_file(self._status, json.dumps(asdict(after)))


def _folders(spool: Path) -> list[Path]:
    if not spool.is_dir():
        return []
    return sorted(path for path in spool.iterdir() if path.is_dir() and path.name[0].isdigit())
