"""Draw encodings and masks, train on short sequences. `python -m studies.positions.run`."""

import logging
from pathlib import Path
from typing import Any

from pipeline.stage import run
from signloom.config import checked_dataclass, load_section
from studies.positions.page import build_page
from studies.positions.study import measure_sight, train_positions
from studies.reversal.lab import read_lab
from studies.runs import change_options, write_results
from studies.study_page import render_study

PARAMS = Path("studies/positions/params.yaml")
OUT = Path("reports/studies/positions")
SMALL = {"source": "landmarks", "d_model": 16, "heads": 2, "d_ff": 16}


@checked_dataclass
class PositionStudyOptions:
    """The section `study`."""

    positions: list[str]
    seeds: list[int]
    longest: int
    reversal: list[str]
    frames: int
    padded_to: int
    tokens: int
    sights: dict[str, dict[str, Any]]


def main() -> None:
    """Measure, train, write results and page."""
    options = load_section(PARAMS, "study", PositionStudyOptions)
    lab = read_lab(options.reversal)
    sights = {
        name: measure_sight(
            change_options(lab.model, {**SMALL, **changes}, f"study.sights.{name}"),
            frames=options.frames,
            padded_to=options.padded_to,
            tokens=options.tokens,
        )
        for name, changes in options.sights.items()
    }
    trained = []
    for result in train_positions(lab, options.positions, options.seeds, options.longest):
        logging.info("%s", result)
        trained.append(result)
    results = {"format_version": 1, "trained_to": lab.task.max_length, "trained": trained}
    page = build_page(sights, trained, trained_to=lab.task.max_length)
    write_results(OUT, results, render_study(page))


if __name__ == "__main__":
    run(main)
