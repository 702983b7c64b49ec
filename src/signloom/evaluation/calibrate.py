"""Calibration: the confidence of a model, fitted on dev, and how true it is of dev and test.

Users show a model films that were not cut for it. So the confidence is fitted to dev's clips as
they are and under every change of `signloom.evaluation.stress`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from signloom.corpus.landmarks import LandmarkSequence
from signloom.evaluation.metric_names import rounded
from signloom.evaluation.stress import NONE, ChangedClips, change_some
from signloom.evaluation.systems import Setup, SplitResult
from signloom.features.targets import Target
from signloom.grouping import group_pairs
from signloom.translation.confidence import (
    LEAST_LIMIT,
    Check,
    Confidence,
    Level,
    fit_levels,
    plain_score,
    wilson,
)
from signloom.translation.familiarity import (
    FEWEST_PEOPLE,
    TrainClips,
    describe_postures,
    describe_sign_postures,
    describe_train,
)
from signloom.translation.translator import Translator

MOST_CLIPS = 2_000  # of train that are encoded; more change only the time it takes
MOST_WRONG = 0.2  # of the translations without a warning, under any change
LEAST_SHOWN = 0.9  # without a warning, of the right translations of dev as it is


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """How true the confidence is on one split."""

    checks: list[Check]  # of each translation, in the order of the split's targets
    right: list[bool]  # whether it is right in every word

    @property
    def levels(self) -> list[tuple[float, int, int]]:
        """Each confidence, how many clips have it, and how many of them are right."""
        rights = group_pairs(
            (check.confidence, is_right)
            for check, is_right in zip(self.checks, self.right, strict=True)
            if check.confidence is not None
        )
        return [(value, len(level), sum(level)) for value, level in sorted(rights.items())]

    @property
    def error(self) -> float | None:
        """Expected calibration error, % (Guo et al. 2017); None without any confidence.

        How far the share of right clips is from the confidence, the mean over the clips.
        """
        apart = [abs(right - clips * confidence) for confidence, clips, right in self.levels]
        return 100 * sum(apart) / len(self.right) if apart else None

    def to_metrics(self) -> dict[str, Any]:
        """Return the error, and how many translations are unsure or of unfamiliar clips."""
        metrics: dict[str, Any] = {}
        if self.error is not None:
            metrics["calibration_error"] = rounded(self.error)
            metrics["unsure"] = sum(check.is_unsure for check in self.checks)
        if any(check.unlike is not None for check in self.checks):
            metrics["unfamiliar"] = sum(bool(check.unlike) for check in self.checks)
        return metrics

    def to_map(self) -> dict[str, Any]:
        """Return what scores.json has of it."""
        levels = []
        for confidence, clips, right in self.levels:
            low, high = wilson(clips, right)
            row = {"confidence": confidence, "clips": clips, "right": right}
            levels.append(rounded({**row, "low": low, "high": high}))
        return {**self.to_metrics(), "levels": levels}


def fit_confidence(
    setup: Setup,
    weights: str,
    dev: SplitResult | None,
    right: Sequence[bool],
    changed_clips: Sequence[ChangedClips] = (),
) -> Confidence:
    """Fit the confidence on dev, and describe the training clips.

    Args:
        weights: SHA-256 of the model's weights.
        dev: The model's translations of dev; None: it has no clips.
        right: Whether each of these is right in every word.
        changed_clips: Dev's clips under changes of real life, and as they are. If there are any,
            the confidence is fitted to them.
    """
    hypotheses = [translation.hypothesis for translation in dev.translations] if dev else []
    if changed_clips:
        hypotheses = [hypothesis for change in changed_clips for hypothesis in change.hypotheses]
        right = [is_right for change in changed_clips for is_right in change.right]
    levels = fit_levels([plain_score(hypothesis) for hypothesis in hypotheses], right)
    has_frames = setup.translator.source.has_frames
    return Confidence(
        weights=weights,
        unsure_below=choose_limit(levels, changed_clips),
        levels=levels,
        train=_describe_known(setup, dev, changed_clips) if has_frames else None,
    )


def check_split(
    translator: Translator, confidence: Confidence, result: SplitResult, right: list[bool]
) -> Reliability:
    """Return how true a confidence is on one split.

    Args:
        result: The model's translations.
        right: Whether each of these is right in every word.
    """
    states = [None] * len(result.clips) if result.encodings is None else result.encodings
    checks = [
        confidence.check(translation.hypothesis, translator.trim(clip), state)
        for translation, clip, state in zip(result.translations, result.clips, states, strict=True)
    ]
    return Reliability(checks=checks, right=right)


def _describe_known(
    setup: Setup, dev: SplitResult | None, changed_clips: Sequence[ChangedClips]
) -> TrainClips:
    """Return what the model has seen: train's clips, and postures where changes were tried.

    Dev's encodings set the limit of what is like train; without dev train's own do.
    """
    translator = setup.translator
    read = ((setup.sequences[target.clip_id], target) for target in setup.split("train"))
    pairs = [(clip, target) for clip, target in read if isinstance(clip, LandmarkSequence)]
    train, targets = zip(*pairs[:: -(-len(pairs) // MOST_CLIPS)], strict=True)
    texts = [target.text for target in targets]
    states = translator.encode_clips(train)
    held_out_states = states if dev is None or dev.encodings is None else dev.encodings
    strangers = _find_strangers(dev, targets)
    # What varies within a sign is not known from one take of each.
    are_signs = translator.spec.ctc.kind == "texts" and len(texts) >= 2 * len({*texts})
    signs = texts if are_signs and held_out_states is not states else ()
    clips = _read_as(translator, train)
    train_clips = describe_train(clips, states, held_out_states, signs)
    shown = [
        (part, dev.refs[row])
        for row in strangers
        if dev and isinstance(part := translator.trim(dev.clips[row]), LandmarkSequence)
    ]
    signers = [target.signer for target in targets]
    if signs and (posture := describe_sign_postures(clips, texts, signers, shown)):
        return replace(train_clips, posture=posture)
    if not changed_clips:
        return train_clips
    held_out = [clip for change in changed_clips for clip in change.clips]
    posture = describe_postures(
        _read_as(translator, change_some(train)), _read_as(translator, held_out)
    )
    return replace(train_clips, posture=posture)


def _find_strangers(dev: SplitResult | None, train: Sequence[Target]) -> list[int]:
    """Return the rows of dev's clips of people whom train lacks, if these are enough of each.

    A model of one or two people knows too little of others: half of the unknown signs would pass.
    """
    signers, texts = {target.signer for target in train}, {target.text for target in train}
    rows = [
        row
        for row, target in enumerate(dev.targets if dev else ())
        if target.signer not in signers and target.text in texts
    ]
    return rows if len(rows) >= len(texts) and len(signers) >= FEWEST_PEOPLE else []


def _read_as(translator: Translator, clips: Iterable[LandmarkSequence]) -> list[LandmarkSequence]:
    """Return the part of each clip that a model reads."""
    read = map(translator.trim, clips)
    return [part for part in read if isinstance(part, LandmarkSequence)]


def choose_limit(levels: Sequence[Level], changed_clips: Sequence[ChangedClips]) -> float:
    """Return the confidence below which a translation is unsure.

    It is the lowest, from an even chance on, with which at most `MOST_WRONG` of the translations
    without a warning are wrong under each change, as long as `LEAST_SHOWN` of dev's right ones have
    none.

    Args:
        levels: Of the confidence.
        changed_clips: Dev's clips under each change; without any it is an even chance.
    """
    plain = Confidence(weights="", unsure_below=LEAST_LIMIT, levels=tuple(levels), train=None)
    rows = {
        change.change: [
            (level.confidence, is_right)
            for hypothesis, is_right in zip(change.hypotheses, change.right, strict=True)
            if (level := plain.level(plain_score(hypothesis)))
        ]
        for change in changed_clips
    }
    right = [confidence for confidence, is_right in rows.get(NONE, []) if is_right]
    chosen = LEAST_LIMIT
    for limit in sorted({LEAST_LIMIT, *(level.confidence for level in levels)}):
        if limit < LEAST_LIMIT:
            continue
        if sum(confidence >= limit for confidence in right) < LEAST_SHOWN * len(right):
            break
        chosen = limit
        shown = [[is_right for c, is_right in row if c >= limit] for row in rows.values()]
        if all(rights.count(False) <= MOST_WRONG * len(rights) for rights in shown):
            break
    return chosen
