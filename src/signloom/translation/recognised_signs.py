"""Signs: what was signed, when, and how sure, read from a model's CTC head over glosses.

`evaluate` chooses how they are searched and keeps it in confidence.json. Shape letters: M positions
of the memory, K labels with the blank, 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import pairwise

import numpy as np

from signloom.corpus.landmarks import LandmarkSequence
from signloom.errors import UserError
from signloom.features.features import FloatArray
from signloom.translation.labels import find_positions, search_signs
from signloom.translation.options import SignSearch
from signloom.translation.translator import Translator

FOUND = 0.3  # a sign that is looked for is where it has this probability

Frames = tuple[float, float]  # where a gloss begins and ends, frames of the clip


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """One recognised sign."""

    gloss: str  # its name
    start_s: float  # when it begins, seconds from the start of the clip
    end_s: float  # when it ends
    posterior: float  # the mean of its probability at the positions where it is read, 0 to 1

    def later(self, by_s: float) -> "Sign":
        """Return the same in a film, `by_s` seconds later."""
        return replace(self, start_s=self.start_s + by_s, end_s=self.end_s + by_s)

    def to_map(self) -> dict[str, object]:
        """Return the fields of JSON."""
        return {
            "gloss": self.gloss,
            "start_s": round(self.start_s, 3),
            "end_s": round(self.end_s, 3),
            "posterior": round(self.posterior, 3),
        }


def check_reads_signs(translator: Translator) -> None:
    """Refuse a model that has not learnt to read signs.

    Raises:
        UserError: If it has no CTC head over glosses.
    """
    kind = translator.spec.ctc.kind
    if kind != "glosses":
        fault = "it has none" if kind == "none" else f"its CTC head spells {kind}"
        raise UserError(
            f"this model reads no signs: expected a CTC head over glosses, {fault}; set "
            "tokenize_targets.ctc: glosses and train.ctc_weight above 0, and train"
        )


def read_signs(
    translator: Translator, sequences: Sequence[LandmarkSequence], search: SignSearch | None = None
) -> list[list[Sign]]:
    """Return the signs of clips, in their order.

    Args:
        translator: Its model has a CTC head over glosses.
        search: None: as `evaluate` chose it for these weights.

    Raises:
        UserError: If the model reads no signs.
    """
    check_reads_signs(translator)
    chosen = search or translator.sign_search
    pairs = zip(sequences, translator.label_log_probs(sequences), strict=True)
    return [place_signs(translator, sequence, log_probs, chosen) for sequence, log_probs in pairs]


def align_glosses(
    translator: Translator, sequences: Sequence[LandmarkSequence], glosses: Sequence[Sequence[str]]
) -> list[list[Frames] | None]:
    """Return where each gloss of some clips is signed.

    Args:
        translator: Its model has a CTC head over glosses.
        glosses: Of each clip, as signed.

    Returns:
        A span for each gloss; None for a clip that is too short for its glosses, or has a gloss
        that the model has not learnt.

    Raises:
        UserError: If the model reads no signs.
    """
    check_reads_signs(translator)
    spec = translator.spec
    alignments: list[list[Frames] | None] = []
    rows = zip(sequences, glosses, translator.label_log_probs(sequences), strict=True)
    for sequence, names, log_probs in rows:
        labels = [spec.ctc.numbers.get(name, 0) for name in names]
        room = len(labels) + sum(label == following for label, following in pairwise(labels))
        if not labels or 0 in labels or room > len(log_probs):
            alignments.append(None)
            continue
        step = spec.model.subsampling * sequence.fps / spec.features.fps
        start = spec.reader.start_s(sequence) * sequence.fps  # rest is not read
        positions = find_positions(log_probs, labels)
        alignments.append(
            [(start + first * step, start + (last + 1) * step) for first, last in positions]
        )
    return alignments


def check_glosses(translator: Translator, glosses: Sequence[str]) -> None:
    """Refuse glosses that a model cannot find.

    Raises:
        UserError: If it reads no signs, or never saw one of these.
    """
    check_reads_signs(translator)
    names = translator.spec.ctc.names
    for gloss in glosses:
        if gloss not in names:
            near = get_close_matches(gloss, names, n=3) or names[:3]
            raise UserError(
                f"--find {gloss}: no train clip of this model has this gloss, so it cannot be "
                f"found; expected one of its {len(names)}, such as {', '.join(near)}"
            )


def find_signs(
    translator: Translator, sequences: Sequence[LandmarkSequence], glosses: Sequence[str]
) -> list[list[Sign]]:
    """Return where the signs of a list are in clips, in the order of time.

    Each gloss by itself, even if another is read there: where its probability reaches `FOUND`.
    The posterior of what is found is the highest there.

    Args:
        translator: Its model has a CTC head over glosses.
        glosses: What is looked for.

    Raises:
        UserError: If the model cannot find them.
    """
    check_glosses(translator, glosses)
    labels = {translator.spec.ctc.names.index(gloss) + 1: gloss for gloss in glosses}
    placed = []
    for sequence, log_probs in zip(sequences, translator.label_log_probs(sequences), strict=True):
        start_s, step_s = _positions_s(translator, sequence)
        signs = []
        for label, gloss in labels.items():
            chances = np.exp(log_probs[:, label])
            edges = np.flatnonzero(np.diff(np.r_[False, chances >= FOUND, False])).tolist()
            signs += [
                Sign(
                    gloss=gloss,
                    start_s=start_s + first * step_s,
                    end_s=min(start_s + last * step_s, sequence.seconds),
                    posterior=float(chances[first:last].max()),
                )
                for first, last in zip(edges[::2], edges[1::2], strict=True)
            ]
        placed.append(sorted(signs, key=lambda sign: sign.start_s))
    return placed


def _positions_s(translator: Translator, sequence: LandmarkSequence) -> tuple[float, float]:
    """Return when the first position of a clip begins, and how long each lasts, seconds."""
    spec = translator.spec
    step_s = spec.model.subsampling / spec.features.fps
    return spec.reader.start_s(sequence), step_s


def place_signs(
    translator: Translator, sequence: LandmarkSequence, log_probs: FloatArray, search: SignSearch
) -> list[Sign]:
    """Return the signs of a clip: each lies where the likeliest path of all of them reads it.

    Args:
        log_probs: Of the labels at each position, shape (M, K).
    """
    labels = search_signs(log_probs, search)
    names = translator.spec.ctc.names
    start_s, step_s = _positions_s(translator, sequence)
    positions = find_positions(log_probs, labels) if labels else []
    return [
        Sign(
            gloss=names[label - 1],
            start_s=start_s + first * step_s,
            end_s=min(start_s + (last + 1) * step_s, sequence.seconds),
            posterior=float(np.exp(log_probs[first : last + 1, label]).mean()),
        )
        for label, (first, last) in zip(labels, positions, strict=True)
    ]
