"""Show what every stage found on one page. DVC stage `report`."""

import logging

from pipeline.stage import CHECKPOINT, LANDMARKS, PARAMS, REPORTS, TARGETS, TUNE, run
from signloom.config import load_section
from signloom.report.build import ReportOptions, build_report
from signloom.report.stage_files import ReportPaths


def main() -> None:
    """Build the page and its figures."""
    options = load_section(PARAMS, "report", ReportOptions)
    paths = ReportPaths(
        evaluation=REPORTS / "evaluation",
        baseline=REPORTS / "baseline.json",
        retrain=REPORTS / "retrain.json",
        tune=TUNE,
        landmarks=LANDMARKS,
        targets=TARGETS,
        checkpoint=CHECKPOINT,
    )
    build_report(paths, REPORTS, options)
    logging.info("open %s", REPORTS / "index.html")


if __name__ == "__main__":
    run(main)
