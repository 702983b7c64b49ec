"""Study of composed sentences: real takes of single signs become orders for coffee.

Composed sentences are no signing: nothing in a sign changes because of its neighbours, nobody
speeds up, and body and camera jump between takes. They test whether a model finds order, words
and grammar in real landmarks, and no more.

The signs stand in another order than the English words, as signers put the topic first: what is
wanted, then its size, then who asks; PLEASE follows the greeting. English articles and `and` have
no sign. `can i get a large coffee please` is PLEASE COFFEE LARGE I GET CAN.

Question: what do the families reach on real landmarks, sentences they have not seen, and people
(or at least sittings) they have not seen?
"""

import dataclasses
import logging
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from signloom.config import Count, checked_dataclass
from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.manifest import IMPORTED_SHARDS, SPLITS, Clip, write_manifest
from signloom.corpus.shards import read_shards
from signloom.errors import UserError
from signloom.evaluation.evaluate import EvaluateOptions, evaluate
from signloom.features.targets import read_targets
from signloom.training.data import TrainingFiles
from signloom.training.train import RunOptions
from signloom.translation.translator import Translator
from signloom_tools.importing.compose import Stock, draw_takes, sign_key, write_composed
from signloom_tools.importing.importer import import_landmarks
from signloom_tools.importing.options import ImportOptions, SourceDefaults
from studies.runs import change_options, train_first_seed

Block = int
"""Number of a series of takes of one sign that were recorded one after the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoffeeTake:
    """One recording of one sign."""

    clip_id: str
    sign: str
    block: Block


def measure_framing(takes: Sequence[LandmarkSequence]) -> npt.NDArray[np.float64]:
    """Return where the signer of some takes stands and how large, in shares of the picture.

    Returns:
        Shape (3,): x and y of the middle of the shoulders, and their distance; medians over all
        frames that show them, NaN if none does.
    """
    layout = takes[0].layout
    left, right = (layout.index("pose", f"{side}_shoulder") for side in ("left", "right"))
    points = np.concatenate([take.points for take in takes]).astype(np.float64)
    points = points[np.isfinite(points[:, [left, right], :2]).all(axis=(1, 2))]
    if not len(points):
        return np.full(3, np.nan)
    middle = (points[:, left, :2] + points[:, right, :2]) / 2
    width = np.linalg.norm(points[:, left, :2] - points[:, right, :2], axis=1)
    return np.append(np.median(middle, axis=0), np.median(width))


def find_sittings(
    framings: Mapping[Block, npt.NDArray[np.float64]], within: float
) -> list[list[Block]]:
    """Group the blocks of a sign that may be of one person in one sitting, by how they look.

    Blocks whose framing differs by less than `within` belong together, and so do all that a chain
    of such pairs connects.

    Args:
        framings: `measure_framing` of each block.
        within: Shares of the picture.

    Returns:
        Blocks of each sitting, the largest sitting first, then by its first block.
    """
    remaining = sorted(framings)
    sittings: list[list[Block]] = []
    while remaining:
        waiting, sitting = [remaining.pop(0)], []
        while waiting:
            block = waiting.pop()
            sitting.append(block)
            near = [b for b in remaining if np.linalg.norm(framings[b] - framings[block]) < within]
            waiting += near
            remaining = [b for b in remaining if b not in near]
        sittings.append(sorted(sitting))
    return sorted(sittings, key=lambda blocks: (-len(blocks), blocks[0]))


def split_blocks(sittings: Sequence[Sequence[Block]]) -> dict[str, list[Block]]:
    """Give the blocks of a sign to the splits, so that no sitting is in test and elsewhere.

    Every fifth sitting, and at least one, is for test, as many for dev, the small ones. A sign
    with two sittings has its dev block from the sitting of train: dev only says when to stop.

    Raises:
        ValueError: If there are fewer than two sittings, or three blocks.
    """
    count = max(1, len(sittings) // 5)
    if len(sittings) < 2 or sum(map(len, sittings)) < 3:
        raise ValueError(f"found sittings {list(sittings)}, expected two or more, of three blocks")
    test, remaining = sittings[-count:], sittings[:-count]
    if len(remaining) > count:
        train, dev = remaining[:-count], remaining[-count:]
    else:
        blocks = [block for sitting in remaining for block in sitting]
        if len(blocks) < 2:  # a large sitting was held out: give one of its blocks back
            raise ValueError(f"found sittings {list(sittings)}, too few for three splits")
        train, dev = [blocks[:-1]], [blocks[-1:]]
    named = {"train": train, "dev": dev, "test": test}
    return {name: sorted(b for sitting in part for b in sitting) for name, part in named.items()}


def takes_of(takes: Sequence[CoffeeTake]) -> dict[str, dict[Block, list[str]]]:
    """Return the clip ids by sign and block, in order."""
    by_sign: dict[str, dict[Block, list[str]]] = defaultdict(lambda: defaultdict(list))
    for take in takes:
        by_sign[take.sign][take.block].append(take.clip_id)
    return {sign: dict(sorted(blocks.items())) for sign, blocks in sorted(by_sign.items())}


GOODS = ("coffee", "tea", "water", "muffin")
SIZES = ("", "small", "medium", "large")
REQUESTS = {"can i get": ("i", "get", "can"), "i get": ("i", "get"), "": ()}
"""How one asks, and the signs of it, which stand at the end."""
THANKS = ("", "please", "thank you")
SIGNS = (*GOODS, *SIZES[1:], "i", "get", "can", "hello", "no", "please", "thank-you")

# Chances of what a customer may add.
_TWO_GOODS, _HELLO, _NO = 0.3, 0.5, 0.2


@dataclass(frozen=True, slots=True)
class Order:
    """One sentence."""

    text: str
    signs: tuple[str, ...]


def draw_orders(generator: np.random.Generator, count: int) -> list[Order]:
    """Draw orders, no sentence twice.

    Args:
        generator: Decides the result.
        count: How many; there are some thousands.
    """
    orders: dict[str, Order] = {}
    for order in _draw_forever(generator):
        orders.setdefault(order.text, order)
        if len(orders) == count:
            return list(orders.values())
    raise AssertionError("the generator never ends")


def _draw_forever(generator: np.random.Generator) -> Iterator[Order]:
    def choose(values: Sequence[str]) -> str:
        return values[int(generator.integers(len(values)))]

    while True:
        goods = [str(name) for name in generator.permutation(GOODS)]
        ordered = goods[: 1 + (generator.random() < _TWO_GOODS)]
        words, signs = list[str](), list[str]()
        thanks = choose(THANKS)
        if generator.random() < _HELLO:
            words.append("hello")
            signs.append("hello")
        if thanks == "please":
            signs.append("please")
        if generator.random() < _NO:
            words += ["no", goods[-1]]
            signs += [goods[-1], "no"]
        request = choose(tuple(REQUESTS))
        words += request.split()
        for number, name in enumerate(ordered):
            size = choose(SIZES)
            words += ["and"] * bool(number) + ["a"] + [size] * bool(size) + [name]
            signs += [name] + [size] * bool(size)
        signs += REQUESTS[request]
        if thanks == "thank you":
            signs.append("thank-you")
        words += thanks.split()
        yield Order(" ".join(words), tuple(signs))


BLOCK_TAKES = 30  # the set was recorded in series of so many takes
NO_SIGN = "-"  # label of takes that show none
logger = logging.getLogger(__name__)


@checked_dataclass
class CoffeeOptions:
    """The section `study` of the study's parameters."""

    words: Path  # words.npz: frames, offsets, labels, and seq, the number of a take in its word
    corpus: Path  # folder to make; `corpus.folder` may name it afterwards
    fps: float  # of the takes, which the set does not say
    width: int  # of the picture, pixels, likewise
    height: int
    seed: int  # of orders, signers and takes
    orders: dict[str, Count]  # sentences of train, dev and test; none is in two splits
    gap_frames: int  # between two signs
    same_sitting: float  # blocks whose framing differs by less, picture widths, are of one sitting
    seeds: list[int]  # of each family
    train: dict[str, Any]  # changes to the section `train` of params.yaml, the same for all
    families: dict[str, dict[str, Any]]  # name to changes of the section `model`
    learning_rates: dict[str, float]  # of families that want another than the common one

    def __post_init__(self) -> None:
        if tuple(self.orders) != SPLITS:
            raise ValueError(f"orders: found {self.orders}, expected counts of {', '.join(SPLITS)}")


def build_corpus(options: CoffeeOptions) -> list[Clip]:
    """Import the takes and compose a corpus of them: a manifest and landmarks, as a user's.

    Raises:
        UserError: If the takes are not there, or lack a sign of the orders.
    """
    takes, sequences = import_takes(options, SIGNS)
    blocks = _split(takes, sequences, options.same_sitting)
    generator = np.random.default_rng(options.seed)
    orders = draw_orders(generator, sum(options.orders.values()))
    splits = [split for split, count in options.orders.items() for _ in range(count)]
    sentences = [
        Clip(
            clip_id=f"{split}-{number - splits.index(split):04d}",
            video=None,
            text=order.text,
            signer="",
            split=split,
            gloss=" ".join(order.signs).upper(),
            language="en",
        )
        for number, (order, split) in enumerate(zip(orders, splits, strict=True))
    ]
    composed, _ = draw_takes(sentences, _stock(takes, blocks), generator)
    shards = takes_folder(options) / IMPORTED_SHARDS
    write_composed(options.corpus, composed, shards, gap_s=options.gap_frames / options.fps)
    clips = [clip for clip, _ in composed]
    write_manifest(options.corpus / "manifest.tsv", clips)
    return clips


def train_families(
    options: CoffeeOptions, base: RunOptions, scoring: EvaluateOptions, tokens: Path
) -> Iterator[dict[str, Any]]:
    """Train each family with each seed; yield name, seed and the scores of dev and test.

    Raises:
        UserError: If a change names no option or its value is refused.
    """
    files = TrainingFiles(shards=options.corpus / IMPORTED_SHARDS, tokens=tokens)
    data = files.load(cache_mb=base.train.cache_mb)
    targets, sequences = read_targets(files.targets), read_shards(files.shards)
    for seed in options.seeds:
        for name, run in plan_runs(options, base, seed).items():
            checkpoint, fit = train_first_seed(data, run)
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


def takes_folder(options: CoffeeOptions) -> Path:
    """Return the corpus of the single takes."""
    return options.corpus.with_name(f"{options.corpus.name}-takes")


def import_takes(
    options: CoffeeOptions, signs: Collection[str] | None = None
) -> tuple[dict[str, dict[int, list[str]]], dict[str, LandmarkSequence]]:
    """Return the takes of some signs, or of all, by sign and block, and their landmarks.

    Raises:
        UserError: If the takes are not there, or lack a sign.
    """
    if not options.words.is_file():
        raise UserError(f"{options.words} is not there; docs/results.md says where to get it")
    folder = takes_folder(options)
    if not (folder / IMPORTED_SHARDS).is_dir():
        defaults = SourceDefaults(fps=options.fps, width=options.width, height=options.height)
        import_landmarks(
            [options.words],
            folder,
            ImportOptions(format="numpy", groups=("hands", "pose"), defaults=defaults),
        )
    with np.load(options.words, allow_pickle=False) as file:
        labels, numbers = file["labels"], file["seq"]
    width = len(str(len(labels)))
    takes = [
        CoffeeTake(
            clip_id=f"{options.words.stem}-{place + 1:0{width}d}",  # as the import names them
            sign=str(label),
            block=int(number) // BLOCK_TAKES,
        )
        for place, (label, number) in enumerate(zip(labels, numbers, strict=True))
        if str(label) != NO_SIGN and (signs is None or str(label) in signs)
    ]
    if missing := set(signs or ()) - {take.sign for take in takes}:
        raise UserError(f"{options.words}: no take of {', '.join(sorted(missing))}")
    sequences = read_shards(folder / IMPORTED_SHARDS, [take.clip_id for take in takes])
    return takes_of(takes), sequences


def _split(
    takes: Mapping[str, Mapping[int, list[str]]],
    sequences: Mapping[str, LandmarkSequence],
    within: float,
) -> dict[str, dict[str, list[int]]]:
    """Return the blocks of each split, by sign."""
    splits = {}
    for sign, blocks in takes.items():
        framings = {
            block: measure_framing([sequences[clip_id] for clip_id in clip_ids])
            for block, clip_ids in blocks.items()
        }
        sittings = find_sittings(framings, within)
        splits[sign] = split_blocks(sittings)
        logger.info("%s: sittings %s; %s", sign, sittings, splits[sign])
    return splits


def _stock(
    takes: Mapping[str, Mapping[int, list[str]]], blocks: Mapping[str, Mapping[str, list[int]]]
) -> Stock:
    """Return the takes of composed signers, each of whom has one block of every sign."""
    return {
        split: {
            f"{split}-{signer}": {
                sign_key(sign): takes[sign][of[split][signer % len(of[split])]]
                for sign, of in blocks.items()
            }
            for signer in range(max(len(of[split]) for of in blocks.values()))
        }
        for split in SPLITS
    }
