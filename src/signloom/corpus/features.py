"""Landmarks of a clip come in, the feature matrix that a model reads goes out; no I/O, no chance.

Shape letters: S frames, P landmarks, G groups, C coordinates, F features.
"""

import itertools
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from signloom.corpus.landmarks import LandmarkSequence, Layout

FloatArray = npt.NDArray[np.float32]

HANDS = ("left_hand", "right_hand")
# Where no frame of a clip shows the shoulders, the picture stands in for the body: its centre,
# and a width usual for a signer filmed from the waist up, in picture heights.
FALLBACK_SHOULDER_WIDTH = 0.4
# Rates closer than this (relative) are one rate: 29.97 is not resampled to 30.
SAME_RATE = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureOptions:
    """The section `features` of params.yaml; stored in the checkpoint."""

    fps: float  # every clip is resampled to this many frames/s, > 0
    hand_origin: Literal["wrist", "shoulders"]  # what the 126 hand numbers are relative to
    body: bool  # add the pose landmarks, x and y
    differences: bool  # add the change since the frame before of every coordinate
    presence: bool  # add one bit a group: was it detected
    max_gap_s: float  # a group missing no longer than this is interpolated, seconds, >= 0

    def __post_init__(self) -> None:
        if self.fps <= 0:
            raise ValueError(f"fps: found {self.fps}, expected more than 0 frames a second")
        if self.max_gap_s < 0:
            raise ValueError(f"max_gap_s: found {self.max_gap_s}, expected 0 seconds or more")


def feature_width(options: FeatureOptions, layout: Layout) -> int:
    """Return F, the width of the feature matrix."""
    coordinates = sum(3 * len(layout.groups[layout.group(hand)].landmarks) for hand in HANDS)
    if options.hand_origin == "wrist":
        coordinates += 2 * len(HANDS)
    if options.body:
        coordinates += 2 * len(layout.groups[layout.group("pose")].landmarks)
    bits = len(layout.groups) if options.presence else 0
    return coordinates * (2 if options.differences else 1) + bits


def compute_features(sequence: LandmarkSequence, options: FeatureOptions) -> FloatArray:
    """Turn a clip's landmarks into the matrix that the encoder reads.

    Short gaps are interpolated, the frame rate is made the options', the body is centred on its
    shoulders and scaled by their width, and what is still absent is zero. Invariant to where the
    signer stands in the picture and how large.

    Args:
        sequence: The landmarks of one clip.
        options: Which features.

    Returns:
        Shape (S', F) without NaN; S' = S * options.fps / sequence.fps, at least 1.
    """
    return build_features(prepare(sequence, options), options)


def prepare(sequence: LandmarkSequence, options: FeatureOptions) -> LandmarkSequence:
    """Bridge short gaps and change the frame rate: what is done once, before augmentation."""
    return resample(fill_gaps(sequence, options.max_gap_s), options.fps)


def build_features(sequence: LandmarkSequence, options: FeatureOptions) -> FloatArray:
    """Turn prepared landmarks into the feature matrix, shape (S, F) without NaN."""
    layout = sequence.layout
    points = normalise(sequence)
    parts: list[FloatArray] = []
    for hand in HANDS:
        marks = points[:, layout.slice(hand)]
        if options.hand_origin == "wrist":
            wrist = marks[:, :1]
            parts += [(marks - wrist).reshape(len(marks), -1), wrist[:, 0, :2]]
        else:
            parts.append(marks.reshape(len(marks), -1))
    if options.body:
        parts.append(points[:, layout.slice("pose"), :2].reshape(len(points), -1))
    matrix = np.concatenate(parts, axis=1)
    if options.differences:
        # A difference is absent where either of its frames is.
        change = np.diff(matrix, axis=0, prepend=matrix[:1]) * np.float32(options.fps / 10)
        matrix = np.concatenate((matrix, change), axis=1)
    matrix = np.nan_to_num(matrix, nan=0.0)
    if options.presence:
        matrix = np.concatenate((matrix, sequence.present), axis=1)
    return np.ascontiguousarray(matrix, dtype=np.float32)


def normalise(sequence: LandmarkSequence) -> FloatArray:
    """Centre a clip on its shoulders and divide by its shoulder width.

    One centre and one scale a clip, not a frame: leaning is part of the signing, and a jittering
    shoulder would shake both hands. x and z are first brought to the scale of y.

    Returns:
        Shape (S, P, C), in shoulder widths; NaN where absent.
    """
    layout = sequence.layout
    aspect = np.float32(sequence.width / sequence.height)
    points = sequence.points * np.array([aspect, 1, aspect], dtype=np.float32)
    left = points[:, layout.index("pose", "left_shoulder"), :2]
    right = points[:, layout.index("pose", "right_shoulder"), :2]
    seen = sequence.present[:, layout.group("pose")]
    centre = np.array([aspect / 2, 0.5], dtype=np.float32)
    width = np.float32(FALLBACK_SHOULDER_WIDTH)
    if seen.any():
        centre = np.median((left[seen] + right[seen]) / 2, axis=0)
        measured = np.median(np.linalg.norm(left[seen] - right[seen], axis=1))
        # Seen from the side the shoulders coincide; a tenth of the usual width is the least.
        width = np.float32(max(float(measured), FALLBACK_SHOULDER_WIDTH / 10))
    points[..., :2] -= centre
    return points / width


def fill_gaps(sequence: LandmarkSequence, max_gap_s: float) -> LandmarkSequence:
    """Interpolate linearly where a group is missing for at most `max_gap_s` between two frames.

    The frames so bridged count as present.
    """
    points, present = sequence.points.copy(), sequence.present.copy()
    limit = max_gap_s * sequence.fps
    for column, name in enumerate(sequence.layout.group_names):
        marks = sequence.layout.slice(name)
        seen = np.flatnonzero(sequence.present[:, column])
        for before, after in itertools.pairwise(seen):
            gap = after - before - 1
            if 0 < gap <= limit:
                share = np.arange(1, gap + 1, dtype=np.float32)[:, None, None] / (gap + 1)
                start, end = points[before, marks], points[after, marks]
                points[before + 1 : after, marks] = start + share * (end - start)
                present[before + 1 : after, column] = True
    return replace(sequence, points=points, present=present)


def resample(sequence: LandmarkSequence, fps: float) -> LandmarkSequence:
    """Change the frame rate by linear interpolation, keeping the duration."""
    if abs(fps / sequence.fps - 1) <= SAME_RATE:
        return sequence
    frames = max(1, round(len(sequence.points) * fps / sequence.fps))
    return replace(stretch(sequence, frames), fps=fps)


def stretch(sequence: LandmarkSequence, frames: int) -> LandmarkSequence:
    """Interpolate a clip to another number of frames at the same rate.

    Where a group is missing on one side of a new frame, the nearer side decides.
    """
    length = len(sequence.points)
    position = np.minimum(np.arange(frames) * (length / frames), length - 1).astype(np.float32)
    before = position.astype(np.int64)
    after = np.minimum(before + 1, length - 1)
    share = (position - before).astype(np.float32)[:, None, None]
    points = (1 - share) * sequence.points[before] + share * sequence.points[after]
    nearest = np.where(share[:, 0, 0] < 0.5, before, after)
    points = np.where(np.isnan(points), sequence.points[nearest], points)
    both = sequence.present[before] & sequence.present[after]
    return replace(sequence, points=points, present=both | sequence.present[nearest])
