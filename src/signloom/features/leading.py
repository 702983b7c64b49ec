"""The hand that leads in a clip; those that the left hand leads are read mirrored.

A left-handed signer's sign is the mirror image of a right-handed one's. So a model of single signs
need not learn each twice, from people of whom a tenth are left-handed (docs/results.md).
"""

import numpy as np

from signloom.corpus.landmarks import LandmarkSequence
from signloom.features.features import FloatArray, normalise
from signloom.features.rests import TORSO, wrist_tracks

CLEARLY = 1.5  # times the other hand's effort: signs of both hands alike have up to 1.4 by chance
STEADY = 0.2  # shoulder widths of movement that a hand is worth which is held up without any


def is_left_led(sequence: LandmarkSequence) -> bool:
    """Return whether the left hand leads."""
    points = normalise(sequence, "body")[..., :2]
    left, right = (_measure_effort(track) for track in wrist_tracks(points, sequence))
    return left > CLEARLY * right


def _measure_effort(track: FloatArray) -> float:
    """Return how high a wrist (S, 2) is held over the clip, times how far it moves about."""
    shown = track[np.isfinite(track).all(axis=1)]
    if not len(shown):
        return 0.0
    raised = np.maximum(TORSO - shown[:, 1], 0).sum() / len(track)
    return float(raised * (STEADY + np.sqrt(shown.var(axis=0).sum())))
