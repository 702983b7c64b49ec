"""Score what the stages trained on glosses in both ways; `run.sh` beside it runs them before."""

import json
import logging

from pipeline.stage import run
from signloom.features.targets import read_targets
from signloom.files import write_file
from signloom.paths import CHECKPOINT, REPORTS, SHARDS, TARGETS
from studies.gloss_to_text.study import score_seeds

OUT = REPORTS / "studies/gloss_to_text/results.json"


def main() -> None:
    """Translate with every seed's model, score, write."""
    results = score_seeds(CHECKPOINT, REPORTS / "evaluation", read_targets(TARGETS), SHARDS)
    write_file(OUT, json.dumps(results, ensure_ascii=False, indent=1) + "\n")
    for tokenizer, splits in results["scores"].items():
        for split, scores in splits.items():
            bleu, floors = scores["bleu4"], scores["floors_bleu4"]
            text = "%s, %s: BLEU-4 %.2f (seeds: %s), floors %s"
            logging.info(text, split, tokenizer, bleu["mean"], bleu["each"], floors)


if __name__ == "__main__":
    run(main)
