"""Segmentation by rest: where the sentences of a film lie, from its landmarks alone.

Between sentences a signer's hands come to rest: both wrists are low and still, or out of sight.
"""

import itertools
from dataclasses import replace

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
    margin = half_window(sequence.fps)  # so much before and after a movement it is seen
    joined: list[tuple[int, int]] = []
    for start, end in find_runs(is_busy):
        start, end = start + margin, end - margin
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


def cut(sequence: LandmarkSequence, span: Span) -> LandmarkSequence:
    """Return the part of a film that a span covers, one frame at least."""
    start = min(round(span[0] * sequence.fps), len(sequence.points) - 1)
    end = max(round(span[1] * sequence.fps), start + 1)
    return replace(sequence, points=sequence.points[start:end], present=sequence.present[start:end])
