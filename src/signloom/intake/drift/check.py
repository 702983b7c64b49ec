"""The drift check: new clips against old ones."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from signloom.corpus.landmark_folder import QUALITY, SHARDS
from signloom.corpus.manifest import Clip
from signloom.corpus.quality import ClipQuality, read_quality
from signloom.corpus.shards import read_shards
from signloom.intake.drift.colour import measure_redness
from signloom.intake.drift.findings import (
    DriftOptions,
    DriftReport,
    Finding,
    Limits,
    form_groups,
    judge,
)
from signloom.intake.drift.recordings import check_recordings, check_unread
from signloom.intake.drift.signing import (
    Movement,
    check_hands,
    check_mirrored,
    check_movement,
    check_order,
    gather_preferences,
    measure_movement,
)
from signloom.intake.drift.texts import check_texts

_AT_ONCE = 200  # clips whose landmarks are in memory


@dataclass(frozen=True, slots=True)
class _Measured:
    """What landmarks and videos say of the clips, by clip id."""

    movements: dict[str, Movement]
    redness: dict[str, float]


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
    rows = {row.clip_id: row for row in read_quality(landmarks / QUALITY)}
    new_rows = _rows_of(fresh, rows)
    measured = _measure([*old, *fresh], new, landmarks, rows, options)
    findings = [check_unread(fresh, new_rows, options.unread)]
    old_rows = _rows_of(old, rows)
    if old_rows and new_rows:
        whole = [clip for clip in clips if clip.clip_id not in new]
        seconds = {row.clip_id: row.seconds for row in rows.values()}
        findings += check_recordings(whole, fresh, _rows_of(whole, rows), new_rows, options)
        findings += check_texts(whole, fresh, seconds, options)
        findings += _compare_signing(old, fresh, rows, measured.movements, options)
    names = [clip.clip_id for clip in fresh]
    findings.append(check_order(measured.movements, names, options.sides))
    findings.append(_check_colour(measured.redness, new, options.colour))
    return DriftReport(
        batch=batch, new=len(fresh), old=len(clips) - len(fresh), findings=tuple(findings)
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
) -> _Measured:
    """Read the landmarks of clips, and some frames of the new and of a few old ones."""
    there = {clip.clip_id: clip for clip in clips if clip.clip_id in rows}
    old = [clip for clip in there.values() if clip.clip_id not in new]
    shown = {clip.clip_id for clip in _evenly(old, options.colour_clips)}
    shown |= set(new) if options.colour_clips else set()
    measured = _Measured({}, {})
    names = sorted(there)
    for start in range(0, len(names), _AT_ONCE):
        found = read_shards(landmarks / SHARDS, names[start : start + _AT_ONCE])
        for name, sequence in found.items():
            measured.movements[name] = measure_movement(sequence)
            if name in shown:
                redness = measure_redness(there[name], sequence, options.colour_frames)
                if redness is not None:
                    measured.redness[name] = redness
    return measured


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
        *check_mirrored(before, now, options),
    ]


def _check_colour(redness: Mapping[str, float], new: Collection[str], limits: Limits) -> Finding:
    """Count the clips with blue skin, beyond the share that the old clips have of them."""
    now = {name: value for name, value in redness.items() if name in new}
    before = [value for name, value in redness.items() if name not in new]
    if not now:
        return judge("colour", limits, None, "no video to look at")
    blue = [name for name, value in now.items() if value < 0]
    usual = sum(value < 0 for value in before) / max(len(before), 1)
    figures = {"new": median(now.values()), "usual_share": usual}
    return judge(
        "colour",
        limits,
        max(len(blue) / len(now) - usual, 0.0),
        f"in {len(blue)} of {len(now)} clips the skin is bluer than red",
        mend="red and blue are exchanged, or the light is blue: write the videos again, in RGB",
        clips=blue,
        figures=figures | ({"old": median(before)} if before else {}),
    )
