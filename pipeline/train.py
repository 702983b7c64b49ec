"""Train the model that params.yaml describes. DVC stage `train`; docs/training.md."""

import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from functools import partial
from typing import Any

from pipeline.stage import run
from signloom.devices import restart_portable, variable_of_gpu
from signloom.errors import UserError
from signloom.log import GROUP, group_name
from signloom.paths import CHECKPOINT, PARAMS, SNAPSHOTS
from signloom.provenance import code_hash, library_versions
from signloom.tracking.run import Run, read_tracking
from signloom.training.data import TrainingFiles
from signloom.training.devices import choose_threads, count_jobs, open_devices
from signloom.training.run import (
    RunOptions,
    check_run,
    count_parameters,
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

NOTE = "Curves: metrics by epoch. Weights of the best epoch: artifacts, `checkpoint`."
POLL_S = 0.2
PACKAGES = ("corpus", "features", "models", "training")  # whose code decides the weights


def main() -> None:
    """Train with every seed, keep the best epochs, log the runs.

    Where cores or GPUs are left, some seeds are trained at a time: the stage starts itself again
    with one of them, the number of its own process and the key of its run.
    """
    options, files = read_run_options(PARAMS), TrainingFiles()
    tracking = read_tracking(PARAMS)
    if options.train.portable:
        restart_portable()
    data = files.load(cache_mb=options.train.cache_mb, source=options.model.source)
    check_run(data, options)
    threads = choose_threads(count_parameters(data, options))
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
    if len(sys.argv) > 1:
        number, parent, key = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
        with run_of_seed(start_run, key, seeds[number]) as log:

            def log_epoch(metrics: dict[str, Any], step: int = 0) -> None:
                if os.getppid() != parent:
                    raise KeyboardInterrupt  # there is nobody to take the result
                log.log_metrics(metrics, step=step)

            train_seed(data, seeds[number], made, fabric, snapshots[number], log_epoch)
        return
    key = f"{snapshots[0].run_key()}-{len(seeds)}"  # where training goes on, so does its run
    note = f"{len(data.train)} train and {len(data.dev)} dev clips. {NOTE}"
    with (
        hold_snapshots(SNAPSHOTS, snapshots),
        start_run(name=describe(options), key=key, note=note) as whole,
    ):
        whole.log_params({**asdict(options), "threads": threads})
        jobs = count_jobs(len(seeds), threads, fabric)
        if jobs > 1:
            train_together(len(seeds), jobs, threads, whole.key)
        results = []
        for one, kept in zip(seeds, snapshots, strict=True):  # what was trained is only read
            below = run_of_seed(start_run, whole.key, one)
            with nullcontext(whole) if len(seeds) == 1 else below as log:
                results.append(train_seed(data, one, made, fabric, kept, log.log_metrics))
        write_results(CHECKPOINT, results)
        whole.log_metrics({"dev_loss_of_seeds": spread(results)})
        whole.log_artifact(CHECKPOINT, folder="checkpoint")
        for kept in snapshots:
            kept.remove()


def train_together(seeds: int, jobs: int, threads: int, key: str) -> None:
    """Train some seeds at a time, each in a process; their last snapshots have what came out.

    Each takes as many threads as it would alone, so no byte is another.

    Raises:
        UserError: If one of them fails.
    """
    waiting, running = deque(range(seeds)), dict[int, "subprocess.Popen[bytes]"]()
    common = {**os.environ, GROUP: group_name(), "OMP_NUM_THREADS": str(threads)}
    try:
        while waiting or running:
            for slot in range(jobs):
                if slot in running and running[slot].poll() is not None:
                    _check_end(running.pop(slot))
                if slot not in running and waiting:
                    number = waiting.popleft()
                    arguments = [str(number), str(os.getpid()), key]
                    bar = {"TQDM_DISABLE": "1"} if number else {}
                    running[slot] = subprocess.Popen(
                        [sys.executable, "-m", "pipeline.train", *arguments],
                        env={**common, **bar, **variable_of_gpu(slot)},
                    )
            time.sleep(POLL_S)
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait()


def _check_end(process: "subprocess.Popen[bytes]") -> None:
    if process.returncode:
        raise UserError(
            f"the training of a seed ended with exit code {process.returncode}; its message is "
            "above. The same command goes on where all of them stopped"
        )


@contextmanager
def run_of_seed(start_run: Callable[..., Run], key: str, one: RunOptions) -> Iterator[Run]:
    """Give the run of one of several seeds, below that of the whole training."""
    name = describe(one)
    with start_run(name=name, parent=key, key=f"{key} {name}") as below:
        below.log_params(asdict(one))  # compared with others, it says what it trained with
        yield below


if __name__ == "__main__":
    run(main)
