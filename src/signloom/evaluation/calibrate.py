"""Calibration: what `confidence.json` says of a model, and how true that is of dev and test.

A model is asked about films that nobody cut for it. So doubt is learnt from dev's clips as they are
and under every change of `signloom.evaluation.stress`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from signloom.corpus.landmarks import LandmarkSequence
from signloom.evaluation.metrics import Statistics, sentence_scores
from signloom.evaluation.names import Metric, System, rounded
from signloom.evaluation.stress import NONE, StressRow, Tried, change_some, is_told, stress_row
from signloom.evaluation.systems import SplitResult
from signloom.features.features import FloatArray
from signloom.features.sources import SourceSequence
from signloom.features.targets import Target
from signloom.translation.confidence import (
    LEAST_LIMIT,
    Check,
    Confidence,
    Level,
    TrainClips,
    describe_postures,
    describe_train,
    fit_levels,
    plain_score,
    wilson,
)
from signloom.translation.translator import Translator

MOST_CLIPS = 2_000  # of train that are encoded; more change nothing but the time it takes
MOST_WRONG = 0.2  # of what is said without a warning, under any change
LEAST_TOLD = 0.9  # of the right translations of dev as it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """How true the confidence is on one split."""

    checks: list[Check]  # of each translation, in the order of the split's targets
    right: list[bool]  # whether it is right in every word

    @property
    def levels(self) -> list[tuple[float, int, int]]:
        """Each confidence, how many clips have it, and how many of them are right."""
        found: dict[float, list[bool]] = {}
        for check, is_right in zip(self.checks, self.right, strict=True):
            if check.confidence is not None:
                found.setdefault(check.confidence, []).append(is_right)
        return [(value, len(these), sum(these)) for value, these in sorted(found.items())]

    @property
    def error(self) -> float | None:
        """Expected calibration error, % (Guo et al. 2017); None without any confidence.

        How far the share of right clips is from the confidence, the mean over the clips.
        """
        apart = [abs(right - clips * confidence) for confidence, clips, right in self.levels]
        return 100 * sum(apart) / len(self.right) if apart else None

    def to_metrics(self) -> dict[str, Any]:
        """Return what metrics.json has of it."""
        found: dict[str, Any] = {}
        if self.error is not None:
            found["calibration_error"] = rounded(self.error)
            found["unsure"] = sum(check.is_unsure for check in self.checks)
        if any(check.unlike is not None for check in self.checks):
            found["unfamiliar"] = sum(bool(check.unlike) for check in self.checks)
        return found

    def to_map(self) -> dict[str, Any]:
        """Return what scores.json has of it."""
        levels = []
        for confidence, clips, right in self.levels:
            low, high = wilson(clips, right)
            row = {"confidence": confidence, "clips": clips, "right": right}
            levels.append(rounded({**row, "low": low, "high": high}))
        return {**self.to_metrics(), "levels": levels}


def calibrate(
    translator: Translator,
    targets: Sequence[Target],
    sequences: Mapping[str, SourceSequence],
    results: Sequence[SplitResult],
    counts: Mapping[str, Mapping[System, Statistics]],
    weights: str,
    tried: Sequence[Tried] = (),
) -> tuple[Confidence, dict[str, Reliability]]:
    """Fit the confidence on dev, describe train's clips, and try both on every split.

    Args:
        translator: The model.
        targets: The whole corpus.
        sequences: Clip id to landmarks or glosses.
        results: The model's translations of dev and test.
        counts: What was counted in them.
        weights: SHA-256 of the model's weights.
        tried: Clips under changes of real life; doubt is learnt from those of dev, too.

    Returns:
        The confidence, and how true it is by split.
    """
    right = {result.split: _right(counts[result.split][System.MODEL]) for result in results}
    clips = {
        result.split: [sequences[target.clip_id] for target in result.targets] for result in results
    }
    of_dev = [one for one in tried if one.split == "dev"]
    encodings: dict[str, Any] = {}  # (B, D) by split
    seen = None
    if translator.source.has_frames:
        encodings = {split: translator.encode_clips(found) for split, found in clips.items()}
        read = [sequences.get(target.clip_id) for target in targets if target.split == "train"]
        held_out = [clip for one in of_dev for clip in one.clips]
        seen = _describe_known(translator, read, encodings.get("dev"), held_out)
    found = [hypothesis for one in of_dev for hypothesis in one.hypotheses]
    true = [is_right for one in of_dev for is_right in one.right]
    if not of_dev:
        dev = [one for result in results if result.split == "dev" for one in result.translations]
        found, true = [one.hypothesis for one in dev], right.get("dev", [])
    levels = fit_levels([plain_score(one) for one in found], true)
    confidence = Confidence(
        weights=weights, unsure_below=choose_limit(levels, of_dev), levels=levels, train=seen
    )
    reliability = {}
    for result in results:
        own = clips[result.split]
        states = encodings.get(result.split, [None] * len(own))
        checks = [
            confidence.check(one.hypothesis, translator.trim(clip), state)
            for one, clip, state in zip(result.translations, own, states, strict=True)
        ]
        reliability[result.split] = Reliability(checks=checks, right=right[result.split])
    return confidence, reliability


def _describe_known(
    translator: Translator,
    read: Sequence[SourceSequence | None],
    dev: FloatArray | None,
    held_out: Sequence[LandmarkSequence],
) -> TrainClips:
    """Return what the model has seen: train's clips, and postures where some were held out.

    Args:
        translator: The model.
        read: Clips of train; None where one has no landmarks.
        dev: Encodings of dev, (B, D); None: those of train in their place.
        held_out: Clips of dev under changes of real life.
    """
    train = [clip for clip in read if isinstance(clip, LandmarkSequence)]
    train = train[:: -(-len(train) // MOST_CLIPS)]
    states = translator.encode_clips(train)
    parts = [part for one in train for part in read_as(translator, one)]
    seen = describe_train(parts, states, states if dev is None else dev)
    if not held_out:
        return seen
    posture = describe_postures(
        [part for one in change_some(train) for part in read_as(translator, one)],
        [part for one in held_out for part in read_as(translator, one)],
    )
    return replace(seen, posture=posture)


def read_as(translator: Translator, clip: LandmarkSequence) -> list[LandmarkSequence]:
    """Return the part of a clip that a model reads."""
    found = translator.trim(clip)
    return [found] if isinstance(found, LandmarkSequence) else []


def choose_limit(levels: Sequence[Level], tried: Sequence[Tried]) -> float:
    """Return the confidence below which a translation is unsure.

    It is the lowest, from an even chance on, with which at most `MOST_WRONG` of what is said under
    each change is wrong, as long as `LEAST_TOLD` of dev's right translations are still said.

    Args:
        levels: Of the confidence.
        tried: Dev's clips under each change; without any it is an even chance.
    """
    plain = Confidence(weights="", unsure_below=LEAST_LIMIT, levels=tuple(levels), train=None)
    rows = {
        one.change: [
            (level.confidence, is_right)
            for hypothesis, is_right in zip(one.hypotheses, one.right, strict=True)
            if (level := plain.level(plain_score(hypothesis)))
        ]
        for one in tried
    }
    right = [confidence for confidence, is_right in rows.get(NONE, []) if is_right]
    chosen = LEAST_LIMIT
    for limit in sorted({LEAST_LIMIT, *(one.confidence for one in levels)}):
        if limit < LEAST_LIMIT:
            continue
        if sum(confidence >= limit for confidence in right) < LEAST_TOLD * len(right):
            break
        chosen = limit
        said = [[is_right for c, is_right in row if c >= limit] for row in rows.values()]
        if all(one.count(False) <= MOST_WRONG * len(one) for one in said):
            break
    return chosen


def stress_rows(
    translator: Translator, confidence: Confidence, tried: Sequence[Tried]
) -> list[StressRow]:
    """Return what each change costs each split, and what is said without a warning."""
    return [stress_row(one, is_told(one, translator, confidence)) for one in tried]


def _right(statistics: Statistics) -> list[bool]:
    """Return of each sentence whether every word is right."""
    return [bool(value > 0) for value in sentence_scores(statistics)[Metric.EXACT]]
