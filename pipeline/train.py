"""Train the model that params.yaml describes. DVC stage `train`; docs/training.md."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from functools import partial
from typing import Any

from pipeline.stage import run
from signloom.devices import restart_portable
from signloom.paths import CHECKPOINT, PARAMS, SNAPSHOTS
from signloom.processes import check_parent
from signloom.provenance import library_versions
from signloom.tracking.run import Run, read_tracking
from signloom.training.data import TrainingFiles
from signloom.training.devices import choose_threads, open_devices
from signloom.training.run import (
    RunOptions,
    check_run,
    count_parameters,
    describe,
    read_run_options,
    spread,
    write_results,
)
from signloom.training.seeds import Seeds
from signloom.training.warm_start import describe_start

NOTE = "Curves: metrics by epoch. Weights of the best epoch: artifacts, `checkpoint`."


def main() -> None:
    """Train with every seed, keep the best epochs, log the runs."""
    options, files = read_run_options(PARAMS), TrainingFiles()
    if options.train.portable:
        restart_portable()
    data = files.load(cache_mb=options.train.cache_mb, source=options.model.source)
    check_run(data, options)
    threads = choose_threads(count_parameters(data, options))
    fabric = open_devices(options.train)
    start = describe_start(options.train.start_from, options.model.text_model)
    made = {"data": files.hashes(), "libraries": library_versions(), **start}
    seeds = Seeds(data=data, options=options, made=made, fabric=fabric, folder=SNAPSHOTS)
    start_run = partial(Run.start, read_tracking(PARAMS), stage="train", data=made["data"])
    if not fabric.is_global_zero:  # of several processes, only the first one writes and logs
        for number in range(len(seeds.each)):
            seeds.train(number)
    elif len(sys.argv) > 1:  # started by `train_apart`
        train_one(seeds, int(sys.argv[1]), start_run, sys.argv[2])
    else:
        note = f"{len(data.train)} train and {len(data.dev)} dev clips. {NOTE}"
        with seeds.hold(), start_run(describe(options), key=seeds.key(), note=note) as whole:
            whole.log_params({**asdict(options), "threads": threads})
            train_every(seeds, start_run, whole, threads)
            seeds.remove_snapshots()


def train_every(seeds: Seeds, start_run: Callable[..., Run], whole: Run, threads: int) -> None:
    """Train with every seed, some at a time where cores are left, and write what came out."""
    seeds.train_apart("pipeline.train", threads, whole.key)
    results = []
    for number, one in enumerate(seeds.each):  # what was trained is only read
        below = run_of_seed(start_run, whole.key, one)
        with nullcontext(whole) if len(seeds.each) == 1 else below as log:
            results.append(seeds.train(number, log.log_metrics))
    write_results(CHECKPOINT, results)
    whole.log_metrics({"dev_loss_of_seeds": spread(results)})
    whole.log_artifact(CHECKPOINT, folder="checkpoint")


def train_one(seeds: Seeds, number: int, start_run: Callable[..., Run], key: str) -> None:
    """Train with one of several seeds, for the process that takes the result."""
    check_parent()  # now, so that a later process with the same number is not taken for it
    with run_of_seed(start_run, key, seeds.each[number]) as log:

        def log_epoch(metrics: dict[str, Any], step: int = 0) -> None:
            check_parent()
            log.log_metrics(metrics, step=step)

        seeds.train(number, log_epoch)


@contextmanager
def run_of_seed(start_run: Callable[..., Run], key: str, one: RunOptions) -> Iterator[Run]:
    """Give the run of one of several seeds, below that of the whole training."""
    name = describe(one)
    with start_run(name, parent=key, key=f"{key} {name}") as below:
        below.log_params(asdict(one))  # compared with others, it says what it trained with
        yield below


if __name__ == "__main__":
    run(main)
