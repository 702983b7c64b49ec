"""Landmarks of a clip come in, the feature matrix that a model reads goes out; no I/O, no chance.

docs/features.md has the equations. Shape letters: S frames, P landmarks, G groups, C coordinates,
F features.
"""

import functools
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from signloom.config import UserError
from signloom.corpus.landmarks import GROUP_CHOICES, LandmarkSequence, Layout
from signloom.corpus.normalise import (
    HANDS,
    WRIST_COLUMNS,
    BoolArray,
    FloatArray,
    Origin,
    flatten,
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


def prepared_frames(frames: int, fps: float, options: FeatureOptions) -> int:
    """Return how many frames `prepare` makes of a clip of that many, at that rate."""
    if abs(options.fps / fps - 1) <= SAME_RATE:
        return frames
    return _resampled(frames, fps, options.fps)


def build_features(sequence: LandmarkSequence, options: FeatureOptions) -> FloatArray:
    """Turn prepared landmarks into the feature matrix, shape (S, F) without NaN.

    Columns: the chosen groups in the order of the layout, their changes, their presence bits.
    """
    check_groups(options, sequence.layout)
    columns, names = _chosen(sequence.layout, options.groups)
    points = normalise(sequence, options.normalise)
    parts = [part for name in names for part in _group_parts(points, name, sequence, options)]
    width = sum(part.shape[1] for part in parts)
    numbers = width * (1 + options.differences)
    matrix = np.empty((len(points), numbers + options.presence * len(columns)), dtype=np.float32)
    np.concatenate(parts, axis=1, out=matrix[:, :width])
    _write_differences(matrix, width, options)
    if not sequence.present.all():
        # A difference is absent where one of its frames is.
        absent = np.isnan(matrix[:, :numbers])
        matrix[:, :numbers][absent] = 0
    if options.presence:
        matrix[:, numbers:] = sequence.present[:, columns]
    return matrix


@functools.lru_cache(maxsize=8)
def _chosen(layout: Layout, choices: tuple[GroupChoice, ...]) -> tuple[list[int], list[str]]:
    """Return the columns and names of the chosen groups, in the order of the layout."""
    chosen = {group.name for choice in choices for group in GROUP_CHOICES[choice]}
    columns = [n for n, name in enumerate(layout.group_names) if name in chosen]
    return columns, [layout.group_names[column] for column in columns]


def _group_parts(
    points: FloatArray, name: str, sequence: LandmarkSequence, options: FeatureOptions
) -> list[FloatArray]:
    """Return the columns of one group, each part of shape (S, columns)."""
    layout = sequence.layout
    marks = points[:, layout.slice(name)]
    if name in HANDS and options.hand_origin == "wrist":
        flat = flatten(marks)
        return [flat - flat.take(WRIST_COLUMNS, axis=1), flat[:, :2]]
    if name in HANDS:
        return [flatten(marks)]
    if name == "lips":
        # A mouth is read from its shape, in its own size: speech moves it by millimetres, the
        # head by centimetres. Where it is says something only if there is a body.
        centre = marks.mean(axis=1, keepdims=True)
        shape = flatten((marks - centre) / mouth_width(marks, layout))
        return [shape, centre[:, 0, :2]] if has_choice(layout, "pose") else [shape]
    return [flatten(marks[..., :2])]


def _write_differences(matrix: FloatArray, width: int, options: FeatureOptions) -> None:
    """Fill in the differences of the first columns, zeros where too few frames lie before."""
    for order in range(1, options.differences + 1):
        end = order * width
        before, changes = matrix[:, end - width : end], matrix[:, end : end + width]
        changes[:order] = 0
        np.subtract(before[order:], before[order - 1 : -1], out=changes[order:])
    for order in range(1, options.differences + 1):
        matrix[:, order * width : (order + 1) * width] *= np.float32(options.fps / 10) ** order


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
    gaps = _short_gaps(sequence, max_gap_s * sequence.fps)
    if not gaps:
        return sequence
    points, present = sequence.points.copy(), sequence.present.copy()
    for column, before, after in gaps:
        marks = sequence.layout.slice(sequence.layout.group_names[column])
        gap = after - before - 1
        share = np.arange(1, gap + 1, dtype=np.float32)[:, None, None] / (gap + 1)
        start, end = points[before, marks], points[after, marks]
        points[before + 1 : after, marks] = start + share * (end - start)
        present[before + 1 : after, column] = True
    return replace(sequence, points=points, present=present)


def _short_gaps(sequence: LandmarkSequence, limit: float) -> list[tuple[int, int, int]]:
    """Return the group of each gap of up to so many frames, and the frames before and after it."""
    found = []
    for column in np.flatnonzero(~sequence.present.all(axis=0)).tolist():
        seen = np.flatnonzero(sequence.present[:, column])
        gaps = np.diff(seen) - 1
        for gap in np.flatnonzero((gaps > 0) & (gaps <= limit)).tolist():
            found.append((column, int(seen[gap]), int(seen[gap + 1])))
    return found


def resample(sequence: LandmarkSequence, fps: float) -> LandmarkSequence:
    """Change the frame rate by linear interpolation, keeping the duration."""
    if abs(fps / sequence.fps - 1) <= SAME_RATE:
        return sequence
    return replace(stretch(sequence, _resampled(len(sequence.points), sequence.fps, fps)), fps=fps)


def _resampled(frames: int, old_fps: float, fps: float) -> int:
    return max(1, round(frames * fps / old_fps))


def stretch(sequence: LandmarkSequence, frames: int) -> LandmarkSequence:
    """Interpolate a clip to another number of frames at the same rate.

    Where a group is missing on one side of a new frame, the nearer side decides.
    """
    points, present = stretch_arrays(sequence.points, sequence.present, frames)
    return replace(sequence, points=points, present=present)


def stretch_arrays(
    points: FloatArray, present: BoolArray, frames: int
) -> tuple[FloatArray, BoolArray]:
    """Do what `stretch` does to points (S, P, 3) and presence (S, G); both are new arrays."""
    length = len(points)
    position = np.minimum(np.arange(frames) * (length / frames), length - 1).astype(np.float32)
    before = position.astype(np.int64)
    after = np.minimum(before + 1, length - 1)
    share = (position - before).astype(np.float32)
    flat = flatten(points)
    mixed = flat.take(before, axis=0)
    mixed *= (1 - share)[:, None]
    mixed += share[:, None] * flat.take(after, axis=0)
    if present.all():
        return mixed.reshape(frames, *points.shape[1:]), np.ones((frames, present.shape[1]), bool)
    nearest = np.where(share < 0.5, before, after)
    np.copyto(mixed, flat.take(nearest, axis=0), where=np.isnan(mixed))
    both = present[before] & present[after]
    return mixed.reshape(frames, *points.shape[1:]), both | present[nearest]
