"""Data and options with one seed or several come in, a trained model of each goes out."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from lightning_fabric import Fabric

from signloom.training.bar import TrainingBar
from signloom.training.records import EpochRecord
from signloom.training.results import Result
from signloom.training.run import RunOptions, TrainingData, train
from signloom.training.snapshots import Snapshots

LogMetrics = Callable[[Mapping[str, object], int], None]  # values and the epoch


def each_seed(options: RunOptions) -> list[RunOptions]:
    """Return the options of one training for each seed."""
    return [replace(options, train=replace(options.train, seeds=[s])) for s in options.train.seeds]


def deciding_options(options: RunOptions) -> dict[str, Any]:
    """Return the options that decide the weights; the others may change while training rests.

    How the work is divided changes nothing but rounding.
    """
    values = asdict(options)
    for name in ("device", "compile", "accumulate", "cache_mb", "snapshot_s"):
        del values["train"][name]
    return values


def train_seed(
    data: TrainingData,
    options: RunOptions,
    provenance: Mapping[str, Any],
    fabric: Fabric,
    snapshots: Snapshots,
    log: LogMetrics,
) -> Result:
    """Train with the first seed behind a bar; arguments as for `signloom.training.run.train`.

    Args:
        data: The corpus.
        options: What to train and how.
        provenance: Written into the checkpoint, with the options.
        fabric: The devices.
        snapshots: Where to go on from and to.
        log: Called after every epoch with its record and its speed.
    """
    with TrainingBar(options.train.epochs, fabric) as bar:

        def report(record: EpochRecord) -> None:
            log({**asdict(record), "speed": bar.end_epoch(record)}, record.epoch)

        checkpoint, fit = train(
            data,
            options,
            provenance={"params": asdict(options), **provenance},
            log=report,
            watch=bar.watch,
            fabric=fabric,
            snapshots=snapshots,
        )
    log({"best_epoch": fit.best_epoch, "best_dev_loss": fit.dev_loss}, 0)
    return Result(seed=options.train.seed, checkpoint=checkpoint, fit=fit)
