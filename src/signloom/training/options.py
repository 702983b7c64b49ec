"""The section `train` of params.yaml."""

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from signloom.config import (
    Count,
    Gone,
    Natural,
    NonNegative,
    Positive,
    Seed,
    ShareBelowOne,
    checked_dataclass,
)
from signloom.training.optim import CLIP_NORM, OptimizerName, ScheduleName


def _share_or_steps(warmup: float) -> int | float:
    """Return a share of the training as it is, and a number of steps as a whole number."""
    if warmup >= 1 and warmup % 1:
        raise ValueError(f"found {warmup:g}, expected a share below 1 or a whole number of steps")
    return int(warmup) if warmup >= 1 else warmup


@checked_dataclass
class TrainOptions:
    """How a model is trained."""

    # Of weights, dropout, order and augmentation; several: a model of each.
    seeds: Annotated[list[Seed], Field(min_length=1)]
    start_from: str = (
        ""  # folder of a checkpoint whose weights training starts from; "": from scratch
    )
    device: Literal["auto", "cpu", "cuda"]  # auto: a GPU if there is one
    # of matrix products; bfloat16: autocast
    precision: Literal["float32", "bfloat16"] = "float32"
    epochs: Count  # at most
    # epochs without a better dev loss before training stops; 0: the last epoch is kept
    patience: Natural
    max_frames: Count  # source frames of a padded batch, over all devices
    accumulate: Annotated[int, Field(ge=1, le=10_000)] = (
        1  # parts in which a device takes its share of a batch
    )
    cache_mb: Natural = 4000  # landmarks kept in memory; clips beyond it stream from the shards
    snapshot_s: NonNegative = 60.0  # seconds between the snapshots from which training goes on
    optimizer: OptimizerName = "adamw"
    learning_rate: Positive  # highest
    schedule: ScheduleName = "cosine"
    # from 0 to the highest rate: steps, or below 1 a share of the training
    warmup_steps: Annotated[Positive, AfterValidator(_share_or_steps)]
    weight_decay: NonNegative = 0.01  # of matrices
    clip_norm: NonNegative = CLIP_NORM  # longest gradient; 0: none is cut
    label_smoothing: ShareBelowOne  # share of the target spread over the vocabulary
    ctc_weight: ShareBelowOne  # share of the CTC loss in the whole; 0 needs no labels
    token_drop: ShareBelowOne = 0.2  # share of the decoder's input tokens hidden in training
    # R-Drop (Wu et al. 2021): weight of the divergence between two passes; 0: one pass
    consistency: NonNegative = 0.0
    portable: bool = False  # one code path: the same bytes on every x86 processor, slower

    GONE: ClassVar = {
        "average_last": Gone(0, "the last epochs' mean gained nothing; patience: 0 keeps the last"),
        "corpus_temperature": Gone(1.0, "each clip is shown once an epoch"),
    }

    def __post_init__(self) -> None:
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds: found {self.seeds}, expected none twice")
        if self.portable and (self.precision != "float32" or self.device == "cuda"):
            raise ValueError(
                f"portable: found with precision {self.precision} on device {self.device}; "
                "expected float32, and cpu or auto on a machine without a GPU"
            )

    def count_warmup(self, total_steps: int) -> int:
        """Return the steps of the warm-up of a training of this length, at least 1."""
        if self.warmup_steps >= 1:
            return int(self.warmup_steps)
        return max(1, round(self.warmup_steps * total_steps))

    @property
    def seed(self) -> int:
        """The first seed, with which one model is trained."""
        return self.seeds[0]
