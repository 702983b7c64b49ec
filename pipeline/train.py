"""Train the model that params.yaml describes. DVC stage `train`; docs/training.md."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial

from pipeline.stage import run
from signloom.devices import restart_portable
from signloom.paths import CHECKPOINT, PARAMS, SNAPSHOTS
from signloom.provenance import code_hash, library_versions
from signloom.tracking.run import Run, read_tracking
from signloom.training.data import TrainingFiles
from signloom.training.devices import choose_threads, open_devices
from signloom.training.run import (
    RunOptions,
    check_run,
    count_parameters,
    deciding_options,
    describe,
    each_seed,
    read_run_options,
    settle_precision,
    spread,
    train_seed,
    write_results,
)
from signloom.training.snapshots import hold_snapshots, open_snapshots
from signloom.training.warm_start import describe_start

NOTE = "Curves: metrics by epoch. Weights of the best epoch: artifacts, `checkpoint`."
PACKAGES = ("corpus", "features", "models", "training")  # whose code decides the weights


def main() -> None:
    """Train with every seed, keep the best epochs, log the runs."""
    options, files = read_run_options(PARAMS), TrainingFiles()
    tracking = read_tracking(PARAMS)
    if options.train.portable:
        restart_portable()
    data = files.load(cache_mb=options.train.cache_mb, source=options.model.source)
    check_run(data, options)
    threads = choose_threads(count_parameters(data, options))
    options = settle_precision(data, options)
    fabric = open_devices(options.train)
    hashes, start = (
        files.hashes(),
        describe_start(options.train.start_from, options.model.text_model),
    )
    made = {"data": hashes, "libraries": library_versions(), **start}
    code, seeds = code_hash(*PACKAGES), each_seed(options)
    snapshots = [open_snapshots(SNAPSHOTS, deciding_options(one), made, code) for one in seeds]
    if not fabric.is_global_zero:  # of several processes, only the first one writes and logs
        for one, kept in zip(seeds, snapshots, strict=True):
            train_seed(data, one, made, fabric, kept)
        return
    start_run = partial(Run.start, tracking, stage="train", data=hashes)
    key = f"{snapshots[0].run_key()}-{len(seeds)}"  # where training goes on, so does its run
    note = f"{len(data.train)} train and {len(data.dev)} dev clips. {NOTE}"
    with (
        hold_snapshots(SNAPSHOTS, snapshots),
        start_run(name=describe(options), key=key, note=note) as whole,
    ):
        whole.log_params({**asdict(options), "threads": threads})
        results = []
        for one, kept in zip(seeds, snapshots, strict=True):
            with run_of_seed(start_run, whole, one, is_only=len(seeds) == 1) as log:
                results.append(train_seed(data, one, made, fabric, kept, log.log_metrics))
        write_results(CHECKPOINT, results)
        whole.log_metrics({"dev_loss_of_seeds": spread(results)})
        whole.log_artifact(CHECKPOINT, folder="checkpoint")
        for kept in snapshots:
            kept.remove()


@contextmanager
def run_of_seed(
    start_run: Callable[..., Run], whole: Run, one: RunOptions, *, is_only: bool
) -> Iterator[Run]:
    """Give the run of a seed: of the only one that of the whole training, else one below it."""
    if is_only:
        yield whole
        return
    name = describe(one)
    with start_run(name=name, parent=whole.key, key=f"{whole.key} {name}") as below:
        below.log_params(asdict(one))  # compared with others, it says what it trained with
        yield below


if __name__ == "__main__":
    run(main)
