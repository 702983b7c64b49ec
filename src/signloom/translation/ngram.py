"""The n-gram of signs: how likely a sign is after those before it."""

import functools
import math
from collections import Counter
from collections.abc import Sequence

from signloom.translation.options import EDGE

ORDER = 4  # a sign and the three before it


class NGram:
    """Log-probability of a sign after those before it, of counts.

    Every order is interpolated with the next lower one, the last with all signs being equal; a
    context weighs the more against what is below it, the fewer kinds of signs follow it.

    Source: Witten and Bell (1991); Chen and Goodman (1999), section 2.4.
    """

    def __init__(self, rows: Sequence[tuple[int, ...]]) -> None:
        """Take `SignSearch.ngrams`."""
        self._counts, self._totals = Counter[tuple[int, ...]](), Counter[tuple[int, ...]]()
        for *labels, count in rows:
            for start in range(len(labels)):
                self._counts[tuple(labels[start:])] += count
                self._totals[tuple(labels[start:-1])] += count
        self._kinds = Counter(labels[:-1] for labels in self._counts)
        self._before = max(map(len, self._counts), default=1) - 1  # signs that are looked back to
        self._known: dict[tuple[int, ...], float] = {}

    def log_prob(self, label: int, before: tuple[int, ...]) -> float:
        """Return how likely a label is after all labels of its sentence before it."""
        padded = (EDGE,) * self._before + before
        key = (*padded[len(padded) - self._before :], label)
        if key not in self._known:
            self._known[key] = math.log(self._chance(key))
        return self._known[key]

    def _chance(self, labels: tuple[int, ...]) -> float:
        if not labels:
            return 1 / (self._kinds[()] + 1)
        lower, context = self._chance(labels[1:]), labels[:-1]
        if not (kinds := self._kinds[context]):
            return lower
        return (self._counts[labels] + kinds * lower) / (self._totals[context] + kinds)


build_ngram = functools.lru_cache(maxsize=4)(NGram)


def count_ngrams(lines: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """Return what `SignSearch.ngrams` is of the labels of some sentences."""
    padded = ((*(EDGE,) * (ORDER - 1), *line, EDGE) for line in lines)
    counts = Counter(line[n : n + ORDER] for line in padded for n in range(len(line) - ORDER + 1))
    return tuple((*labels, count) for labels, count in sorted(counts.items()))
