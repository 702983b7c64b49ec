"""Calibration: what `confidence.json` says of a model, and how true that is of dev and test."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from signloom.corpus.landmarks import LandmarkSequence
from signloom.evaluation.metrics import Statistics, sentence_scores
from signloom.evaluation.names import Metric, System
from signloom.evaluation.systems import SplitResult
from signloom.features.features import FloatArray
from signloom.features.sources import SourceSequence
from signloom.features.targets import Target
from signloom.translation.confidence import (
    UNSURE_BELOW,
    Check,
    Confidence,
    describe_train,
    fit_levels,
    plain_score,
    wilson,
)
from signloom.translation.translator import Translator

MOST_CLIPS = 2_000  # of train that are encoded; more change nothing but the time it takes
DECIMALS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """How true the confidence is on one split.

    Attributes:
        checks: Of each translation, in the order of the split's targets.
        right: Whether it is right in every word.
    """

    checks: list[Check]
    right: list[bool]

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
            found["calibration_error"] = round(self.error, DECIMALS)
            found["unsure"] = sum(check.is_unsure for check in self.checks)
        if any(check.unlike is not None for check in self.checks):
            found["unfamiliar"] = sum(bool(check.unlike) for check in self.checks)
        return found

    def to_map(self) -> dict[str, Any]:
        """Return what scores.json has of it."""
        levels = []
        for confidence, clips, right in self.levels:
            low, high = (round(bound, DECIMALS) for bound in wilson(clips, right))
            row = {"confidence": round(confidence, DECIMALS), "clips": clips, "right": right}
            levels.append({**row, "low": low, "high": high})
        return {**self.to_metrics(), "levels": levels}


def calibrate(
    translator: Translator,
    targets: Sequence[Target],
    sequences: Mapping[str, SourceSequence],
    results: Sequence[SplitResult],
    counts: Mapping[str, Mapping[System, Statistics]],
    weights: str,
) -> tuple[Confidence, dict[str, Reliability]]:
    """Fit the confidence on dev, describe train's clips, and try both on every split.

    Args:
        translator: The model.
        targets: The whole corpus.
        sequences: Clip id to landmarks or glosses.
        results: The model's translations of dev and test.
        counts: What was counted in them.
        weights: SHA-256 of the model's weights.

    Returns:
        The confidence, and how true it is by split.
    """
    right = {result.split: _right(counts[result.split][System.MODEL]) for result in results}
    hypotheses = {
        result.split: [found.hypothesis for found in result.translations] for result in results
    }
    clips = {
        result.split: [sequences[target.clip_id] for target in result.targets] for result in results
    }
    encodings: dict[str, FloatArray] = {}
    seen = None
    if translator.source.has_frames:
        encodings = {split: translator.encode_clips(found) for split, found in clips.items()}
        train = [
            sequence
            for target in targets
            if target.split == "train"
            and isinstance(sequence := sequences.get(target.clip_id), LandmarkSequence)
        ]
        train = train[:: -(-len(train) // MOST_CLIPS)]
        states = translator.encode_clips(train)
        read = [clip for one in train if isinstance(clip := translator.trim(one), LandmarkSequence)]
        seen = describe_train(read, states, encodings.get("dev", states))
    confidence = Confidence(
        weights=weights,
        unsure_below=UNSURE_BELOW,
        levels=fit_levels([plain_score(found) for found in hypotheses["dev"]], right["dev"])
        if "dev" in right
        else (),
        train=seen,
    )
    return confidence, {
        split: Reliability(
            checks=[
                confidence.check(
                    hypothesis, translator.trim(clip), encodings[split][row] if seen else None
                )
                for row, (hypothesis, clip) in enumerate(
                    zip(hypotheses[split], clips[split], strict=True)
                )
            ],
            right=right[split],
        )
        for split in right
    }


def _right(statistics: Statistics) -> list[bool]:
    """Return of each sentence whether every word is right."""
    return [bool(value > 0) for value in sentence_scores(statistics)[Metric.EXACT]]
