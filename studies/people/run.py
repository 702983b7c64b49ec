"""Learn single signs of drawn people, and read those of others.

Question: is the recipe of `signloom init` better than logistic regression, by the number of people
in train, and which share of known and of unknown signs is named without a mark?

Usage: python -m studies.people.run [--people 1 2 4 8 16] [--draws 1 2 3]
"""

import argparse
import json
import logging
from pathlib import Path

from pipeline.stage import run
from signloom.config import load_section
from signloom.corpus.manifest import IMPORTED_SHARDS
from signloom.corpus.shards import read_shards
from signloom.files import write_file
from studies.coffee.signs import measure_marks
from studies.people.study import PeopleOptions, draw_corpus
from studies.recipe import learn_signs

STUDY = Path("studies/people/params.yaml")
OUT = Path("reports/studies/people")


def measure(options: PeopleOptions, people: int, draw: int) -> dict[str, float]:
    """Return what is right of test by system, what has no mark, %, and CPU-s of training."""
    taught, unknown, folder = draw_corpus(options, people, draw)
    learnt = learn_signs(folder, [clip for clip in taught if clip.split != "test"])
    sequences = read_shards(folder / IMPORTED_SHARDS, [c.clip_id for c in (*taught, *unknown)])
    test = [clip for clip in taught if clip.split == "test"]
    clips, signs = [sequences[clip.clip_id] for clip in test], [clip.text for clip in test]
    others = [sequences[clip.clip_id] for clip in unknown if clip.split == "test"]
    scores = {
        **learnt.score_parts(clips, signs),
        **measure_marks(learnt.translator, clips, signs, others),
        "train_s": learnt.train_s,
    }
    return {name: round(score, 1) for name, score in scores.items()}


def main() -> None:
    """Train for each number of people and draw; write what is known after each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--people", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--draws", type=int, nargs="+", default=[1, 2, 3])
    arguments = parser.parse_args()
    options, results = load_section(STUDY, "study", PeopleOptions), {}
    for people in arguments.people:
        for draw in arguments.draws:
            results[f"{people}, {draw}"] = measure(options, people, draw)
            logging.info("%d people, draw %d: %s", people, draw, results[f"{people}, {draw}"])
            write_file(OUT / "results.json", json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    run(main)
