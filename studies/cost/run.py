"""Measure time and memory of a step by length: `python -m studies.cost.run [--device cuda]`."""

import argparse
import logging
from pathlib import Path

import torch

from pipeline.stage import run
from signloom.config import load_section
from signloom.models.seq2seq import ModelOptions
from studies.cost.page import build_page
from studies.cost.study import CostOptions, plan_jobs
from studies.runs import load_study, run_jobs, write_results
from studies.study_page import render_study

PARAMS = Path("studies/cost/params.yaml")
OUT = Path("reports/studies/cost")


def main() -> None:
    """Measure each model at each length in a process of its own, write results and page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--long", action="store_true", help="document 000's sizes, 8 clips")
    parser.add_argument("--threads", type=int, default=1, help="of a CPU; more: time by the clock")
    arguments = parser.parse_args()
    options = load_study(PARAMS, CostOptions, over="long" if arguments.long else "")
    threads = max(1, arguments.threads)
    base = load_section(PARAMS, "model", ModelOptions)
    jobs = plan_jobs(options, base, arguments.device, threads)
    steps = list(run_jobs(jobs, 1, lambda step: logging.info("%s", step)))
    is_gpu = arguments.device == "cuda"
    results = {
        "format_version": 1,
        "device": torch.cuda.get_device_name() if is_gpu else f"a CPU, threads: {threads}",
        "clips": options.clips,
        "steps": steps,
    }
    write_results(OUT, results, render_study(build_page(results)))


if __name__ == "__main__":
    run(main)
