"""A stored version and the corpus come in, the gate's decision about it goes out."""

import logging
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from signloom.config import UserError
from signloom.corpus.manifest import Clip
from signloom.corpus.shards import read_clip_frames, read_shards
from signloom.corpus.targets import Target, read_targets
from signloom.evaluation.retrieval import build_retrieval
from signloom.metrics import ScoreOptions, best_constant
from signloom.retraining.candidates import (
    Candidate,
    check_readable,
    describe,
    measure_cpu_s,
    read_candidate,
    say,
)
from signloom.retraining.gate import Decision, GateClips, GateOptions
from signloom.retraining.rules import decide
from signloom.retraining.store import ModelStore
from signloom.translator import Translator

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateInputs:
    """The corpus of today.

    Attributes:
        shards: Landmarks of all splits.
        targets: The text side.
        batches: Clip ids of the newest batch, of the one before, and so on; any split.
        score: How sentences are scored.
    """

    shards: Path
    targets: Path
    batches: Sequence[Collection[str]]
    score: ScoreOptions


def newest_first(clips: Sequence[Clip]) -> list[list[str]]:
    """Return the ids of each batch in a manifest, whose newest batch stands last, newest first."""
    of_batch: dict[str, list[str]] = {}
    for clip in clips:
        if clip.batch:
            of_batch.setdefault(clip.batch, []).append(clip.clip_id)
    return list(reversed(of_batch.values()))


def judge(store: ModelStore, version: int, inputs: GateInputs, options: GateOptions) -> Decision:
    """Let champion and challenger translate the same clips and decide.

    Nothing is written but the translations of the frozen test clips, which are kept; and these
    clips are frozen if there is a champion that the gate was never asked about.

    Args:
        store: The versions.
        version: The challenger.
        inputs: On what.
        options: What is asked for.

    Raises:
        UserError: If the two cannot be compared: too few seeds, other landmarks, no test clip, or
            a frozen one that is in another split now; or too few resamples for the level.
    """
    least = 2 / (inputs.score.resamples + 1)  # p-value that a resampling can show
    if least > options.level:
        raise UserError(
            f"{inputs.score.resamples} resamples show no p below {least:.3f}, so nothing would "
            f"ever be better at level {options.level:g}; raise evaluate.score.resamples to "
            f"{math.ceil(2 / options.level)}, or retrain.gate.level"
        )
    champion_version = store.champion()
    if champion_version == version:
        raise UserError(f"version {version} is the champion already; there is nothing to decide")
    challenger = read_candidate(store, version)
    if len(challenger.checkpoints) < options.seeds:
        raise UserError(
            f"version {version} was trained with {len(challenger.checkpoints)} seeds, the gate "
            f"asks for {options.seeds}; set train.seeds to as many, or lower retrain.gate.seeds"
        )
    check_readable(store, inputs.shards)
    there = read_clip_frames(inputs.shards).keys()
    targets = [t for t in read_targets(inputs.targets) if t.clip_id in there]
    test, missing = _test_clips(store, targets, is_first=champion_version is None)
    if champion_version is None:
        return _judge_first(challenger, targets, test, inputs, options)
    champion = read_candidate(store, champion_version)
    newest = _newest(targets, inputs.batches, options.slice_min_clips)
    clips = GateClips(test=test, missing=missing, newest=newest, floors={})
    logger.info(
        "versions %d and %d translate %d test clips and %d of the newest clips",
        champion_version, version, len(test), len(newest),
    )  # fmt: skip
    frozen = read_shards(inputs.shards, [clip.clip_id for clip in test])
    latest = read_shards(inputs.shards, [clip.clip_id for clip in newest]) if newest else {}
    both = [
        # The frozen clips come last: of a clip that is in both, one translation counts.
        describe(one, {**say(one, latest, keep=False), **say(one, frozen, keep=True)})
        for one in (champion, challenger)
    ]
    cost = partial(measure_cpu_s, champion, challenger, frozen)
    return decide(both[0], both[1], clips, options, inputs.score, measure_cpu_s=cost)


def _judge_first(
    challenger: Candidate,
    targets: Sequence[Target],
    test: Sequence[Target],
    inputs: GateInputs,
    options: GateOptions,
) -> Decision:
    """Compare with what needs no learning, as there is no champion."""
    sequences = read_shards(inputs.shards)
    translator = Translator.load(challenger.checkpoints[0], precision=challenger.precision)
    index = build_retrieval(translator, targets, sequences)
    train = [target.text for target in targets if target.split == "train"]
    refs = [clip.text for clip in test]
    frozen = {clip.clip_id: sequences[clip.clip_id] for clip in test}
    floors = {
        "constant": [best_constant(train, refs, inputs.score)] * len(refs),
        "retrieval": [index.nearest(clip) for clip in frozen.values()],
    }
    said = describe(challenger, say(challenger, frozen, keep=True))
    clips = GateClips(test=test, missing=[], newest=[], floors=floors)
    return decide(None, said, clips, options, inputs.score, measure_cpu_s=lambda: (0.0, 0.0))


def _test_clips(
    store: ModelStore, targets: Sequence[Target], *, is_first: bool
) -> tuple[list[Target], list[str]]:
    """Return the frozen test clips that have landmarks today, and the ids of those that have not.

    A first champion has all test clips of today; they are frozen when it is promoted.
    """
    of_id = {target.clip_id: target for target in targets}
    today = sorted(target.clip_id for target in targets if target.split == "test")
    frozen = None if is_first else store.frozen_test()
    if frozen is None:
        frozen = today if is_first else store.freeze_test(today)
    moved = [clip for clip in frozen if clip in of_id and of_id[clip].split != "test"]
    if moved:
        raise UserError(
            f"{len(moved)} of the frozen test clips are in another split now ({moved[0]} in "
            f"{of_id[moved[0]].split}): a model trained on them would be flattered; give them the "
            "split test again"
        )
    test = [of_id[clip] for clip in frozen if clip in of_id]
    missing = [clip for clip in frozen if clip not in of_id]
    if not test:
        raise UserError(
            "no test clip has landmarks, so there is nothing to judge on; give some signers the "
            "split test, and look into data/landmarks/rejects.tsv"
        )
    return test, missing


def _newest(
    targets: Sequence[Target], batches: Sequence[Collection[str]], least: int
) -> list[Target]:
    """Return the held-out clips of the newest batches, of as few of them as make a judgement."""
    held_out = [target for target in targets if target.split in ("dev", "test")]
    found: list[Target] = []
    for batch in batches:
        found += [target for target in held_out if target.clip_id in batch]
        if len(found) >= least:
            break
    return sorted(found, key=lambda target: target.clip_id)
