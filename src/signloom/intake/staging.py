"""Staging: a change of a corpus happens as a whole or not at all.

Beside the corpus, where DVC does not look, lies the folder `.NAME.intake`: the lock, copies of what
is to come in, and, from the moment that all of them are on the disk, a journal of the moves that
are left. Whoever holds the lock next carries on from there, so a process may be killed anywhere.
The videos move before the manifest that names them, and leave after it.
"""

import contextlib
import errno
import fcntl
import hashlib
import importlib.util
import json
import logging
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from signloom.config import load_params
from signloom.corpus.manifest import CorpusOptions
from signloom.errors import UserError
from signloom.files import flush_to_disk, hash_file


def track_version(folder: Path) -> str:
    """`dvc add` a corpus folder, so that it can be rolled back.

    Returns:
        What was done, or why nothing, in a phrase.
    """
    place = folder.resolve()
    root = next((one for one in place.parents if (one / ".dvc").is_dir()), None)
    if root is None:
        return f"{folder} lies in no DVC repository: no version of it is kept"
    if importlib.util.find_spec("dvc") is None:
        return "DVC is not installed: no version is kept"
    # The Python that runs us: `dvc` may be another's.
    command = [sys.executable, "-m", "dvc", "add", "--quiet", str(place)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        why = " ".join((done.stderr or done.stdout).split())
        return f"`dvc add {folder}` failed ({why}): no version is kept"
    pointer = place.with_name(f"{place.name}.dvc").relative_to(root)
    return f"{pointer.as_posix()} names the version; commit it with Git"


def track_again(folder: Path) -> str:
    """`dvc add` a folder that DVC knows, so that a pull finds no change it did not expect.

    Returns:
        What `track_version` says; empty where DVC does not know the folder.
    """
    return track_version(folder) if folder.with_name(f"{folder.name}.dvc").is_file() else ""


def refuse_drawn(folder: Path) -> None:
    """Refuse a folder that a stage of DVC writes.

    Raises:
        UserError: If the project's files say that one does.
    """
    place = folder.resolve()
    for parent in place.parents:
        if (path := parent / "dvc.yaml").is_file():
            for name, stage in load_params(path).get("stages", {}).items():
                if any(place == out or out in place.parents for out in _outs(parent, stage)):
                    raise UserError(
                        f"{folder} is written by the stage `{name}` of {path}, which would write "
                        "it anew without what came in. Make a corpus of your own (`signloom "
                        "init`), name it in params.yaml (corpus.folder) and run this again"
                    )
        if (parent / ".dvc").is_dir():
            return


def _outs(parent: Path, stage: dict[str, Any]) -> list[Path]:
    """Return what a stage writes."""
    base = parent / stage.get("wdir", ".")
    outs = [next(iter(out)) if isinstance(out, dict) else out for out in stage.get("outs", [])]
    return [(base / str(out)).resolve() for out in outs]


_PATIENCE_S = 600.0  # wait so long for another ingest
_PAUSE_S = 0.2
_CHUNK_BYTES = 1 << 20
_FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

Watch = Callable[[str], None]
"""Hears of each step that lies on the disk for good."""
Move = tuple[Path, Path]
"""Where a file is, where it belongs."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Finished:
    """A change that is done; both are empty if there was none."""

    batch: str  # empty as well if it brought no clip
    version: str  # what `track_version` says


@dataclass(frozen=True, slots=True)
class Workshop:
    """Where a change of a corpus is made ready.

    Attributes:
        corpus: The corpus.
        folder: Beside it.
        watch: Hears of each step.
    """

    corpus: CorpusOptions
    folder: Path
    watch: Watch

    @property
    def staged(self) -> Path:
        """What is to come in."""
        return self.folder / "staged"

    @property
    def journal(self) -> Path:
        """The moves that are left."""
        return self.folder / "journal.json"

    def staged_video(self, sha256: str) -> Path:
        """Return where a video waits for its move."""
        return self.staged / sha256

    def stage_video(self, source: Path, sha256: str, told: Callable[[int], object]) -> bool:
        """Copy a video, unless an earlier run has; return whether it still is what was hashed."""
        target = self.staged_video(sha256)
        if target.is_file():
            told(target.stat().st_size)
            return True
        temporary = target.with_suffix(".tmp")
        digest = hashlib.sha256()
        self.staged.mkdir(parents=True, exist_ok=True)
        with source.open("rb") as old, temporary.open("wb") as new:
            while chunk := old.read(_CHUNK_BYTES):
                digest.update(chunk)
                told(new.write(chunk))
        flush_to_disk(temporary)
        if digest.hexdigest() != sha256:
            temporary.unlink()
            return False
        temporary.replace(target)
        self.watch(f"staged {source.name}")
        return True

    def stage_text(self, name: str, text: str) -> Move:
        """Write a table that is to replace one in the corpus; return its move."""
        path = self.staged / "tables" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        flush_to_disk(path)
        return path, self.corpus.folder / name

    def carry_out(self, moves: Sequence[Move], batch: str) -> "Finished":
        """Do the moves in their order, or leave them to the next who holds the lock."""
        home = self.folder.resolve()
        content = {
            "batch": batch,
            "manifest_before": hash_file(self.corpus.path),
            "moves": [[_seen_from(home, path) for path in move] for move in moves],
        }
        for folder in {source.parent for source, _ in moves}:
            flush_to_disk(folder)  # the journal must not be there before what it speaks of
        temporary = self.journal.with_suffix(".tmp")
        temporary.write_text(json.dumps(content, indent=1), encoding="utf-8")
        flush_to_disk(temporary)
        temporary.replace(self.journal)
        flush_to_disk(self.folder)
        self.watch("journal")
        return self.finish()

    def finish(self) -> "Finished":
        """Do what the journal has left, if there is one, and have DVC keep the version."""
        if not self.journal.is_file():
            return Finished("", "")
        content = json.loads(self.journal.read_text(encoding="utf-8"))
        home = self.folder.resolve()
        moves = [(home / source, home / target) for source, target in content["moves"]]
        place = self.corpus.path.resolve()
        manifest = next((s for s, t in moves if t.resolve() == place), None)
        is_ahead = manifest is not None and manifest.exists()
        if is_ahead and hash_file(self.corpus.path) != content["manifest_before"]:
            logger.warning("%s was edited after a change was cut short; that is undone", place)
            for source, target in moves[: [s for s, _ in moves].index(manifest)]:
                if target.exists() and not source.exists():
                    move(target, source)
            self._forget()
            return Finished("", "")
        for source, target in moves:
            if os.path.lexists(source):
                if not Path(os.path.normpath(target)).is_relative_to(home):
                    replace_link(source)  # DVC's, say: it would dangle after `dvc gc`
                move(source, target)
                self.watch(f"moved {target.name}")
        for folder in {target.parent for _, target in moves}:
            flush_to_disk(folder)
        version = track_version(self.corpus.folder)
        self._forget()
        return Finished(content["batch"], version)

    def clear(self) -> None:
        """Remove what was made ready, unless a journal counts on it."""
        if not self.journal.is_file():
            shutil.rmtree(self.staged, ignore_errors=True)

    def _forget(self) -> None:
        self.journal.unlink()
        flush_to_disk(self.folder)
        self.watch("done")


def workshop_of(corpus: CorpusOptions, watch: Watch | None = None) -> Workshop:
    """Return the place beside a corpus folder; nothing is made."""
    folder = corpus.folder.resolve()
    return Workshop(corpus, folder.parent / f".{folder.name}.intake", watch or (lambda _: None))


@contextlib.contextmanager
def open_workshop(corpus: CorpusOptions, watch: Watch | None) -> Iterator[Workshop]:
    """Hold the lock of a corpus; explain a full disk.

    Raises:
        UserError: If another process holds it for too long, or the disk is full.
    """
    shop = workshop_of(corpus, watch)
    try:
        shop.folder.mkdir(exist_ok=True)
        with (shop.folder / "lock").open("a+", encoding="utf-8") as lock:
            _wait_for(lock.fileno(), shop.folder / "lock")
            lock.truncate(0)
            lock.write(f"process {os.getpid()} on {socket.gethostname()}: {' '.join(sys.argv)}")
            lock.flush()
            try:
                yield shop
            finally:
                shop.clear()
    except OSError as error:
        if error.errno not in _FULL_DISK:
            raise
        left = "the next call goes on" if shop.journal.is_file() else "nothing came in"
        raise UserError(
            f"{shop.folder}: the disk is full ({os.strerror(error.errno or 0)}); {left}. Free "
            "some space and run the same again"
        ) from error


def move(source: Path, target: Path) -> None:
    """Rename a file, or copy it where that is another disk."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        source.replace(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _copy(source, target)
        source.unlink()


def replace_link(path: Path) -> None:
    """Put the file itself in the place of a link to it; whatever else is there stays."""
    if path.is_symlink() and path.is_file():
        _copy(path, path)


def _copy(source: Path, target: Path) -> None:
    temporary = target.with_name(f".{target.name}.tmp")
    shutil.copyfile(source, temporary)
    flush_to_disk(temporary)
    temporary.replace(target)


def _seen_from(home: Path, path: Path) -> str:
    """Return a path relative to a folder; the file itself may be a link."""
    return os.path.relpath(path.parent.resolve() / path.name, home)


def _wait_for(lock: int, path: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    is_told = False
    while True:
        try:
            # The system lets go of it, however the process ends.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = path.read_text(encoding="utf-8") or "another process"
            if time.monotonic() > deadline:
                raise UserError(
                    f"{path} is held by {holder}; wait until it ends, or stop it"
                ) from None
            if not is_told:
                logger.warning("waiting for %s, which changes the corpus", holder)
            is_told = True
            time.sleep(_PAUSE_S)
        else:
            return
