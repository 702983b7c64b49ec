"""Train a Transformer with one part changed at a time. DVC stage `components`."""

import argparse
import logging
from pathlib import Path

from pipeline.stage import run
from pipeline.studies.components.page import build_page
from pipeline.studies.components.study import ComponentsOptions, train_components
from pipeline.studies.options import load_study
from pipeline.studies.results import write_results
from signloom.report.study import render_study

PARAMS = Path("pipeline/studies/components/params.yaml")
OUT = Path("reports/studies/components")


def main() -> None:
    """Train, write results and page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true", help="more of everything; an hour")
    options = load_study(PARAMS, ComponentsOptions, is_long=parser.parse_args().long)
    trained = []
    for found in train_components(options):
        logging.info("%s", found)
        trained.append(found)
    results = {"format_version": 1, "trained": trained}
    write_results(OUT, results, render_study(build_page(results)))


if __name__ == "__main__":
    run(main)
