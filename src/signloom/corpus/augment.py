"""Landmarks of a training clip come in, randomly changed landmarks go out.

Every change keeps the sentence: it is what another signer, camera or detector might have given.
All randomness comes from the generator that the caller passes.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from signloom.corpus.features import stretch
from signloom.corpus.landmarks import FINGERS, GROUP_CHOICES, LandmarkSequence, Layout
from signloom.corpus.normalise import HANDS, FloatArray


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
    part_drop: float  # probability, for each other group of landmarks, of the same, [0, 1]
    finger_drop: float  # probability, for each finger, of a span folded into the wrist, [0, 1]
    time_mask: float  # probability of a span without anything, [0, 1]
    max_span: float  # longest such span, share of the clip, [0, 1]

    def __post_init__(self) -> None:
        for name in ("stretch", "rotate_deg", "scale", "hand_shift", "hand_scale", "noise"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected 0 or more")
        for name in ("mirror", "hand_drop", "part_drop", "finger_drop", "time_mask", "max_span"):
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
    (own,) = generator.spawn(1)  # of the parts, so that jitter, of many draws, may come last
    is_mirrored, factor = _draw_whole(options, generator)
    if is_mirrored:
        sequence = mirror(sequence)
    sequence = stretch(sequence, _stretched(len(sequence.points), factor))
    sequence = _move(sequence, options, generator)
    sequence = _hide(sequence, options, generator)
    sequence = _hide_parts(sequence, options, own)
    sequence = _shake(sequence, options, generator)
    return _fold_fingers(sequence, options, own)


def augmented_frames(frames: int, options: AugmentOptions, generator: np.random.Generator) -> int:
    """Return how many frames `augment` will make of a clip.

    Args:
        frames: Of the clip.
        options: As for `augment`.
        generator: In the state in which `augment` will get it; it is changed.
    """
    return _stretched(frames, _draw_whole(options, generator)[1])


def _draw_whole(options: AugmentOptions, generator: np.random.Generator) -> tuple[bool, float]:
    """Draw whether the clip is mirrored and how many times as long it becomes."""
    is_mirrored = bool(generator.random() < options.mirror)
    return is_mirrored, float((1 + options.stretch) ** generator.uniform(-1, 1))


def _stretched(frames: int, factor: float) -> int:
    return max(1, round(frames * factor))


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
        factor = np.float32((1 + options.hand_scale) ** generator.uniform(-1, 1))
        offset = np.zeros(3, dtype=np.float32)
        offset[:2] = generator.normal(0, 1, 2) * options.hand_shift
        if hand in layout.group_names:
            marks = layout.slice(hand)
            wrist = points[:, marks][:, :1]
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
    names = sequence.layout.group_names
    present = sequence.present.copy()
    for hand in HANDS:
        span = _draw_span(len(present), options.hand_drop, options.max_span, generator)
        present[span, [name == hand for name in names]] = False
    present[_draw_span(len(present), options.time_mask, options.max_span, generator)] = False
    return _without(sequence, present)


def _hide_parts(
    sequence: LandmarkSequence, options: AugmentOptions, generator: np.random.Generator
) -> LandmarkSequence:
    """Remove body, lips or face for a while."""
    present = sequence.present.copy()
    for choice, groups in GROUP_CHOICES.items():
        span = _draw_span(len(present), options.part_drop, options.max_span, generator)
        if choice != "hands":
            hidden = [group in groups for group in sequence.layout.groups]
            present[span, hidden] = False
    return _without(sequence, present)


def _fold_fingers(
    sequence: LandmarkSequence, options: AugmentOptions, generator: np.random.Generator
) -> LandmarkSequence:
    """Lay single fingers on the wrist for a while: features relative to it become 0, as if absent.

    Last, so that nothing moves them apart again.
    """
    layout = sequence.layout
    points = sequence.points.copy()
    for hand in HANDS:
        for finger, joints in FINGERS.items():
            span = _draw_span(len(points), options.finger_drop, options.max_span, generator)
            if hand in layout.group_names:
                marks = [layout.index(hand, f"{finger}_{joint}") for joint in joints]
                points[span, marks] = points[span, None, layout.index(hand, "wrist")]
    return replace(sequence, points=points)


def _draw_span(
    length: int, chance: float, max_span: float, generator: np.random.Generator
) -> slice:
    """Draw which frames something is lost in; none unless the chance comes true."""
    used, size, start = generator.random(3)
    span = int(size * max_span * length)
    first = int(start * (length - span + 1))
    return slice(first, first + span if used < chance else first)


def _without(sequence: LandmarkSequence, present: npt.NDArray[np.bool_]) -> LandmarkSequence:
    """Return the clip with fewer groups present."""
    sizes = [len(group.landmarks) for group in sequence.layout.groups]
    absent = np.repeat(~present, sizes, axis=1)
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
