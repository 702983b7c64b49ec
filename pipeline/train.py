"""Train the model that params.yaml describes. DVC stage `train`; docs/training.md."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from pipeline.stage import run
from signloom.config import load_section
from signloom.paths import CHECKPOINT, PARAMS, SNAPSHOTS
from signloom.provenance import code_hash, library_versions
from signloom.tracking.run import Run, TrackingOptions
from signloom.training.data import TrainingFiles
from signloom.training.devices import open_devices
from signloom.training.run import (
    RunOptions,
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

PACKAGES = ("corpus", "features", "models", "training")  # whose code decides the weights


def main() -> None:
    """Train with every seed, keep the best epochs, log the runs."""
    options, files = read_run_options(PARAMS), TrainingFiles()
    tracking = load_section(PARAMS, "tracking", TrackingOptions)
    fabric = open_devices(options.train)
    data = files.load(cache_mb=options.train.cache_mb, source=options.model.source)
    hashes, start = files.hashes(), describe_start(options.train.start_from)
    made = {"data": hashes, "libraries": library_versions(), **start}
    code, seeds = code_hash(*PACKAGES), each_seed(options)
    snapshots = [open_snapshots(SNAPSHOTS, deciding_options(one), made, code) for one in seeds]
    if not fabric.is_global_zero:  # of several processes, only the first one writes and logs
        for one, kept in zip(seeds, snapshots, strict=True):
            train_seed(data, one, made, fabric, kept)
        return

    key = f"{snapshots[0].run_key()}-{len(seeds)}"  # where training goes on, so does its run
    note = (
        f"{len(data.train)} train and {len(data.dev)} dev clips. Curves: metrics by epoch. Weights "
        "of the best epoch: artifacts, `checkpoint`."
    )

    @contextmanager
    def start_seed(whole: Run, one: RunOptions) -> Iterator[Run]:
        """Give the run of one seed: that of the whole training, or of several one below it."""
        if len(seeds) == 1:
            yield whole
            return
        name = describe(one)
        with Run.start(
            tracking, name, stage="train", data=hashes, parent=key, key=f"{key} {name}"
        ) as below:
            below.log_params(asdict(one))  # compared with others, it says what it trained with
            yield below

    with (
        hold_snapshots(SNAPSHOTS, snapshots),
        Run.start(
            tracking, describe(options), stage="train", data=hashes, key=key, note=note
        ) as log,
    ):
        log.log_params(asdict(options))
        results = []
        for one, kept in zip(seeds, snapshots, strict=True):
            with start_seed(log, one) as seed_log:
                results.append(train_seed(data, one, made, fabric, kept, seed_log.log_metrics))
        write_results(CHECKPOINT, results)
        log.log_metrics({"dev_loss_of_seeds": spread(results)})
        log.log_artifact(CHECKPOINT, folder="checkpoint")
        for kept in snapshots:
            kept.remove()


if __name__ == "__main__":
    run(main)
