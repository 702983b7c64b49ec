"""Study of the target vocabulary: does a large one make translations more fluent (document 000)?

The demo's model, trained alike with the ids of DeepSeek that train uses (`pruned`), with all
128,815 (`full`), with whole words of train, and with characters (UTF-8 bytes).

`python -m studies.vocabulary` prints Markdown, in a project whose demo is made.
"""

import argparse
import dataclasses
import logging
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pipeline.stage import run
from signloom.config import load_section
from signloom.corpus.manifest import CorpusOptions, read_manifest
from signloom.features.targets import TokenizeOptions, read_targets
from signloom.features.tokenizer import Tokenizer, normalise_text
from signloom.files import write_file
from signloom.paths import PARAMS
from signloom.training.data import TrainingFiles
from signloom.training.run import from_scratch, read_run_options
from studies.architectures.study import CorpusJob
from studies.charts import spread
from studies.claims import count_disagreement
from studies.gloss_to_text.units import learn_units
from studies.sentences import read_scoring
from studies.trainings import write_tokens

EPOCHS = 60
BYTES, ALL = 256, 100_000  # units of characters and of words
KINDS = ("pruned", "full", "words", "characters")


def train_kind(kind: str, seed: int) -> dict[str, Any]:
    """Train with one vocabulary; return scores of test and what is wrong in its sentences."""
    corpus = load_section(PARAMS, "corpus", CorpusOptions)
    clips = read_manifest(corpus.path, corpus.signer_disjoint)
    train = [normalise_text(clip.text) for clip in clips if clip.split == "train"]
    with TemporaryDirectory() as folder:
        files = TrainingFiles(tokens=Path(folder))
        base = load_section(PARAMS, "tokenize_targets", TokenizeOptions)
        options = dataclasses.replace(base, vocabulary="full" if kind == "full" else "pruned")
        if kind in ("words", "characters"):
            path = Path(folder) / "units.json"
            units = BYTES if kind == "characters" else ALL
            write_file(path, learn_units(train, units, least=1) + "\n")
            options = dataclasses.replace(options, tokenizer=str(path))
        write_tokens(files.tokens, clips, options)
        targets, rows = read_targets(files.targets), Tokenizer.load(files.tokenizer).vocab_size
        recipe = from_scratch(read_run_options(PARAMS))
        changed = dataclasses.replace(recipe.train, seeds=[seed], epochs=EPOCHS, device="cpu")
        job = CorpusJob(
            variant=kind,
            options=dataclasses.replace(recipe, train=changed),
            evaluate=read_scoring(one_search=True),
            files=files,
        )
        found = job.run()
    texts = [said for split, _, said in found["sentences"] if split == "test"]
    known = {word for text in train for word in text.split()}
    judged, wrong = count_disagreement(texts, train)
    return {
        **{name: found["scores"]["test"][name] for name in ("bleu4", "chrf", "wer")},
        "cpu_s": found["cpu_s"],
        "rows": rows,
        "tokens": sum(len(one.ids) - 1 for one in targets) / len(targets),
        "unknown": sum(word not in known for text in texts for word in text.split()),
        "judged": judged,
        "wrong": wrong,
    }


def main() -> None:
    """Train each vocabulary with each seed, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    seeds = parser.parse_args().seeds
    lines = [
        "| vocabulary | rows | tokens a sentence | test BLEU-4 | chrF | WER, % | CPU-s "
        "| words that train lacks | wrong verb forms, of judged |",
        "|---" * 9 + "|",
    ]
    for kind in KINDS:
        rows = [train_kind(kind, seed) for seed in seeds]
        scores = " | ".join(spread(row[key] for row in rows) for key in ("bleu4", "chrf", "wer"))
        unknown, wrong, judged = (
            sum(r[key] for r in rows) for key in ("unknown", "wrong", "judged")
        )
        lines.append(
            f"| {kind} | {rows[0]['rows']:,} | {rows[0]['tokens']:.1f} | {scores} "
            f"| {spread((row['cpu_s'] for row in rows), 0)} | {unknown} | {wrong} of {judged} |"
        )
        logging.info("%s", lines[-1])
    logging.info("%s", "\n".join(lines))


if __name__ == "__main__":
    run(main)
