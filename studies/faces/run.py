"""Film faces that ask and deny, train with and without them. DVC stage `faces` of that study."""

import dataclasses
import logging
from pathlib import Path

from pipeline.stage import run
from signloom.config import load_section
from signloom.extraction.extract import ExtractOptions
from signloom.features.targets import TokenizeOptions
from signloom.paths import PARAMS
from signloom.training.run import from_scratch, read_run_options
from signloom_tools.evaluate.study_page import render_study
from studies.faces.page import build_page
from studies.faces.study import FacesOptions, plan_films, train_each
from studies.films import CORPUS, LANDMARKS, measure_following, prepare
from studies.results import write_results
from studies.sentences import read_scoring

STUDY = Path("studies/faces/params.yaml")
OUT = Path("reports/studies/faces")


def main() -> None:
    """Film, extract, train, score, write results and page."""
    study = load_section(STUDY, "study", FacesOptions)
    every = tuple(dict.fromkeys(group for groups in study.groups.values() for group in groups))
    extracting = dataclasses.replace(load_section(PARAMS, "extract", ExtractOptions), groups=every)
    films = plan_films(study)
    prepare(OUT, films, extracting, load_section(PARAMS, "tokenize_targets", TokenizeOptions))
    following = measure_following(films, OUT / LANDMARKS / "shards")
    logging.info("%d films in %s, followed: %s", len(films), OUT / CORPUS, following)
    base = from_scratch(read_run_options(PARAMS))
    trained = list(train_each(OUT, study, base, read_scoring(one_search=True)))
    page = build_page(films, OUT / CORPUS, following, trained)
    results = {"format_version": 1, "following": following, "trained": trained}
    write_results(OUT, results, render_study(page))


if __name__ == "__main__":
    run(main)
