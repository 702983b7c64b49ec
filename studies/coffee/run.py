"""Compose orders of real takes and train every family on them.

Usage: python -m studies.coffee.run [PARAMS]
"""

import json
import logging
import sys
from pathlib import Path
from typing import Any

from pipeline.stage import run
from signloom.config import load_section
from signloom.features.targets import TokenizeOptions
from signloom.files import write_file
from signloom.paths import PARAMS
from signloom.training.train import from_scratch, read_run_options
from studies.coffee.study import CoffeeOptions, build_corpus, train_families
from studies.runs import write_tokens
from studies.sentences import read_scoring

STUDY = Path("studies/coffee/params.yaml")
OUT = Path("reports/studies/coffee")


def main() -> None:
    """Compose, train, score; write what is known after each training."""
    study = Path(sys.argv[1]) if len(sys.argv) > 1 else STUDY
    options = load_section(study, "study", CoffeeOptions)
    scoring = read_scoring()
    tokens = OUT / "tokens"
    clips = build_corpus(options)
    write_tokens(tokens, clips, load_section(study, "tokenize_targets", TokenizeOptions))
    logging.info("%d orders in %s", len(clips), options.corpus)
    results: list[dict[str, Any]] = []
    for result in train_families(options, from_scratch(read_run_options(PARAMS)), scoring, tokens):
        results.append(result)
        write_file(OUT / "results.json", json.dumps(results, ensure_ascii=False, indent=1) + "\n")
        scores = [result[split][name] for split in ("dev", "test") for name in ("bleu4", "wer")]
        text = "%s, seed %d: dev BLEU-4 %.1f, WER %.1f; test %.1f, %.1f"
        logging.info(text, result["family"], result["seed"], *scores)


if __name__ == "__main__":
    run(main)
