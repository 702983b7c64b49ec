"""What a run does to its machine is sampled beside it: processor, memory, GPU."""

import sys
import threading
from collections.abc import Callable
from typing import Any

import psutil  # type: ignore[import-untyped]

INTERVAL_S = 10.0


class SystemSampler:
    """Logs the load of the machine every few seconds, and once at the end.

    The names begin with `system/`, which MLflow shows on a page of their own.
    """

    def __init__(self, log: Callable[..., None]) -> None:
        self._log, self._step = log, 0
        self._process = psutil.Process()
        self._process.cpu_percent()  # counts from here
        psutil.cpu_percent()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample_often, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Sample for the last time."""
        self._over.set()
        self._thread.join()
        self._sample()

    def _sample_often(self) -> None:
        while not self._over.wait(INTERVAL_S):
            self._sample()

    def _sample(self) -> None:
        memory = psutil.virtual_memory()
        found = {
            "process_cpu_percent": self._process.cpu_percent(),
            "process_memory_mb": self._process.memory_info().rss / 2**20,
            "cpu_utilization_percentage": psutil.cpu_percent(),
            "system_memory_usage_percentage": memory.percent,
            **_gpu(),
        }
        self._log({"system": found}, step=self._step)
        self._step += 1


def _gpu() -> dict[str, Any]:
    """Return what the GPU of this process holds, if torch was loaded and has used one."""
    torch = sys.modules.get("torch")
    # Another thread may be importing it at this moment: then parts of it are missing.
    is_used = getattr(getattr(torch, "cuda", None), "is_initialized", None)
    if torch is None or is_used is None or not is_used():
        return {}
    return {
        "gpu_memory_mb": torch.cuda.memory_allocated() / 2**20,
        "gpu_peak_memory_mb": torch.cuda.max_memory_allocated() / 2**20,
    }
