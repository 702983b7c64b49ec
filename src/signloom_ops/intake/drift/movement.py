"""How hands move in a clip, in shoulder widths from the middle of the shoulders.

One measure alone asks which hand is which, so that right-handed and left-handed signers differ in
that one only.
"""

import math
from dataclasses import dataclass

import numpy as np

from signloom.corpus.landmarks import LandmarkSequence
from signloom.features.features import HANDS, FloatArray, has_choice, normalise

_WRIST = 0
_FRAMES = 5  # of a hand that are needed to say something of its movement
_LEAST = 1e-3  # of what goes into a logarithm: a hand at rest


@dataclass(frozen=True, kw_only=True, slots=True)
class Movement:
    """What is measured of a clip; None: the layout lacks hands, or they are hardly ever there."""

    speed: float | None = None
    """Logarithm (of base 2) of the mean speed of the busier wrist, shoulder widths a second; None
    if it flickers."""
    preference: float | None = None
    """-1: only the left hand moves; 1: only the right hand does."""


def measure_movement(sequence: LandmarkSequence) -> Movement:
    """Measure one clip, of any layout."""
    layout = sequence.layout
    if not has_choice(layout, "hands"):
        return Movement()
    points = normalise(sequence, "body")
    steps = [_steps(points[:, layout.slice(hand)][:, _WRIST, :2]) for hand in HANDS]
    way = [float(lengths.sum()) for lengths in steps]
    busier = int(way[1] > way[0])
    if sequence.present[:, layout.group(HANDS[busier])].sum() < _FRAMES:
        return Movement()
    lengths = steps[busier]
    speed = float(lengths.mean()) * sequence.fps if len(lengths) >= _FRAMES else None
    return Movement(
        speed=None if speed is None else math.log2(max(speed, _LEAST)),
        preference=(way[1] - way[0]) / max(way[0] + way[1], _LEAST),
    )


def _steps(wrist: FloatArray) -> FloatArray:
    """Lengths of the ways (S, 2) from frame to frame, where a hand is in both of them."""
    steps = np.linalg.norm(np.diff(wrist, axis=0), axis=1)
    return np.asarray(steps[np.isfinite(steps)], np.float32)
