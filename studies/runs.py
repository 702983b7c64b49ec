"""What studies share: options, jobs in processes of their own, trainings, results."""

import dataclasses
import json
import logging
import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Protocol, TypeVar

from signloom.checkpoint import Checkpoint
from signloom.config import load_params, parse_options
from signloom.corpus.manifest import Clip
from signloom.features.targets import TokenizeOptions, build_targets, write_labels, write_targets
from signloom.files import write_file
from signloom.models.seq2seq import ModelOptions
from signloom.training.data import TrainingData
from signloom.training.loop import EpochRecord, Fit
from signloom.training.options import TrainOptions
from signloom.training.train import RunOptions, train

LogEpoch = Callable[[EpochRecord], None]
T = TypeVar("T", ModelOptions, TrainOptions)
S = TypeVar("S")


def change_options(options: T, changes: Mapping[str, Any], where: str) -> T:
    """Return options with some of them changed, checked as if they stood in a file.

    Raises:
        UserError: If a change names no option or its value is refused.
    """
    values = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
    return parse_options({**values, **changes}, type(options), where=where)


def load_study(params: Path, kind: type[S], *, over: str = "") -> S:
    """Read the section `study` of a study's parameters.

    Args:
        params: Its params.yaml.
        kind: Made by `checked_dataclass`.
        over: A section to put over it, such as `long`, whose settings take hours; empty: none.

    Raises:
        UserError: If something is missing or refused.
    """
    values = load_params(params)
    study = {**values["study"], **(values[over] if over else {})}
    return parse_options(study, kind, where=f"{params}: study")


class Job(Protocol):
    """Something to train or measure; it can be pickled."""

    def run(self) -> dict[str, Any]:
        """Return what was found, as plain values."""


def run_jobs(
    jobs: Sequence[Job], workers: int, log: Callable[[dict[str, Any]], None]
) -> Iterator[dict[str, Any]]:
    """Run each job in a process of its own, whose memory and time are the job's alone."""
    with ProcessPoolExecutor(
        workers, mp_context=multiprocessing.get_context("spawn"), max_tasks_per_child=1
    ) as pool:
        for result in pool.map(_run, jobs):
            log(result)
            yield result


def _run(job: Job) -> dict[str, Any]:
    return job.run()


def train_first_seed(
    data: TrainingData, options: RunOptions, log: LogEpoch = lambda record: None
) -> tuple[Checkpoint, Fit]:
    """Train with the first seed, and keep no snapshots.

    Args:
        data: The corpus.
        options: What to train and how.
        log: Called after every epoch.

    Returns:
        The checkpoint of the best epoch, and how training went.
    """
    return train(data, options, provenance={}, log=log)


def write_tokens(folder: Path, clips: Sequence[Clip], options: TokenizeOptions) -> None:
    """Write what the stage `tokenize_targets` writes."""
    tokenizer, labels, targets = build_targets(clips, options)
    write_targets(folder / "targets.parquet", targets)
    write_labels(folder / "labels.json", labels)
    tokenizer.save(folder / "tokenizer.json")


def write_results(out: Path, results: Mapping[str, Any], page: str) -> None:
    """Write the results and the page of a study.

    Args:
        out: Folder; made if need be.
        results: Plain values.
        page: HTML.
    """
    write_file(out / "results.json", json.dumps(results, ensure_ascii=False, indent=1) + "\n")
    write_file(out / "index.html", page)
    logging.info("open %s", out / "index.html")
