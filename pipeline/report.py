"""Show the results of every stage on one page. DVC stage `report`."""

import logging
from functools import partial

from pipeline.stage import run
from signloom.config import load_section
from signloom.paths import (
    BASELINE,
    CHECKPOINT,
    EVALUATION,
    LANDMARKS,
    LAST_NIGHT,
    PARAMS,
    REPORT_PAGE,
    REPORTS,
    TARGETS,
    TUNE,
)
from signloom.report.build import ReportOptions, build_report
from signloom.report.stage_files import ReportPaths
from signloom_ops.nightly.page import night_section


def main() -> None:
    """Build the page and its figures."""
    options = load_section(PARAMS, "report", ReportOptions)
    paths = ReportPaths(
        evaluation=EVALUATION,
        baseline=BASELINE,
        tune=TUNE,
        landmarks=LANDMARKS,
        targets=TARGETS,
        checkpoint=CHECKPOINT,
    )
    build_report(paths, REPORTS, options, [partial(night_section, LAST_NIGHT)])
    logging.info("open %s", REPORT_PAGE)


if __name__ == "__main__":
    run(main)
