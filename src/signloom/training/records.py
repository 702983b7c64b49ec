"""What a training run did, while it goes on and when it is over."""

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from jaxtyping import Float
from torch import Tensor

from signloom.training.snapshots import State
from signloom.training.step import Counts


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRecord:
    """What one epoch did; losses in nats a token."""

    epoch: int  # from 1
    step: int  # optimiser steps so far
    train_loss: float  # smoothed cross entropy of augmented clips, as minimised
    train_ctc_loss: float  # nats a label; 0 without CTC
    ctc_skipped: int  # clips with more labels than memory positions, left out of that loss
    dev_loss: float  # plain cross entropy
    dev_accuracy: float  # share of next tokens guessed right after the true ones
    lr: float
    grad_norm: float  # mean before clipping
    frames: int  # real source frames
    tokens: int  # next tokens
    padding: float  # share of the source positions that are no frames


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """Where training stands within an epoch."""

    epoch: int  # from 1
    step: int  # steps of the epoch that are done
    steps: int  # of the epoch
    loss: float  # mean of the epoch so far, as `EpochRecord.train_loss`
    lr: float
    frames: int  # of the epoch so far
    tokens: int
    padding: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The result of training."""

    weights: dict[str, Tensor]  # of the epoch with the lowest dev loss
    best_epoch: int
    dev_loss: float
    history: list[EpochRecord]


@dataclass(slots=True, kw_only=True)
class Progress:
    """How far training has come, beside what model and optimiser hold."""

    sums: Float[Tensor, " 8"]  # of the epoch: two losses, five counts, gradient norms
    epoch: int = 1  # being trained
    step: int = 0  # steps of it that are done
    best_epoch: int = 0
    best_loss: float = math.inf
    weights: dict[str, Tensor] = field(default_factory=dict)  # of the best epoch
    history: list[EpochRecord] = field(default_factory=list)

    def means(self) -> dict[str, Any]:
        """Return what the sums say of the epoch so far, for `EpochRecord`; waits for a GPU."""
        text, spelt, *counted, norm = self.sums.tolist()
        counts = Counts(*counted)
        return {
            "train_loss": text / max(1.0, counts.tokens),
            "train_ctc_loss": spelt / max(1.0, counts.labels),
            "ctc_skipped": int(counts.skipped),
            "grad_norm": norm / max(1, self.step),
            "frames": int(counts.frames),
            "tokens": int(counts.tokens),
            "padding": 1 - max(1.0, counts.frames) / max(1.0, counts.places),
        }

    def state(self) -> State:
        """Return all of it as plain values and tensors."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {**values, "history": [asdict(record) for record in self.history]}

    @staticmethod
    def of(state: State) -> "Progress":
        """Return what `state` was told of."""
        return Progress(**{**state, "history": [EpochRecord(**r) for r in state["history"]]})
