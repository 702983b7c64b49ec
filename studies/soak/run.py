"""Run twelve weeks of deliveries and retraining.

Usage: python -m studies.soak.run [PARAMS [OUT]]
"""

import logging
import sys
from pathlib import Path

from pipeline.stage import run
from signloom.config import load_section
from signloom.files import write_file
from studies.results import write_results
from studies.soak.options import SoakOptions
from studies.soak.study import run_soak

STUDY = Path("studies/soak/params.yaml")
OUT = Path("reports/studies/soak")


def main() -> None:
    """Run what is left of the weeks; write results and page."""
    # They load matplotlib, and each process that draws or extracts imports this file.
    from signloom_tools.evaluate.study_page import render_study
    from studies.soak.page import build_page, draw_weeks

    given = [Path(name) for name in sys.argv[1:]]
    params, out = (*given, *(STUDY, OUT)[len(given) :])
    weeks = []
    for found in run_soak(load_section(params, "study", SoakOptions)):
        weeks.append(found)
        text = "week %d (%.0f s): exit code %d, %s"
        logging.info(text, found["week"], found["seconds"], found["exit_code"], found["verdict"])
    results = {"format_version": 1, "weeks": weeks}
    write_file(out / "weeks.svg", draw_weeks(weeks))
    write_results(out, results, render_study(build_page(weeks)))


if __name__ == "__main__":
    run(main)
