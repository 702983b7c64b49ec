"""Augmentation: random changes of a training clip's landmarks.

Every change keeps the sentence: it is what another signer, camera or detector might have given.
All randomness comes from the generator that the caller passes.
"""

import functools
import math
from dataclasses import replace

import numpy as np

from signloom.config import ChangeSize, ClipSeconds, NonNegative, Share, checked_dataclass
from signloom.corpus.landmarks import HAND_LANDMARKS, LandmarkSequence, Layout
from signloom.features.features import (
    HANDS,
    WRIST_COLUMNS,
    BoolArray,
    FloatArray,
    flatten,
    interpolate,
    repeat_mark,
    stretch_arrays,
)

# For features that another network found:
SPANS = 2  # stretches of time that are masked in every clip
NOISE = 0.2  # of each number, share of `feature_shift`
BEND = 0.1  # by how much of the clip the slowest of three sines moves its frames, at most
LOST_S = 0.4  # longest run in which a hand is lost; longer ones arise where two meet


@checked_dataclass
class AugmentOptions:
    """The section `augment` of params.yaml; 0 switches a change off."""

    stretch: ChangeSize  # duration times up to 1 + this or its inverse
    rotate_deg: NonNegative  # turn in the picture plane by up to this, degrees
    scale: ChangeSize  # x and y each times up to 1 + this or its inverse
    # Each hand moved by this much, standard deviation in picture heights.
    hand_shift: ChangeSize = 0.02
    hand_scale: ChangeSize = 0.1  # each hand times up to 1 + this or its inverse about its wrist
    noise: ChangeSize  # jitter of every coordinate, standard deviation in picture heights
    mirror: Share  # probability of a mirror image with the sides swapped
    hand_drop: Share  # each hand is lost in up to this share of the frames, of every other clip
    time_mask: Share = 0.1  # probability of a span without anything
    max_span: Share = 0.2  # longest such span, share of the clip
    # Of features of another network: each column moved by this much, in its own deviations, and
    # each number by a fifth of it.
    feature_shift: ChangeSize = 0.0
    rest_s: ClipSeconds = 0.0  # up to this many seconds of stillness are added at either end


def lose_hands(
    sequence: LandmarkSequence, options: AugmentOptions, generator: np.random.Generator
) -> LandmarkSequence:
    """Lose each hand now and again, as a detector does.

    It comes before gaps are bridged, so that a model learns what a bridged gap looks like.
    """
    if not options.hand_drop:
        return sequence
    points, present = sequence.points.copy(), sequence.present.copy()
    longest = max(1, round(LOST_S * sequence.fps))
    for hand in (name for name in HANDS if name in sequence.layout.group_names):
        lost = _draw_runs(len(points), options.hand_drop, longest, generator)
        points[lost, sequence.layout.slice(hand)] = np.nan
        present[lost, sequence.layout.group(hand)] = False
    return replace(sequence, points=points, present=present)


def augment(
    sequence: LandmarkSequence,
    options: AugmentOptions,
    generator: np.random.Generator,
    duration: float | None = None,
) -> LandmarkSequence:
    """Apply every random change that the options switch on, except lost hands.

    Args:
        generator: Source of all other randomness; the same state gives the same result.
        duration: 0, as short as the options allow, to 1, as long; batches are planned by it, so
            they draw it first. None: drawn here.
    """
    # Every draw is made, used or not: switching one change off must not change the others.
    layout = sequence.layout
    is_mirrored = bool(generator.random() < options.mirror)
    duration = generator.random() if duration is None else duration
    points, present = sequence.points, sequence.present
    if is_mirrored:
        points, present = _mirror_arrays(points, present, layout)
    if options.rest_s:
        (resting,) = generator.spawn(1)
        points, present = _rest(points, present, options.rest_s * sequence.fps, resting)
    # New arrays, which the rest changes in place: hundreds of clips a second are made of it.
    frames = augmented_frames(len(points), options, duration)
    points, present = stretch_arrays(points, present, frames)
    aspect = np.float32(sequence.width / sequence.height)
    points = _move(points, layout, aspect, options, generator)
    span = _draw_span(len(points), options.time_mask, options.max_span, generator)
    points[span], present[span] = np.nan, False
    if options.noise:
        _shake(points, aspect, options.noise, generator)
    return replace(sequence, points=points, present=present)


def augment_rows(
    rows: FloatArray,
    options: AugmentOptions,
    generator: np.random.Generator,
    duration: float | None = None,
) -> FloatArray:
    """Change features that another network found; all that is known of them is their time axis.

    `stretch` also lets time run faster and slower within the clip. `scale` and `feature_shift` are
    of each column by itself, the latter in its own deviation in the clip, and a fifth of it is
    noise. Where `time_mask` is on, two spans of every clip become its mean.

    Args:
        rows: Shape (S, F).
        generator: Source of all other randomness.
        duration: As for `augment`.
    """
    duration = generator.random() if duration is None else duration
    frames = augmented_frames(len(rows), options, duration)
    augmented = _bend(rows, frames, BEND * bool(options.stretch), generator)
    mean, deviation = augmented.mean(axis=0), augmented.std(axis=0) * options.feature_shift
    factors = (1 + options.scale) ** generator.uniform(-1, 1, augmented.shape[1])
    shift = generator.standard_normal(augmented.shape[1])
    noise = NOISE * generator.standard_normal(augmented.shape)
    augmented = (mean + (augmented - mean) * factors + (shift + noise) * deviation).astype(
        np.float32
    )
    middle = augmented.mean(axis=0)
    for _ in range(SPANS if options.time_mask else 0):
        augmented[_draw_span(frames, 1.0, options.max_span, generator)] = middle
    return augmented


def _bend(
    rows: FloatArray, frames: int, strength: float, generator: np.random.Generator
) -> FloatArray:
    """Return `frames` rows, between which time runs by three sines faster and slower."""
    time, waves = np.linspace(0, 1, frames), np.arange(1, 4)
    sizes = strength * generator.uniform(-1, 1, len(waves)) / waves
    bent = time + np.sin(np.pi * np.outer(time, waves)) @ sizes
    return interpolate(rows, np.maximum.accumulate(bent.clip(0, 1)) * (len(rows) - 1))


def _rest(
    points: FloatArray, present: BoolArray, most: float, generator: np.random.Generator
) -> tuple[FloatArray, BoolArray]:
    """Hold the first and the last frame for a while, at most `most` frames each."""
    before, after = generator.integers(0, round(most), size=2, endpoint=True).tolist()
    frames = np.clip(np.arange(-before, len(points) + after), 0, len(points) - 1)
    return points[frames], present[frames]


def augmented_frames(frames: int, options: AugmentOptions, duration: float) -> int:
    """Return how many frames `augment` makes of `frames`, of which rests that it adds are part."""
    factor = float((1 + options.stretch) ** (2 * duration - 1))
    return max(1, round(frames * factor))


def mirror(sequence: LandmarkSequence) -> LandmarkSequence:
    """Return the clip as a mirror shows it, with left and right swapped.

    The signer of the result uses the other hand, so its left hand is again on the signer's left.
    Mirroring twice gives the clip back up to rounding.
    """
    points, present = _mirror_arrays(sequence.points, sequence.present, sequence.layout)
    return replace(sequence, points=points, present=present)


def _mirror_arrays(
    points: FloatArray, present: BoolArray, layout: Layout
) -> tuple[FloatArray, BoolArray]:
    marks, groups = _other_sides(layout)
    points = points.take(marks, axis=1)
    np.subtract(1, points[..., 0], out=points[..., 0])
    return points, present.take(groups, axis=1)


def mirrored_points(layout: Layout) -> list[int]:
    """Return, for each landmark, the index of the one on the other side (itself if it has none)."""
    names = layout.landmark_names
    return [names.index(_other_side(name)) for name in names]


@functools.lru_cache(maxsize=8)
def _other_sides(layout: Layout) -> tuple[list[int], list[int]]:
    """Return where landmarks and groups come from in a mirror."""
    groups = [layout.group(_other_side(name)) for name in layout.group_names]
    return mirrored_points(layout), groups


def _other_side(name: str) -> str:
    swapped = name.replace("left_", "\0").replace("right_", "left_")
    return swapped.replace("\0", "right_")


def _move(
    points: FloatArray,
    layout: Layout,
    aspect: np.float32,
    options: AugmentOptions,
    generator: np.random.Generator,
) -> FloatArray:
    """Turn and scale the picture, and move each hand a little."""
    # In picture heights, so that turning is turning; z follows x as in MediaPipe.
    heights = repeat_mark((aspect, 1.0, aspect), layout.points)
    flat = flatten(points) * heights
    points = flat.reshape(points.shape)
    for hand in HANDS:
        factor = np.float32((1 + options.hand_scale) ** generator.uniform(-1, 1))
        offset = generator.normal(0, 1, 2) * options.hand_shift
        if hand in layout.group_names:
            marks = flatten(points[:, layout.slice(hand)])
            wrist = marks.take(WRIST_COLUMNS, axis=1)
            marks -= wrist
            marks *= factor
            marks += wrist
            marks += repeat_mark((*offset, 0.0), len(HAND_LANDMARKS))
    angle = math.radians(options.rotate_deg) * generator.uniform(-1, 1)
    wide, high = ((1 + options.scale) ** generator.uniform(-1, 1, 2)).tolist()
    sine, cosine = math.sin(angle), math.cos(angle)
    matrix = np.array(
        [[cosine * wide, -sine * high, 0], [sine * wide, cosine * high, 0], [0, 0, 1]],
        dtype=np.float32,
    )
    centre = repeat_mark((aspect / 2, 0.5, 0.0), layout.points)
    flat -= centre
    moved = flatten((points.reshape(-1, 3) @ matrix.T).reshape(points.shape))
    moved += centre
    moved /= heights
    return moved.reshape(points.shape)


def _draw_runs(length: int, most: float, longest: int, generator: np.random.Generator) -> BoolArray:
    """Draw a mask of runs of frames, shape (S,): empty for half of the clips, up to `most` full."""
    share = most * max(0.0, 2 * generator.random() - 1)
    # Where runs begin at any frame with this chance, they cover the given share of the frames.
    chance = 1 - (1 - share) ** (2 / (longest + 1))
    begins = generator.random(length) < chance
    stops = np.arange(length) + generator.integers(1, longest, size=length, endpoint=True)
    # A frame is in a run if one that began before it, or in it, stops after it.
    reached = np.maximum.accumulate(np.where(begins, stops, 0))
    return reached > np.arange(length)


def _shake(
    points: FloatArray, aspect: np.float32, noise: float, generator: np.random.Generator
) -> None:
    """Add jitter; last, since it takes many draws."""
    drawn = generator.standard_normal((len(points), points[0].size))
    drawn *= noise
    jitter = drawn.astype(np.float32)
    jitter /= repeat_mark((aspect, 1.0, aspect), points.shape[1])
    points += jitter.reshape(points.shape)


def _draw_span(
    length: int, chance: float, max_span: float, generator: np.random.Generator
) -> slice:
    """Draw which frames something is lost in; none unless the chance comes true."""
    used, size, start = generator.random(3).tolist()
    span = int(size * max_span * length)
    first = int(start * (length - span + 1))
    return slice(first, first + span if used < chance else first)
