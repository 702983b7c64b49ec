"""Segmentation by rest: where the sentences of a film lie, from its landmarks alone.

Between sentences a signer's hands come to rest: both wrists are low and still, or out of sight.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from signloom.corpus.landmarks import LandmarkSequence
from signloom.features.features import fill_gaps
from signloom.features.rests import BRIDGE_S, HOLD_S, find_busy, find_runs, half_window

Span = tuple[float, float]  # start and end of a sentence, seconds from the start of the film

PAUSE_S = 0.35  # the shortest rest between two sentences
LEAST_S = 0.4  # a shorter movement is no sentence
PAD_S = 0.2  # of rest that is left before and after a sentence, as clips have


def segment_by_rest(sequence: LandmarkSequence, pause_s: float = PAUSE_S) -> list[Span]:
    """Return the sentences of a film, in order.

    Args:
        sequence: Its landmarks; the layout needs hands or pose.
        pause_s: The shortest rest between two sentences.
    """
    is_busy = find_busy(fill_gaps(sequence, BRIDGE_S), HOLD_S)
    seen = half_window(sequence.fps)  # so much before and after a movement it is seen
    joined: list[tuple[int, int]] = []
    for start, end in find_runs(is_busy):
        start, end = start + seen, end - seen
        if start >= end:
            continue
        if joined and (start - joined[-1][1]) / sequence.fps < pause_s:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    spans = [(a / sequence.fps, b / sequence.fps) for a, b in joined]
    return pad_spans([span for span in spans if span[1] - span[0] >= LEAST_S], sequence.seconds)


def pad_spans(spans: list[Span], seconds: float) -> list[Span]:
    """Widen spans by `PAD_S`, at most to the middle of the pause between two."""
    if not spans:
        return []
    middles = [(a[1] + b[0]) / 2 for a, b in itertools.pairwise(spans)]
    lows, highs = [0.0, *middles], [*middles, seconds]
    return [
        (max(start - PAD_S, low), min(end + PAD_S, high))
        for (start, end), low, high in zip(spans, lows, highs, strict=True)
    ]


def share_found(spans: Sequence[Span], truth: Sequence[Span], within_s: float = 0.3) -> float:
    """Return the share of true sentences of which both ends were found, so near at least."""
    found = sum(
        any(abs(a - start) <= within_s and abs(b - end) <= within_s for a, b in spans)
        for start, end in truth
    )
    return found / max(len(truth), 1)


# Of an alignment: shifts and stretches tried for all captions at once, seconds and factors (films
# at 24 and 25, at 29.97 and 30 frames/s), and what the parts of its cost weigh.
SHIFTS_S = np.arange(-100, 101) / 10
STRETCHES = (1.0, 24 / 25, 25 / 24, 1000 / 1001, 1001 / 1000)
# Captions and sentences that may belong together: one and one, long ones and two short ones.
SHAPES = ((1, 1), (1, 2), (1, 3), (2, 1))
FAR_S, ODD, ALONE, JOINED = 20.0, 6.0, 2.5, 1.5


def align_cues(cues: Sequence[Span], spans: Sequence[Span]) -> list[Span]:
    """Return where the sentences of captions are signed; a caption of none moves with the others.

    First one shift and stretch for all, by which most of the signing has captions; then dynamic
    programming over captions and sentences in their order, which prefers equal durations. After
    SEA: Jiang et al. (2025), "Segment, embed, and align".

    Args:
        cues: Start and end of each caption, in the order of the text.
        spans: The sentences that were found, in order.
    """
    if not cues or not spans:
        return list(cues)
    given, found = np.array(cues, float), np.array(spans, float)
    tried = itertools.product(STRETCHES, SHIFTS_S.tolist())
    moved = max(
        (given * stretch + shift_s for stretch, shift_s in tried), key=lambda g: _overlap(g, found)
    )
    lengths = [np.concatenate(([0], np.cumsum(one[:, 1] - one[:, 0]))) for one in (moved, found)]
    cost = np.full((len(moved) + 1, len(found) + 1), np.inf)
    cost[0, 0] = 0
    came: dict[tuple[int, int], tuple[int, int]] = {}
    for i, j in itertools.product(range(len(moved) + 1), range(len(found) + 1)):
        for a, b in ((1, 0), (0, 1), *SHAPES):
            if a > i or b > j:
                continue
            price = ALONE
            if a and b:
                cue_s = lengths[0][i] - lengths[0][i - a]
                span_s = lengths[1][j] - lengths[1][j - b]
                apart_s = moved[i - a, 0] + moved[i - 1, 1] - found[j - b, 0] - found[j - 1, 1]
                odd = abs(math.log(max(span_s, 0.1) / max(cue_s, 0.1)))
                price = abs(apart_s) / 2 / FAR_S + ODD * odd + JOINED * (a + b - 2)
            if cost[i - a, j - b] + price < cost[i, j]:
                cost[i, j], came[i, j] = cost[i - a, j - b] + price, (a, b)
    i, j = len(moved), len(found)
    while i or j:
        a, b = came[i, j]
        if a and b:
            parts = lengths[0][i - a : i + 1] - lengths[0][i - a]
            edges = np.interp(parts, parts[[0, -1]], (found[j - b, 0], found[j - 1, 1]))
            moved[i - a : i] = np.stack((edges[:-1], edges[1:]), axis=1)
        i, j = i - a, j - b
    return [(max(start, 0.0), max(end, 0.0)) for start, end in moved.tolist()]


def _overlap(cues: npt.NDArray[np.float64], spans: npt.NDArray[np.float64]) -> float:
    """Return for how many seconds there are both a caption and a sentence."""
    shared = np.minimum(cues[:, None, 1], spans[:, 1]) - np.maximum(cues[:, None, 0], spans[:, 0])
    return float(np.maximum(shared, 0).sum())


def cut(sequence: LandmarkSequence, span: Span) -> LandmarkSequence:
    """Return the part of a film that a span covers, one frame at least."""
    start = min(round(span[0] * sequence.fps), len(sequence.points) - 1)
    end = max(round(span[1] * sequence.fps), start + 1)
    return replace(sequence, points=sequence.points[start:end], present=sequence.present[start:end])
