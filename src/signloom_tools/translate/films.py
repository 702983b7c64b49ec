"""Films of several sentences: the translation, signs and captions of each."""

from collections.abc import Iterable, Sequence

from signloom.corpus.landmarks import LandmarkSequence
from signloom.translation.confidence import NOT_UNDERSTOOD
from signloom.translation.options import DecodingOptions
from signloom.translation.translator import Translator
from signloom_tools.importing.captions import UNSURE_MARK, Cue
from signloom_tools.translate.segmentation import Span, cut
from signloom_tools.translate.timed import TimedTranslation, translate_timed

SENTENCES_AT_ONCE = 64  # of a film, whose features need not all be in memory
Sentence = tuple[Span, TimedTranslation]
"""A translated sentence of a film, and where it lies."""


def translate_film(
    translator: Translator,
    film: LandmarkSequence,
    spans: Sequence[Span],
    options: DecodingOptions,
    *,
    skip_unsure: bool = False,
    guess: bool = True,
    find: Sequence[str] = (),
) -> list[Sentence]:
    """Translate the sentences of a film, which lie in `spans`; else as `translate_timed`."""
    sentences: list[Sentence] = []
    for first in range(0, len(spans), SENTENCES_AT_ONCE):
        part = spans[first : first + SENTENCES_AT_ONCE]
        timed = translate_timed(
            translator,
            [cut(film, span) for span in part],
            options,
            n_best=1,
            skip_unsure=skip_unsure,
            guess=guess,
            find=find,
        )
        sentences += zip(part, timed, strict=True)
    return sentences


def make_sign_cues(sentences: Iterable[Sentence]) -> list[Cue]:
    """Return the signs of sentences as captions."""
    return [
        Cue(
            start_s=round(start_s + sign.start_s, 3),
            end_s=round(start_s + sign.end_s, 3),
            text=sign.gloss,
            score=round(sign.posterior, 3),
        )
        for (start_s, _), timed in sentences
        for sign in timed.signs or ()
    ]


def make_cues(sentences: Iterable[Sentence], *, for_people: bool) -> list[Cue]:
    """Return sentences as captions; only people see marks, numbers tell programs."""
    cues = []
    for (start_s, end_s), timed in sentences:
        text, check = " ".join(timed.text.split()), timed.translation.check
        if for_people and check.unlike:
            text = text or NOT_UNDERSTOOD
        mark = UNSURE_MARK if for_people and check.word else ""
        cues.append(
            Cue(
                start_s=round(start_s, 3),
                end_s=round(end_s, 3),
                text=mark + text,
                score=check.usable_confidence,
            )
        )
    return cues
