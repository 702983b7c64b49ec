"""The drift check: how new clips differ from old ones, a table of measures with their limits."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from signloom.corpus.landmark_folder import QUALITY_NAME, SHARDS_NAME
from signloom.corpus.manifest import Clip
from signloom.corpus.quality import ClipQuality, read_quality
from signloom.corpus.shards import read_shards
from signloom_ops.intake.drift import recordings, signing
from signloom_ops.intake.drift.colour import measure_redness
from signloom_ops.intake.drift.comparison import Comparison
from signloom_ops.intake.drift.findings import DriftReport, Finding, Measured, judge
from signloom_ops.intake.drift.movement import Movement, measure_movement
from signloom_ops.options import DriftOptions

_AT_ONCE = 200  # clips whose landmarks are in memory
_OLD_CLIPS = 1000  # most old clips whose landmarks are read, of the new signers and of others
_COLOUR_CLIPS = 20  # most old clips whose pictures are read


@dataclass(frozen=True, slots=True)
class Check:
    """A measure of a batch, and from which value on it warns."""

    name: str
    measure: Callable[[Comparison], Measured]
    warn: float
    hint: str
    stop: str | None = None  # the field of `DriftOptions` with the limit; None: it never stops
    needs_old: bool = True  # whether it compares with old clips

    def run(self, batch: Comparison, options: DriftOptions) -> Finding:
        """Measure a batch and judge it."""
        stop = getattr(options, self.stop).stop if self.stop else None
        found = self.measure(batch)
        return judge(self.name, found, warn=self.warn, stop=stop, hint=self.hint)


_SENTENCES = "check that the frame rate is right and that each video has its own sentence"
_HANDS = (
    "check that the hands are in the picture, lit and sharp, and that red and blue are not swapped"
)
_MOVES = "look at some of the clips: another frame rate, camera or way of signing?"
_MIRRORED = "check whether the videos are mirrored (a selfie camera); mirror them back"

CHECKS = (
    Check("unread", recordings.measure_unread, 0.1,
          "rejects.tsv beside the landmarks has the reasons", "unread", needs_old=False),
    Check("seconds", recordings.measure_seconds, 2.0,
          "check that each clip is one sentence, and that the frame rate is right", "seconds"),
    Check("pace", recordings.measure_pace, 1.6, _SENTENCES, "pace"),
    Check("pairing", recordings.measure_pairing, 1.4,
          "check that each video has its own sentence: is a row of the table missing?", "pairing"),
    Check("new_words", recordings.measure_new_words, 0.2,
          "a few more clips of each new word teach it; if the words are of another language or "
          "script than the corpus, take the clips out", "new_words"),
    Check("lost_hands", partial(signing.measure_presence, hand="any_hand"), 0.2, _HANDS,
          "lost_hands"),
    Check("lost_hand.left", partial(signing.measure_presence, hand="left_hand"), 0.4, _HANDS),
    Check("lost_hand.right", partial(signing.measure_presence, hand="right_hand"), 0.4, _HANDS),
    *(
        Check(f"movement.{name}", partial(signing.measure_shift, name=name),
              2.5 if name == "speed" else 3.0, _MOVES,
              "speed" if name == "speed" else "movement")
        for name in signing.STATISTICS
    ),
    Check("mirrored", signing.measure_known_signers, 3.0, _MIRRORED, "mirrored"),
    Check("mirrored_people", signing.measure_new_signers, 5.0, _MIRRORED, "mirrored_people"),
    Check("sides", signing.measure_order, 0.2,
          "left and right must be the signer's own; another tool may name them as the viewer's",
          "sides", needs_old=False),
    Check("colour", recordings.measure_colour, 0.05,
          "red and blue are exchanged, or the light is blue: write the videos again, in RGB",
          "colour", needs_old=False),
)  # fmt: skip


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
        options: The limits.

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
    movements, redness = _read_landmarks(_choose_old(old, fresh), fresh, landmarks, quality)
    found = Comparison(
        new=fresh, old=old, quality=quality, movements=movements, redness=redness
    )  # fmt: skip
    is_comparable = bool(found.old_rows and found.new_rows)
    return DriftReport(
        batch=batch,
        new=len(fresh),
        old=len(old),
        findings=tuple(
            check.run(found, options) for check in CHECKS if is_comparable or not check.needs_old
        ),
    )


def _choose_old(old: Sequence[Clip], new: Sequence[Clip]) -> list[Clip]:
    """Return old clips, evenly spaced, and as many of the people who signed the new ones."""
    people = {clip.signer for clip in new}
    own = [clip for clip in old if clip.signer in people]
    others = [clip for clip in old if clip.signer not in people]
    return [*_evenly(own, _OLD_CLIPS), *_evenly(others, _OLD_CLIPS)]


def _evenly(clips: Sequence[Clip], most: int) -> list[Clip]:
    if len(clips) <= most:
        return list(clips)
    return [clips[number * len(clips) // most] for number in range(most)]


def _read_landmarks(
    old: Sequence[Clip],
    new: Sequence[Clip],
    landmarks: Path,
    quality: Mapping[str, ClipQuality],
) -> tuple[dict[str, Movement], dict[str, float]]:
    """Read the landmarks of clips, and some frames of the new and of a few old ones.

    Returns:
        Clip id to movement, and to redness of the skin.
    """
    old, new = ([clip for clip in part if clip.clip_id in quality] for part in (old, new))
    shown = {clip.clip_id: clip for clip in (*_evenly(old, _COLOUR_CLIPS), *new)}
    movements, redness = dict[str, Movement](), dict[str, float]()
    names = sorted(clip.clip_id for clip in (*old, *new))
    for start in range(0, len(names), _AT_ONCE):
        found = read_shards(landmarks / SHARDS_NAME, names[start : start + _AT_ONCE])
        for name, sequence in found.items():
            movements[name] = measure_movement(sequence)
            clip = shown.get(name)
            if clip and (value := measure_redness(clip, sequence)) is not None:
                redness[name] = value
    return movements, redness
