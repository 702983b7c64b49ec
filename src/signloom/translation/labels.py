"""CTC labels: the likeliest sequence at the positions of a clip, and where each label lies.

A prefix beam search over the labels (Graves et al. 2006; Hannun et al. 2014) with an n-gram of the
training glosses if it helps on dev, and forced alignment. Shape letters: M positions of
the memory, K labels with the blank, 0.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from signloom.features.features import FloatArray
from signloom.translation.ngram import build_ngram
from signloom.translation.options import EDGE, SignSearch

BEAM = 12  # prefixes that are kept at each position
LEAST = 1e-3  # a label with less probability at a position does not begin there
UNREAD = 20.0  # nats, the most that speaks against a label
MODEL_WEIGHT = 0.5  # of the log-probabilities of the model, which is overconfident


def search_signs(log_probs: FloatArray, search: SignSearch) -> list[int]:
    """Return the labels of a clip, from 1: the first of `rank_signs`."""
    return list(rank_signs(log_probs, search)[0].labels)


class Reading(NamedTuple):
    """Labels that may be those of a clip."""

    labels: tuple[int, ...]  # from 1
    log_prob: float  # of all paths that spell them, as far as the search has followed them
    score: float  # the same with what n-gram and length add


def rank_signs(log_probs: FloatArray, search: SignSearch) -> list[Reading]:
    """Return what a clip may show, the likeliest first, at most `BEAM`.

    Args:
        log_probs: Of the labels at each position, shape (M, K).
        search: Weights of the n-gram and of length.
    """
    ngram = build_ngram(search.ngrams)
    # Of each prefix: the log-probability of the paths to it that end in a blank, and in its label.
    beams: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, -math.inf)}
    added: dict[tuple[int, ...], float] = {(): 0.0}  # what n-gram and length add to it
    for row in log_probs:
        labels = [label for label in np.flatnonzero(row > math.log(LEAST)).tolist() if label]
        heard = row.tolist()
        grown: dict[tuple[int, ...], tuple[float, float]] = {}
        for prefix, (blank, label_end) in beams.items():
            total, last = _add(blank, label_end), prefix[-1] if prefix else EDGE
            stays = label_end + heard[last] if prefix else -math.inf
            _grow(grown, prefix, total + heard[0], stays)
            for label in labels:
                # Two equal labels need a blank between them.
                way = (blank if label == last else total) + heard[label]
                longer = (*prefix, label)
                if longer not in added:
                    added[longer] = (
                        added[prefix] + search.weight * ngram.log_prob(label, prefix) + search.bonus
                    )
                _grow(grown, longer, -math.inf, way)
        best = sorted(grown, key=lambda prefix: added[prefix] + _add(*grown[prefix]), reverse=True)
        beams = {prefix: grown[prefix] for prefix in best[:BEAM]}

    readings = []
    for prefix, paths in beams.items():
        if (chance := _add(*paths)) > -math.inf:  # a label may only repeat behind a blank
            ends = search.weight * ngram.log_prob(EDGE, prefix)
            readings.append(Reading(prefix, chance, added[prefix] + ends + chance))
    return sorted(readings, key=lambda reading: reading.score, reverse=True)


def _grow(
    beams: dict[tuple[int, ...], tuple[float, float]],
    prefix: tuple[int, ...],
    blank: float,
    label: float,
) -> None:
    former = beams.get(prefix, (-math.inf, -math.inf))
    beams[prefix] = (_add(former[0], blank), _add(former[1], label))


def _add(log_a: float, log_b: float) -> float:
    """Return the logarithm of the sum of two probabilities."""
    low, high = (log_a, log_b) if log_a < log_b else (log_b, log_a)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))


def weigh_labels(
    log_probs: FloatArray, linear_log_probs: npt.NDArray[np.float64] | None = None
) -> list[float]:
    """Return what speaks against each label by the mean over the positions, as in training; nats.

    Args:
        log_probs: Of the labels at each position, shape (M, K).
        linear_log_probs: Of all but the blank, by the linear classifier, shape (K - 1,).
    """
    means = log_probs[:, 1:].mean(axis=0, dtype=np.float64)
    if linear_log_probs is not None:
        means = MODEL_WEIGHT * (means - np.logaddexp.reduce(means)) + linear_log_probs
    costs = np.logaddexp.reduce(means) - means
    return [min(cost, UNREAD) for cost in costs.tolist()]


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
        stepped = np.r_[-np.inf, best[:-1]]
        two = np.where(can_skip, np.r_[-np.inf, -np.inf, best[:-2]], -np.inf)
        ways = np.stack((best, stepped, two))
        steps[position] = ways.argmax(axis=0)
        best = ways.max(axis=0) + scores[position]
    state = len(states) - 1 - int(best[-2] > best[-1])
    path = [state]
    for position in range(len(scores) - 1, 0, -1):
        state -= int(steps[position, state])
        path.append(state)
    positions = np.array(path[::-1])
    spans = [np.flatnonzero(positions == 2 * number + 1) for number in range(len(labels))]
    return [(int(span[0]), int(span[-1])) for span in spans]
