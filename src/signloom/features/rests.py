"""Find still frames and trim them from both ends of a clip.

Every film of a person begins with a moment of stillness, and positions are bound to words: a model
that learnt from clips cut at the first movement reads a film with a second of rest in front badly.
So what lies before the first and after the last movement is cut, in training and everywhere else;
films are cut into sentences by the same rests (translation/segmentation.py).
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from signloom.corpus.landmarks import LandmarkSequence
from signloom.features.features import HANDS, FloatArray, fill_gaps, normalise

# Slower is still, shoulder widths a second: jitter of a resting hand is 0.3, raising it 3 to 6.
STILL = 0.8
# So slow is all of a hand in a film of one picture, as its landmarks tremble.
FROZEN = 0.3
HOLD_S = 1.0  # a sign is held up without a tremble for less; a picture that stands still is not
# A hand is low below this share of the way from the shoulders to the hips, which are this many
# shoulder widths below where no body was found.
LOW = 0.6
TORSO = 1.4
SMOOTH_S = 0.2  # over which speed is measured
BRIDGE_S = 0.2  # a hand that is lost for no longer is where it was


def take_frames(sequence: LandmarkSequence, start: int, stop: int) -> LandmarkSequence:
    """Return the frames of a clip from `start` to before `stop`."""
    if (start, stop) == (0, len(sequence.points)):
        return sequence
    return replace(
        sequence, points=sequence.points[start:stop], present=sequence.present[start:stop]
    )


def find_signing(sequence: LandmarkSequence, rest_s: float) -> tuple[int, int]:
    """Return the first frame of the signing and the first one after it.

    Args:
        sequence: The landmarks of one clip; the layout needs hands or pose, else it is all signing.
        rest_s: Seconds of stillness that belong to it at either end; 0: all.
    """
    frames = len(sequence.points)
    if not rest_s:
        return 0, frames
    moves = find_busy(fill_gaps(sequence, BRIDGE_S))
    if not moves.any():
        return 0, frames
    rest_frames, window = (
        round(rest_s * sequence.fps),
        half_window(sequence.fps),
    )  # seen so much too early
    first = int(np.argmax(moves)) + window
    last = frames - 1 - int(np.argmax(moves[::-1])) - window
    return max(min(first, frames - 1) - rest_frames, 0), min(
        max(last, first) + 1 + rest_frames, frames
    )


def find_busy(sequence: LandmarkSequence, hold_s: float = 0.0) -> npt.NDArray[np.bool_]:
    """Return in which frames a hand moves, or is held up, shape (S,).

    A hand that is held up belongs to a sign even if its wrist is still: fingers spell, a sign is
    held. It is at rest only where nothing of it moves, which is a picture that stands still.

    Args:
        sequence: A clip whose gaps are filled.
        hold_s: Where nothing of it moves for less, it is not at rest.
    """
    points = normalise(sequence, "body")[..., :2]
    tracks = wrist_tracks(points, sequence)
    low = _low_line(points, tracks, sequence)
    busy = np.zeros(len(points), np.bool_)
    is_held = busy.copy()
    with np.errstate(invalid="ignore"):  # NaN, an absent hand, is at rest
        for hand, wrist in zip(HANDS, tracks, strict=True):
            pace, is_high = speeds(wrist, sequence.fps), wrist[:, 1] < low
            busy |= pace > STILL
            is_held |= is_high
            if is_high.any() and hand in sequence.layout.group_names:
                marks = points[:, sequence.layout.slice(hand)]
                fastest = np.fmax.reduce(speeds(marks, sequence.fps), axis=1, initial=0)
                busy |= is_high & (fastest > FROZEN)
            busy |= is_high & (pace > FROZEN)
    for start, stop in find_runs(is_held & ~busy):
        busy[start:stop] |= stop - start < hold_s * sequence.fps
    return busy


def find_runs(values: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return where runs of True start and end (excluded)."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], values, [False])).astype(np.int8)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _low_line(points: FloatArray, tracks: list[FloatArray], sequence: LandmarkSequence) -> float:
    """Return below which y a hand is low; -infinity where nothing says so: no hand is high."""
    names, absent = sequence.layout.landmark_names, np.full_like(points[:, 0], np.nan)
    shoulder, hip = (
        np.concatenate(
            [
                points[:, names.index(name), 1] if name in names else absent[:, 1]
                for name in (f"pose.left_{part}", f"pose.right_{part}")
            ]
        )
        for part in ("shoulder", "hip")
    )
    heights = np.concatenate(tracks)[:, 1]
    if np.isfinite(shoulder).any():
        top = float(np.nanmedian(shoulder))
        bottom = float(np.nanmedian(hip)) if np.isfinite(hip).any() else top + TORSO
        return top + LOW * (bottom - top)
    if np.isfinite(heights).any():  # hands alone: half-way between where they are at most
        return float(np.nanquantile(heights, (0.05, 0.95)).mean())
    return -np.inf


def wrist_tracks(points: FloatArray, sequence: LandmarkSequence) -> list[FloatArray]:
    """Return where the left and the right wrist are, shape (S, C) each; NaN where not seen.

    Args:
        points: Of `normalise`, shape (S, P, C).
        sequence: The clip they come from.
    """
    names, absent = sequence.layout.landmark_names, np.full_like(points[:, 0], np.nan)

    def track(name: str) -> FloatArray:
        return points[:, names.index(name)] if name in names else absent

    # The body's wrist first: it is there where a hand at rest leaves the picture.
    sides = {hand: hand.removesuffix("_hand") for hand in HANDS}
    return [
        np.where(np.isnan(body := track(f"pose.{side}_wrist")), track(f"{hand}.wrist"), body)
        for hand, side in sides.items()
    ]


def speeds(track: FloatArray, fps: float) -> npt.NDArray[np.float32]:
    """Return how far points move in a second over `SMOOTH_S` around each frame.

    Args:
        track: Shape (S, ..., C).
        fps: Frames a second.

    Returns:
        Shape (S, ...).
    """
    half = half_window(fps)
    frames = np.arange(len(track))
    before, after = np.maximum(frames - half, 0), np.minimum(frames + half, len(track) - 1)
    way = track[after] - track[before]
    moved = np.sqrt(np.einsum("...c,...c->...", way, way))
    seconds = np.maximum(after - before, 1).reshape(-1, *[1] * (moved.ndim - 1)) / fps
    return np.asarray(moved / seconds, dtype=np.float32)


def half_window(fps: float) -> int:
    """Return the frames before and after one over which its speed is measured."""
    return max(1, round(SMOOTH_S * fps / 2))
