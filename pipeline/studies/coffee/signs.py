"""Learn the single signs of the takes with the recipe that `signloom init` chooses.

Question: is that recipe better than the nearest training clip and than logistic regression, where
they get the same landmarks and as few clips?

Usage: python -m pipeline.studies.coffee.signs [--share 0.03] [--seeds 1 2 3]
"""

import argparse
import dataclasses
import json
import logging
from pathlib import Path

import numpy as np
import torch

from pipeline.stage import run
from pipeline.studies.coffee.run import OUT, STUDY
from pipeline.studies.coffee.study import (
    CoffeeOptions,
    find_sittings,
    import_takes,
    measure_framing,
    split_blocks,
    write_tokens,
)
from pipeline.studies.options import change_options
from signloom.cli.recipe import choose_recipe, read_facts
from signloom.config import load_params, load_section, parse_options
from signloom.corpus.manifest import IMPORTED_SHARDS, Clip
from signloom.corpus.shards import read_shards
from signloom.evaluation.evaluate import EvaluateOptions, evaluate
from signloom.evaluation.names import Metric, System
from signloom.features.targets import TokenizeOptions, read_targets
from signloom.files import write_file
from signloom.paths import PARAMS
from signloom.training.data import TrainingFiles
from signloom.training.run import RunOptions, from_scratch, read_run_options, train
from signloom.translation.translator import Translator

SHOWN = (System.MODEL, System.LINEAR, System.RETRIEVAL)
FEWEST = 2  # train clips of a sign


def choose_clips(options: CoffeeOptions, share: float, seed: int) -> list[Clip]:
    """Return the takes of every sign that has enough sittings, of train a share.

    No sitting of a test take is one of train or dev.
    """
    takes, sequences = import_takes(options)
    generator, clips = np.random.default_rng(seed), list[Clip]()
    for sign, blocks in takes.items():
        framings = {b: measure_framing([sequences[i] for i in ids]) for b, ids in blocks.items()}
        try:
            splits = split_blocks(find_sittings(framings, options.same_sitting))
        except ValueError:
            continue  # too few sittings
        for split, chosen in splits.items():
            names = [(name, block) for block in chosen for name in blocks[block]]
            if split == "train":
                count = min(len(names), max(FEWEST, round(len(names) * share)))
                kept = generator.choice(len(names), count, replace=False)
                names = [names[place] for place in sorted(kept)]
            clips += [
                Clip(clip_id=name, video=None, text=sign, signer=f"{sign}-{block}", split=split)
                for name, block in names
            ]
    return clips


def learn(options: CoffeeOptions, share: float, seed: int) -> dict[str, dict[str, float]]:
    """Train with the recipe for these clips; return the share that is right, of each system."""
    folder = options.corpus.with_name(f"{options.corpus.name}-takes")
    clips = choose_clips(options, share, seed)
    facts = read_facts(clips, folder, ("hands", "pose"))
    recipe, reasons = choose_recipe(facts, load_params(PARAMS))
    logging.info("%s", "\n".join(reasons))
    base = from_scratch(read_run_options(PARAMS))
    recipe["train"]["seeds"] = [seed]
    sections = {name: change_options(getattr(base, name), recipe[name], name)
                for name in ("features", "augment", "model", "train")}  # fmt: skip
    labels = load_section(PARAMS, "tokenize_targets", TokenizeOptions)
    tokens = OUT / "signs"
    spelt = {**dataclasses.asdict(labels), **recipe["tokenize_targets"]}
    write_tokens(tokens, clips, parse_options(spelt, TokenizeOptions, where="recipe"))
    files = TrainingFiles(shards=folder / IMPORTED_SHARDS, tokens=tokens)
    run_options = RunOptions(**sections)
    data = files.load(cache_mb=run_options.train.cache_mb)
    checkpoint, _ = train(data, run_options, provenance={}, log=lambda record: None)
    scoring = load_section(PARAMS, "evaluate", EvaluateOptions)
    translator = Translator(checkpoint, torch.device("cpu"), scoring.precision)
    targets = read_targets(files.targets)
    sequences = read_shards(files.shards, [target.clip_id for target in targets])
    found = evaluate(translator, targets, sequences, scoring).splits
    return {
        split: {str(name): one.systems[name][Metric.EXACT].value for name in SHOWN}
        for split, one in found.items()
    }


def main() -> None:
    """Train with each seed; write what is known after each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--share", type=float, default=0.03, help="of the train takes")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--study", type=Path, default=STUDY)
    given = parser.parse_args()
    options, results = load_section(given.study, "study", CoffeeOptions), {}
    for seed in given.seeds:
        results[seed] = learn(options, given.share, seed)
        logging.info("seed %d, share %g: %s", seed, given.share, results[seed])
        path = OUT / f"signs-{given.share:g}.json"
        write_file(path, json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    run(main)
