"""Words and the signs that they translate, learnt from train.

So a word has the time of its sign, and sentences are ranked by how they cover the recognised signs.

IBM model 1 (Brown et al. 1993) in both directions: how often a sign is written by a word, and a
word written for a sign, nothing being possible on either side. Their product is the weight of the
two for each other, which is small for articles: these are written for nothing (Liang et al. 2006,
"Alignment by agreement", multiplies the two in the same way).
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from itertools import chain, pairwise
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from signloom.config import NonNegative, Share, checked_dataclass
from signloom.corpus.words import locate_words
from signloom.grouping import group_pairs

ROUNDS = 10  # of expectation and maximisation
LEAST = 0.05  # words and signs whose weight is less do not belong together


@checked_dataclass
class WordOfSign:
    """A word, a sign that it translates, and how much they belong together."""

    word: Annotated[str, Field(min_length=1)]
    gloss: Annotated[str, Field(min_length=1)]
    weight: Share


def learn_words(texts: Sequence[str], glosses: Sequence[Sequence[str]]) -> tuple[WordOfSign, ...]:
    """Return the words and signs that belong together, learnt from sentences.

    Args:
        texts: The training sentences.
        glosses: Of each, as signed.
    """
    words = [[word for word, _, _ in locate_words(text)] for text in texts]
    written = _fit_model_1(words, glosses)  # the word, if the sign is given
    signed = _fit_model_1(glosses, words)
    candidates = (
        WordOfSign(word=word, gloss=gloss, weight=round(share * signed.get((gloss, word), 0.0), 3))
        for (word, gloss), share in written.items()
    )
    return tuple(
        sorted(
            (word for word in candidates if word.weight >= LEAST),
            key=lambda word: (word.word, word.gloss),
        )
    )


def _fit_model_1(
    targets: Sequence[Sequence[str]], sources: Sequence[Sequence[str]]
) -> dict[tuple[str, str], float]:
    """Return the probability of each target unit for each source unit of a sentence: model 1."""
    names = {name: n for n, name in enumerate(dict.fromkeys(chain.from_iterable(targets)))}
    # Number 0 of the sources is nothing, which may be what a target unit stands for.
    numbers = {name: n for n, name in enumerate(dict.fromkeys(chain.from_iterable(sources)), 1)}
    unit_of, target, source = list[int](), list[int](), list[int]()
    units = 0
    for target_words, source_glosses in zip(targets, sources, strict=True):
        sign_numbers = [0, *(numbers[unit] for unit in source_glosses)]
        for unit in target_words:
            unit_of += [units] * len(sign_numbers)
            target += [names[unit]] * len(sign_numbers)
            source += sign_numbers
            units += 1
    if not units:
        return {}
    width = len(names)
    keys, pair = np.unique(np.array(source) * width + np.array(target), return_inverse=True)
    sources_of_pairs = keys // width
    share: npt.NDArray[np.float64] = 1 / np.bincount(sources_of_pairs)[sources_of_pairs]
    for _ in range(ROUNDS):
        expected = share[pair]
        expected /= np.bincount(unit_of, expected, units)[unit_of]
        count = np.bincount(pair, expected, len(keys))
        share = count / np.bincount(sources_of_pairs, count)[sources_of_pairs]
    of_target, of_source = list(names), list(numbers)
    return {
        (of_target[key % width], of_source[key // width - 1]): chance
        for key, chance in zip(keys.tolist(), share.tolist(), strict=True)
        if key >= width
    }


def index_words(lexicon: Sequence[WordOfSign]) -> dict[str, dict[str, float]]:
    """Return the weights by word and gloss."""
    weights: dict[str, dict[str, float]] = {}
    for word in lexicon:
        weights.setdefault(word.word, {})[word.gloss] = word.weight
    return weights


def match_words(
    words: Sequence[str], glosses: Sequence[str], weights: Mapping[str, Mapping[str, float]]
) -> list[int | None]:
    """Return for each word the position of the sign that it translates; None: it has no sign.

    Each sign goes to the word with the greatest weight for it that no other sign has (competitive
    linking, Melamed 2000), and to its neighbours if train never tells them apart: aujourd', hui.
    """
    pairs = sorted(
        (-weight, abs(w / len(words) - position / len(glosses)), w, position)
        for w, word in enumerate(words)
        for position, gloss in enumerate(glosses)
        if (weight := weights.get(word, {}).get(gloss, 0.0))
    )
    indices: list[int | None] = [None] * len(words)
    used = set[int]()
    for _, _, w, position in pairs:
        if indices[w] is None and position not in used:
            indices[w] = position
            used.add(position)
    for before, after in pairwise(range(len(words))):
        linked = indices[before]
        if indices[after] is None and linked is not None:
            same = (weights.get(words[w], {}).get(glosses[linked]) for w in (before, after))
            if len({*same}) == 1:
                indices[after] = linked
    return indices


@checked_dataclass
class SignCoverage:
    """How well a sentence covers the signs of a clip: each as often as it was read.

    A sentence covers a sign as often as it has a word that translates that sign; of several words
    for one sign (`thank you`) the most frequent counts. Order plays no part, as grammars differ.
    """

    sign_of: dict[str, str] = field(default_factory=dict)  # of words that have one
    costs: dict[str, NonNegative] = field(default_factory=dict)
    """What it costs to say a sign once too often or too seldom, nats; of others nothing."""

    def count(self, text: str) -> dict[str, int]:
        """Return how often a sentence says each sign."""
        counts: dict[str, int] = {}
        for word, times in Counter(word for word, _, _ in locate_words(text)).items():
            if sign := self.sign_of.get(word):
                counts[sign] = max(counts.get(sign, 0), times)
        return counts

    def cost(self, text: str, glosses: Iterable[str]) -> float:
        """Return what speaks against a sentence for these signs, nats: 0 if it says them all."""
        written, read = self.count(text), Counter(glosses)
        return math.fsum(
            abs(written.get(sign, 0) - read[sign]) * self.costs.get(sign, 0.0)
            for sign in sorted(written.keys() | read.keys())
        )


def fit_sign_coverage(texts: Sequence[str], glosses: Sequence[Sequence[str]]) -> SignCoverage:
    """Return the sign behind each word, and how surely the training sentences say each sign.

    A word has the sign that model 1 expects of it more often than not, unless the others of this
    sign say it better without it, as they do without an article. The cost of a sign is
    log(1/2 / p), p the share that says it too often or too rarely, of the training sentences that
    have or say this sign: 0 for a sign that words do not follow, the more the surer they do.

    Args:
        texts: The training sentences.
        glosses: Of each, as signed.
    """
    lines = [[word for word, _, _ in locate_words(text)] for text in texts]
    chances = sorted((chance, *pair) for pair, chance in _fit_model_1(glosses, lines).items())
    # The surest last.
    words_of = group_pairs((sign, word) for chance, sign, word in chances if chance > 0.5)
    written, signed = _count_in(lines), _count_in(glosses)
    coverage = SignCoverage()
    for sign, words in sorted(words_of.items()):
        chosen = words
        for word in words:
            if all(times <= signed[sign][line] for line, times in written[word].items()):
                continue  # what is never said without the sign disturbs nowhere
            without = [candidate for candidate in chosen if candidate != word]
            if without and _differ(written, without, signed[sign]) < _differ(
                written, chosen, signed[sign]
            ):
                chosen = without
        wrong, clips = _differ(written, chosen, signed[sign])
        if (cost := math.log((clips + 1) / (2 * wrong + 1))) > 0:
            coverage.sign_of.update(dict.fromkeys(chosen, sign))
            coverage.costs[sign] = round(cost, 3)
    return coverage


def _count_in(lines: Sequence[Sequence[str]]) -> dict[str, Counter[int]]:
    """Return of each unit how often each line that has it has it."""
    counts: dict[str, Counter[int]] = {}
    for number, line in enumerate(lines):
        for unit in line:
            counts.setdefault(unit, Counter())[number] += 1
    return counts


def _differ(
    written: Mapping[str, Counter[int]], words: Sequence[str], signed: Counter[int]
) -> tuple[int, int]:
    """Return how many lines say a sign too often or too seldom, and how many say or sign it."""
    counts = Counter[int]()
    for word in words:
        counts |= written[word]  # the greater of both
    lines = counts.keys() | signed.keys()
    return sum(counts[line] != signed[line] for line in lines), len(lines)
