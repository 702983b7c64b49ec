"""What differs between Linux, macOS and Windows, a function each."""

import functools
import os
import shutil
import signal
import sys
from pathlib import Path

import psutil  # type: ignore[import-untyped]

KILLED = getattr(signal, "SIGKILL", 9)  # by which a system ends who takes too much memory


def peak_memory_bytes() -> int:
    """Return the most memory that this process has had."""
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def usable_cores() -> list[int]:
    """Return the numbers of the cores that this process may use; macOS has no affinity."""
    affinity = getattr(os, "sched_getaffinity", None)  # of Linux; heeds taskset and Slurm
    return sorted(affinity(0)) if affinity else list(range(os.cpu_count() or 1))


def lower_priority() -> None:
    """Let this process give way to others."""
    if sys.platform == "win32":
        psutil.Process().nice(psutil.BELOW_NORMAL_PRIORITY_CLASS)
    else:
        os.nice(10)


def interrupt(process: psutil.Process) -> None:
    """Ask a process to end, as Ctrl-C does; Windows cannot ask, it ends it."""
    if sys.platform == "win32":
        process.terminate()
    else:
        process.send_signal(signal.SIGINT)


def is_alive(number: int) -> bool:
    """Return whether a process works, and is the one that had this number at the first call.

    For who works for it: it need not be the parent, which is a launcher in a virtual environment of
    Windows.
    """
    try:
        process = _process(number)
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@functools.cache
def _process(number: int) -> psutil.Process:
    return psutil.Process(number)


def user_name() -> str:
    """Return who runs this process."""
    name = os.environ.get("USER") or os.environ.get("USERNAME")
    if name or sys.platform == "win32":
        return name or "a user"
    return f"user {os.getuid()}"


def link_file(path: Path, target: Path) -> None:
    """Make `path` a link to a file; a copy where the system grants no links (Windows).

    Raises:
        OSError: If neither can be made.
    """
    try:
        path.symlink_to(target)
    except OSError:
        if sys.platform != "win32":
            raise
        shutil.copyfile(target, path)
