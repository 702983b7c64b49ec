"""The drift check: how new clips differ from old ones, a table of measures with their limits."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from signloom.corpus.landmark_folder import QUALITY_NAME, SHARDS_NAME
from signloom.corpus.manifest import Clip
from signloom.corpus.quality import read_quality
from signloom.corpus.shards import read_shards
from signloom_ops.intake.drift import recordings, signing
from signloom_ops.intake.drift.comparison import Comparison
from signloom_ops.intake.drift.findings import DriftReport, Finding, Level, Measured
from signloom_ops.intake.drift.movement import Movement, measure_movement
from signloom_ops.options import DriftOptions

_AT_ONCE = 200  # clips whose landmarks are in memory
_OLD_CLIPS = 1000  # most old clips whose landmarks are read, of the new signers and of others


@dataclass(frozen=True, slots=True)
class DriftCheck:
    """A measure of a batch, and from which value on it warns."""

    name: str  # also of the field of `DriftOptions` with the limit from which on it stops
    measure: Callable[[Comparison], Measured]
    warn: float
    hint: str
    needs_old: bool = True  # whether it compares with old clips

    def run(self, comparison: Comparison, options: DriftOptions) -> Finding:
        """Measure a batch and judge it."""
        stop = getattr(options, self.name).stop
        measured = self.measure(comparison)
        value = measured.statistic
        level: Level = "ok"
        if value is not None and value >= self.warn:
            level = "warn"
        if value is not None and stop is not None and value >= stop:
            level = "stop"
        return Finding(
            check=self.name,
            level=level,
            statistic=None if value is None else round(value, 4),
            warn=self.warn,
            stop=stop,
            what=measured.what,
            hint="" if level == "ok" else self.hint,
            clips=() if level == "ok" else tuple(sorted(measured.clips)),
            figures={name: round(number, 6) for name, number in measured.figures.items()},
            signer=measured.signer,
        )


_SENTENCES = "check that the frame rate is right and that each video has its own sentence"

CHECKS = (
    DriftCheck(
        "unread",
        recordings.measure_unread,
        0.1,
        "rejects.tsv beside the landmarks has the reasons",
        needs_old=False,
    ),
    DriftCheck(
        "seconds",
        recordings.measure_seconds,
        2.0,
        "check that each clip is one sentence, and that the frame rate is right",
    ),
    DriftCheck("pace", recordings.measure_pace, 1.6, _SENTENCES),
    DriftCheck(
        "pairing",
        recordings.measure_pairing,
        1.4,
        "check that each video has its own sentence: is a row of the table missing?",
    ),
    DriftCheck(
        "new_words",
        recordings.measure_new_words,
        0.2,
        "a few more clips of each new word teach it; if the words are of another language or "
        "script than the corpus, take the clips out",
    ),
    DriftCheck(
        "lost_hands",
        signing.measure_presence,
        0.2,
        "check that the hands are in the picture, lit and sharp",
    ),
    DriftCheck(
        "speed",
        signing.measure_speed,
        2.5,
        "look at some of the clips: another frame rate, or way of signing?",
    ),
    DriftCheck(
        "mirrored",
        signing.measure_known_signers,
        3.0,
        "check whether the videos are mirrored (a selfie camera); mirror them back",
    ),
)


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

    Returns:
        A finding for each check. In a corpus without old clips only those that need none.

    Raises:
        ValueError: If there is no new clip, or one that is not in the corpus.
        UserError: If the landmarks are missing or damaged.
    """
    fresh = [clip for clip in clips if clip.clip_id in new]
    if not fresh or len(fresh) < len(set(new)):
        raise ValueError(f"{len(set(new))} new clips, of which {len(fresh)} are in the corpus")
    quality = {row.clip_id: row for row in read_quality(landmarks / QUALITY_NAME)}
    old = [clip for clip in clips if clip.clip_id not in new]
    movements = _measure_movements([*_choose_old(old, fresh), *fresh], landmarks, quality)
    comparison = Comparison(new=fresh, old=old, quality=quality, movements=movements)
    is_comparable = bool(comparison.old_rows and comparison.new_rows)
    return DriftReport(
        batch=batch,
        new=len(fresh),
        old=len(old),
        findings=tuple(
            check.run(comparison, options)
            for check in CHECKS
            if is_comparable or not check.needs_old
        ),
    )


def _choose_old(old: Sequence[Clip], new: Sequence[Clip]) -> list[Clip]:
    """Return old clips, evenly spaced, and as many of the people who signed the new ones."""
    people = {clip.signer for clip in new}
    by_signers = [clip for clip in old if clip.signer in people]
    by_others = [clip for clip in old if clip.signer not in people]
    return [*_evenly(by_signers, _OLD_CLIPS), *_evenly(by_others, _OLD_CLIPS)]


def _evenly(clips: Sequence[Clip], most: int) -> list[Clip]:
    if len(clips) <= most:
        return list(clips)
    return [clips[number * len(clips) // most] for number in range(most)]


def _measure_movements(
    clips: Sequence[Clip], landmarks: Path, quality: Collection[str]
) -> dict[str, Movement]:
    """Return by its id how hands move in each clip that has landmarks."""
    movements = dict[str, Movement]()
    names = sorted(clip.clip_id for clip in clips if clip.clip_id in quality)
    for start in range(0, len(names), _AT_ONCE):
        sequences = read_shards(landmarks / SHARDS_NAME, names[start : start + _AT_ONCE])
        movements |= {name: measure_movement(sequence) for name, sequence in sequences.items()}
    return movements
