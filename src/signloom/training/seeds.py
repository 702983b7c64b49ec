"""The seeds of a run, trained one after the other or some at a time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from subprocess import Popen
from typing import Any

from lightning_fabric import Fabric

from signloom.devices import restart_portable
from signloom.errors import UserError
from signloom.processes import check_parent, each_end, ending, start_module
from signloom.provenance import library_versions
from signloom.training.data import TRAINED, TrainingData, TrainingFiles
from signloom.training.parallel import count_jobs, open_devices, set_threads
from signloom.training.snapshots import Snapshots, hold_snapshots, open_snapshots
from signloom.training.train import (
    RunOptions,
    TrainingResult,
    check_run,
    count_parameters,
    deciding_options,
    each_seed,
    train_seed,
)
from signloom.training.warm_start import describe_start


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainingRun:
    """A training run: one training for each seed."""

    data: TrainingData  # the corpus
    options: RunOptions  # of the run; `check_run` has passed them
    provenance: dict[str, Any]  # data, libraries and starting weights, as in a checkpoint
    threads: int  # with which a CPU trains each
    fabric: Fabric  # the devices
    folder: Path  # of the snapshots of all runs

    @cached_property
    def each(self) -> list[RunOptions]:
        """The options of one training for each seed."""
        return each_seed(self.options)

    @cached_property
    def snapshots(self) -> list[Snapshots]:
        """The snapshots of each training."""
        return [
            open_snapshots(self.folder, deciding_options(seed_options), self.provenance)
            for seed_options in self.each
        ]

    def key(self) -> str:
        """Return a name for the run that it keeps when it goes on in another process."""
        return f"{self.snapshots[0].run_key()}-{len(self.each)}"

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep other trainings away; see `hold_snapshots`."""
        with hold_snapshots(self.folder, self.snapshots):
            yield

    def train(self, number: int, log: Callable[..., None] | None = None) -> TrainingResult:
        """Train with one seed, or read what came out where it was trained; see `train_seed`.

        A process of `train_apart` ends after an epoch where the one that waits for it is gone.
        """
        check_parent()  # now, so that a later process with the same number is not taken for it

        def log_epoch(metrics: dict[str, Any], step: int = 0) -> None:
            check_parent()
            if log is not None:
                log(metrics, step=step)

        seed_options, seed_snapshots = self.each[number], self.snapshots[number]
        return train_seed(
            self.data, seed_options, self.provenance, self.fabric, seed_snapshots, log_epoch
        )

    def train_apart(self, module: str, key: str) -> None:
        """Train some seeds at a time where cores or GPUs are left, each in a process.

        Their last snapshots have what came out. Each takes as many threads as it would alone, so no
        byte is another.

        Args:
            module: Is run with the number of the seed and the key.

        Raises:
            UserError: If one of them fails.
        """
        jobs = count_jobs(len(self.each), self.threads, self.fabric)
        if jobs < 2:
            return
        waiting, running = list(range(len(self.each))), dict[int, "Popen[bytes]"]()

        def start(slot: int) -> None:
            number = waiting.pop(0)
            running[slot] = start_module(
                module, [str(number), key], slot=slot, threads=self.threads, is_quiet=number > 0
            )

        with ending(running):
            for slot in range(jobs):
                start(slot)
            for slot, code in each_end(running):
                if code:
                    raise UserError(
                        f"the training of a seed ended with exit code {code}; its message is "
                        "above. The same command goes on where all of them stopped"
                    )
                if waiting:
                    start(slot)

    def remove_snapshots(self) -> None:
        """Remove the snapshots: what they were kept for is done."""
        for seed_snapshots in self.snapshots:
            seed_snapshots.remove()


def open_run(files: TrainingFiles, options: RunOptions, folder: Path) -> TrainingRun:
    """Read the corpus and open the devices; refuse what cannot be trained.

    Raises:
        UserError: If anything is missing or does not fit.
    """
    if options.train.portable:
        restart_portable()
    # Glosses are read, and without a decoder the sentences of dev are spelt.
    is_lean = options.model.source != "glosses" and options.model.decoder_layers > 0
    data = files.load(
        cache_mb=options.train.cache_mb,
        source=options.model.source,
        columns=TRAINED if is_lean else None,
    )
    check_run(data, options)
    threads = set_threads(count_parameters(data, options))
    fabric = open_devices(options.train)
    start = describe_start(options.train.start_from, options.model.text_model)
    return TrainingRun(
        data=data,
        options=options,
        provenance={"data": files.hashes(), "libraries": library_versions(), **start},
        threads=threads,
        fabric=fabric,
        folder=folder,
    )
