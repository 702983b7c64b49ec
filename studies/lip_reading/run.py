"""Study of lip reading from films of drawn faces: `python -m studies.lip_reading.run`.

Question: does the use of document 003 (lips in, Arabic text out, a Conformer encoder), here with
vowel signs and CTC on characters, work from film to report, for people whom the model has never
seen?
"""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline.stage import run
from signloom.config import load_section
from signloom.evaluation.evaluate import EvaluateOptions
from signloom.evaluation.results import write_evaluation
from signloom.extraction.extract import ExtractOptions
from signloom.features.targets import TokenizeOptions
from signloom.report.build import ReportOptions, build_report
from signloom.report.stage_files import ReportPaths
from signloom.training.loop import EpochRecord
from signloom.training.train import read_run_options
from studies.lip_reading.films import LANDMARKS, TOKENS, learn, prepare
from studies.lip_reading.mouths import LipCorpusOptions, plan_films

STUDY = Path("studies/lip_reading/params.yaml")
OUT = Path("reports/studies/lip_reading")


def run_lip_reading(
    params: Path, folder: Path, log: Callable[[EpochRecord], None]
) -> dict[str, Any]:
    """Draw, extract, tokenise, train, evaluate and report.

    Args:
        params: Sections as in the project's params.yaml, and `study` for the drawn corpus.
        folder: Everything is written there: films, landmarks, tokens, checkpoint, report.
        log: Called after every epoch.

    Returns:
        The scores by split, as in metrics.json.
    """
    prepare(
        folder,
        plan_films(load_section(params, "study", LipCorpusOptions)),
        load_section(params, "extract", ExtractOptions),
        load_section(params, "tokenize_targets", TokenizeOptions),
    )
    paths = ReportPaths(
        evaluation=folder / "evaluation",
        tune=folder / "tune",
        landmarks=folder / LANDMARKS,
        targets=folder / TOKENS / "targets.parquet",
        checkpoint=folder / "checkpoint",
    )
    scoring = load_section(params, "evaluate", EvaluateOptions)
    evaluation = learn(folder, read_run_options(params), scoring, paths.checkpoint, log)
    write_evaluation(folder, evaluation, paths.checkpoint / "history.json")
    build_report(paths, folder, load_section(params, "report", ReportOptions))
    return evaluation.metrics


def main() -> None:
    """Draw the speakers, train, test on others, write the report."""

    def log(record: EpochRecord) -> None:
        if record.epoch % 5 == 0:
            logging.info("epoch %d: dev loss %.3f", record.epoch, record.dev_loss)

    scores = run_lip_reading(STUDY, OUT, log)
    logging.info("%s\nopen %s", json.dumps(scores["test"], indent=1), OUT / "index.html")


if __name__ == "__main__":
    run(main)
