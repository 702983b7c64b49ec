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
import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from pipeline.stage import run
from signloom.config import load_section
from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.manifest import IMPORTED_SHARDS, Clip
from signloom.corpus.shards import read_shards
from signloom.evaluation.floors import clip_vector
from signloom.evaluation.metric_names import LOOKUPS, Metric, System, rounded
from signloom.features.features import FloatArray, resample
from signloom.files import write_file
from signloom.translation.lookup import Projection
from signloom.translation.translator import Translator
from studies.coffee.run import OUT, STUDY
from studies.coffee.study import (
    CoffeeOptions,
    find_sittings,
    import_takes,
    measure_framing,
    split_blocks,
    takes_folder,
)
from studies.recipe import learn_signs

SHOWN = (System.MODEL, System.LINEAR, System.RETRIEVAL, System.BLIND, System.SWAPPED)
FEWEST = 2  # train clips of a sign
HIDDEN = ((1, 0), (2, 0), (1, 1), (3, 2))  # seed, and which third of the signs is not learnt
FLAT = 1e-6  # deviation of a number that tells nothing
CALLED, WRONG_FPS = (8.0, 12.0), 30.0  # frames a second of takes, and what their files say


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
    learnt = learn_signs(takes_folder(options), choose_clips(options, share, seed))
    logging.info("seed %d: %.0f CPU-s of training", seed, learnt.train_s)
    return {
        split: {str(name): evaluated.systems[name][Metric.EXACT].value for name in SHOWN}
        | {name: rounded(evaluated.lookup[name].value) for name in LOOKUPS}
        for split, evaluated in learnt.evaluation.splits.items()
    }


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
    translator = learn_signs(takes_folder(options), learnt).translator
    train = [clip for clip in learnt if clip.split == "train"]
    enrolled = [
        next(clip for clip in clips if (clip.text, clip.split) == (name, "train"))
        for name in hidden
    ]
    sequences = _read_takes(options, clips)

    def encode(some: Sequence[Clip]) -> FloatArray:
        return translator.encode_signs([sequences[clip.clip_id] for clip in some])

    def resample(some: Sequence[Clip]) -> FloatArray:
        return np.stack([clip_vector(translator.rows(sequences[c.clip_id])) for c in some])

    projection, frames = Projection.fit(encode(train), translator.hand_width), resample(train)
    states, hands = projection.parts
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
            "both": projection(new) @ projection(old).T,
            "landmarks": -cdist(resample(queries) / spread, resample(gallery) / spread),
        }
        by_split[split] = {
            way: {name: fmean(hits) for name, hits in find_ranks(near, gallery, queries).items()}
            for way, near in ways.items()
        }
    return by_split


def tell_unknown(options: CoffeeOptions, share: float, seed: int) -> dict[str, dict[str, float]]:
    """Train on half of the signs; return what is named without a mark, %.

    Returns:
        For takes as they are, and of each of `CALLED` frames a second that are called 30: `known`,
        of the test takes of these signs; `right`: of them, what is named rightly, too; `unknown`:
        of the takes of the other signs, in every split.
    """
    clips = choose_clips(options, share, seed)
    names = np.random.default_rng(seed).permutation(sorted({clip.text for clip in clips}))
    taught = [clip for clip in clips if clip.text in names[: len(names) // 2]]
    unknown = [clip for clip in clips if clip.text not in names[: len(names) // 2]]
    translator = learn_signs(takes_folder(options), taught).translator
    sequences = _read_takes(options, clips)
    known = [clip for clip in taught if clip.split == "test"]
    return {
        "as they are" if fps is None else f"{fps:g} frames/s called {WRONG_FPS:g}": measure_marks(
            translator,
            [call_wrongly(sequences[clip.clip_id], fps) for clip in known],
            [clip.text for clip in known],
            [call_wrongly(sequences[clip.clip_id], fps) for clip in unknown],
        )
        for fps in (None, *CALLED)
    }


def call_wrongly(sequence: LandmarkSequence, fps: float | None) -> LandmarkSequence:
    """Return a clip of so many frames a second that is called `WRONG_FPS`; None: as it is."""
    return sequence if fps is None else replace(resample(sequence, fps), fps=WRONG_FPS)


def measure_marks(
    translator: Translator,
    known: Sequence[LandmarkSequence],
    signs: Sequence[str],
    unknown: Sequence[LandmarkSequence],
) -> dict[str, float]:
    """Return which share of the clips of known signs, and of unknown ones, has no mark, %."""
    texts, names = (
        [t.text for t in translator.translate(clips, translator.decoding, skip_unsure=True)]
        for clips in (known, unknown)
    )
    return {
        "known": 100 * fmean(map(bool, texts)),
        "right": 100 * fmean(text == sign for text, sign in zip(texts, signs, strict=True)),
        "unknown": 100 * fmean(map(bool, names)),
    }


def _read_takes(options: CoffeeOptions, clips: Sequence[Clip]) -> dict[str, LandmarkSequence]:
    shards = takes_folder(options) / IMPORTED_SHARDS
    return read_shards(shards, [clip.clip_id for clip in clips])


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
