"""What a trial costs is measured here and held against the limits of the search."""

import time

import optuna
import torch

from signloom.tune.options import Limits
from signloom.tune.process import peak_memory_mb, reset_peak_memory


class Meter:
    """The seconds and the memory of a trial since the meter was made."""

    def __init__(self, trial: optuna.Trial, limits: Limits, device: torch.device) -> None:
        self._trial, self._limits = trial, limits
        self._on_gpu = device.type == "cuda"
        self._start_s = time.monotonic()
        reset_peak_memory()
        if self._on_gpu:
            torch.cuda.reset_peak_memory_stats()

    def cost(self) -> dict[str, float]:
        """Return the seconds and the peak memory (of the GPU, if that is the device) so far."""
        memory = torch.cuda.max_memory_allocated() / 2**20 if self._on_gpu else peak_memory_mb()
        return {"seconds": time.monotonic() - self._start_s, "memory_mb": memory}

    def check_cost(self) -> None:
        """Refuse to go on when time or memory are used up; see `check`."""
        for name, found in self.cost().items():
            self.check(name, found)

    def check(self, name: str, found: float) -> None:
        """Refuse to go on beyond a limit, and tell Optuna by how much it is exceeded.

        Raises:
            optuna.TrialPruned: If the limit is exceeded.
        """
        limit = getattr(self._limits, name)
        if limit is not None and found > limit:
            self._trial.set_constraint(name, found / limit - 1)
            raise optuna.TrialPruned(f"{name} {found:.0f} is beyond the limit of {limit}")

    def hold(self, parameters: float) -> None:
        """Tell Optuna that a trial at its end is within its limits; raise as `check` if not."""
        for name, found in {"parameters": parameters, **self.cost()}.items():
            self.check(name, found)
            limit = getattr(self._limits, name)
            if limit is not None:
                self._trial.set_constraint(name, found / limit - 1)
