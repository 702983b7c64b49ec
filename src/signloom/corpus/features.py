"""Landmarks of a clip come in, the feature matrix that a model reads goes out; no I/O, no chance.

docs/features.md has the equations. Shape letters: S frames, P landmarks, G groups, C coordinates,
F features.
"""

import itertools
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from signloom.config import UserError
from signloom.corpus.landmarks import GROUP_CHOICES, LandmarkSequence, Layout
from signloom.corpus.normalise import (
    HANDS,
    FloatArray,
    Origin,
    has_choice,
    mouth_width,
    normalise,
)

GroupChoice = Literal["hands", "pose", "lips", "face_outline"]  # the keys of GROUP_CHOICES
# Rates closer than this (relative) are one rate: 29.97 is not resampled to 30.
SAME_RATE = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureOptions:
    """The section `features` of params.yaml; stored in the checkpoint."""

    fps: float  # every clip is resampled to this many frames/s, > 0
    groups: tuple[GroupChoice, ...]  # landmarks that the model sees; the shards must have them
    normalise: Origin  # centre and scale: the signer's, or the picture's
    hand_origin: Literal["wrist", "body"]  # what the 126 hand numbers are relative to
    differences: Literal[0, 1, 2]  # add the change of every number; with 2, that of the change too
    presence: bool  # add one bit a group: was it detected
    max_gap_s: float  # a group missing no longer than this is interpolated, seconds, >= 0

    def __post_init__(self) -> None:
        if self.fps <= 0:
            raise ValueError(f"fps: found {self.fps}, expected more than 0 frames a second")
        if self.max_gap_s < 0:
            raise ValueError(f"max_gap_s: found {self.max_gap_s}, expected 0 seconds or more")
        if not self.groups or len(set(self.groups)) < len(self.groups):
            known = ", ".join(GROUP_CHOICES)
            raise ValueError(
                f"groups: found {list(self.groups)}, expected some of {known}, each once"
            )


def check_groups(options: FeatureOptions, layout: Layout) -> None:
    """Refuse landmarks that lack a group which the options ask for.

    Raises:
        UserError: If they do.
    """
    lacking = [name for name in options.groups if not has_choice(layout, name)]
    if lacking:
        raise UserError(
            f"features.groups asks for {', '.join(lacking)}, but these landmarks have "
            f"{', '.join(layout.group_names)} only; choose other features.groups, or add to "
            "extract.groups and extract again"
        )


def feature_width(options: FeatureOptions, layout: Layout) -> int:
    """Return F, the width of the feature matrix.

    Raises:
        UserError: If the layout lacks a group which the options ask for.
    """
    return compute_features(_absent(layout, options.fps), options).shape[1]


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

    Raises:
        UserError: If the landmarks lack a group which the options ask for.
    """
    return build_features(prepare(sequence, options), options)


def prepare(sequence: LandmarkSequence, options: FeatureOptions) -> LandmarkSequence:
    """Bridge short gaps and change the frame rate: what is done once, before augmentation."""
    return resample(fill_gaps(sequence, options.max_gap_s), options.fps)


def build_features(sequence: LandmarkSequence, options: FeatureOptions) -> FloatArray:
    """Turn prepared landmarks into the feature matrix, shape (S, F) without NaN.

    Columns: the chosen groups in the order of the layout, their changes, their presence bits.
    """
    check_groups(options, sequence.layout)
    columns = [
        column
        for column, name in enumerate(sequence.layout.group_names)
        if any(group.name == name for choice in options.groups for group in GROUP_CHOICES[choice])
    ]
    names = [sequence.layout.group_names[column] for column in columns]
    points = normalise(sequence, options.normalise)
    parts = [part for name in names for part in _group_parts(points, name, sequence, options)]
    matrix = np.concatenate(parts, axis=1)
    changes = [
        _difference(matrix, order) * np.float32(options.fps / 10) ** order
        for order in range(1, options.differences + 1)
    ]
    # A difference is absent where one of its frames is.
    matrix = np.nan_to_num(np.concatenate((matrix, *changes), axis=1), nan=0.0)
    if options.presence:
        matrix = np.concatenate((matrix, sequence.present[:, columns]), axis=1)
    return np.ascontiguousarray(matrix, dtype=np.float32)


def _group_parts(
    points: FloatArray, name: str, sequence: LandmarkSequence, options: FeatureOptions
) -> list[FloatArray]:
    """Return the columns of one group, each part of shape (S, columns)."""
    layout = sequence.layout
    marks = points[:, layout.slice(name)]
    if name in HANDS and options.hand_origin == "wrist":
        wrist = marks[:, :1]
        return [_flat(marks - wrist), wrist[:, 0, :2]]
    if name in HANDS:
        return [_flat(marks)]
    if name == "lips":
        # A mouth is read from its shape, in its own size: speech moves it by millimetres, the
        # head by centimetres. Where it is says something only if there is a body.
        centre = marks.mean(axis=1, keepdims=True)
        shape = _flat((marks - centre) / mouth_width(marks, layout))
        return [shape, centre[:, 0, :2]] if has_choice(layout, "pose") else [shape]
    return [_flat(marks[..., :2])]


def _difference(matrix: FloatArray, order: int) -> FloatArray:
    """Differences of that order, zeros in the first frames, which have too few before them."""
    zeros = np.zeros_like(matrix[:order])
    return np.concatenate((zeros, np.diff(matrix, n=order, axis=0)))


def _flat(points: FloatArray) -> FloatArray:
    return points.reshape(len(points), -1)


def _absent(layout: Layout, fps: float) -> LandmarkSequence:
    """A clip of one frame in which nothing was found."""
    return LandmarkSequence(
        points=np.full((1, layout.points, 3), np.nan, dtype=np.float32),
        present=np.zeros((1, len(layout.groups)), dtype=np.bool_),
        fps=fps,
        width=1,
        height=1,
        layout=layout,
    )


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
