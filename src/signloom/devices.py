"""The device that a computation runs on, and the memory that it takes."""

import contextlib
import logging
import os
import platform
import sys
from pathlib import Path

import torch

from signloom.errors import UserError
from signloom.portable import CODE_PATH, is_portable
from signloom.system import peak_memory_bytes

logger = logging.getLogger(__name__)


def pick_device(name: str) -> torch.device:
    """Return the device of a name; `auto` is a GPU if there is one.

    Raises:
        UserError: If `cuda` was asked for and is not there.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("device: cuda was asked for, but torch sees no GPU; use `auto` or `cpu`")
    return torch.device(name)


def variable_of_gpu(number: int) -> dict[str, str]:
    """Return the variable that leaves a process one GPU of those seen here; nothing without any."""
    if not torch.cuda.is_available():
        return {}
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    devices = visible.split(",") if visible else [*map(str, range(torch.cuda.device_count()))]
    return {"CUDA_VISIBLE_DEVICES": devices[number % len(devices)]}


def reset_peak_memory(device: torch.device) -> None:
    """Let `peak_memory_mb` count from now on, where the system can (a GPU, or Linux)."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    else:
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")


def peak_memory_mb(device: torch.device) -> float:
    """Return the most memory that tensors held on a GPU, or else this process on the CPU, MiB."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return peak_memory_bytes() / 2**20


def restart_portable() -> None:
    """Start this process's command again with the code path, unless it has it.

    The libraries read the variables when they load, which is before any parameter is read. The
    process keeps its number, so whoever waits for it sees nothing of it. On a processor that does
    not share the path a warning says that the last digits will differ.
    """
    if platform.machine() not in {"x86_64", "AMD64"}:
        logger.warning(
            "train.portable: %s is no x86 processor, so the last digits differ from those of one",
            platform.machine(),
        )
    elif not torch.cpu._is_avx2_supported():  # of the processor, whatever ATEN_CPU_CAPABILITY says
        logger.warning("train.portable: without AVX2 the last digits differ from those with it")
    elif not is_portable():
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        command = [sys.executable, *sys.orig_argv[1:]]
        os.environ.pop("NPY_ENABLE_CPU_FEATURES", None)  # NumPy refuses both
        os.execve(sys.executable, command, {**os.environ, **CODE_PATH})
