"""Fail if the smoke model has not learnt its training clips by heart, or left no MLflow run."""

import logging
import sqlite3
import sys
from pathlib import Path

from pipeline.stage import CHECKPOINT, SHARDS, TARGETS, run
from signloom.corpus.shards import read_shards
from signloom.corpus.targets import read_targets
from signloom.decoding import DecodingOptions
from signloom.translator import Translator

LEAST_EXACT = 0.75  # share of train clips translated word for word; a blind model gets one or two


def main() -> None:
    """Translate the training clips with the checkpoint and count the exact sentences."""
    targets = [target for target in read_targets(TARGETS) if target.split == "train"]
    sequences = read_shards(SHARDS)
    translations = Translator.load(CHECKPOINT).translate(
        [sequences[target.clip_id] for target in targets],
        DecodingOptions(beam_size=1, length_penalty=1.0, max_tokens=32),
    )
    exact = 0
    for target, translation in zip(targets, translations, strict=True):
        exact += target.text == translation.text
        logging.info("%s | %s | %s", target.clip_id, target.text, translation.text)
    if exact < LEAST_EXACT * len(targets):
        sys.exit(f"smoke: {exact} of {len(targets)} train sentences, expected {LEAST_EXACT:.0%}")
    with sqlite3.connect(Path("mlflow.db")) as database:
        (runs,) = database.execute("SELECT count(*) FROM runs WHERE status = 'FINISHED'").fetchone()
    # train, evaluate, the search and its two trials
    if runs != 5:
        sys.exit(f"smoke: {runs} finished MLflow runs, expected 5")
    logging.info("smoke: %d of %d train sentences by heart, %d runs", exact, len(targets), runs)


if __name__ == "__main__":
    run(main)
