"""Distances between samples and their significance."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_TERMS = 100  # of the series, which converges after a few unless the samples are alike


@dataclass(frozen=True, slots=True)
class Distance:
    """How far apart two samples are."""

    value: float
    """Largest difference of the two distribution functions, 0 (alike) to 1 (apart)."""
    p_value: float
    """Chance that two samples of one distribution are as far apart."""


def ks_distance(one: Sequence[float], other: Sequence[float]) -> Distance:
    """Compare two samples by Kolmogorov and Smirnov, whatever their sizes.

    The p-value is the asymptotic one with the correction for small samples by Stephens (1970),
    "Use of the Kolmogorov-Smirnov, Cramér-von Mises and related statistics without extensive
    tables". Unlike the population stability index it has no bins, so small samples give no bias.

    Raises:
        ValueError: If a sample is empty.
    """
    if not one or not other:
        raise ValueError("found an empty sample, expected two with a value or more")
    first, second = np.sort(one), np.sort(other)
    places = np.concatenate([first, second])
    below = [np.searchsorted(side, places, side="right") / len(side) for side in (first, second)]
    value = float(np.abs(below[0] - below[1]).max())
    size = math.sqrt(len(first) * len(second) / (len(first) + len(second)))
    return Distance(value, _kolmogorov((size + 0.12 + 0.11 / size) * value))


def _kolmogorov(x: float) -> float:
    """Chance that the Kolmogorov distribution exceeds x."""
    if x < 0.2:
        return 1.0  # to 12 digits; the series below needs many terms here
    terms = [(-1) ** (k - 1) * math.exp(-2 * (k * x) ** 2) for k in range(1, _TERMS)]
    return min(max(2 * sum(terms), 0.0), 1.0)


def binomial_tail(successes: int, trials: int, chance: float) -> float:
    """Chance of at least so many successes, each of a chance between 0 and 1."""
    # In logarithms: from some 1,000 trials on, binomial coefficients are beyond floats.
    ways = math.lgamma(trials + 1)
    return math.fsum(
        math.exp(
            ways - math.lgamma(k + 1) - math.lgamma(trials - k + 1)
            + k * math.log(chance) + (trials - k) * math.log1p(-chance)
        )
        for k in range(successes, trials + 1)
    )  # fmt: skip


def spread_p_value(one: float, other: float, count: int, other_count: int) -> float:
    """Chance that a sample of an equal spread has one as much larger as `one` is than `other`.

    Fisher's z, the logarithm of a ratio of standard deviations, is nearly normal for samples of a
    few values on.

    Args:
        one: Standard deviation, above 0.
        other: Likewise.
        count: Values of the sample with the first one, 2 or more.
        other_count: Values of the other sample, 2 or more.
    """
    error = math.sqrt((1 / (count - 1) + 1 / (other_count - 1)) / 2)
    return math.erfc(math.log(one / other) / error / math.sqrt(2)) / 2


def factor(one: float, other: float) -> float:
    """How many times one number is the other, 1 or more whichever is larger; both above 0."""
    return max(one / other, other / one)
