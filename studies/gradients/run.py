"""Measure gradients by layer and depth. `python -m studies.gradients.run`."""

import logging
from pathlib import Path

from pipeline.stage import run
from signloom.config import checked_dataclass, load_section
from signloom.models.seq2seq import ModelOptions
from studies.gradients.page import build_page
from studies.gradients.study import (
    GradientOptions,
    measure_flows,
    summarise_flows,
    train_deep,
    train_stacks,
)
from studies.reversal.lab import read_lab
from studies.runs import write_results
from studies.study_page import render_study

PARAMS = Path("studies/gradients/params.yaml")
OUT = Path("reports/studies/gradients")


@checked_dataclass
class GradientStudyOptions:
    """The section `study`."""

    flow: GradientOptions
    trained_depths: list[int]
    deep_depths: list[int]
    seeds: list[int]  # of each training
    reversal: list[str]


def main() -> None:
    """Measure, train, write results and page."""
    options = load_section(PARAMS, "study", GradientStudyOptions)
    model = load_section(PARAMS, "model", ModelOptions)
    flows = []
    for flow in measure_flows(model, options.flow):
        kind = f"{flow.initialization}, {flow.depth} layers, {flow.norm}, {flow.wiring}"
        logging.info("%s: %.3g %%", kind, flow.share)
        flows.append(flow)
    lab, trained, deep = read_lab(options.reversal), [], []
    for result in train_stacks(lab, options.trained_depths, options.seeds):
        logging.info("%s", result)
        trained.append(result)
    for result in train_deep(lab, options.deep_depths, options.seeds):
        logging.info("%s", result)
        deep.append(result)
    results = {
        "format_version": 2,
        "flows": summarise_flows(flows),
        "trained": trained,
        "deep": deep,
    }
    write_results(OUT, results, render_study(build_page(results)))


if __name__ == "__main__":
    run(main)
