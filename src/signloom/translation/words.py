"""Words and the signs that they translate, learnt from train, so that a word has its sign's time.

IBM model 1 (Brown et al. 1993) in both directions: how often a sign is written by a word, and a
word written for a sign, nothing being possible on either side. Their product is the weight of the
two for each other, which is small for articles: these are written for nothing (Liang et al. 2006,
"Alignment by agreement", multiplies the two in the same way).
"""

import re
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field

from signloom.config import Share, checked_dataclass
from signloom.corpus.novelty import MARKS

ROUNDS = 10  # of expectation and maximisation
LEAST = 0.05  # words and signs whose weight is less do not belong together
# Where words are not parted by spaces each character is one.
_UNSPACED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff"
_WORD = re.compile(rf"[{_UNSPACED}]|(?:[^\W_{_UNSPACED}]|[{MARKS}])+")


@checked_dataclass
class WordOfSign:
    """A word, a sign that it translates, and how much they belong together."""

    word: Annotated[str, Field(min_length=1)]
    gloss: Annotated[str, Field(min_length=1)]
    weight: Share


def find_words(text: str) -> list[tuple[str, int, int]]:
    """Return the words of a text in lower case, with where each begins and ends in it."""
    return [(one.group().lower(), *one.span()) for one in _WORD.finditer(text)]


def learn_words(texts: Sequence[str], glosses: Sequence[Sequence[str]]) -> tuple[WordOfSign, ...]:
    """Return the words and signs that belong together, learnt from sentences.

    Args:
        texts: The sentences of train.
        glosses: Of each, as signed.
    """
    words = [[word for word, _, _ in find_words(text)] for text in texts]
    written = _translate(words, glosses)  # the word, if the sign is given
    signed = _translate(glosses, words)
    found = (
        WordOfSign(word=word, gloss=gloss, weight=round(share * signed.get((gloss, word), 0.0), 3))
        for (word, gloss), share in written.items()
    )
    return tuple(
        sorted((one for one in found if one.weight >= LEAST), key=lambda one: (one.word, one.gloss))
    )


def _translate(
    targets: Sequence[Sequence[str]], sources: Sequence[Sequence[str]]
) -> dict[tuple[str, str], float]:
    """Return the probability of each target unit for each source unit beside it: model 1."""
    names = {name: n for n, name in enumerate(dict.fromkeys(chain.from_iterable(targets)))}
    # Number 0 of the sources is nothing, which may be what a target unit stands for.
    numbers = {name: n for n, name in enumerate(dict.fromkeys(chain.from_iterable(sources)), 1)}
    owner, target, source = list[int](), list[int](), list[int]()
    units = 0
    for one, other in zip(targets, sources, strict=True):
        beside = [0, *(numbers[unit] for unit in other)]
        for unit in one:
            owner += [units] * len(beside)
            target += [names[unit]] * len(beside)
            source += beside
            units += 1
    if not units:
        return {}
    width = len(names)
    keys, pair = np.unique(np.array(source) * width + np.array(target), return_inverse=True)
    givers = keys // width
    share: npt.NDArray[np.float64] = 1 / np.bincount(givers)[givers]
    for _ in range(ROUNDS):
        cell = share[pair]
        cell /= np.bincount(owner, cell, units)[owner]
        count = np.bincount(pair, cell, len(keys))
        share = count / np.bincount(givers, count)[givers]
    of_target, of_source = list(names), list(numbers)
    return {
        (of_target[key % width], of_source[key // width - 1]): chance
        for key, chance in zip(keys.tolist(), share.tolist(), strict=True)
        if key >= width
    }


def index_words(lexicon: Sequence[WordOfSign]) -> dict[str, dict[str, float]]:
    """Return the weights by word and gloss."""
    found: dict[str, dict[str, float]] = {}
    for one in lexicon:
        found.setdefault(one.word, {})[one.gloss] = one.weight
    return found


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
    found: list[int | None] = [None] * len(words)
    used = set[int]()
    for _, _, w, position in pairs:
        if found[w] is None and position not in used:
            found[w] = position
            used.add(position)
    for before, after in pairwise(range(len(words))):
        linked = found[before]
        if found[after] is None and linked is not None:
            same = (weights.get(words[w], {}).get(glosses[linked]) for w in (before, after))
            if len({*same}) == 1:
                found[after] = linked
    return found
