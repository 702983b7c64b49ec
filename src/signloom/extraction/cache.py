"""The content-addressed cache of extracted landmarks, and remembered hashes of videos.

What was hashed is noted in a log next to the entries, a line a file: its path, its hash, its size,
times and inode, and what its header says (`find_traits`). A file whose size, times and inode are as
noted is taken to be as it was, as Git and DVC do. Lines are only ever added, so a writer that is
killed leaves at most a torn last line, which does not count.

An entry is one small file: the landmarks of a clip, or the reason why it cannot be read. It is a
line of JSON, the numbers, and the SHA-256 of both; an entry that is torn or damaged does not count
as there. Nothing here decides a result, so nothing here is a parameter: the folder is
`data/cache/landmarks` of the project, or what the environment variable SIGNLOOM_CACHE names.
"""

import errno
import functools
import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from signloom.corpus.landmarks import COORDINATES, LandmarkSequence, Layout
from signloom.errors import FULL_DISK, Problem, UserError
from signloom.files import hash_file, write_file
from signloom.paths import LANDMARK_CACHE
from signloom.progress import progress_file
from signloom.provenance import project_folder

FORMAT_VERSION = 1
CACHE_VARIABLE = "SIGNLOOM_CACHE"

_DIGEST_BYTES = 32
_REJECT_RULES = 3  # raise it when fewer clips are rejected: older entries are looked at again
_FRESH_S = 3600.0  # an entry used within the hour is not marked as used again
_ABANDONED_S = 3600.0  # a temporary file that old belongs to a writer that was killed
_LOG = "videos.jsonl"
_SETTLED_NS = 2_000_000_000  # a change just after this one might bear the same time
_THREADS = 4  # hashing releases the GIL, and disks serve several requests better than one

Signature = tuple[int, int, int, int]
"""Size, time of change, time of change of the inode (nanoseconds), inode."""


@dataclass(frozen=True, slots=True)
class HashedVideo:
    """A file as it was when it was hashed."""

    sha256: str
    signature: Signature
    traits: Mapping[str, float] | None = None  # of `find_traits`; None: not read yet

    def is_still(self, path: Path) -> bool:
        """Return whether the file is the one that was hashed.

        By size and time: a new link or owner changes the inode's time, but not what is in it.
        """
        signature = sign(path)
        return signature is not None and signature[:2] == self.signature[:2]


class VideoHashes:
    """The hashes that are noted in a folder.

    Args:
        folder: Made when the first hash is noted.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / _LOG
        self._known: dict[str, HashedVideo] = dict(_read_log(self._path))

    def hash_videos(self, paths: Iterable[Path]) -> dict[Path, HashedVideo]:
        """Return the hash of every file that can be read.

        Args:
            paths: In any order; one that is no readable file is left out.
        """
        signatures = {path: signature for path in set(paths) if (signature := sign(path))}
        noted = {path: self._known.get(str(path.absolute())) for path in signatures}
        hashed = {
            p: video for p, video in noted.items() if video and video.signature == signatures[p]
        }
        untold = {path: video for path, video in hashed.items() if video.traits is None}
        unknown = sorted(signatures.keys() - hashed.keys())
        # `delay`: no bar where it would be gone immediately.
        with (
            ThreadPoolExecutor(_THREADS) as threads,
            tqdm(
                total=sum(signatures[path][0] for path in unknown),
                desc="hashing videos",
                unit="B",
                unit_scale=True,
                delay=1.0,
                file=progress_file(),
            ) as bar,
        ):
            for path, digest in zip(unknown, threads.map(_try_hash, unknown), strict=True):
                bar.update(signatures[path][0])
                if digest is not None:
                    untold[path] = HashedVideo(digest, signatures[path])
        if untold:
            from signloom.detection.video import find_traits  # PyAV loads slowly
        for path, video in untold.items():
            hashed[path] = replace(video, traits=find_traits(path))
            self._note(path, hashed[path])
        return hashed

    def prune(self) -> None:
        """Forget files that are gone or have changed."""
        if self._path.is_file():
            self._known = {k: v for k, v in self._known.items() if sign(Path(k)) == v.signature}
            lines = "".join(_line(name, video) for name, video in self._known.items())
            write_file(self._path, lines)

    def _note(self, path: Path, video: HashedVideo) -> None:
        settled = time.time_ns() - max(video.signature[1:3]) > _SETTLED_NS
        if settled and sign(path) == video.signature:
            self._known[str(path.absolute())] = video
            with suppress(PermissionError):  # a dry run in another user's project
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with self._path.open("a", encoding="utf-8") as log:
                    log.write(_line(str(path.absolute()), video))


def sign(path: Path) -> Signature | None:
    """Return what changes whenever a file does, None if it is no file."""
    try:
        stat = path.stat()
    except (OSError, ValueError):  # ValueError: the locale cannot express the name
        return None
    if not path.is_file():
        return None
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino


def _line(name: str, video: HashedVideo) -> str:
    # The newline comes first, so that a line after a torn one is whole.
    return "\n" + json.dumps([name, video.sha256, *video.signature, video.traits])


def _read_log(path: Path) -> Iterator[tuple[str, HashedVideo]]:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        try:
            name, digest, size, changed, inode_changed, inode, *traits = json.loads(line)
        except ValueError:
            continue  # torn
        signature = size, changed, inode_changed, inode
        yield name, HashedVideo(digest, signature, *traits)


def _try_hash(path: Path) -> str | None:
    try:
        return hash_file(path)
    except OSError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheUse:
    """What lies in a cache."""

    entries: int
    rejects: int  # of the entries
    size_bytes: int
    oldest_use_s: float | None  # seconds since the epoch


def cache_folder() -> Path:
    """Return where landmarks are kept."""
    return Path(os.environ.get(CACHE_VARIABLE) or project_folder() / LANDMARK_CACHE)


def cache_key(**parts: str | float | None) -> str:
    """Return the hash of what decides an entry, which `clip_key` of extract.py chooses."""
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
    if sequence.missing_frames:
        header["missing_frames"] = sequence.missing_frames
    if sequence.is_crowded:
        header["is_crowded"] = True
    return _seal(header, sequence.points.astype(np.float16).tobytes() + sequence.present.tobytes())


def pack_unreadable(problem: Problem) -> bytes:
    """Return the entry of a clip that cannot be read."""
    header = {"frames": 0, "reason": problem.reason, "hint": problem.hint, "rules": _REJECT_RULES}
    return _seal(header, b"")


def unpack_frames(entry: bytes) -> int | Problem | None:
    """Return how many frames an entry has, or why it has none; None if it does not count."""
    opened = _unseal(entry)
    if opened is None:
        return None
    header, _ = opened
    if "reason" in header:
        if header.get("rules") != _REJECT_RULES:
            return None
        return Problem(header["reason"], header["hint"])
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
            if error.errno in FULL_DISK:
                raise
            raise UserError(
                f"{self.folder}: landmarks cannot be kept there ({error.strerror}); let the "
                f"environment variable {CACHE_VARIABLE} name a folder that can be written"
            ) from error

    def look_up(self, key: str) -> int | Problem | None:
        """Return how many frames an entry has, or why it has none; None if it is not there."""
        path = self._path(key)
        entry = _read(path)
        with suppress(OSError):  # the entry of another user, or just pruned by one
            if entry is not None and time.time() - path.stat().st_mtime > _FRESH_S:
                os.utime(path)  # what is used is not pruned
        return entry

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
            missing_frames=header.get("missing_frames", 0),
            is_crowded=header.get("is_crowded", False),
        )

    def store(self, key: str, entry: bytes) -> None:
        """Keep what `pack_landmarks` or `pack_unreadable` returned, whole or not at all."""
        write_file(self._path(key), entry)

    def measure(self) -> CacheUse:
        """Return what lies in the cache."""
        entries = list(self._files("??/*.clip"))
        # Entries of rejects are shorter than those of a frame; the others are not opened.
        short = [path for path, stat in entries if stat.st_size < 1000]
        return CacheUse(
            entries=len(entries),
            rejects=sum(isinstance(_read(path), Problem) for path in short),
            size_bytes=sum(stat.st_size for _, stat in entries),
            oldest_use_s=min((stat.st_mtime for _, stat in entries), default=None),
        )

    def prune(self, days: float, *, dry_run: bool = False) -> tuple[int, int]:
        """Remove what was not used for some days, and what killed writers left behind.

        Args:
            days: 0 removes everything.
            dry_run: Count what would be removed, and keep it.

        Returns:
            Entries and bytes removed.
        """
        now = time.time()
        latest = now - days * 86_400 if days else float("inf")  # other clocks may be ahead
        entries, temporary = self._files("??/*.clip"), self._files("**/.*.tmp")
        old = [entry for entry in entries if entry[1].st_mtime <= latest]
        torn = [entry for entry in temporary if now - entry[1].st_mtime > _ABANDONED_S]
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

    Raises:
        UserError: If the disk is full, with what to do.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in FULL_DISK:
            raise
        raise UserError(
            f"{folder}: the disk is full ({os.strerror(error.errno)}). The clips that are done "
            f"are kept in {cache_folder()}; free some space (`signloom cache prune --days 30` "
            "removes what was not used for a month), then `dvc repro` goes on with the others"
        ) from error


def _read(path: Path) -> int | Problem | None:
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


_parse_layout = functools.lru_cache(maxsize=8)(Layout.from_json)
