"""Train every architecture alike. `python -m studies.architectures.run`."""

import logging
from pathlib import Path
from typing import Any

from pipeline.stage import run
from signloom.config import load_section
from signloom.paths import PARAMS
from signloom.training.data import TrainingFiles
from signloom.training.train import from_scratch, read_run_options
from studies.architectures.page import build_page
from studies.architectures.study import ArchitecturesOptions, plan_corpus
from studies.runs import run_jobs, write_results
from studies.sentences import read_scoring
from studies.study_page import render_study

STUDY = Path("studies/architectures/params.yaml")
OUT = Path("reports/studies/architectures")


def main() -> None:
    """Train, test, write results and page."""
    options = load_section(STUDY, "study", ArchitecturesOptions)
    evaluate = read_scoring()
    corpus = plan_corpus(options, from_scratch(read_run_options(PARAMS)), evaluate, TrainingFiles())

    def log(result: dict[str, Any]) -> None:
        score = result["scores"]["test"]["bleu4"]
        logging.info("%s, seed %d: %s", result["variant"], result["seed"], score)

    results = {"format_version": 2, "corpus": list(run_jobs(corpus, options.workers, log))}
    write_results(OUT, results, render_study(build_page(results, evaluate.score)))


if __name__ == "__main__":
    run(main)
