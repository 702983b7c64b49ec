"""Train with few sentences by several means. `python -m studies.little.run`.

Usage: python -m studies.little.run [PARAMS]
"""

import dataclasses
import logging
import sys
from pathlib import Path
from typing import Any

from pipeline.stage import run
from signloom.config import load_section
from signloom.features.targets import TokenizeOptions
from studies.charts import spread
from studies.coffee.run import STUDY as COFFEE
from studies.coffee.study import CoffeeOptions
from studies.little.study import LittleOptions, train_each
from studies.runs import write_results
from studies.sentences import read_scoring
from studies.study_page import Section, StudyPage, StudyTable, render_study

STUDY = Path("studies/little/params.yaml")
OUT = Path("reports/studies/little")
WORK = Path("data/raw/little")  # orders, tokens and pretrained encoders
COMMAND = "python -m studies.little.run"


def main() -> None:
    """Train, and write what is known after each training."""
    study = Path(sys.argv[1]) if len(sys.argv) > 1 else STUDY
    options = load_section(study, "study", LittleOptions)
    trained: list[dict[str, Any]] = []
    if not options.words.is_file():
        logging.warning(
            "%s is not there (docs/results.md says where to get it): nothing is measured",
            options.words,
        )
        write_all(trained)
        return
    coffee = dataclasses.replace(
        load_section(COFFEE, "study", CoffeeOptions),
        words=options.words,
        corpus=WORK / "orders",
        orders=options.orders,
    )
    tokenize = load_section(study, "tokenize_targets", TokenizeOptions)
    scoring = read_scoring(one_search=True)
    for result in train_each(options, coffee, tokenize, scoring, WORK):
        logging.info("%s", result)
        trained.append(result)
        write_all(trained)


def write_all(trained: list[dict[str, Any]]) -> None:
    """Write results and page."""
    write_results(OUT, {"format_version": 1, "trained": trained}, render_study(build_page(trained)))


def build_page(trained: list[dict[str, Any]]) -> StudyPage:
    """Say what was measured; every number comes from the results."""
    shares = list(dict.fromkeys(row["share"] for row in trained))
    wers: dict[str, dict[float, list[float]]] = {}
    for row in trained:
        wers.setdefault(row["means"], {}).setdefault(row["share"], []).append(row["wer"])
        name = f"{row['means']}, held against its signs"
        wers.setdefault(name, {}).setdefault(row["share"], []).append(row["held"]["wer"])
    rows = [
        [name, *(spread(of[share]) if share in of else "" for share in shares)]
        for name, of in wers.items()
    ]
    table = StudyTable(
        caption="WER on test, %; mean and standard deviation of the seeds",
        header=["train orders with a sentence", *(f"{share:.0%}" for share in shares)],
        rows=rows,
    )
    return StudyPage(
        title="Few sentences",
        lead=[
            "Where only some clips have a sentence: what are recombined clips worth?",
            "" if trained else "The takes are not there, so nothing was measured.",
        ],
        sections=[Section(title="Orders in a coffee shop", text=[], parts=[table])],
        command=COMMAND,
    )


if __name__ == "__main__":
    run(main)
