"""The section `train` of params.yaml."""

from dataclasses import dataclass
from typing import Literal

from signloom.training.optim import OptimizerName, ScheduleName


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainOptions:
    """How a model is trained."""

    seeds: list[int]  # of weights, dropout, order and augmentation; several: a model of each
    start_from: str  # folder of a checkpoint whose weights training starts from; "": from scratch
    device: Literal["auto", "cpu", "cuda"]  # auto: a GPU if there is one
    precision: Literal["float32", "bfloat16"]  # of matrix products; bfloat16: autocast
    compile: bool  # torch.compile: minutes at first, faster steps on a GPU
    epochs: int  # at most, >= 1
    patience: int  # epochs without a better dev loss before training stops, >= 1
    max_frames: int  # source frames of a padded batch, over all devices, >= 1
    accumulate: int  # parts in which a device takes its share of a batch, >= 1
    cache_mb: int  # landmarks kept in memory; clips beyond it stream from the shards, >= 0
    snapshot_s: float  # seconds between the snapshots from which training goes on, >= 0
    optimizer: OptimizerName
    learning_rate: float  # highest, > 0
    schedule: ScheduleName
    warmup_steps: int  # steps from 0 to the highest rate, >= 1
    weight_decay: float  # of matrices, >= 0
    clip_norm: float  # longest gradient, > 0
    ema_decay: float  # of a moving average of the weights, which is what is kept, [0, 1); 0: none
    average_last: int  # epochs whose weights are averaged to what is kept, >= 0; 0: none
    label_smoothing: float  # share of the target spread over the vocabulary, [0, 1)
    ctc_weight: float  # share of the CTC loss in the whole, [0, 1); 0 needs no labels
    token_drop: float  # share of the decoder's input tokens hidden in training, [0, 1)

    def __post_init__(self) -> None:
        if not self.seeds or min(self.seeds) < 0 or len(set(self.seeds)) < len(self.seeds):
            raise ValueError(
                f"seeds: found {self.seeds}, expected at least one, each 0 or more, none twice"
            )
        for name in ("epochs", "patience", "max_frames", "warmup_steps", "accumulate"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected at least 1")
        for name in ("learning_rate", "clip_norm"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected more than 0")
        for name in ("weight_decay", "cache_mb", "snapshot_s", "average_last"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected 0 or more")
        for name in ("label_smoothing", "ctc_weight", "token_drop", "ema_decay"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected [0, 1)")
        if self.ema_decay and self.average_last:
            raise ValueError(
                f"ema_decay: found {self.ema_decay} beside average_last {self.average_last}; "
                "choose one, 0 is off"
            )

    @property
    def seed(self) -> int:
        """The first seed, with which one model is trained."""
        return self.seeds[0]
