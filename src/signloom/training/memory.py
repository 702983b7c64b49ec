"""What went wrong comes in; whether memory was short goes out."""

import gc
import resource

import torch


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether a device, or the allocator of the CPU, had no memory to give."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    # The CPU's allocator has no exception of its own.
    return isinstance(error, RuntimeError) and (
        "can't allocate memory" in str(error) or "not enough memory" in str(error)
    )


def release_memory() -> None:
    """Give back what a failed step still holds."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def peak_memory_mb(device: torch.device) -> float:
    """Return the most memory that tensors held on a GPU, or else this process on the CPU, MB."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e6
    # Linux counts in KiB.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
