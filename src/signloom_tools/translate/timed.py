"""Translations with the signs that were read, and the time of each token.

A word has the time of the sign that it translates (`word_signs.py`), and none if it has no sign.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.words import locate_words
from signloom.translation.options import DecodingOptions
from signloom.translation.recognised_signs import Sign, find_signs, read_signs
from signloom.translation.translator import Translation, Translator
from signloom.translation.word_signs import index_words, match_words


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedToken:
    """Some text, and when it was read; None: its word has no sign."""

    text: str
    start_s: float | None
    end_s: float | None

    def later(self, by_s: float) -> "TimedToken":
        """Return the same in a film, `by_s` seconds later."""
        if self.start_s is None or self.end_s is None:
            return self
        return replace(self, start_s=self.start_s + by_s, end_s=self.end_s + by_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedTranslation:
    """A translation, its tokens and its signs."""

    translation: Translation  # what was written
    tokens: tuple[TimedToken, ...] | None
    """With their times; None of a model that reads no signs."""
    signs: tuple[Sign, ...] | None = None  # None of a model that reads none
    is_crowded: bool = False  # whether the clip shows several people

    @property
    def text(self) -> str:
        """The sentence."""
        return self.translation.text

    @property
    def confidence(self) -> float | None:
        """The probability that every word is right; None where that is not known."""
        return self.translation.check.usable_confidence

    @property
    def alternatives(self) -> tuple[Translation, ...]:
        """Further sentences, the likeliest first; see `n_best`."""
        return self.translation.alternatives

    def later(self, by_s: float) -> "TimedTranslation":
        """Return the same of a part of a film, with times from the film's start."""
        return replace(
            self,
            tokens=self.tokens and tuple(token.later(by_s) for token in self.tokens),
            signs=self.signs and tuple(sign.later(by_s) for sign in self.signs),
        )


def translate_timed(
    translator: Translator,
    clips: Sequence[LandmarkSequence],
    options: DecodingOptions,
    *,
    n_best: int,
    skip_unsure: bool = False,
    guess: bool = True,
    find: Sequence[str] = (),
) -> list[TimedTranslation]:
    """Translate clips and time the tokens of the best translation of each; see `Translator`.

    With `find` the signs are where these glosses are, each searched by itself.
    """
    translations = translator.translate(
        clips, options, n_best=n_best, skip_unsure=skip_unsure, guess=guess
    )
    signs: list[tuple[Sign, ...] | None] = [None] * len(clips)
    tokens: list[tuple[TimedToken, ...] | None] = [None] * len(clips)
    if translator.spec.ctc.kind == "glosses":
        # A clip that was not understood has no signs either.
        read = read_signs(translator, clips)
        signs = [tuple(s) if t.text else () for s, t in zip(read, translations, strict=True)]
        weights = index_words(translator.confidence.words if translator.confidence else ())
        tokens = [
            time_words(translator.pieces(translation), clip_signs or (), weights)
            if translation.text
            else ()
            for translation, clip_signs in zip(translations, signs, strict=True)
        ]
    if find:
        signs = [tuple(clip_signs) for clip_signs in find_signs(translator, clips, find)]
    return [
        TimedTranslation(
            translation=translation, tokens=timed, signs=clip_signs, is_crowded=clip.is_crowded
        )
        for translation, timed, clip_signs, clip in zip(
            translations, tokens, signs, clips, strict=True
        )
    ]


def time_words(
    pieces: Sequence[str], signs: Sequence[Sign], weights: Mapping[str, Mapping[str, float]]
) -> tuple[TimedToken, ...]:
    """Return the tokens that add text, each with the time of the sign that its word translates.

    Args:
        pieces: Text of each token of a translation.
        signs: Those that were read of the clip.
        weights: Of words and glosses, as from `index_words`.
    """
    words = locate_words("".join(pieces))
    positions = match_words([word for word, _, _ in words], [sign.gloss for sign in signs], weights)
    timed, first = [], 0
    for piece in filter(None, pieces):
        last = first + len(piece)
        # A piece may be the end of a word and the beginning of the next one.
        piece_signs = (
            signs[position]
            for (_, start, end), position in zip(words, positions, strict=True)
            if position is not None and start < last and end > first
        )
        sign = next(piece_signs, None)
        start_s, end_s = (sign.start_s, sign.end_s) if sign else (None, None)
        timed.append(TimedToken(text=piece, start_s=start_s, end_s=end_s))
        first = last
    return tuple(timed)
