"""Real takes of single signs come in; a corpus of composed orders, and what learns it, go out.

Question: what do the families reach on real landmarks, sentences they have not seen, and people
(or at least sittings) they have not seen?
"""

import dataclasses
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from signloom.config import UserError
from signloom.corpus.compose import (
    Take,
    compose,
    find_sittings,
    measure_framing,
    split_blocks,
    takes_of,
)
from signloom.corpus.interchange.foreign import SourceDefaults
from signloom.corpus.interchange.importer import ImportOptions, import_landmarks
from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.manifest import IMPORTED_SHARDS, SPLITS, Clip, write_manifest
from signloom.corpus.shards import read_shards, shards_metadata, write_shards
from signloom.corpus.targets import (
    TokenizeOptions,
    build_targets,
    read_targets,
    write_labels,
    write_targets,
)
from signloom.evaluation.options import EvaluateOptions
from signloom.evaluation.run import evaluate
from signloom.studies.changes import change_options
from signloom.studies.coffee_orders import SIGNS, Order, draw_orders
from signloom.training.data import load_training_data
from signloom.training.run import RunOptions, train
from signloom.translator import Translator

BLOCK_TAKES = 30  # the set was recorded in series of so many takes
_FRAMES_PER_SHARD = 25_000
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoffeeOptions:
    """The section `study` of the study's parameters."""

    words: Path  # words.npz: frames, offsets, labels, and seq, the number of a take in its word
    corpus: Path  # folder to make; `corpus.folder` may name it afterwards
    fps: float  # of the takes, which the set does not say
    width: int  # of the picture, pixels, likewise
    height: int
    seed: int  # of orders, signers and takes
    orders: dict[str, int]  # sentences of train, dev and test; none is in two splits
    gap_frames: int  # between two signs
    same_sitting: float  # blocks whose framing differs by less, picture widths, are of one sitting
    seeds: list[int]  # of each family
    train: dict[str, Any]  # changes to the section `train` of params.yaml, the same for all
    families: dict[str, dict[str, Any]]  # name to changes of the section `model`
    learning_rates: dict[str, float]  # of families that want another than the common one

    def __post_init__(self) -> None:
        if tuple(self.orders) != SPLITS or min(self.orders.values()) < 1:
            raise ValueError(f"orders: found {self.orders}, expected counts of {', '.join(SPLITS)}")


def build_corpus(options: CoffeeOptions) -> list[Clip]:
    """Import the takes and compose a corpus of them: a manifest and landmarks, as a user's.

    Raises:
        UserError: If the takes are not there, or lack a sign of the orders.
    """
    takes, sequences = _import_takes(options)
    blocks = _split(takes, sequences, options.same_sitting)
    generator = np.random.default_rng(options.seed)
    orders = draw_orders(generator, sum(options.orders.values()))
    clips: list[Clip] = []
    composed: dict[str, LandmarkSequence] = {}
    for split, count in options.orders.items():
        signers = max(len(of_sign[split]) for of_sign in blocks.values())
        for number in range(count):
            signer = int(generator.integers(signers))
            clip = _clip(orders[len(clips)], split, number, signer)
            chosen = [_choose(takes[sign], blocks[sign][split], signer, generator)
                      for sign in orders[len(clips)].signs]  # fmt: skip
            composed[clip.clip_id] = compose([sequences[i] for i in chosen], options.gap_frames)
            clips.append(clip)
    made = shards_metadata(_takes_folder(options) / IMPORTED_SHARDS)
    write_shards(
        options.corpus / IMPORTED_SHARDS,
        {clip_id: len(sequence.points) for clip_id, sequence in composed.items()},
        composed.__getitem__,
        layout=made.layout,
        extractor=made.extractor,
        frames_per_shard=_FRAMES_PER_SHARD,
    )
    write_manifest(options.corpus / "manifest.tsv", clips)
    return clips


def write_tokens(folder: Path, clips: list[Clip], options: TokenizeOptions) -> None:
    """Write what the stage `tokenize_targets` writes."""
    tokenizer, labels, targets = build_targets(clips, options)
    write_targets(folder / "targets.parquet", targets)
    write_labels(folder / "labels.json", labels)
    tokenizer.save(folder / "tokenizer.json")


def train_families(
    options: CoffeeOptions, base: RunOptions, scoring: EvaluateOptions, tokens: Path
) -> Iterator[dict[str, Any]]:
    """Train each family with each seed; yield name, seed and the scores of dev and test.

    Raises:
        UserError: If a change names no option or its value is refused.
    """
    shards = options.corpus / IMPORTED_SHARDS
    data = load_training_data(
        shards=shards,
        targets=tokens / "targets.parquet",
        tokenizer=tokens / "tokenizer.json",
        labels=tokens / "labels.json",
        cache_mb=base.train.cache_mb,
    )
    targets, sequences = read_targets(tokens / "targets.parquet"), read_shards(shards)
    for seed in options.seeds:
        for name, run in plan_runs(options, base, seed).items():
            checkpoint, fit = train(data, run, provenance={}, log=lambda record: None)
            translator = Translator(checkpoint, torch.device("cpu"), scoring.precision)
            yield {
                "family": name,
                "seed": seed,
                "parameters": sum(p.numel() for p in checkpoint.model.parameters()),
                "best_epoch": fit.best_epoch,
                **evaluate(translator, targets, sequences, scoring).metrics,
            }


def plan_runs(options: CoffeeOptions, base: RunOptions, seed: int) -> dict[str, RunOptions]:
    """Return what to train by family; see `train_families`."""
    recipe = change_options(base.train, {**options.train, "seeds": [seed]}, "study.train")
    runs = {}
    for name, changes in options.families.items():
        rate = options.learning_rates.get(name, recipe.learning_rate)
        model = change_options(base.model, changes, f"study.families.{name}")
        fitted = dataclasses.replace(recipe, learning_rate=rate)
        runs[name] = dataclasses.replace(base, model=model, train=fitted)
    return runs


def _takes_folder(options: CoffeeOptions) -> Path:
    return options.corpus.with_name(f"{options.corpus.name}-takes")


def _import_takes(
    options: CoffeeOptions,
) -> tuple[dict[str, dict[int, list[str]]], dict[str, LandmarkSequence]]:
    """Return the takes of the signs of the orders, by sign and block, and their landmarks."""
    if not options.words.is_file():
        raise UserError(f"{options.words} is not there; docs/results.md says where to get it")
    folder = _takes_folder(options)
    if not (folder / IMPORTED_SHARDS).is_dir():
        defaults = SourceDefaults(fps=options.fps, width=options.width, height=options.height)
        import_landmarks(
            [options.words], folder,
            ImportOptions(format="numpy", groups=("hands", "pose"), defaults=defaults),
        )  # fmt: skip
    with np.load(options.words, allow_pickle=False) as file:
        labels, numbers = file["labels"], file["seq"]
    width = len(str(len(labels)))
    takes = [
        Take(
            clip_id=f"{options.words.stem}-{place + 1:0{width}d}",  # as the import names them
            sign=str(label),
            block=int(number) // BLOCK_TAKES,
        )
        for place, (label, number) in enumerate(zip(labels, numbers, strict=True))
        if str(label) in SIGNS
    ]
    if missing := set(SIGNS) - {take.sign for take in takes}:
        raise UserError(f"{options.words}: no take of {', '.join(sorted(missing))}")
    sequences = read_shards(folder / IMPORTED_SHARDS, [take.clip_id for take in takes])
    return takes_of(takes), sequences


def _split(
    takes: Mapping[str, Mapping[int, list[str]]],
    sequences: Mapping[str, LandmarkSequence],
    within: float,
) -> dict[str, dict[str, list[int]]]:
    """Return the blocks of each split, by sign."""
    found = {}
    for sign, blocks in takes.items():
        framings = {
            block: measure_framing([sequences[clip_id] for clip_id in clip_ids])
            for block, clip_ids in blocks.items()
        }
        sittings = find_sittings(framings, within)
        found[sign] = split_blocks(sittings)
        logger.info("%s: sittings %s; %s", sign, sittings, found[sign])
    return found


def _choose(
    blocks: Mapping[int, list[str]],
    of_split: list[int],
    signer: int,
    generator: np.random.Generator,
) -> str:
    """Return a take of a sign: each composed signer has one block of it."""
    clip_ids = blocks[of_split[signer % len(of_split)]]
    return clip_ids[int(generator.integers(len(clip_ids)))]


def _clip(order: Order, split: str, number: int, signer: int) -> Clip:
    return Clip(
        clip_id=f"{split}-{number:04d}",
        video=None,
        text=order.text,
        signer=f"{split}-{signer}",
        split=split,
        gloss=" ".join(sign.upper() for sign in order.signs),
        language="en",
    )
