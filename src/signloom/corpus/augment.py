"""Landmarks of a training clip come in, randomly changed landmarks go out.

Every change keeps the sentence: it is what another signer, camera or detector might have given.
All randomness comes from the generator that the caller passes.
"""

from dataclasses import dataclass, replace

import numpy as np

from signloom.corpus.features import HANDS, FloatArray, stretch
from signloom.corpus.landmarks import LandmarkSequence, Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class AugmentOptions:
    """The section `augment` of params.yaml; 0 switches a change off."""

    stretch: float  # duration times up to 1 + this or its inverse, >= 0
    rotate_deg: float  # turn in the picture plane by up to this, degrees, >= 0
    scale: float  # x and y each times up to 1 + this or its inverse, >= 0
    hand_shift: float  # each hand moved by this much, standard deviation in picture heights, >= 0
    hand_scale: float  # each hand times up to 1 + this or its inverse about its wrist, >= 0
    noise: float  # jitter of every coordinate, standard deviation in picture heights, >= 0
    mirror: float  # probability of a mirror image with the sides swapped, [0, 1]
    hand_drop: float  # probability, for each hand, of a span without it, [0, 1]
    time_mask: float  # probability of a span without anything, [0, 1]
    max_span: float  # longest such span, share of the clip, [0, 1]

    def __post_init__(self) -> None:
        for name in ("stretch", "rotate_deg", "scale", "hand_shift", "hand_scale", "noise"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected 0 or more")
        for name in ("mirror", "hand_drop", "time_mask", "max_span"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected 0 to 1")


def augment(
    sequence: LandmarkSequence, options: AugmentOptions, generator: np.random.Generator
) -> LandmarkSequence:
    """Apply every random change that the options switch on.

    Args:
        sequence: The landmarks of one clip.
        options: How strong.
        generator: Source of all randomness; the same state gives the same result.
    """
    # Every draw is made, used or not: switching one change off must not change the others.
    if generator.random() < options.mirror:
        sequence = mirror(sequence)
    factor = (1 + options.stretch) ** generator.uniform(-1, 1)
    sequence = stretch(sequence, max(1, round(len(sequence.points) * factor)))
    sequence = _move(sequence, options, generator)
    sequence = _hide(sequence, options, generator)
    return _shake(sequence, options, generator)


def mirror(sequence: LandmarkSequence) -> LandmarkSequence:
    """Return the clip as a mirror shows it, with left and right swapped.

    The signer of the result uses the other hand, so its left hand is again on the signer's left.
    Mirroring twice gives the clip back up to rounding.
    """
    layout = sequence.layout
    points = sequence.points[:, mirrored_points(layout)]
    points[..., 0] = 1 - points[..., 0]
    groups = [layout.group(_other_side(name)) for name in layout.group_names]
    return replace(sequence, points=points, present=sequence.present[:, groups])


def mirrored_points(layout: Layout) -> list[int]:
    """Return, for each landmark, the index of the one on the other side (itself if it has none)."""
    names = layout.landmark_names
    return [names.index(_other_side(name)) for name in names]


def _other_side(name: str) -> str:
    swapped = name.replace("left_", "\0").replace("right_", "left_")
    return swapped.replace("\0", "right_")


def _move(
    sequence: LandmarkSequence, options: AugmentOptions, generator: np.random.Generator
) -> LandmarkSequence:
    """Turn and scale the picture, and move each hand a little."""
    layout = sequence.layout
    aspect = np.float32(sequence.width / sequence.height)
    # In picture heights, so that turning is turning; z follows x as in MediaPipe.
    heights = np.array([aspect, 1, aspect], dtype=np.float32)
    points = sequence.points * heights
    for hand in HANDS:
        marks = layout.slice(hand)
        wrist = points[:, marks][:, :1]
        factor = np.float32((1 + options.hand_scale) ** generator.uniform(-1, 1))
        offset = np.zeros(3, dtype=np.float32)
        offset[:2] = generator.normal(0, 1, 2) * options.hand_shift
        points[:, marks] = wrist + (points[:, marks] - wrist) * factor + offset
    angle = np.deg2rad(options.rotate_deg) * generator.uniform(-1, 1)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    scale = (1 + options.scale) ** generator.uniform(-1, 1, 2)
    matrix: FloatArray = (turn * scale).astype(np.float32)
    centre = np.array([aspect / 2, 0.5], dtype=np.float32)
    points[..., :2] = (points[..., :2] - centre) @ matrix.T + centre
    return replace(sequence, points=points / heights)


def _hide(
    sequence: LandmarkSequence, options: AugmentOptions, generator: np.random.Generator
) -> LandmarkSequence:
    """Remove a hand, or everything, for a while, as a detector does."""
    layout = sequence.layout
    present = sequence.present.copy()
    length = len(present)
    columns = [[layout.group(hand)] for hand in HANDS] + [list(range(len(layout.groups)))]
    for hidden, chance in zip(
        columns, (options.hand_drop, options.hand_drop, options.time_mask), strict=True
    ):
        used, size, start = generator.random(3)
        span = int(size * options.max_span * length)
        first = int(start * (length - span + 1))
        if used < chance:
            present[first : first + span, hidden] = False
    absent = np.repeat(~present, [len(group.landmarks) for group in layout.groups], axis=1)
    points = np.where(absent[..., None], np.float32(np.nan), sequence.points)
    return replace(sequence, points=points, present=present)


def _shake(
    sequence: LandmarkSequence, options: AugmentOptions, generator: np.random.Generator
) -> LandmarkSequence:
    """Add jitter; last, since it takes more draws the longer the clip is."""
    aspect = sequence.width / sequence.height
    noise = generator.normal(0, options.noise, sequence.points.shape).astype(np.float32)
    heights = np.array([aspect, 1, aspect], dtype=np.float32)
    return replace(sequence, points=sequence.points + noise / heights)
