"""Video files come in, the SHA-256 of their bytes goes out; a file is read once in its life.

What was hashed is noted in a log beside the cache, a line a file: its path, what the file system
says of it, its hash. A file whose size, times and inode are as noted is taken to be as it was, as
Git and DVC do. Lines are only ever added, so a writer that is killed leaves at most a torn last
line, which does not count.
"""

import json
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from signloom.corpus.progress import progress_file
from signloom.reproducibility import hash_file, write_atomically

_LOG = "videos.jsonl"
_SETTLED_NS = 2_000_000_000  # a change just after this one might bear the same time
_THREADS = 4  # hashing lets go of the interpreter, and disks like a few requests at once

Signature = tuple[int, int, int, int]
"""Size, time of change, time of change of the inode (nanoseconds), inode."""


@dataclass(frozen=True, slots=True)
class HashedVideo:
    """A file as it was when it was hashed."""

    sha256: str
    signature: Signature

    def is_still(self, path: Path) -> bool:
        """Return whether the file is the one that was hashed.

        By size and time: a new link or owner changes the inode's time, but not what is in it.
        """
        found = sign(path)
        return found is not None and found[:2] == self.signature[:2]


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
        signatures = {path: found for path in set(paths) if (found := sign(path))}
        hashed: dict[Path, HashedVideo] = {}
        for path, signature in signatures.items():
            noted = self._known.get(str(path.absolute()))
            if noted and noted.signature == signature:
                hashed[path] = noted
        unknown = sorted(signatures.keys() - hashed.keys())
        # `delay`: no bar where it would be gone at once.
        with (
            ThreadPoolExecutor(_THREADS) as threads,
            tqdm(
                total=sum(signatures[path][0] for path in unknown),
                desc="hashing videos", unit="B", unit_scale=True, delay=1.0,
                file=progress_file(),
            ) as bar,
        ):  # fmt: skip
            for path, digest in zip(unknown, threads.map(_try_hash, unknown), strict=True):
                bar.update(signatures[path][0])
                if digest is not None:
                    hashed[path] = HashedVideo(digest, signatures[path])
                    self._note(path, hashed[path])
        return hashed

    def prune(self) -> None:
        """Forget files that are gone or have changed."""
        if self._path.is_file():
            self._known = {k: v for k, v in self._known.items() if sign(Path(k)) == v.signature}
            lines = "".join(_line(name, video) for name, video in self._known.items())
            write_atomically(self._path, lines)

    def _note(self, path: Path, video: HashedVideo) -> None:
        settled = time.time_ns() - max(video.signature[1:3]) > _SETTLED_NS
        if settled and sign(path) == video.signature:
            self._known[str(path.absolute())] = video
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as log:
                log.write(_line(str(path.absolute()), video))


def sign(path: Path) -> Signature | None:
    """Return what tells whether a file has changed, None if it is no file."""
    try:
        stat = path.stat()
    except OSError:
        return None
    if not path.is_file():
        return None
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino


def _line(name: str, video: HashedVideo) -> str:
    # The newline comes first, so that a line after a torn one is whole.
    return "\n" + json.dumps([name, video.sha256, *video.signature])


def _read_log(path: Path) -> Iterator[tuple[str, HashedVideo]]:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        try:
            name, digest, size, changed, inode_changed, inode = json.loads(line)
        except ValueError:
            continue  # torn
        yield name, HashedVideo(digest, (size, changed, inode_changed, inode))


def _try_hash(path: Path) -> str | None:
    try:
        return hash_file(path)
    except OSError:
        return None
