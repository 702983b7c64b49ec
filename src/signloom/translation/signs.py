"""Signs: what was signed, when, and how sure, read from a model's CTC head over glosses.

A prefix beam search over the labels (Graves et al. 2006; Hannun et al. 2014) with a bigram of the
glosses of train where dev says that it helps. `evaluate` chooses that and keeps it in
confidence.json. Shape letters: M positions of the memory, K labels with the blank, 0.
"""

import functools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise

import numpy as np

from signloom.corpus.landmarks import LandmarkSequence
from signloom.errors import UserError
from signloom.features.features import FloatArray
from signloom.translation.labels import find_positions
from signloom.translation.options import EDGE, SignSearch
from signloom.translation.translator import Translator

BEAM = 12  # prefixes that are kept at each position
FOUND = 0.3  # a sign that is looked for is where it has this probability
LEAST = 1e-3  # a label with less probability at a position does not begin there
PRIOR = 2.0  # how often each sign counts as seen before any other, in proportion to unigrams


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """One recognised sign."""

    gloss: str  # its name
    start_s: float  # when it begins, seconds from the start of the clip
    end_s: float  # when it ends
    posterior: float  # the mean of its probability at the positions where it is read, 0 to 1

    def to_map(self) -> dict[str, object]:
        """Return the fields of JSON."""
        return {
            "gloss": self.gloss, "start_s": round(self.start_s, 3), "end_s": round(self.end_s, 3),
            "posterior": round(self.posterior, 3),
        }  # fmt: skip


class Bigram:
    """Log-probability of a sign after another, of counts.

    Pairs are smoothed towards unigrams (Dirichlet prior), those towards all signs being equal.
    """

    def __init__(self, pairs: Sequence[tuple[int, int, int]]) -> None:
        """Take labels, those after them, and how often they stand so."""
        self._pairs = {(one, other): count for one, other, count in pairs}
        self._before, after = Counter[int](), Counter[int]()
        for one, other, count in pairs:
            self._before[one] += count
            after[other] += count
        total = sum(after.values()) + len(after) + 1
        self._unigram = {label: (count + 1) / total for label, count in after.items()}
        self._unseen = 1 / total
        self._known: dict[tuple[int, int], float] = {}

    def log_prob(self, label: int, before: int) -> float:
        """Return how likely a label is after another."""
        key = (before, label)
        if key not in self._known:
            prior = PRIOR * self._unigram.get(label, self._unseen)
            chance = (self._pairs.get(key, 0) + prior) / (self._before[before] + PRIOR)
            self._known[key] = math.log(chance)
        return self._known[key]


_bigram = functools.lru_cache(maxsize=4)(Bigram)


def count_pairs(lines: Sequence[Sequence[int]]) -> tuple[tuple[int, int, int], ...]:
    """Return what `SignSearch.pairs` is of the labels of some sentences."""
    found = Counter(pair for line in lines for pair in pairwise((EDGE, *line, EDGE)))
    return tuple((one, other, count) for (one, other), count in sorted(found.items()))


def search_signs(log_probs: FloatArray, search: SignSearch) -> list[int]:
    """Return the labels of a clip, from 1.

    Args:
        log_probs: Of the labels at each position, shape (M, K).
        search: Weights of the bigram and of length.
    """
    bigram = _bigram(search.pairs)
    # Of each prefix: the log-probability of the paths to it that end in a blank, and in its label.
    beams: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, -math.inf)}
    said: dict[tuple[int, ...], float] = {(): 0.0}  # what bigram and length add to it
    for row in log_probs:
        labels = [label for label in np.flatnonzero(row > math.log(LEAST)).tolist() if label]
        heard = row.tolist()
        grown: dict[tuple[int, ...], tuple[float, float]] = {}
        for prefix, (blank, label_end) in beams.items():
            whole, last = _add(blank, label_end), prefix[-1] if prefix else EDGE
            stays = label_end + heard[last] if prefix else -math.inf
            _grow(grown, prefix, whole + heard[0], stays)
            for label in labels:
                # Two equal labels need a blank between them.
                way = (blank if label == last else whole) + heard[label]
                longer = (*prefix, label)
                if longer not in said:
                    said[longer] = (
                        said[prefix] + search.weight * bigram.log_prob(label, last) + search.bonus
                    )
                _grow(grown, longer, -math.inf, way)
        best = sorted(grown, key=lambda one: said[one] + _add(*grown[one]), reverse=True)
        beams = {prefix: grown[prefix] for prefix in best[:BEAM]}

    def rank(prefix: tuple[int, ...]) -> float:
        ends = search.weight * bigram.log_prob(EDGE, prefix[-1] if prefix else EDGE)
        return said[prefix] + ends + _add(*beams[prefix])

    best_of_all: tuple[int, ...] = max(beams, key=rank)
    return list(best_of_all)


def _grow(
    beams: dict[tuple[int, ...], tuple[float, float]],
    prefix: tuple[int, ...],
    blank: float,
    label: float,
) -> None:
    had = beams.get(prefix, (-math.inf, -math.inf))
    beams[prefix] = (_add(had[0], blank), _add(had[1], label))


def _add(one: float, other: float) -> float:
    """Return the logarithm of the sum of two probabilities."""
    low, high = (one, other) if one < other else (other, one)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))


def check_reads_signs(translator: Translator) -> None:
    """Refuse a model that has not learnt to read signs.

    Raises:
        UserError: If it has no CTC head over glosses.
    """
    kind = translator.spec.ctc.kind
    if kind != "glosses":
        what = "it has none" if kind == "none" else f"its CTC head spells {kind}"
        raise UserError(
            f"this model reads no signs: expected a CTC head over glosses, {what}; set "
            "tokenize_targets.ctc: glosses and train.ctc_weight above 0, and train"
        )


def read_signs(
    translator: Translator, sequences: Sequence[LandmarkSequence], search: SignSearch | None = None
) -> list[list[Sign]]:
    """Return the signs of clips, in their order.

    Args:
        translator: Its model has a CTC head over glosses.
        sequences: Landmarks of the clips.
        search: None: as `evaluate` chose it for these weights.

    Raises:
        UserError: If the model reads no signs.
    """
    check_reads_signs(translator)
    chosen = search or (translator.confidence and translator.confidence.signs) or SignSearch()
    both = zip(sequences, translator.label_log_probs(sequences), strict=True)
    return [place_signs(translator, one, log_probs, chosen) for one, log_probs in both]


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

    Each gloss by itself, whatever else may be read there: where its probability reaches `FOUND`.
    The posterior of what is found is the highest there.

    Args:
        translator: Its model has a CTC head over glosses.
        sequences: Landmarks of the clips.
        glosses: What is looked for.

    Raises:
        UserError: If the model cannot find them.
    """
    check_glosses(translator, glosses)
    labels = {translator.spec.ctc.names.index(gloss) + 1: gloss for gloss in glosses}
    found = []
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
        found.append(sorted(signs, key=lambda sign: sign.start_s))
    return found


def _positions_s(translator: Translator, sequence: LandmarkSequence) -> tuple[float, float]:
    """Return when the first position of a clip begins, and how long each lasts, seconds."""
    spec = translator.spec
    step_s = spec.model.subsampling / spec.features.fps
    return translator.source.start_s(sequence, spec.features), step_s


def place_signs(
    translator: Translator, sequence: LandmarkSequence, log_probs: FloatArray, search: SignSearch
) -> list[Sign]:
    """Return the signs of a clip: each lies where the likeliest path of all of them reads it.

    Args:
        translator: Whose labels these are.
        sequence: The clip.
        log_probs: Of the labels at each position, shape (M, K).
        search: How they are searched.
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
