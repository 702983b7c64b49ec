"""Which process this is, so that another one can tell whether it still lives; memory and cores."""

import contextlib
import os
import platform
import resource
from pathlib import Path

import psutil  # type: ignore[import-untyped]

Owner = dict[str, str | int | float]


def this_owner() -> Owner:
    """Return what identifies this process, also after its number was given to another."""
    return {
        "machine": _machine(),
        "pid": os.getpid(),
        "started_s": psutil.Process().create_time(),
    }


def is_dead(owner: Owner) -> bool:
    """Return whether a process is known to be gone; False for one on another machine."""
    if owner["machine"] != _machine():
        return False
    try:
        process = psutil.Process(int(owner["pid"]))
        return (
            abs(process.create_time() - float(owner["started_s"])) > 1
            or process.status() == psutil.STATUS_ZOMBIE
        )
    except psutil.NoSuchProcess:
        return True


def _machine() -> str:
    """Return a name for the space in which process numbers mean something."""
    parts = [platform.node()]
    with contextlib.suppress(OSError):  # Linux only; containers have one host name at times
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8])
        parts.append(str(Path("/proc/self/ns/pid").stat().st_ino))
    return "/".join(parts)


def reset_peak_memory() -> None:
    """Let `peak_memory_mb` count from now on, where the system can (Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory_mb() -> float:
    """Return the most memory that this process held, in MiB."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def cores_of(worker: int, workers: int) -> list[int]:
    """Return the cores of one of several workers: disjoint while there are enough."""
    cores = list(range(os.cpu_count() or 1))
    with contextlib.suppress(AttributeError):  # Linux only
        cores = sorted(os.sched_getaffinity(0))
    return cores[worker::workers] or [cores[worker % len(cores)]]
