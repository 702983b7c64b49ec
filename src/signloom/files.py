"""Writing files whole or not at all, and content hashes of files and folders."""

import contextlib
import ctypes
import errno
import glob
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import threading
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

import psutil  # type: ignore[import-untyped]

from signloom.errors import UserError

_TEMPORARY = re.compile(
    r"\..+\.(\d{1,9})(?:-[0-9a-f]+)?\.tmp", re.DOTALL
)  # the process, and its thread


@contextlib.contextmanager
def whole_file(path: Path, *, flush: bool = True) -> Iterator[Path]:
    """Yield where to write a file that is to be whole or not there at all.

    That holds through any kill and power cut: the file takes its name when the
    block is left without an error.

    Args:
        path: The file, or a link; its folder is made if need be.
        flush: Write it to the disk now; else the caller flushes its folder, once for many links.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = f"{os.getpid()}-{threading.get_ident():x}"  # threads may write one file at a time
    temporary = path.with_name(f".{path.name}.{writer}.tmp")
    try:
        yield temporary
        if flush:
            flush_to_disk(temporary)  # two or three milliseconds for both on an SSD
        temporary.replace(path)
        if flush:
            flush_to_disk(path.parent)
    except OSError as error:
        error.filename = str(path)  # a message names what was to be written
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_file(path: Path, content: str | bytes) -> None:
    r"""Write a `whole_file`; text as UTF-8 with `\n`."""
    with whole_file(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


def disk_name(path: PurePath | str) -> str:
    """Return what names share that mean one file on a disk that ignores case, as macOS's may."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", str(path)).casefold())


def check_writable(path: Path) -> None:
    """Refuse what cannot be written, before hours of work: a file, or what is to replace a folder.

    Raises:
        OSError: If the folder that is to hold it, or the nearest that is there, takes no new file.
        UserError: If that folder is none of a disk.
    """
    above = next(folder for folder in path.absolute().parents if os.path.lexists(folder))
    if not above.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(above))
    if not os.access(above, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(above))
    try:
        Path(tempfile.mkdtemp(prefix=".signloom-", dir=above)).rmdir()
    except FileNotFoundError:  # as below /proc, whoever asks
        raise UserError(
            f"{path}: {above} is of the system and takes no file; name another path"
        ) from None


def check_output_folder(folder: Path, inputs: Iterable[Path], outputs: Collection[str]) -> None:
    """Refuse to replace a folder that has something other than what the same command makes.

    Args:
        folder: The folder that is to be written; it need not be there.
        inputs: Files and folders that the command reads.
        outputs: Names of all that the command makes in it.

    Raises:
        UserError: If it has anything else, or holds an input or lies in one.
        OSError: If it cannot be written.
    """
    check_writable(folder)
    resolved = folder.resolve()
    for source in map(Path.resolve, inputs):
        if resolved.is_relative_to(source) or source.is_relative_to(resolved):
            raise UserError(f"{folder} and {source}, which is read, overlap: name another folder")
    if folder.is_dir():
        foreign = sorted(path.name for path in folder.iterdir() if path.name not in outputs)
        if foreign:
            raise UserError(
                f"{folder} holds {foreign[0]!r}, which this command does not make: name another "
                "folder; it was left"
            )
    elif os.path.lexists(folder):
        raise UserError(f"{folder} is a file, expected the name of a folder; it was left")


def half_written(folder: Path, pattern: str) -> Iterator[Path]:
    """Yield the files and folders that were to be whole, and whose writer was killed."""
    for path in folder.glob(pattern):
        if match := _TEMPORARY.fullmatch(path.name):
            try:
                if psutil.Process(int(match[1])).create_time() <= path.lstat().st_mtime:
                    continue  # else that process has only the number of the one that wrote
            except psutil.NoSuchProcess:
                pass
            except FileNotFoundError:  # just now it became whole
                continue
            yield path


@contextlib.contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder to fill that is to be whole or not there at all; see `whole_file`.

    Args:
        folder: Made, or replaced, when the block is left without an error.
    """
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    for leftover in (temporary, *half_written(folder.parent, f".{glob.escape(folder.name)}.*.tmp")):
        shutil.rmtree(leftover, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        for path in (*temporary.rglob("*"), temporary):
            flush_to_disk(path)
        replace_folder(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def replace_folder(new: Path, folder: Path) -> None:
    """Put a folder in the place of another one, which is removed; at every moment one is there."""
    if not folder.exists():
        new.rename(folder)
        flush_to_disk(folder.parent)
        return
    libc = None if sys.platform == "win32" else ctypes.CDLL(None, use_errno=True)
    exchange = getattr(libc, "renameat2", None)  # Linux, glibc 2.28
    at_cwd, both = -100, 2  # AT_FDCWD, RENAME_EXCHANGE of linux/fs.h
    names = os.fsencode(new), os.fsencode(folder)
    if exchange is None or exchange(at_cwd, names[0], at_cwd, names[1], both):
        old = new.with_name(f"{new.name}.old")  # a file system that cannot exchange two names
        folder.rename(old)
        new.rename(folder)
        new = old
    flush_to_disk(folder.parent)
    shutil.rmtree(new)


def copy_folder(source: Path, target: Path) -> None:
    """Copy a folder to where nothing is; unlike those of `shutil.copytree`, errors have numbers."""
    target.mkdir()
    for path in sorted(source.iterdir()):
        if path.is_dir():
            copy_folder(path, target / path.name)
        else:
            shutil.copy2(path, target / path.name)


def to_text(content: Mapping[str, Any]) -> str:
    """Return JSON as all files here have it."""
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


SEAL = "signloom.sha256"
"""Key in JSON or in a file's metadata: the SHA-256 of the file in which these digits are 0."""
UNSEALED, _NONE = "0" * 64, "none"
_PLACE = re.compile(rb'signloom\.sha256(?:": ?"|\x18@)([0-9a-f]{64})')


def to_sealed(content: Mapping[str, Any], **layout: Any) -> bytes:
    """Return JSON with its checksum, which `check_seal` compares.

    Args:
        content: A former checksum in it is replaced.
        layout: For `json.dumps`, instead of that of `to_text`.
    """
    layout = {"ensure_ascii": False, "indent": 1, **layout}
    return seal(f"{json.dumps({**content, SEAL: UNSEALED}, **layout)}\n".encode())


def seal(raw: bytes) -> bytes:
    """Return the bytes of a file with their checksum; without a place for one, as they are."""
    place = _find_seal(raw)
    if place is None or place[1] == _NONE:
        return raw
    start, _, digest = place
    view = memoryview(raw)  # of which no part is copied, since a file may fill half the memory
    return b"".join((view[:start], digest.encode(), view[start + len(digest) :]))


def check_seal(raw: bytes) -> None:
    """Compare the bytes of a file with the checksum in it; of Signloom 0.2 it has none.

    Raises:
        ValueError: If they differ.
    """
    place = _find_seal(raw)
    if place is not None and place[1] != place[2]:
        raise ValueError(f"found SHA-256 {place[2][:16]}, expected {place[1][:16]}")


def _find_seal(raw: bytes) -> tuple[int, str, str] | None:
    """Return where the checksum of a file stands, what it is, and what it is to be."""
    last = raw.rfind(SEAL.encode())  # in Parquet, text of the table may come before it
    if last < 0:
        return None
    place = _PLACE.match(raw, last)
    if place is None:
        return last, _NONE, hashlib.sha256(raw).hexdigest()
    start, end = place.span(1)
    digest = hashlib.sha256(memoryview(raw)[:start])
    digest.update(UNSEALED.encode())
    digest.update(memoryview(raw)[end:])
    return start, place[1].decode(), digest.hexdigest()


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes as hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_folder(folder: Path, pattern: str = "*") -> str:
    """Return one SHA-256 over the relative names and bytes of the files below a folder.

    Args:
        folder: Searched with all its subfolders.
        pattern: Which file names count.

    Raises:
        FileNotFoundError: If the folder does not exist.
    """
    if not folder.is_dir():
        raise FileNotFoundError(folder)
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob(pattern) if path.is_file()):
        digest.update(f"{path.relative_to(folder).as_posix()}\0{hash_file(path)}\n".encode())
    return digest.hexdigest()


def flush_to_disk(path: Path) -> None:
    """Have the system write a file, or the names in a folder, to the disk."""
    if sys.platform == "win32":
        return  # opens no folder, and syncs no file that is open for reading
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
