"""Errors that a user can put right: shown as a message, never as a traceback."""

import errno
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

_MOST_OF_A_LINE, _MOST = 2_000, 20_000  # characters of a message
FULL_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_RIGHT = "ask the owner of the files, or work in a copy of your own"
_IN_THE_WAY = "something with this name already exists: choose another path, or move it"
_MORE_MEMORY = (
    "memory ran out: end other programs, allow more (`ulimit -v`), or lower train.max_frames"
)
_BUILDER_GONE = (
    "a system kills one where memory runs out, so end other programs or allow more; `dvc repro` "
    "goes on from the last snapshot"
)
# How torch, OpenBLAS and Python say that memory ran out.
_OUT_OF_MEMORY = re.compile(
    "allocate memory|not enough memory|out of memory|bad_alloc|can't start new thread",
    re.IGNORECASE,
)
_HINTS = {
    **dict.fromkeys(FULL_DISK, "the disk is full: free some space and run the same again"),
    errno.EDQUOT: "your share of the disk is used up: remove files, or ask for a larger share",
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _NO_RIGHT),
    **dict.fromkeys((errno.EEXIST, errno.ENOTDIR, errno.EISDIR), _IN_THE_WAY),
    errno.ENOMEM: _MORE_MEMORY,
    errno.ELOOP: "links that lead to each other: remove one of them",
    errno.ENAMETOOLONG: "give it a shorter name",
}
# Where a package is missing: what to install. All others come with `training`.
_EXTRAS = {
    "cv2": "landmarks",
    "starlette": "operations",
    "uvicorn": "operations",
    "transformers": "text",
    "onnxruntime": "onnx",
    "pose_format": "pose",
}
_NOT_UTF8 = "its name is not UTF-8"


class UserError(ValueError):
    """A mistake in what the user gave; the message says what to do, as no traceback is shown."""

    def __str__(self) -> str:
        """The message, of which long lines are cut: they quote what was found."""
        return shorten(super().__str__())


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a clip, or a file or row of clips, cannot be used."""

    reason: str
    hint: str
    """What to do about it; empty: the reason says it."""
    concerns: tuple[str, ...] = ()
    """Clips, signers, files and cells that are meant, so that the reason need not name them."""

    def __str__(self) -> str:
        """Reason and hint as one phrase."""
        return shorten(f"{self.reason}; {self.hint}" if self.hint else self.reason)


class ClipError(ValueError):
    """A clip, or a file of clips, that cannot be used.

    Attributes:
        problem: Why not.
    """

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason, hint)
        self.problem = Problem(reason, hint)

    def __str__(self) -> str:
        """Reason and hint as one phrase."""
        return str(self.problem)


def shorten(text: str) -> str:
    """Return a message that can be read: of longer lines their beginning and their end."""
    lines = [_cut(line, _MOST_OF_A_LINE) for line in text.split("\n")]
    return _cut("\n".join(lines), _MOST)


def name_some(names: Iterable[object], most: int = 5) -> str:
    """Return the first of some names for a message, and dots where there are more."""
    listed = list(map(str, names))
    return ", ".join(listed[:most] + ["..."] * (len(listed) > most))


def count_of(number: int, noun: str) -> str:
    """Return `1 clip`, `2 clips` and so on."""
    return f"{number} {noun}{'s' * (number != 1)}"


def _cut(text: str, most: int) -> str:
    left_out = len(text) - most
    if left_out <= 0:
        return text
    half = most // 2
    return f"{text[:half]} ... ({left_out:,} characters left out) ... {text[-half:]}"


def readable_name(path: str | os.PathLike[str]) -> str:
    r"""Return a path as any table can hold it: controls and bytes that are not UTF-8 as `\xNN`."""
    text = os.fsencode(path).decode("utf-8", errors="backslashreplace")
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", lambda match: f"\\x{ord(match[0]):02x}", text)


def name_problem(path: str | os.PathLike[str]) -> Problem | None:
    """Say why no manifest and no table could name a file, if none could."""
    try:
        os.fsencode(path).decode("utf-8")
    except UnicodeDecodeError:
        return Problem(_NOT_UTF8, "rename it")
    return None


def explain(error: BaseException) -> str | None:
    """Return the message of an error that a user can put right; None: it is another one.

    Beside `UserError` these are what the system refuses: for want of rights or space, or since
    something else is in the way.
    """
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, OSError) and (hint := _HINTS.get(error.errno or 0)):
        words = f"{os.strerror(error.errno or 0)}; {hint}"
        named = isinstance(error.filename, str | bytes) and error.filename
        return shorten(f"{readable_name(os.fsdecode(named))}: {words}" if named else words)
    if isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and _OUT_OF_MEMORY.search(str(error))
    ):
        return _MORE_MEMORY
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        extra = _EXTRAS.get(package, "training")
        if not package.startswith("signloom"):
            return f"{package} is not installed, which this needs: pip install 'signloom[{extra}]'"
    if isinstance(error, RuntimeError) and str(error).startswith("DataLoader worker"):  # of torch
        return f"a process that builds batches ended ({str(error).strip()}): {_BUILDER_GONE}"
    if isinstance(error, RuntimeError) and str(error).startswith("Symlink loop"):  # of pathlib
        return shorten(f"{error}; {_HINTS[errno.ELOOP]}")
    if isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason:
        name = re.findall(r"[^\s'\"]*[\udc80-\udcff][^\s'\"]*", error.object)
        return shorten(f"{readable_name(name[0])}: {_NOT_UTF8}; rename it") if name else None
    return None
