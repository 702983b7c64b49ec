"""Films of several sentences: how they are cut, and the translation, signs and captions of each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from signloom.corpus.landmarks import LandmarkSequence
from signloom.translation.confidence import NOT_UNDERSTOOD, Check
from signloom.translation.options import DecodingOptions
from signloom.translation.signs import Sign, find_signs
from signloom.translation.translator import Translator
from signloom_tools.importing.captions import UNSURE_MARK, Cue
from signloom_tools.translate.segmentation import Span, cut
from signloom_tools.translate.timed import translate_timed

SENTENCES_AT_ONCE = 64  # of a film, whose features need not all be in memory


@dataclass(frozen=True, slots=True, kw_only=True)
class FilmSentence:
    """A translated sentence of a film; times in seconds from the film's start."""

    text: str  # the sentence
    check: Check  # how far it can be trusted
    start_s: float  # where it starts
    end_s: float  # where it ends
    signs: Sequence[Sign] = ()  # those that were read, timed from the sentence's start


def translate_film(
    translator: Translator,
    film: LandmarkSequence,
    spans: Sequence[Span],
    options: DecodingOptions,
    *,
    skip_unsure: bool = False,
    guess: bool = True,
) -> list[FilmSentence]:
    """Translate the sentences of a film, which lie in `spans`; else as `translate_timed`."""
    found = []
    for part, clips in _cut_some(film, spans):
        timed = translate_timed(
            translator, clips, options, n_best=1, skip_unsure=skip_unsure, guess=guess
        )
        for (start_s, end_s), one in zip(part, timed, strict=True):
            best = one.translation
            found.append(
                FilmSentence(
                    start_s=start_s, end_s=end_s, text=" ".join(best.text.split()),
                    check=best.check, signs=one.signs or (),
                )
            )  # fmt: skip
    return [one for one in found if one.text or not skip_unsure]


def _cut_some(
    film: LandmarkSequence, spans: Sequence[Span]
) -> Iterator[tuple[Sequence[Span], list[LandmarkSequence]]]:
    for first in range(0, len(spans), SENTENCES_AT_ONCE):
        part = spans[first : first + SENTENCES_AT_ONCE]
        yield part, [cut(film, span) for span in part]


def make_sign_cues(sentences: Sequence[FilmSentence]) -> list[Cue]:
    """Return the signs of sentences as captions."""
    return [_sign_cue(sign, one.start_s) for one in sentences for sign in one.signs]


def find_film_signs(
    translator: Translator, film: LandmarkSequence, spans: Sequence[Span], glosses: Sequence[str]
) -> list[Cue]:
    """Return where the signs of a list are in the sentences of a film, as captions.

    Args:
        translator: Its model has a CTC head over glosses.
        film: Its landmarks.
        spans: Where its sentences lie.
        glosses: What is looked for.
    """
    found = []
    for part, clips in _cut_some(film, spans):
        for (start_s, _), signs in zip(part, find_signs(translator, clips, glosses), strict=True):
            found += [_sign_cue(sign, start_s) for sign in signs]
    return found


def _sign_cue(sign: Sign, start_s: float) -> Cue:
    return Cue(
        start_s=round(start_s + sign.start_s, 3), end_s=round(start_s + sign.end_s, 3),
        text=sign.gloss, score=round(sign.posterior, 3),
    )  # fmt: skip


def make_cues(sentences: Sequence[FilmSentence], *, for_people: bool) -> list[Cue]:
    """Return sentences as captions; only people see marks, numbers tell programs."""
    mark, nothing = (UNSURE_MARK, NOT_UNDERSTOOD) if for_people else ("", "")
    return [
        Cue(
            start_s=round(one.start_s, 3), end_s=round(one.end_s, 3),
            text=(mark if one.check.word else "")
            + (one.text or (nothing if one.check.unlike else "")),
            score=one.check.usable_confidence,
        )
        for one in sentences
    ]  # fmt: skip
