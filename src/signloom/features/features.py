"""Feature matrices: normalised, resampled landmarks of a clip as a model reads them.

docs/models.md has the equations. Shape letters: S frames, P landmarks, G groups, C coordinates,
F features.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt

from signloom.config import NO_BOOL, ClipSeconds, FrameRate, checked_dataclass
from signloom.corpus.landmarks import (
    COORDINATES,
    GROUP_CHOICES,
    HAND_LANDMARKS,
    LandmarkSequence,
    Layout,
)
from signloom.errors import UserError

FloatArray = npt.NDArray[np.float32]
BoolArray = npt.NDArray[np.bool_]
Origin = Literal["body", "picture"]
# The keys of GROUP_CHOICES
GroupChoice = Literal["hands", "pose", "lips", "face_outline", "brows", "eyes", "gaze"]
HANDS = ("left_hand", "right_hand")
# Of a flat hand (S, 21 * C), the wrist's coordinates once for each landmark.
WRIST_COLUMNS = np.tile(np.arange(COORDINATES), len(HAND_LANDMARKS))
# Rates closer than this (relative) are one rate: 29.97 is not resampled to 30.
SAME_RATE = 0.02
# Where no frame of a clip shows the body, the picture replaces it: its centre, and a shoulder
# width usual for a signer filmed from the waist up, in picture heights.
FALLBACK_SHOULDER_WIDTH = 0.4
# Shoulder widths of a usual adult, for clips measured by another part: a palm (wrist to middle
# knuckle), a mouth, a face, the brows and the eyes are about this many times smaller.
PALMS, MOUTHS, FACES, BROWS, EYES = 4.0, 7.0, 2.5, 3.5, 4.0
# What brows, lids and irises move by, in widths of the brows and of an eye: measured in these units
# they are features as large as those of the hands.
FACE_UNIT = 0.25
# Choice of groups, best first, to the two ends of what is measured, and the factor that makes a
# shoulder width of it. The centre is the middle between the ends, for hands the wrist.
_MEASURES: dict[str, tuple[tuple[tuple[str, str, str], ...], float]] = {
    "pose": ((("pose", "left_shoulder", "right_shoulder"),), 1.0),
    "hands": (tuple((hand, "wrist", "middle_mcp") for hand in HANDS), PALMS),
    "lips": ((("lips", "left_outer_corner", "right_outer_corner"),), MOUTHS),
    "face_outline": ((("face_outline", "left_upper_outline_8", "right_upper_outline_8"),), FACES),
    "brows": ((("brows", "left_upper_brow_1", "right_upper_brow_1"),), BROWS),
    "eyes": ((("eyes", "left_outer_corner", "right_outer_corner"),), EYES),
    "gaze": ((("gaze", "left_outer_corner", "right_outer_corner"),), EYES),
}


@checked_dataclass
class FeatureOptions:
    """The section `features` of params.yaml; stored in the checkpoint."""

    fps: FrameRate  # every clip is resampled to this many frames/s
    groups: tuple[GroupChoice, ...]  # landmarks that the model sees; the shards must have them
    normalise: Origin  # centre and scale: the signer's, or the picture's
    hand_origin: Literal["wrist", "body"] = "wrist"  # what the 126 hand numbers are relative to
    # Add the change of every number; with 2, that of the change too.
    differences: Annotated[Literal[0, 1, 2], NO_BOOL]
    presence: bool = True  # add one bit a group: was it detected
    max_gap_s: ClipSeconds  # a group missing no longer than this is interpolated, seconds
    # Stillness kept before and after the signing, seconds (features/rests.py); 0: all, as without.
    rest_s: ClipSeconds = 0.0
    right_handed: bool = False  # clips whose left hand leads are read as a mirror shows them

    def __post_init__(self) -> None:
        if not self.groups or len(set(self.groups)) < len(self.groups):
            choices = ", ".join(GROUP_CHOICES)
            raise ValueError(
                f"groups: found {list(self.groups)}, expected some of {choices}, each once"
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


def has_choice(layout: Layout, choice: str) -> bool:
    """Say whether a layout has all groups of one of `GROUP_CHOICES`."""
    return all(group.name in layout.group_names for group in GROUP_CHOICES[choice])


def feature_width(options: FeatureOptions, layout: Layout) -> int:
    """Return F, the width of the feature matrix.

    Raises:
        UserError: If the layout lacks a group which the options ask for.
    """
    return compute_features(_absent(layout, options.fps), options).shape[1]


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


def compute_features(sequence: LandmarkSequence, options: FeatureOptions) -> FloatArray:
    """Turn a clip's landmarks into the matrix that the encoder reads.

    Short gaps are interpolated, the frame rate is made the options', the body is centred on its
    shoulders and scaled by their width, and what is still absent is zero. Invariant to where the
    signer is in the picture and how large.

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
    marks = marks[..., :2]
    if name == "brows":
        # Beside the bridge of the nose and in their own width: heads nod, brows rise.
        span = _apart(marks, layout, name, "left_upper_brow_1", "right_upper_brow_1")
        bridge = layout.groups[layout.group(name)].landmarks.index("bridge")
        return [flatten((marks - marks[:, bridge : bridge + 1]) / (span * FACE_UNIT))]
    if name in ("eyes", "gaze"):
        return [_eye_part(marks, layout, name, side) for side in ("right", "left")]
    return [flatten(marks)]


@functools.lru_cache(maxsize=64)
def feature_names(options: FeatureOptions, layout: Layout) -> tuple[str, ...]:
    """Return a name for each column of `build_features`, by which other layouts find theirs.

    Such as `left_hand.index_tip.x`, `left_hand.at.x`, `1 left_hand.index_tip.x` (a change) and
    `left_hand.present`.

    Raises:
        UserError: If the layout lacks a group which the options ask for.
    """
    check_groups(options, layout)
    _, groups = _chosen(layout, options.groups)
    values = [f"{name}.{part}" for name in groups for part in _part_names(name, layout, options)]
    changes = [f"{n} {value}" for n in range(1, options.differences + 1) for value in values]
    return (*values, *changes, *(f"{name}.present" for name in groups if options.presence))


@functools.lru_cache(maxsize=64)
def hand_columns(options: FeatureOptions, layout: Layout) -> tuple[int, ...]:
    """Return which features are of hands; all where the model sees none."""
    names = feature_names(options, layout)
    groups = [name.rpartition(" ")[2].split(".")[0] for name in names]
    hands = tuple(column for column, group in enumerate(groups) if group in HANDS)
    return hands or tuple(range(len(names)))


def _part_names(name: str, layout: Layout, options: FeatureOptions) -> list[str]:
    """Return the names of what `_group_parts` returns."""
    marks = layout.groups[layout.group(name)].landmarks
    if name in ("eyes", "gaze"):
        marks = tuple(m for side in ("right", "left") for m in marks if m.startswith(side))
    is_whole = name in HANDS or name == "lips"  # with depth
    names = [f"{mark}.{axis}" for mark in marks for axis in ("xyz" if is_whole else "xy")]
    is_placed = options.hand_origin == "wrist" if name in HANDS else has_choice(layout, "pose")
    return [*names, "at.x", "at.y"] if is_whole and is_placed else names


def _eye_part(marks: FloatArray, layout: Layout, group: str, side: str) -> FloatArray:
    """Return one eye about the middle of its corners, in its own width."""
    names = layout.groups[layout.group(group)].landmarks
    corners = [f"{side}_{end}_corner" for end in ("outer", "inner")]
    columns = [number for number, mark in enumerate(names) if mark.startswith(side)]
    middle = marks[:, [names.index(corner) for corner in corners]].mean(axis=1, keepdims=True)
    width = _apart(marks, layout, group, *corners)
    return flatten((marks[:, columns] - middle) / (width * FACE_UNIT))


def mouth_width(marks: FloatArray, layout: Layout) -> np.float32:
    """The clip's median distance between the corners of the mouth, (S, 40, C) to one number."""
    return _apart(marks[..., :2], layout, "lips", "left_outer_corner", "right_outer_corner")


def _apart(marks: FloatArray, layout: Layout, group: str, first: str, second: str) -> np.float32:
    """The clip's median distance of two landmarks of a group, (S, points, 2) to one number."""
    names = layout.groups[layout.group(group)].landmarks
    widths = np.linalg.norm(marks[:, names.index(first)] - marks[:, names.index(second)], axis=1)
    if np.isnan(widths).all():
        return np.float32(1.0)
    return np.float32(max(float(np.nanmedian(widths)), 1e-3))


def _write_differences(matrix: FloatArray, width: int, options: FeatureOptions) -> None:
    """Fill in the differences of the first columns, zeros where too few frames lie before."""
    for order in range(1, options.differences + 1):
        end = order * width
        before, changes = matrix[:, end - width : end], matrix[:, end : end + width]
        changes[:order] = 0
        np.subtract(before[order:], before[order - 1 : -1], out=changes[order:])
    for order in range(1, options.differences + 1):
        matrix[:, order * width : (order + 1) * width] *= np.float32(options.fps / 10) ** order


@dataclass(frozen=True, slots=True)
class Measure:
    """Where a clip's signer is and how large, in picture heights."""

    centre: FloatArray  # (2,)
    width: np.float32  # of the shoulders, or what replaces it, > 0


def normalise(sequence: LandmarkSequence, origin: Origin) -> FloatArray:
    """Centre a clip on its shoulders and divide by its shoulder width.

    One centre and one scale a clip, not a frame: leaning is part of the signing, and a jittering
    shoulder would shake both hands. With origin `picture`, they are the picture's centre and a
    usual width. x and z are first brought to the scale of y.

    Returns:
        Shape (S, P, C), in shoulder widths; NaN where absent.
    """
    aspect = np.float32(sequence.width / sequence.height)
    count = sequence.layout.points
    flat = flatten(sequence.points) * repeat_mark((aspect, 1.0, aspect), count)
    points = flat.reshape(sequence.points.shape)
    body = measure(points, sequence) if origin == "body" else None
    if body is None:
        centre = np.array([aspect / 2, 0.5], dtype=np.float32)
        body = Measure(centre, np.float32(FALLBACK_SHOULDER_WIDTH))
    flat -= repeat_mark((*body.centre, 0.0), count)
    flat /= body.width
    return points


def measure(points: FloatArray, sequence: LandmarkSequence) -> Measure | None:
    """Find the signer by the first of pose, hands, lips and face outline that the layout has.

    Args:
        points: Shape (S, P, C), in picture heights.
        sequence: The clip they come from.

    Returns:
        Medians over the clip; None where that part is in no frame of it.
    """
    layout = sequence.layout
    first = next(choice for choice in _MEASURES if has_choice(layout, choice))
    ends, times = _MEASURES[first]
    starts, stops = [], []
    for group, start_name, stop_name in ends:
        is_present = sequence.present[:, layout.group(group)]
        starts.append(points[is_present, layout.index(group, start_name), :2])
        stops.append(points[is_present, layout.index(group, stop_name), :2])
    start, stop = np.concatenate(starts), np.concatenate(stops)
    if not len(start):
        return None
    middle = start if first == "hands" else (start + stop) / 2
    apart = start - stop
    apart *= apart
    measured = float(_median(np.sqrt(apart[:, 0] + apart[:, 1]))) * times
    # Seen from the side the shoulders coincide; a tenth of the usual width is the least.
    width = np.float32(max(measured, FALLBACK_SHOULDER_WIDTH / 10))
    return Measure(_median(middle), width)


def _median(values: FloatArray) -> FloatArray:
    """Return the median over the first axis, NumPy's in a tenth of its time for a short clip."""
    ordered = np.sort(values, axis=0)
    low, high = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return np.asarray((low + high) / 2, dtype=np.float32)


def flatten(points: FloatArray) -> FloatArray:
    """Return points (S, P, C) as (S, P * C), without a copy where their order allows it.

    NumPy works on long rows many times as fast as on rows of three coordinates.
    """
    return points.reshape(len(points), -1)


def repeat_mark(mark: Sequence[float | np.float32], count: int) -> FloatArray:
    """Return one landmark's coordinates that many times in a row: what flat points broadcast."""
    row = np.empty((count, len(mark)), dtype=np.float32)
    row[:] = mark
    return row.reshape(-1)


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
    """Return the group of each gap of up to `limit` frames, and the frames before and after it."""
    short = []
    for column in np.flatnonzero(~sequence.present.all(axis=0)).tolist():
        frames = np.flatnonzero(sequence.present[:, column])
        gaps = np.diff(frames) - 1
        short += [
            (column, int(frames[gap]), int(frames[gap + 1]))
            for gap in np.flatnonzero((gaps > 0) & (gaps <= limit)).tolist()
        ]
    return short


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
    is_present = present[before] & present[after]
    return mixed.reshape(frames, *points.shape[1:]), is_present | present[nearest]


def interpolate(rows: npt.NDArray[Any], positions: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return what lies at some positions between rows, shape (positions, F)."""
    before = positions.astype(np.int64)
    after = np.minimum(before + 1, len(rows) - 1)
    share = (positions - before)[:, None].astype(np.float32)
    return rows[before] + share * (rows[after] - rows[before])
