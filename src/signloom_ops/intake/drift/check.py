"""The drift check: how new clips differ from old ones."""

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from signloom.corpus.landmark_folder import QUALITY_NAME, SHARDS_NAME
from signloom.corpus.manifest import Clip
from signloom.corpus.quality import ClipQuality, read_quality
from signloom.corpus.shards import read_shards
from signloom_ops.intake.drift.findings import DriftReport, Finding, Overall, form_groups
from signloom_ops.intake.drift.recordings import (
    check_colour,
    check_recordings,
    check_texts,
    check_unread,
    measure_redness,
)
from signloom_ops.intake.drift.signing import (
    Movement,
    check_hands,
    check_known_signers,
    check_movement,
    check_new_signers,
    check_order,
    gather_preferences,
    measure_movement,
)
from signloom_ops.options import DriftOptions

_AT_ONCE = 200  # clips whose landmarks are in memory
_FOLDS = 3
_EXCHANGES = 19  # of old and new: the least p-value is 1 in 20


def check_drift(
    clips: Sequence[Clip],
    new: Collection[str],
    *,
    batch: str,
    landmarks: Path,
    options: DriftOptions,
) -> DriftReport:
    """Compare the new clips of a corpus with the others.

    Args:
        clips: The corpus.
        new: Ids of its new clips.
        batch: What to call them.
        landmarks: What `extract` wrote, with the new clips.
        options: What is looked at, and the limits.

    Returns:
        A finding for each check. In a corpus without old clips only those that need none.

    Raises:
        ValueError: If there is no new clip, or one that is not in the corpus.
        UserError: If the landmarks are missing or damaged.
    """
    fresh = [clip for clip in clips if clip.clip_id in new]
    if not fresh or len(fresh) < len(set(new)):
        raise ValueError(f"{len(set(new))} new clips, of which {len(fresh)} are in the corpus")
    old = _choose_old(clips, new, options.old_clips)
    rows = {row.clip_id: row for row in read_quality(landmarks / QUALITY_NAME)}
    new_rows = _rows_of(fresh, rows)
    movements, redness = _measure([*old, *fresh], new, landmarks, rows, options)
    findings = [check_unread(fresh, new_rows, options.unread)]
    old_rows = _rows_of(old, rows)
    if old_rows and new_rows:
        whole = [clip for clip in clips if clip.clip_id not in new]
        seconds = {row.clip_id: row.seconds for row in rows.values()}
        findings += check_recordings(whole, fresh, _rows_of(whole, rows), new_rows, options)
        findings += check_texts(whole, fresh, seconds, options)
        findings += _compare_signing(old, fresh, rows, movements, options)
    names = [clip.clip_id for clip in fresh]
    findings.append(check_order(movements, names, options.sides))
    findings.append(check_colour(redness, new, options.colour))
    return DriftReport(
        batch=batch,
        new=len(fresh),
        old=len(clips) - len(fresh),
        findings=tuple(findings),
        overall=classify([*old, *fresh], new, rows, movements, options.min_clips),
    )


def _choose_old(clips: Sequence[Clip], new: Collection[str], most: int) -> list[Clip]:
    """Return old clips, evenly spaced, and as many of the people who signed the new ones."""
    people = {clip.signer for clip in clips if clip.clip_id in new}
    old = [clip for clip in clips if clip.clip_id not in new]
    own = [clip for clip in old if clip.signer in people]
    others = [clip for clip in old if clip.signer not in people]
    return [*_evenly(own, most), *_evenly(others, most)]


def _evenly(clips: Sequence[Clip], most: int) -> list[Clip]:
    if len(clips) <= most:
        return list(clips)
    return [clips[number * len(clips) // most] for number in range(most)]


def _rows_of(clips: Sequence[Clip], rows: Mapping[str, ClipQuality]) -> list[ClipQuality]:
    return [rows[clip.clip_id] for clip in clips if clip.clip_id in rows]


def _measure(
    clips: Sequence[Clip],
    new: Collection[str],
    landmarks: Path,
    rows: Mapping[str, ClipQuality],
    options: DriftOptions,
) -> tuple[dict[str, Movement], dict[str, float]]:
    """Read the landmarks of clips, and some frames of the new and of a few old ones.

    Returns:
        Clip id to movement, and to redness of the skin.
    """
    there = {clip.clip_id: clip for clip in clips if clip.clip_id in rows}
    old = [clip for clip in there.values() if clip.clip_id not in new]
    shown = {clip.clip_id for clip in _evenly(old, options.colour_clips)}
    shown |= set(new) if options.colour_clips else set()
    movements, redness = dict[str, Movement](), dict[str, float]()
    names = sorted(there)
    for start in range(0, len(names), _AT_ONCE):
        found = read_shards(landmarks / SHARDS_NAME, names[start : start + _AT_ONCE])
        for name, sequence in found.items():
            movements[name] = measure_movement(sequence)
            if name in shown:
                found_redness = measure_redness(there[name], sequence, options.colour_frames)
                if found_redness is not None:
                    redness[name] = found_redness
    return movements, redness


def _compare_signing(
    old: Sequence[Clip],
    new: Sequence[Clip],
    rows: Mapping[str, ClipQuality],
    movements: Mapping[str, Movement],
    options: DriftOptions,
) -> list[Finding]:
    signers = {clip.clip_id: clip.signer for clip in (*old, *new)}
    groups = form_groups(old, new, movements, options.min_clips)
    before, now = (
        gather_preferences([clip.clip_id for clip in part], movements, signers)
        for part in (old, new)
    )
    return [
        *check_hands(groups, rows, options),
        *check_movement(groups, movements, signers, options),
        check_known_signers(before, now, options),
        check_new_signers(before, now, options),
    ]


def classify(
    clips: Sequence[Clip],
    new: Collection[str],
    rows: Mapping[str, ClipQuality],
    movements: Mapping[str, Movement],
    min_clips: int,
) -> Overall | None:
    """Return how well a logistic regression tells new clips from old ones that it did not see.

    A two-sample test by a classifier (Lopez-Paz and Oquab 2017, "Revisiting classifier two-sample
    tests") over all measures at once: movement, shares of frames with hands, duration, length of
    the sentence. Where several signers are new and several old, all clips of a signer are kept out
    together, so that not the persons are recognised. By chance means: the clips of a signer who
    has old and new ones are exchanged, or, if there is none, as many signers are called new.
    """
    there = [clip for clip in clips if clip.clip_id in movements and clip.clip_id in rows]
    is_new = np.array([clip.clip_id in new for clip in there], dtype=bool)  # there may be none
    if min(is_new.sum(), (~is_new).sum()) < max(min_clips, _FOLDS):
        return None
    values = np.array([_measures(clip, rows[clip.clip_id], movements[clip.clip_id])
                       for clip in there])  # fmt: skip
    values = values[:, ~np.isnan(values).all(axis=0)]
    values = np.where(np.isnan(values), np.nanmedian(values, axis=0), values)
    values = (values - values.mean(axis=0)) / np.maximum(values.std(axis=0), 1e-9)
    signers = np.array([clip.signer for clip in there])
    auc, is_grouped = _held_out_auc(values, is_new, signers)
    rng = np.random.default_rng(0)
    exchanged = [
        _held_out_auc(values, _exchange(is_new, signers, rng), signers)[0]
        for _ in range(_EXCHANGES)
    ]
    as_good = sum(found >= auc for found in exchanged)
    return Overall(
        auc=round(auc, 4),
        usual_auc=round(float(np.median(exchanged)), 4),
        p_value=round((1 + as_good) / (1 + _EXCHANGES), 4),
        is_grouped=is_grouped,
    )


def _measures(clip: Clip, row: ClipQuality, movement: Movement) -> list[float]:
    found = (
        *dataclasses.astuple(movement),
        row.any_hand, row.left_hand, row.right_hand, row.seconds, len(clip.text),
    )  # fmt: skip
    return [math.nan if value is None else float(value) for value in found]


def _held_out_auc(
    values: npt.NDArray[np.float64], is_new: npt.NDArray[np.bool_], signers: npt.NDArray[np.str_]
) -> tuple[float, bool]:
    """Return the AUC over all folds, and whether signers were kept together."""
    groups = min(len(set(signers[is_new])), len(set(signers[~is_new])))
    if groups > 1:
        grouped = StratifiedGroupKFold(min(_FOLDS, groups), shuffle=True, random_state=0)
        folds = grouped.split(values, is_new, signers)
    else:
        folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=0).split(values, is_new)
    scores = np.zeros(len(values))
    for train, held_out in folds:
        if len(set(is_new[train])) > 1:  # else it cannot learn anything
            model = LogisticRegression(class_weight="balanced", solver="newton-cholesky").fit(
                values[train], is_new[train]
            )
            scores[held_out] = model.decision_function(values[held_out])
    return float(roc_auc_score(is_new, scores)), groups > 1


def _exchange(
    is_new: npt.NDArray[np.bool_], signers: npt.NDArray[np.str_], rng: np.random.Generator
) -> npt.NDArray[np.bool_]:
    """Return who would be new if chance had chosen."""
    fresh, known = set(signers[is_new]), set(signers[~is_new])
    if not fresh & known:
        chosen = rng.choice(sorted(fresh | known), len(fresh), replace=False)
        return np.isin(signers, chosen)
    exchanged = is_new.copy()
    for signer in sorted(fresh & known):
        theirs = np.flatnonzero(signers == signer)
        exchanged[theirs] = rng.permutation(is_new[theirs])
    return exchanged
