"""Trainings of a study, each a run below the study's."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from signloom.checkpoint import Checkpoint
from signloom.corpus.manifest import Clip
from signloom.features.targets import TokenizeOptions, build_targets, write_labels, write_targets
from signloom.tracking.stages import track_training
from signloom.training.data import TrainingData
from signloom.training.loop import EpochRecord, Fit
from signloom.training.run import RunOptions, describe, train

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

LogEpoch = Callable[[EpochRecord], None]


@contextmanager
def log_training(name: str, options: "DataclassInstance", log: LogEpoch) -> Iterator[LogEpoch]:
    """Give what is called after every epoch: `log`, and a run of this training."""
    with track_training(name) as run:
        run.log_params(asdict(options))

        def log_epoch(record: EpochRecord) -> None:
            run.log_metrics(asdict(record), step=record.epoch)
            log(record)

        yield log_epoch


def train_tracked(
    data: TrainingData, options: RunOptions, log: LogEpoch = lambda record: None
) -> tuple[Checkpoint, Fit]:
    """Train with the first seed, keep no snapshots, and log a run.

    Args:
        data: The corpus.
        options: What to train and how.
        log: Called after every epoch.

    Returns:
        The checkpoint of the best epoch, and how training went.
    """
    with log_training(describe(options), options, log) as log_epoch:
        return train(data, options, provenance={}, log=log_epoch)


def write_tokens(folder: Path, clips: Sequence[Clip], options: TokenizeOptions) -> None:
    """Write what the stage `tokenize_targets` writes."""
    tokenizer, labels, targets = build_targets(clips, options)
    write_targets(folder / "targets.parquet", targets)
    write_labels(folder / "labels.json", labels)
    tokenizer.save(folder / "tokenizer.json")
