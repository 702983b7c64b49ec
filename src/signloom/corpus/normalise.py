"""Landmarks in the picture come in, landmarks in the signer's own measure go out.

Shape letters: S frames, P landmarks, C coordinates.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from signloom.corpus.landmarks import (
    COORDINATES,
    GROUP_CHOICES,
    HAND_LANDMARKS,
    LandmarkSequence,
    Layout,
)

FloatArray = npt.NDArray[np.float32]
BoolArray = npt.NDArray[np.bool_]
Origin = Literal["body", "picture"]

HANDS = ("left_hand", "right_hand")
# Of a flat hand (S, 21 * C), the wrist's coordinates once for each landmark.
WRIST_COLUMNS = np.tile(np.arange(COORDINATES), len(HAND_LANDMARKS))
# Where no frame of a clip shows the body, the picture stands in for it: its centre, and a shoulder
# width usual for a signer filmed from the waist up, in picture heights.
FALLBACK_SHOULDER_WIDTH = 0.4
# Shoulder widths of a usual adult, for clips measured by another part: a palm (wrist to middle
# knuckle), a mouth and a face are about this many times smaller.
PALMS, MOUTHS, FACES = 4.0, 7.0, 2.5
# Choice of groups, best first, to the two ends of what is measured, and how often that goes into a
# shoulder width. The centre is the middle between the ends, for hands the wrist.
_MEASURES: dict[str, tuple[tuple[tuple[str, str, str], ...], float]] = {
    "pose": ((("pose", "left_shoulder", "right_shoulder"),), 1.0),
    "hands": (tuple((hand, "wrist", "middle_mcp") for hand in HANDS), PALMS),
    "lips": ((("lips", "left_outer_corner", "right_outer_corner"),), MOUTHS),
    "face_outline": ((("face_outline", "left_upper_outline_8", "right_upper_outline_8"),), FACES),
}


@dataclass(frozen=True, slots=True)
class Measure:
    """Where a clip's signer is and how large, in picture heights."""

    centre: FloatArray  # (2,)
    width: np.float32  # of the shoulders, or what stands for it, > 0


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
    found = measure(points, sequence) if origin == "body" else None
    if found is None:
        centre = np.array([aspect / 2, 0.5], dtype=np.float32)
        found = Measure(centre, np.float32(FALLBACK_SHOULDER_WIDTH))
    flat -= repeat_mark((*found.centre, 0.0), count)
    flat /= found.width
    return points


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
    for group, one, other in ends:
        seen = sequence.present[:, layout.group(group)]
        starts.append(points[seen, layout.index(group, one), :2])
        stops.append(points[seen, layout.index(group, other), :2])
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


def mouth_width(marks: FloatArray, layout: Layout) -> np.float32:
    """The clip's median distance between the corners of the mouth, (S, 40, C) to one number."""
    names = layout.groups[layout.group("lips")].landmarks
    left, right = (marks[:, names.index(f"{side}_outer_corner"), :2] for side in ("left", "right"))
    widths = np.linalg.norm(left - right, axis=1)
    if np.isnan(widths).all():
        return np.float32(1.0)
    return np.float32(max(float(np.nanmedian(widths)), 1e-3))


def has_choice(layout: Layout, choice: str) -> bool:
    """Say whether a layout has all groups of one of `GROUP_CHOICES`."""
    return all(group.name in layout.group_names for group in GROUP_CHOICES[choice])
