"""Train with and without attention on sources of many lengths. `python -m studies.bottleneck.run`.

With `--tables FOLDER`, which holds phoenix14t.{train,dev,test}.tsv, glosses are translated, too.
"""

import argparse
import logging
from pathlib import Path

from pipeline.stage import run
from signloom.training.train import read_run_options
from studies.bottleneck.page import build_page
from studies.bottleneck.study import BottleneckOptions, train_reversal
from studies.bottleneck.text import read_text, train_text
from studies.runs import load_study, write_results
from studies.study_page import render_study

FOLDER = Path("studies")
OUT = Path("reports/studies/bottleneck")


def main() -> None:
    """Train, measure, write results and page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=Path, help="folder of glosses and sentences")
    parser.add_argument("--long", action="store_true", help="longer sequences; hours")
    arguments = parser.parse_args()
    over = "long" if arguments.long else ""
    options = load_study(FOLDER / "bottleneck/params.yaml", BottleneckOptions, over=over)
    reversal, text = [], []
    for result in train_reversal(options):
        logging.info("%s, seed %d: %s", result["variant"], result["seed"], result["exact"])
        reversal.append(result)
    if arguments.tables:
        base = read_run_options(FOLDER / "gloss_to_text/params.yaml")
        for result in train_text(options, base, read_text(arguments.tables)):
            logging.info("%s, seed %d: %s", result["variant"], result["seed"], result["scores"])
            text.append(result)
    results = {"format_version": 1, "lengths": options.lengths, "reversal": reversal}
    page = render_study(build_page({**results, "text": text}))
    # The sentences belong to those who published them: numbers alone are kept.
    numbers = [{name: row[name] for name in row if name != "sentences"} for row in text]
    write_results(OUT, {**results, "text": numbers}, page)


if __name__ == "__main__":
    run(main)
