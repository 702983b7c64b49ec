"""Translations with the time at which each token was read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from signloom.corpus.landmarks import LandmarkSequence
from signloom.translation.options import DecodingOptions
from signloom.translation.translator import Alignment, Translation, Translator

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
    skip_unsure: bool = False,
    guess: bool = True,
) -> list[TimedTranslation]:
    """Translate clips and time the tokens of the best translation of each; see `Translator`."""
    translations = translator.translate(
        clips, options, n_best=n_best, skip_unsure=skip_unsure, guess=guess
    )
    try:
        alignments = translator.align(clips, translations)
    except ValueError:  # the one it names: the decoder does not look at the source
        return [TimedTranslation(translation=found, tokens=None) for found in translations]
    return [
        TimedTranslation(
            translation=found,
            tokens=time_tokens(alignment, clip.seconds) if found.text else (),
        )
        for clip, found, alignment in zip(clips, translations, alignments, strict=True)
    ]


def time_tokens(alignment: Alignment, seconds: float) -> tuple[TimedToken, ...]:
    """Return when the model looked for each token that adds text.

    Attention is no measurement of time: heads look ahead and back, and signs come in another
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
            # A position represents the time around it.
            start_s = alignment.start_s + max((first - 0.5) * step_s, 0.0)
            end_s = min(alignment.start_s + (last + 0.5) * step_s, seconds)
            found.append(TimedToken(text=text, start_s=start_s, end_s=max(start_s, end_s)))
    return tuple(found)


def to_json(timed: TimedTranslation) -> dict[str, Any]:
    """Return a translation for JSON; docs/translation.md describes it."""
    best = timed.translation
    return {
        **to_scored(best),
        **best.check.to_map(),
        "alternatives": [to_scored(other) for other in best.alternatives],
        "tokens": None if timed.tokens is None else [
            {"text": t.text, "start_s": round(t.start_s, 3), "end_s": round(t.end_s, 3)}
            for t in timed.tokens
        ],
    }  # fmt: skip


def to_scored(translation: Translation) -> dict[str, Any]:
    """Return text and scores of a translation for JSON."""
    hypothesis = translation.hypothesis
    return {"text": translation.text, "score": hypothesis.score, "log_prob": hypothesis.log_prob}
