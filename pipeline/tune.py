"""Search for better parameters. DVC stage `tune`; `signloom adopt` writes the winner."""

import dataclasses
import logging
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm

from pipeline.stage import run
from signloom.config import load_section
from signloom.devices import restart_portable
from signloom.files import to_sealed, write_file
from signloom.paths import PARAMS, TUNE
from signloom.progress import progress_file
from signloom.report.tuning import draw_search
from signloom.tracking.run import Run, RunOf
from signloom.training.data import TrainingFiles
from signloom.training.parallel import count_jobs, open_devices, set_threads
from signloom.training.train import count_parameters, read_run_options
from signloom.tune.search import Progress, Search, SearchPlan, open_search
from signloom.tune.space import TuneOptions
from signloom.tune.summary import FORMAT_VERSION
from signloom.tune.worker import read_search, work_together

KEPT = "The finished trials are kept: put back what was changed, and `dvc repro` takes them."
NO_SEARCH = {"format_version": FORMAT_VERSION, "trials": []}  # of `tune.trials: 0`


def main() -> None:
    """Run the trials that are still missing and write them all."""
    if not load_section(PARAMS, "tune", TuneOptions).trials:
        shutil.rmtree(TUNE, ignore_errors=True)  # nothing of an earlier search may remain
        write_file(TUNE / "trials.json", to_sealed(NO_SEARCH))
        logging.info("tune.trials is 0: no search")
        return
    if read_run_options(PARAMS).train.portable:
        restart_portable()
    files = TrainingFiles()
    plan = read_search(PARAMS, files)
    search = open_search(plan)
    with start_run(plan) as log, show_progress(plan.options) as progress:
        log.log_params({"tune": {"space": plan.options.space}, **dataclasses.asdict(plan.base)})
        if (workers := plan.options.workers) > 1:
            work_together(search, PARAMS, files, progress, workers=workers)
        else:
            work_alone(search, files, progress)
        result = search.summary()
        write_search(result)
        trials = len(result["trials"])  # a longer search goes on in the same run
        log.log_metrics({"best": result["best"]["values"], "trials": trials}, step=trials)
        log.log_artifact(TUNE, folder="tune")


def work_alone(search: Search, files: TrainingFiles, progress: Progress) -> None:
    """Run one trial after another, then the confirmation, some at a time where cores are left.

    Each takes as many threads as it would alone, so no byte is another.
    """
    plan = search.plan
    threads = set_threads(count_parameters(plan.data, plan.base))
    search.work(progress, confirms=False)
    jobs = count_jobs(search.unconfirmed(), threads, open_devices(plan.base.train))
    if jobs > 1:
        work_together(search, PARAMS, files, progress, workers=jobs, threads=threads)
    else:
        search.work(progress)


def start_run(plan: SearchPlan) -> Run:
    """Open the run below which each trial has its own."""
    options = plan.options
    name = f"search, {len(options.space)} parameters, {plan.name.removeprefix('signloom-')}"
    note = (
        f"{options.trials} trials of {options.epochs} epochs, one run each below this one. Figures "
        "and the winner: artifacts, `tune`; `signloom adopt` takes it over."
    )
    of = RunOf(stage="tune", name=name, key=plan.name)
    return Run.start(plan.tracking, of, data=plan.hashes, note=note)


@contextmanager
def show_progress(options: TuneOptions) -> Iterator[Progress]:
    """Give what moves the bar: a function of the trials and epochs that are done."""
    total = options.trials * options.epochs
    with tqdm(total=total, desc="tune", unit="epoch", file=progress_file()) as bar:

        def show(trials: int, epochs: int) -> None:
            is_confirming = trials == options.trials and options.confirm.top > 0
            now = "; training the best again" if is_confirming else ""
            bar.set_postfix_str(f"trials done {trials}/{options.trials}{now}", refresh=False)
            bar.update(epochs - bar.n)

        yield show


def write_search(result: Mapping[str, Any]) -> None:
    """Write all trials, the best one and the figures."""
    write_file(TUNE / "trials.json", to_sealed(result))
    write_file(TUNE / "best.json", to_sealed(result["best"]))
    for chart in draw_search(result):
        write_file(TUNE / "figures" / f"{chart.name}.svg", chart.svg)


if __name__ == "__main__":
    run(main, kept=KEPT)
