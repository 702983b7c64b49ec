"""Records of a run on disk, until MLflow has them.

A journal is a folder below `data/.tracking/`: `journal.jsonl` with a record a line, `files/` with
copies of what was logged, `owner` locked by the process that writes, and `sent.json` with what the
store has taken. It is removed when the store has everything.
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
from pathlib import Path
from typing import Any

from filelock import lock_descriptor

from signloom.files import write_file

RECORDS, OWNER, SENT, FILES = "journal.jsonl", "owner", "sent.json", "files"
# For each store: who delivers there, who sends at this moment, why the store takes nothing.
LOCK, SENDING, PROBLEM = "lock", "sending", "problem.txt"
# Likewise: experiment and run of the keys that were sent last; number of the `dvc repro` that who
# delivers stays for.
ADDRESSES, BESIDE = "addresses.json", "beside.txt"


def store_file(spool: Path, store: str, name: str) -> Path:
    """Return a file that a spool has for a store, such as its `LOCK`."""
    return spool / f"{hashlib.sha256(store.encode()).hexdigest()[:8]}.{name}"


class Journal:
    """The writing end: one run of one process."""

    def __init__(self, spool: Path) -> None:
        # After those that are there, even if the clock was set back: they are sent in this order.
        last = max((int(one.name.partition("-")[0]) for one in _folders(spool)), default=0)
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
        """Copy a file or folder beside the records and return the copy's name."""
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
        self.start: dict[str, Any] | None = next((record for _, record in records), None)
        """The first record; None: it is not there yet."""

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
        except FileNotFoundError:  # another process has delivered it meanwhile
            return True

    def confirm(self, **values: Any) -> None:
        """Note what the store has taken."""
        self.sent |= values
        write_file(self.folder / SENT, json.dumps(self.sent))

    def close_for(self, status: str, reason: str) -> None:
        """Write the end of a run whose process died before it could, at its last record's time."""
        path = self.folder / RECORDS
        time_ms = int(path.stat().st_mtime * 1000)
        with path.open("rb+") as file:
            whole = file.read().rfind(b"\n") + 1
            file.truncate(whole)
            file.seek(whole)
            for record in (
                {"kind": "tags", "values": {"error": reason}},
                {"kind": "end", "status": status, "time_ms": time_ms},
            ):
                file.write((json.dumps(record) + "\n").encode())

    def remove(self) -> None:
        """Forget a journal that was delivered."""
        shutil.rmtree(self.folder, ignore_errors=True)


def outboxes(spool: Path) -> list[Outbox]:
    """Return the journals of a spool, the oldest first."""
    boxes = []
    for folder in _folders(spool):
        with contextlib.suppress(FileNotFoundError):  # it was delivered meanwhile
            boxes.append(Outbox(folder))
    return boxes


def _folders(spool: Path) -> list[Path]:
    if not spool.is_dir():
        return []
    return sorted(path for path in spool.iterdir() if path.is_dir() and path.name[0].isdigit())
