"""Train a Transformer with one part changed at a time. `python -m studies.components.run`."""

import argparse
import logging
from pathlib import Path

from pipeline.stage import run
from studies.components.page import build_page
from studies.components.study import ComponentsOptions, train_components
from studies.runs import load_study, write_results
from studies.study_page import render_study

PARAMS = Path("studies/components/params.yaml")
OUT = Path("reports/studies/components")
SECTIONS = ("long", "deep", "dropout", "rates", "sizes")  # of its parameters


def main() -> None:
    """Train, write results and page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--section", choices=SECTIONS, default="", help="of params.yaml")
    section = parser.parse_args().section
    options = load_study(PARAMS, ComponentsOptions, over=section)
    trained = []
    for result in train_components(options):
        logging.info("%s", result)
        trained.append(result)
    results = {"format_version": 1, "trained": trained}
    # Beside the stage's own folder, which `dvc repro` empties.
    out = OUT.with_name(f"{OUT.name}_{section}") if section else OUT
    write_results(out, results, render_study(build_page(results)))


if __name__ == "__main__":
    run(main)
