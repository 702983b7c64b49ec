"""CTC labels: where in a clip each gloss is signed, by forced alignment.

Shape letters: M positions of the memory, K labels with the blank, 0.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from signloom.corpus.landmarks import LandmarkSequence
from signloom.errors import UserError
from signloom.features.features import FloatArray
from signloom.translation.translator import Translator

Frames = tuple[float, float]  # where a gloss begins and ends, frames of the clip


def align_glosses(
    translator: Translator, sequences: Sequence[LandmarkSequence], glosses: Sequence[Sequence[str]]
) -> list[list[Frames] | None]:
    """Return where each gloss of some clips is signed.

    Args:
        translator: Its model has a CTC head over glosses.
        sequences: Landmarks of the clips.
        glosses: Of each clip, as signed.

    Returns:
        A span for each gloss; None for a clip that is too short for its glosses, or has a gloss
        that the model has not learnt.

    Raises:
        UserError: If the CTC head spells something else.
    """
    spec = translator.spec
    if spec.ctc.kind != "glosses":
        raise UserError(
            f"the CTC head of this model spells {spec.ctc.kind}, expected glosses; set "
            "tokenize_targets.ctc: glosses and train.ctc_weight above 0, and train"
        )
    label_of = {name: number for number, name in enumerate(spec.ctc.names, start=1)}
    found: list[list[Frames] | None] = []
    both = zip(sequences, glosses, translator.label_log_probs(sequences), strict=True)
    for sequence, names, log_probs in both:
        labels = [label_of.get(name, 0) for name in names]
        room = len(labels) + sum(one == other for one, other in pairwise(labels))
        if not labels or 0 in labels or room > len(log_probs):
            found.append(None)
            continue
        step = spec.model.subsampling * sequence.fps / spec.features.fps
        start = (
            translator.source.start_s(sequence, spec.features) * sequence.fps
        )  # rest is not read
        positions = find_positions(log_probs, labels)
        found.append(
            [(start + first * step, start + (last + 1) * step) for first, last in positions]
        )
    return found


def find_positions(log_probs: FloatArray, labels: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first and the last position of each label on the likeliest CTC path.

    Args:
        log_probs: Of the labels at each position, shape (M, K).
        labels: As signed, from 1; M must leave room for them.
    """
    states = np.array([0, *(state for label in labels for state in (label, 0))])
    scores = log_probs[:, states].astype(np.float64)
    # A blank may be left out between two labels that differ.
    can_skip = np.r_[False, False, (states[2:] != 0) & (states[2:] != states[:-2])]
    best = np.full(len(states), -np.inf)
    best[:2] = scores[0, :2]
    steps = np.zeros(scores.shape, dtype=np.int64)
    for position in range(1, len(scores)):
        one = np.r_[-np.inf, best[:-1]]
        two = np.where(can_skip, np.r_[-np.inf, -np.inf, best[:-2]], -np.inf)
        ways = np.stack((best, one, two))
        steps[position] = ways.argmax(axis=0)
        best = ways.max(axis=0) + scores[position]
    state = len(states) - 1 - int(best[-2] > best[-1])
    path = [state]
    for position in range(len(scores) - 1, 0, -1):
        state -= int(steps[position, state])
        path.append(state)
    found = np.array(path[::-1])
    spans = [np.flatnonzero(found == 2 * number + 1) for number in range(len(labels))]
    return [(int(span[0]), int(span[-1])) for span in spans]
