"""The landmarks of a clip come in, a row of figures on how well they were detected goes out."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import numpy.typing as npt

from signloom.corpus.landmarks import LandmarkSequence
from signloom.reproducibility import write_atomically

HANDS = ("left_hand", "right_hand")


@dataclass(frozen=True, kw_only=True, slots=True)
class ClipQuality:
    """How well the landmarks of one clip were detected; one row of quality.tsv."""

    clip_id: str
    frames: int
    seconds: float
    fps: float
    """Frames a second."""
    width: int
    """Pixels."""
    height: int
    """Pixels."""
    left_hand: float
    """Share of the frames with the signer's left hand, 0 to 1."""
    right_hand: float
    """Share of the frames with the signer's right hand, 0 to 1."""
    any_hand: float
    """Share of the frames with a hand, 0 to 1; 0: nothing can be learned from the clip."""
    pose: float
    """Share of the frames with the upper body, 0 to 1."""
    longest_gap_s: float
    """Longest run of frames without any hand, seconds, the clip's ends included."""
    jitter: float | None
    """Median second difference of the hands' wrists from frame to frame, in shoulder widths.
    Smooth movement is near 0. None (an empty field) without shoulders or three frames running."""


def measure_quality(clip_id: str, sequence: LandmarkSequence) -> ClipQuality:
    """Measure how well one clip was detected."""
    columns = [sequence.layout.group(hand) for hand in HANDS]
    left, right = (sequence.present[:, column] for column in columns)
    pose = sequence.present[:, sequence.layout.group("pose")]
    return ClipQuality(
        clip_id=clip_id,
        frames=len(sequence.points),
        seconds=sequence.seconds,
        fps=sequence.fps,
        width=sequence.width,
        height=sequence.height,
        left_hand=float(left.mean()),
        right_hand=float(right.mean()),
        any_hand=float((left | right).mean()),
        pose=float(pose.mean()),
        longest_gap_s=longest_run(~(left | right)) / sequence.fps,
        jitter=_jitter(sequence),
    )


def longest_run(flags: npt.NDArray[np.bool_]) -> int:
    """Return the length of the longest run of True in an array of shape (S,)."""
    edges = np.diff(np.concatenate([[0], flags.astype(np.int8), [0]]))
    lengths = np.flatnonzero(edges == -1) - np.flatnonzero(edges == 1)
    return int(lengths.max(initial=0))


def write_quality(path: Path, rows: Iterable[ClipQuality]) -> None:
    """Write quality.tsv: a header, then a line a clip; fractions with four decimals."""
    names = [field.name for field in fields(ClipQuality)]
    lines = ["\t".join(names)]
    lines += ["\t".join(_format(getattr(row, name)) for name in names) for row in rows]
    write_atomically(path, "\n".join(lines) + "\n")


def _format(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _jitter(sequence: LandmarkSequence) -> float | None:
    layout = sequence.layout
    # Pixels, so that a step to the side counts like one upwards.
    pixels = sequence.points[:, :, :2] * np.array([sequence.width, sequence.height], np.float32)
    shoulders = [layout.index("pose", f"{side}_shoulder") for side in ("left", "right")]
    widths = np.linalg.norm(pixels[:, shoulders[0]] - pixels[:, shoulders[1]], axis=1)
    wrists = pixels[:, [layout.index(hand, "wrist") for hand in HANDS]]
    bends = np.linalg.norm(np.diff(wrists, n=2, axis=0), axis=2)
    widths, bends = widths[np.isfinite(widths)], bends[np.isfinite(bends)]
    if not len(widths) or not len(bends) or np.median(widths) == 0:
        return None
    return float(np.median(bends) / np.median(widths))
