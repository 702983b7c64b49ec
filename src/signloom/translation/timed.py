"""Translations with the time at which each token was read."""

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from signloom.corpus.landmarks import LandmarkSequence
from signloom.translation.search import DecodingOptions
from signloom.translation.translator import Alignment, Translation, Translator

T = TypeVar("T")


class Stopwatch:
    """Adds up seconds by name.

    Attributes:
        seconds: Spent on each part so far.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def measure(self, name: str, *, without: str = "") -> Iterator[None]:
        """Time a block.

        Args:
            name: The part that its seconds are added to.
            without: Another part, timed within the block, whose seconds are not counted twice.
        """
        start_s, before_s = time.perf_counter(), self.seconds[without] if without else 0.0
        try:
            yield
        finally:
            inner_s = self.seconds[without] - before_s if without else 0.0
            self.seconds[name] += time.perf_counter() - start_s - inner_s

    def measure_each(self, name: str, items: Iterator[T], *, without: str = "") -> Iterator[T]:
        """Pass items on and time how long each took to come; names as in `measure`."""
        while True:
            with self.measure(name, without=without):
                item = next(items, None)
            if item is None:
                return
            yield item

    def describe(self) -> str:
        """Return the parts that took time, with their shares of the sum, in one line."""
        total_s = max(sum(self.seconds.values()), 1e-9)
        parts = (
            f"{name} {spent_s:.2f} s ({100 * spent_s / total_s:.0f} %)"
            for name, spent_s in self.seconds.items()
            if spent_s
        )
        return ", ".join(parts)


# A token's time is where the middle half of its attention lies.
_EARLY, _LATE = 0.25, 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedToken:
    """Some text, and when the model looked while it wrote it."""

    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedTranslation:
    """A translation and its tokens; None where the model looks at no frame (LSTM, no attention)."""

    translation: Translation
    tokens: tuple[TimedToken, ...] | None


def translate_timed(
    translator: Translator,
    clips: Sequence[LandmarkSequence],
    options: DecodingOptions,
    *,
    n_best: int,
) -> list[TimedTranslation]:
    """Translate clips and time the tokens of the best translation of each."""
    translations = translator.translate(clips, options, n_best=n_best)
    try:
        alignments = translator.align(clips, translations)
    except ValueError:  # the one it names: the decoder does not look at the source
        return [TimedTranslation(translation=found, tokens=None) for found in translations]
    return [
        TimedTranslation(translation=found, tokens=time_tokens(alignment, clip.seconds))
        for clip, found, alignment in zip(clips, translations, alignments, strict=True)
    ]


def time_tokens(alignment: Alignment, seconds: float) -> tuple[TimedToken, ...]:
    """Return when the model looked for each token that adds text.

    Attention is no measurement of time: heads look ahead and back, and signs stand in another
    order than words. The middle half of a token's weight is where it mostly looked.

    Args:
        alignment: Of one clip.
        seconds: Its duration.
    """
    filled = np.cumsum(alignment.weights, axis=1) / alignment.weights.sum(axis=1, keepdims=True)
    step_s, found = alignment.step_s, []
    for text, row in zip(alignment.tokens, filled, strict=True):
        if text:
            first, last = (int(np.argmax(row >= share)) for share in (_EARLY, _LATE))
            start_s = max((first - 0.5) * step_s, 0.0)  # a position stands for the time around it
            end_s = min((last + 0.5) * step_s, seconds)
            found.append(TimedToken(text=text, start_s=start_s, end_s=max(start_s, end_s)))
    return tuple(found)


def to_json(timed: TimedTranslation) -> dict[str, Any]:
    """Return a translation for JSON; docs/translate.md describes it."""
    best = timed.translation
    return {
        **_said(best),
        "alternatives": [_said(other) for other in best.alternatives],
        "tokens": None if timed.tokens is None else [
            {"text": t.text, "start_s": round(t.start_s, 3), "end_s": round(t.end_s, 3)}
            for t in timed.tokens
        ],
    }  # fmt: skip


def _said(translation: Translation) -> dict[str, Any]:
    hypothesis = translation.hypothesis
    return {"text": translation.text, "score": hypothesis.score, "log_prob": hypothesis.log_prob}
