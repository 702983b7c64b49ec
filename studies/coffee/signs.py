"""Learn the single signs of the takes with the recipe that `signloom init` chooses.

Question: is that recipe better than the nearest training clip and than logistic regression, where
they get the same landmarks and as few clips?

With --lookup: are signs found by the encoder's states and by the means of the hands, also signs
that the model never learnt, and by which cosine?

With --unknown: half of the signs are taught; which share of the takes of each half is named without
a mark, and rightly?

Usage: python -m studies.coffee.signs [--share 0.03] [--seeds 1 2 3] [--lookup | --unknown]
"""

import argparse
import dataclasses
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from scipy.spatial.distance import cdist

from pipeline.stage import run
from signloom.config import load_params, load_section, parse_options
from signloom.corpus.manifest import IMPORTED_SHARDS, Clip
from signloom.corpus.shards import read_shards
from signloom.evaluation.evaluate import evaluate
from signloom.evaluation.floors import clip_vector
from signloom.evaluation.metric_names import LOOKUPS, Metric, System, rounded
from signloom.features.features import FloatArray
from signloom.features.targets import TokenizeOptions, read_targets
from signloom.files import write_file
from signloom.paths import PARAMS
from signloom.training.data import TrainingFiles
from signloom.training.train import RunOptions, from_scratch, read_run_options
from signloom.translation.lookup import View
from signloom.translation.translator import Translator
from signloom_tools.importing.recipe import choose_recipe, read_facts
from studies.coffee.run import OUT, STUDY
from studies.coffee.study import (
    CoffeeOptions,
    find_sittings,
    import_takes,
    measure_framing,
    split_blocks,
)
from studies.runs import change_options, train_first_seed, write_tokens
from studies.sentences import read_scoring

SHOWN = (System.MODEL, System.LINEAR, System.RETRIEVAL, System.BLIND, System.SWAPPED)
FEWEST = 2  # train clips of a sign
HIDDEN = ((1, 0), (2, 0), (1, 1), (3, 2))  # seed, and which third of the signs is not learnt
FLAT = 1e-6  # deviation of a number that tells nothing


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
                places = generator.choice(len(names), count, replace=False)
                names = [names[place] for place in sorted(places)]
            clips += [
                Clip(clip_id=name, video=None, text=sign, signer=f"{sign}-{block}", split=split)
                for name, block in names
            ]
    return clips


def learn(options: CoffeeOptions, share: float, seed: int) -> dict[str, dict[str, float]]:
    """Train with the recipe for these clips; return the share that is right, of each system.

    Also how often the sign is found by `signloom lookup`, nearest and among the five nearest, %.
    """
    translator, files = _train(options, choose_clips(options, share, seed), seed)
    scoring = read_scoring()
    targets = read_targets(files.targets)
    sequences = read_shards(files.shards, [target.clip_id for target in targets])
    evaluation = evaluate(translator, targets, sequences, scoring)
    return {
        split: {str(name): evaluated.systems[name][Metric.EXACT].value for name in SHOWN}
        | {name: rounded(evaluated.lookup[name].value) for name in LOOKUPS}
        for split, evaluated in evaluation.splits.items()
    }


def plan_signs(
    options: CoffeeOptions, clips: list[Clip], seed: int
) -> tuple[TrainingFiles, RunOptions]:
    """Return what is trained on, and how: with the recipe for these clips."""
    folder = options.corpus.with_name(f"{options.corpus.name}-takes")
    facts = read_facts(clips, folder, ("hands", "pose"))
    recipe, reasons = choose_recipe(facts, load_params(PARAMS))
    logging.info("%s", "\n".join(reasons))
    base = from_scratch(read_run_options(PARAMS))
    recipe["train"]["seeds"] = [seed]
    sections = {
        name: change_options(getattr(base, name), recipe[name], name)
        for name in ("features", "augment", "model", "train")
    }
    labels = load_section(PARAMS, "tokenize_targets", TokenizeOptions)
    tokens = folder / "tokens"
    spelt = {**dataclasses.asdict(labels), **recipe["tokenize_targets"]}
    write_tokens(tokens, clips, parse_options(spelt, TokenizeOptions, where="recipe"))
    return TrainingFiles(shards=folder / IMPORTED_SHARDS, tokens=tokens), RunOptions(**sections)


def _train(
    options: CoffeeOptions, clips: list[Clip], seed: int
) -> tuple[Translator, TrainingFiles]:
    """Train with the recipe for these clips."""
    files, run_options = plan_signs(options, clips, seed)
    data = files.load(cache_mb=run_options.train.cache_mb)
    checkpoint, _ = train_first_seed(data, run_options)
    return Translator(checkpoint, torch.device("cpu")), files


def look_up(options: CoffeeOptions, share: float, seed: int, part: int | None) -> dict[str, Any]:
    """Look dev and test up among the takes of train; return top 1 and top 5, %, of each way.

    Args:
        options: Of the study.
        share: Of the train takes.
        seed: Of the draw and the training.
        part: Which third of the signs the model never learns: of each of them one take is known,
            and their takes alone are looked up. None: it learns all of them.
    """
    clips = choose_clips(options, share, seed)
    names = sorted({clip.text for clip in clips})
    hidden = [] if part is None else names[part::3]
    learnt = [clip for clip in clips if clip.text not in hidden]
    translator, files = _train(options, learnt, seed)
    train = [clip for clip in learnt if clip.split == "train"]
    enrolled = [
        next(clip for clip in clips if (clip.text, clip.split) == (name, "train"))
        for name in hidden
    ]
    sequences = read_shards(files.shards, [clip.clip_id for clip in clips])

    def encode(some: Sequence[Clip]) -> FloatArray:
        return translator.encode_signs([sequences[clip.clip_id] for clip in some])

    def resample(some: Sequence[Clip]) -> FloatArray:
        return np.stack([clip_vector(translator.rows(sequences[c.clip_id])) for c in some])

    view, frames = View.fit(encode(train), len(translator.hand_columns)), resample(train)
    states, hands = view.parts
    spread = np.where(frames.std(axis=0) < FLAT, 1, frames.std(axis=0))
    gallery, by_split = [*train, *enrolled], {}
    for split in ("dev", "test"):
        queries = [c for c in clips if c.split == split and (c.text in hidden or not hidden)]
        new, old = encode(queries), encode(gallery)
        (states_new, hands_new), (states_old, hands_old) = (
            np.split(signs, [len(states.centre)], axis=1) for signs in (new, old)
        )
        ways = {
            "cosine": 1 - cdist(states_new, states_old, "cosine"),
            "centred": 1 - cdist(states_new - states.centre, states_old - states.centre, "cosine"),
            "whitened": states(states_new) @ states(states_old).T,
            "hands, whitened": hands(hands_new) @ hands(hands_old).T,
            "both": view(new) @ view(old).T,
            "landmarks": -cdist(resample(queries) / spread, resample(gallery) / spread),
        }
        by_split[split] = {
            way: {name: fmean(hits) for name, hits in find_ranks(near, gallery, queries).items()}
            for way, near in ways.items()
        }
    return by_split


def tell_unknown(options: CoffeeOptions, share: float, seed: int) -> dict[str, float]:
    """Train on half of the signs; return what is named without a mark, %.

    Returns:
        `known`: of the test takes of these signs; `right`: of them, what is named rightly, too;
        `unknown`: of the takes of the other signs, in every split.
    """
    clips = choose_clips(options, share, seed)
    names = np.random.default_rng(seed).permutation(sorted({clip.text for clip in clips}))
    taught = [clip for clip in clips if clip.text in names[: len(names) // 2]]
    unknown = [clip for clip in clips if clip.text not in names[: len(names) // 2]]
    translator, files = _train(options, taught, seed)
    sequences = read_shards(files.shards, [clip.clip_id for clip in clips])
    targets = read_targets(files.targets)
    translator.confidence = evaluate(translator, targets, sequences, read_scoring()).confidence
    known = [clip for clip in taught if clip.split == "test"]
    texts = {
        clip.clip_id: translation.text
        for group in (known, unknown)
        for clip, translation in zip(
            group,
            translator.translate(
                [sequences[clip.clip_id] for clip in group],
                translator.decoding,
                skip_unsure=True,
            ),
            strict=True,
        )
    }
    return {
        "known": 100 * fmean(bool(texts[clip.clip_id]) for clip in known),
        "right": 100 * fmean(texts[clip.clip_id] == clip.text for clip in known),
        "unknown": 100 * fmean(bool(texts[clip.clip_id]) for clip in unknown),
    }


def find_ranks(
    near: FloatArray, gallery: Sequence[Clip], queries: Sequence[Clip]
) -> dict[str, list[float]]:
    """Return of each clip 100 where its text is among the nearest ones, by how many of these count.

    Args:
        near: How near each clip of the gallery is, shape (queries, gallery).
        gallery: The clips that are looked among.
        queries: The clips that are looked up.
    """
    ranked = [
        list(dict.fromkeys(gallery[place].text for place in np.argsort(-row, kind="stable")))
        for row in near
    ]
    return {
        name: [100.0 * (c.text in texts[:n]) for c, texts in zip(queries, ranked, strict=True)]
        for name, n in LOOKUPS.items()
    }


def main() -> None:
    """Train with each seed; write what is known after each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--share", type=float, default=0.03, help="of the train takes")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--lookup", action="store_true", help="look signs up")
    parser.add_argument("--unknown", action="store_true", help="teach half of the signs")
    parser.add_argument("--study", type=Path, default=STUDY)
    arguments = parser.parse_args()
    options, results = load_section(arguments.study, "study", CoffeeOptions), {}
    if arguments.lookup:
        for seed, part in (*((seed, None) for seed in arguments.seeds), *HIDDEN):
            results[f"{seed}, {part}"] = look_up(options, arguments.share, seed, part)
            logging.info("seed %d, hidden %s: %s", seed, part, results[f"{seed}, {part}"])
            path = OUT / f"lookup-{arguments.share:g}.json"
            write_file(path, json.dumps(results, indent=1) + "\n")
        return
    measure, name = (tell_unknown, "unknown") if arguments.unknown else (learn, "signs")
    for seed in arguments.seeds:
        results[seed] = measure(options, arguments.share, seed)
        logging.info("seed %d, share %g: %s", seed, arguments.share, results[seed])
        path = OUT / f"{name}-{arguments.share:g}.json"
        write_file(path, json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    run(main)
