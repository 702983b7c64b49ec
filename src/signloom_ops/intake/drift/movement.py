"""How hands move in a clip, in shoulder widths from the middle of the shoulders.

One measure alone asks which hand is which, so that right-handed and left-handed signers differ in
that one only.
"""

import math
from dataclasses import dataclass

import numpy as np

from signloom.corpus.landmarks import LandmarkSequence
from signloom.features.features import HANDS, FloatArray, has_choice, normalise

_WRIST, _MIDDLE_KNUCKLE = 0, 9
_FRAMES = 5  # of a hand that are needed to say something of its movement
_LEAST = 1e-3  # of what goes into a logarithm: a hand at rest, a palm of no size


@dataclass(frozen=True, kw_only=True, slots=True)
class Movement:
    """What is measured of a clip; None: the layout lacks the part, or it is hardly ever there."""

    height: float | None = None
    """Mean height of the busier wrist, shoulder widths above the shoulders."""
    reach: float | None = None
    """How far it gets from the middle of the shoulders in a tenth of the frames, likewise."""
    speed: float | None = None
    """Logarithm (of base 2) of its mean speed, shoulder widths a second; None if it flickers."""
    hand_size: float | None = None
    """Logarithm (of base 2) of the median palm, shoulder widths."""
    shoulders: float | None = None
    """Logarithm (of base 2) of the width of the shoulders, picture heights."""
    preference: float | None = None
    """-1: only the left hand moves; 1: only the right hand does."""


def measure_movement(sequence: LandmarkSequence) -> Movement:
    """Measure one clip, of any layout."""
    layout = sequence.layout
    shoulders = _measure_shoulders(sequence)
    if not has_choice(layout, "hands"):
        return Movement(shoulders=shoulders)
    points = normalise(sequence, "body")
    hands = [points[:, layout.slice(hand), :2] for hand in HANDS]
    seen = [sequence.present[:, layout.group(hand)] for hand in HANDS]
    way = [float(_steps(hand[:, _WRIST]).sum()) for hand in hands]
    busier = int(way[1] > way[0])
    wrist = hands[busier][seen[busier], _WRIST]
    if len(wrist) < _FRAMES:
        return Movement(shoulders=shoulders)
    palms = np.concatenate([hand[there] for hand, there in zip(hands, seen, strict=True)])
    palm = np.linalg.norm(palms[:, _MIDDLE_KNUCKLE] - palms[:, _WRIST], axis=1)
    steps = _steps(hands[busier][:, _WRIST])
    speed = float(steps.mean()) * sequence.fps if len(steps) >= _FRAMES else None
    return Movement(
        height=-float(wrist[:, 1].mean()),
        reach=float(np.quantile(np.linalg.norm(wrist, axis=1), 0.9)),
        speed=None if speed is None else math.log2(max(speed, _LEAST)),
        hand_size=math.log2(max(float(np.median(palm)), _LEAST)),
        shoulders=shoulders,
        preference=(way[1] - way[0]) / max(way[0] + way[1], _LEAST),
    )


def _measure_shoulders(sequence: LandmarkSequence) -> float | None:
    layout = sequence.layout
    if not has_choice(layout, "pose"):
        return None
    seen = sequence.present[:, layout.group("pose")]
    if seen.sum() < _FRAMES:
        return None
    left, right = (
        sequence.points[seen, layout.index("pose", f"{side}_shoulder"), :2]
        for side in ("left", "right")
    )
    scale = np.array([sequence.width / sequence.height, 1.0], np.float32)
    width = float(np.median(np.linalg.norm((left - right) * scale, axis=1)))
    return math.log2(max(width, _LEAST))


def _steps(wrist: FloatArray) -> FloatArray:
    """Lengths of the ways (S, 2) from frame to frame, where a hand is in both of them."""
    steps = np.linalg.norm(np.diff(wrist, axis=0), axis=1)
    return np.asarray(steps[np.isfinite(steps)], np.float32)
