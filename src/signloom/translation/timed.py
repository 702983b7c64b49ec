"""Translations with the time at which each token was read."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from signloom.corpus.landmarks import LandmarkSequence
from signloom.translation.confidence import Check
from signloom.translation.options import DecodingOptions
from signloom.translation.segmentation import Span, cut
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


SENTENCES_AT_ONCE = 64  # of a film, whose features need not all be in memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """A translated sentence of a film; times in seconds from the film's start.

    Attributes:
        text: The sentence.
        tokens: When the model looked for each part of it; None where it looks at no frame.
        check: How far it can be trusted.
        start_s: Where it starts.
        end_s: Where it ends.
    """

    text: str
    tokens: Sequence[TimedToken] | None
    check: Check
    start_s: float = 0.0
    end_s: float = math.inf


def translate_film(
    translator: Translator,
    film: LandmarkSequence,
    spans: Sequence[Span],
    options: DecodingOptions,
    *,
    skip_unsure: bool = False,
    guess: bool = True,
) -> list[Sentence]:
    """Translate the sentences of a film; arguments as those of `translate_timed`.

    Args:
        translator: The model.
        film: Its landmarks.
        spans: Where its sentences lie.
        options: How to search.
        skip_unsure: Leave sentences out that the model is unsure of.
        guess: See `Translator.translate`.
    """
    found = []
    for first in range(0, len(spans), SENTENCES_AT_ONCE):
        part = spans[first : first + SENTENCES_AT_ONCE]
        clips = [cut(film, span) for span in part]
        timed = translate_timed(
            translator, clips, options, n_best=1, skip_unsure=skip_unsure, guess=guess
        )
        for (start_s, end_s), one in zip(part, timed, strict=True):
            tokens = one.tokens and tuple(
                replace(t, start_s=t.start_s + start_s, end_s=t.end_s + start_s) for t in one.tokens
            )
            best = one.translation
            found.append(
                Sentence(
                    start_s=start_s, end_s=end_s, text=" ".join(best.text.split()), tokens=tokens,
                    check=best.check,
                )
            )  # fmt: skip
    return [one for one in found if one.text or not skip_unsure]


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
        **_scored(best),
        **best.check.to_map(),
        "alternatives": [_scored(other) for other in best.alternatives],
        "tokens": None if timed.tokens is None else [
            {"text": t.text, "start_s": round(t.start_s, 3), "end_s": round(t.end_s, 3)}
            for t in timed.tokens
        ],
    }  # fmt: skip


def _scored(translation: Translation) -> dict[str, Any]:
    hypothesis = translation.hypothesis
    return {"text": translation.text, "score": hypothesis.score, "log_prob": hypothesis.log_prob}
