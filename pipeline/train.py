"""Train the model that params.yaml describes. DVC stage `train`; docs/training.md."""

import dataclasses
import functools
from collections.abc import Mapping
from contextlib import nullcontext

from pipeline.stage import run
from signloom.config import load_section
from signloom.paths import CHECKPOINT, LABELS, PARAMS, SHARDS, SNAPSHOTS, TARGETS, TOKENIZER
from signloom.provenance import code_hash, library_versions
from signloom.tracking.run import Run, TrackingOptions
from signloom.training.data import hash_training_data, load_training_data
from signloom.training.devices import open_devices
from signloom.training.run import (
    deciding_options,
    describe,
    each_seed,
    read_run_options,
    spread,
    train_seed,
    write_results,
)
from signloom.training.snapshots import hold_snapshots, open_snapshots
from signloom.training.warm_start import describe_start

ROOMS = ("corpus", "features", "models", "training")  # whose code decides the weights


def main() -> None:
    """Train with every seed, keep the best epochs, log the runs."""
    options = read_run_options(PARAMS)
    tracking = load_section(PARAMS, "tracking", TrackingOptions)
    fabric = open_devices(options.train)
    if not fabric.is_global_zero:  # of several processes, one writes and logs
        tracking = dataclasses.replace(tracking, enabled=False)
    data = load_training_data(
        shards=SHARDS, targets=TARGETS, tokenizer=TOKENIZER, labels=LABELS,
        cache_mb=options.train.cache_mb, source=options.model.source,
    )  # fmt: skip
    hashes = hash_training_data(shards=SHARDS, targets=TARGETS)
    start = describe_start(options.train.start_from)
    made = {"data": hashes, "libraries": library_versions(), **start}
    code, seeds = code_hash(*ROOMS), each_seed(options)
    kept = [open_snapshots(SNAPSHOTS, deciding_options(one), made, code) for one in seeds]
    note = (
        f"{len(data.train)} train and {len(data.dev)} dev clips. Curves: metrics by epoch. Weights "
        "of the best epoch: artifacts, `checkpoint`."
    )
    # Where training goes on, so does its run.
    key = f"{kept[0].run_key()}-{len(seeds)}" if fabric.is_global_zero else None
    with (
        hold_snapshots(SNAPSHOTS, kept) if fabric.is_global_zero else nullcontext(),
        Run.start(
            tracking, describe(options), stage="train", data=hashes, key=key, note=note
        ) as log,
    ):
        log.log_params(dataclasses.asdict(options))
        results = []
        for one, snapshots in zip(seeds, kept, strict=True):
            name = describe(one)
            with (
                nullcontext(log)
                if len(seeds) == 1
                else Run.start(
                    tracking, name, stage="train", data=hashes, parent=key, key=f"{key} {name}"
                )
            ) as child:
                if child is not log:  # compared with others, it says itself what it trained with
                    child.log_params(dataclasses.asdict(one))
                log_epoch = functools.partial(log_metrics, child)
                results.append(train_seed(data, one, made, fabric, snapshots, log_epoch))
        if fabric.is_global_zero:
            write_results(CHECKPOINT, results)
            log.log_metrics({"dev_loss_of_seeds": spread(results)})
            log.log_artifact(CHECKPOINT, folder="checkpoint")
            for snapshots in kept:
                snapshots.remove()


def log_metrics(run: Run, values: Mapping[str, object], epoch: int) -> None:
    """Log what `train_seed` says."""
    run.log_metrics(values, step=epoch)


if __name__ == "__main__":
    run(main)
