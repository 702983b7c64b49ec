"""What was found in a video is kept under a key of all that decided it, and found again by it.

An entry is one small file: the landmarks of a clip, or the reason why it cannot be read. It is a
line of JSON, the numbers, and the SHA-256 of both; an entry that is torn or damaged does not count
as there. Nothing here decides a result, so nothing here is a parameter: the folder is
`data/cache/landmarks` of the project, or what the environment variable SIGNLOOM_CACHE says.
"""

import errno
import functools
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from signloom.config import UserError
from signloom.corpus.landmarks import COORDINATES, LandmarkSequence, Layout
from signloom.reproducibility import project_folder, write_atomically

FORMAT_VERSION = 1
CACHE_VARIABLE = "SIGNLOOM_CACHE"

_DEFAULT_FOLDER = Path("data/cache/landmarks")
_DIGEST_BYTES = 32
_FRESH_S = 3600.0  # an entry used within the hour is not marked as used again
_ABANDONED_S = 3600.0  # a temporary file that old belongs to a writer that was killed
_FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An entry of a clip that cannot be read, now and in future."""

    reason: str
    mend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheUse:
    """What lies in a cache."""

    entries: int
    rejects: int  # of the entries
    size_bytes: int
    oldest_use_s: float | None  # seconds since the epoch


def cache_folder() -> Path:
    """Return where landmarks are kept."""
    return Path(os.environ.get(CACHE_VARIABLE) or project_folder() / _DEFAULT_FOLDER)


def cache_key(**parts: str | float | None) -> str:
    """Return the key of everything that decides an entry, as hex."""
    content = json.dumps({"cache": FORMAT_VERSION, **parts}, sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def pack_landmarks(sequence: LandmarkSequence) -> bytes:
    """Return the entry of a clip; its points are rounded to half precision."""
    header = {
        "fps": sequence.fps,
        "width": sequence.width,
        "height": sequence.height,
        "frames": len(sequence.points),
        "layout": sequence.layout.to_json(),
    }
    return _seal(header, sequence.points.astype(np.float16).tobytes() + sequence.present.tobytes())


def pack_unreadable(found: Unreadable) -> bytes:
    """Return the entry of a clip that cannot be read."""
    return _seal({"frames": 0, "reason": found.reason, "mend": found.mend}, b"")


def unpack_frames(entry: bytes) -> int | Unreadable | None:
    """Return how many frames an entry has, or why it has none; None if it is damaged."""
    opened = _unseal(entry)
    if opened is None:
        return None
    header, _ = opened
    if "reason" in header:
        return Unreadable(header["reason"], header["mend"])
    return int(header["frames"])


class LandmarkCache:
    """The entries in a folder.

    Args:
        folder: Made when the first entry is stored.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make_folder(self) -> None:
        """Make the folder, rather than fail at the first entry.

        Raises:
            UserError: If no entry can be stored there.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not os.access(self.folder, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, "it may not be written")
        except OSError as error:
            if error.errno in _FULL_DISK:
                raise
            raise UserError(
                f"{self.folder}: landmarks cannot be kept there ({error.strerror}); let the "
                f"environment variable {CACHE_VARIABLE} name a folder that can be written"
            ) from error

    def look_up(self, key: str) -> int | Unreadable | None:
        """Return how many frames an entry has, or why it has none; None if it is not there."""
        path = self._path(key)
        found = _read(path)
        with suppress(OSError):  # the entry of another user, or just pruned by one
            if found is not None and time.time() - path.stat().st_mtime > _FRESH_S:
                os.utime(path)  # what is used is not pruned
        return found

    def load(self, key: str) -> LandmarkSequence:
        """Return the landmarks of an entry that was there a moment ago.

        Raises:
            UserError: If it is not there any more.
        """
        try:
            opened = _unseal(self._path(key).read_bytes())
        except OSError:
            opened = None
        if opened is None:
            raise UserError(
                f"{self.folder}: an entry vanished or was damaged while it was needed; run "
                "`dvc repro` again, and do not prune the cache meanwhile"
            )
        header, body = opened
        layout = _parse_layout(header["layout"])
        shape = (header["frames"], layout.points, COORDINATES)
        count = int(np.prod(shape))
        return LandmarkSequence(
            points=np.frombuffer(body, np.float16, count).reshape(shape).astype(np.float32),
            present=np.frombuffer(body, np.bool_, offset=2 * count).reshape(shape[0], -1),
            fps=header["fps"],
            width=header["width"],
            height=header["height"],
            layout=layout,
        )

    def store(self, key: str, entry: bytes) -> None:
        """Keep what `pack_landmarks` or `pack_unreadable` returned, whole or not at all."""
        write_atomically(self._path(key), entry)

    def measure(self) -> CacheUse:
        """Return what lies in the cache."""
        rejects = size_bytes = 0
        used_s = []
        for path, stat in self._files("??/*.clip"):
            used_s.append(stat.st_mtime)
            size_bytes += stat.st_size
            # Entries of rejects are shorter than those of a frame; the others are not opened.
            if stat.st_size < 1000 and isinstance(_read(path), Unreadable):
                rejects += 1
        return CacheUse(
            entries=len(used_s),
            rejects=rejects,
            size_bytes=size_bytes,
            oldest_use_s=min(used_s, default=None),
        )

    def prune(self, days: float, *, dry_run: bool = False) -> tuple[int, int]:
        """Remove what was not used for some days, and what killed writers left behind.

        Args:
            days: 0 removes everything.
            dry_run: Only say what would be removed.

        Returns:
            Entries and bytes removed.
        """
        now = time.time()
        latest = now - days * 86_400 if days else float("inf")  # other clocks may be ahead
        entries, temporary = self._files("??/*.clip"), self._files("**/.*.tmp")
        old = [found for found in entries if found[1].st_mtime <= latest]
        torn = [found for found in temporary if now - found[1].st_mtime > _ABANDONED_S]
        if not dry_run:
            for path, _ in (*old, *torn):
                path.unlink(missing_ok=True)
        return len(old), sum(stat.st_size for _, stat in (*old, *torn))

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.clip"

    def _files(self, pattern: str) -> Iterator[tuple[Path, os.stat_result]]:
        for path in self.folder.glob(pattern):
            with suppress(FileNotFoundError):  # a run or another pruning took it just now
                yield path, path.stat()


@contextmanager
def explain_full_disk(folder: Path) -> Iterator[None]:
    """Turn the error of a full disk into words.

    Args:
        folder: What is being written.

    Raises:
        UserError: If the disk is full, with what to do.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL_DISK:
            raise
        raise UserError(
            f"{folder}: the disk is full ({os.strerror(error.errno)}). The clips that are done "
            f"are kept in {cache_folder()}; free some space (`signloom cache prune --days 30` "
            "removes what was not used for a month), then `dvc repro` goes on with the others"
        ) from error


def _read(path: Path) -> int | Unreadable | None:
    try:
        return unpack_frames(path.read_bytes())
    except OSError:
        return None


def _seal(header: Mapping[str, Any], body: bytes) -> bytes:
    content = json.dumps(header).encode() + b"\n" + body
    return content + hashlib.sha256(content).digest()


def _unseal(entry: bytes) -> tuple[dict[str, Any], memoryview] | None:
    """Return header and body, None if they are not as they were written."""
    content = memoryview(entry)[:-_DIGEST_BYTES]
    if hashlib.sha256(content).digest() != entry[-_DIGEST_BYTES:]:
        return None
    end = entry.index(b"\n")
    return json.loads(entry[:end]), content[end + 1 :]


@functools.lru_cache(maxsize=8)
def _parse_layout(text: str) -> Layout:
    return Layout.from_json(text)
