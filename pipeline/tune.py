"""Search for better parameters. DVC stage `tune`; `signloom adopt` writes the winner."""

import dataclasses
import json

from tqdm import tqdm

from pipeline.stage import run
from signloom.files import write_file
from signloom.paths import PARAMS, TUNE
from signloom.progress import progress_file
from signloom.report.tuning import draw_search
from signloom.tracking.run import Run
from signloom.training.data import TrainingFiles
from signloom.tune.search import open_studies
from signloom.tune.worker import read_search, work_together


def main() -> None:
    """Run the trials that are still missing and write them all."""
    files = TrainingFiles()
    search = read_search(PARAMS, files)
    options, studies = search.options, open_studies(search)
    name = f"search, {len(options.space)} parameters, {search.name.removeprefix('signloom-')}"
    note = (
        f"{options.trials} trials of {options.epochs} epochs, one run each below this one. Figures "
        "and the winner: artifacts, `tune`; `signloom adopt` takes it over."
    )
    with (
        Run.start(
            search.tracking, name, stage="tune", data=search.hashes, key=search.name, note=note
        ) as log,
        tqdm(
            total=options.trials * options.epochs, desc="tune", unit="epoch", file=progress_file()
        ) as bar,
    ):
        log.log_params({"tune": {"space": options.space}, **dataclasses.asdict(search.base)})

        def show(trials: int, epochs: int) -> None:
            is_confirming = trials == options.trials and options.confirm.top > 0
            now = "; training the best again" if is_confirming else ""
            bar.set_postfix_str(f"trials done {trials}/{options.trials}{now}", refresh=False)
            bar.update(epochs - bar.n)

        if options.workers == 1:
            studies.work(show)
        else:
            work_together(studies, PARAMS, files, show)
        result = studies.summary()
        write_file(TUNE / "trials.json", json.dumps(result, indent=1) + "\n")
        write_file(TUNE / "best.json", json.dumps(result["best"], indent=1) + "\n")
        for chart in draw_search(result):
            write_file(TUNE / "figures" / f"{chart.name}.svg", chart.svg)
        trials = len(result["trials"])  # a longer search goes on in the same run
        log.log_metrics({"best": result["best"]["values"], "trials": trials}, step=trials)
        log.log_artifact(TUNE, folder="tune")


if __name__ == "__main__":
    run(main)
