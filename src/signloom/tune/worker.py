"""Processes that work on one search.

A worker finds the search in the database by its parameters, data and code, so it needs nothing but
the project's folder.
"""

import json
import logging
import os
import sys
from pathlib import Path
from subprocess import Popen

import torch

from signloom.config import load_section
from signloom.errors import UserError
from signloom.log import open_log
from signloom.portable import is_portable
from signloom.processes import check_parent, each_end, ending, start_module
from signloom.system import usable_cores
from signloom.tracking.run import read_tracking
from signloom.training.data import TrainingFiles
from signloom.training.train import from_scratch, read_run_options
from signloom.tune.search import Progress, Search, SearchPlan, open_search, plan_search
from signloom.tune.space import TuneOptions

MAX_DEATHS = 5  # of workers in a row, without a trial finished in between
logger = logging.getLogger(__name__)


def read_search(params: Path, files: TrainingFiles) -> SearchPlan:
    """Read the parameters and the data of a search.

    Raises:
        UserError: If a file is missing or wrong.
    """
    options = from_scratch(read_run_options(params))
    return plan_search(
        files.load(cache_mb=options.train.cache_mb, source=options.model.source),
        options,
        load_section(params, "tune", TuneOptions),
        read_tracking(params),
        hashes=files.hashes(),
    )


def join(params: Path, files: TrainingFiles) -> None:
    """Work on a search that was started elsewhere until none of its trials is missing.

    Raises:
        UserError: If the database has no search of these parameters, data and code.
    """
    check_parent()  # now, so that a later process with the same number is not taken for it
    search = open_search(read_search(params, files), may_create=False)
    search.work(check=check_parent)
    search.close()


def work_together(
    search: Search,
    params: Path,
    files: TrainingFiles,
    progress: Progress,
    *,
    workers: int,
    threads: int | None = None,
) -> None:
    """Run what is missing of the search in several processes, and start one again that dies.

    Args:
        search: Already opened.
        progress: Called now and then with the finished trials and the epochs so far.
        threads: Of each worker; None: as many as its share of the cores.

    Raises:
        UserError: If they die one after another without finishing a trial.
    """
    running: dict[int, Popen[bytes]] = {}

    def start(number: int) -> None:
        cores = cores_of(number, workers)
        arguments = [json.dumps(cores), str(params), str(files.shards), str(files.tokens)]
        per_trial = 1 if is_portable() else threads or len(cores)
        running[number] = start_module(__name__, arguments, slot=number, threads=per_trial)

    deaths, before = 0, search.done()
    with ending(running):
        for number in range(workers):
            start(number)
        for number, code in each_end(running, lambda: progress(*search.done())):
            if code == 0:
                continue
            now = search.done()
            deaths, before = (deaths + 1 if now == before else 1), now
            if deaths > MAX_DEATHS:
                raise UserError(
                    f"{deaths} workers of the search died in a row, the last with exit code "
                    f"{code}; its message is above. Remove the cause, then `dvc repro` goes on "
                    "with the same search"
                )
            logger.warning("worker %d died (%d) and is replaced", number, code)
            start(number)


def cores_of(worker: int, workers: int) -> list[int]:
    """Return the cores of one of several workers: disjoint while there are enough."""
    cores = usable_cores()
    return cores[worker::workers] or [cores[worker % len(cores)]]


def _main() -> None:
    open_log("tune", level=logging.WARNING)
    cores, params, shards, tokens = sys.argv[1:]
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, json.loads(cores))
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    try:
        join(Path(params), TrainingFiles(shards=Path(shards), tokens=Path(tokens)))
    except UserError as error:
        sys.exit(f"\nerror: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    _main()
