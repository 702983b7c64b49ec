"""Show the results of every stage on one page. DVC stage `report`."""

import json
import logging
from datetime import date

from pipeline.stage import run
from signloom.config import load_section
from signloom.files import write_file
from signloom.paths import (
    CHECKPOINT,
    EVALUATION,
    LANDMARKS,
    METRICS,
    PARAMS,
    REPORTS,
    SCORES_NAME,
    TARGETS,
    TUNE,
)
from signloom.provenance import git_state
from signloom.report.build import ReportOptions, build_report
from signloom.report.scores import describe_scores
from signloom.report.stage_files import ReportPaths, read_metrics, read_scores
from signloom.tracking.run import TrackingOptions, last_address


def main() -> None:
    """Build the page and its figures."""
    options = load_section(PARAMS, "report", ReportOptions)
    paths = ReportPaths(
        evaluation=EVALUATION,
        tune=TUNE,
        landmarks=LANDMARKS,
        targets=TARGETS,
        checkpoint=CHECKPOINT,
    )
    weights = build_report(paths, REPORTS, options)
    origin = {"date": date.today().isoformat(), "commit": git_state()["git_commit"][:12]}
    is_tracked = load_section(PARAMS, "tracking", TrackingOptions).enabled
    origin |= {"MLflow": address} if is_tracked and (address := last_address()) else {}
    origin["weights"] = weights  # by which the page knows that this is about it
    write_file(REPORTS / "made.js", f"window.made = {json.dumps(origin)};\n")
    scores, metrics = read_scores(EVALUATION / SCORES_NAME), read_metrics(METRICS)
    for text in describe_scores(scores, metrics, METRICS):
        logging.info("%s", text)


if __name__ == "__main__":
    run(main)
