"""Two systems' sentences for the same references come in; how sure the difference is goes out."""

from dataclasses import dataclass

import numpy as np

from signloom.metrics.counted import LOWER_IS_BETTER
from signloom.metrics.options import FloatArray, ScoreOptions
from signloom.metrics.scores import INTERVAL, Statistics, sentence_scores

TIE = 1e-9  # two sentences' scores that differ by less are the same


@dataclass(frozen=True, slots=True)
class Difference:
    """One metric of two systems, A and B, on the same sentences."""

    name: str
    a: float
    b: float
    low: float
    """Of B - A: lower end of the 95 % paired bootstrap interval."""
    high: float
    p_value: float
    """sacreBLEU's: how often equally good systems would differ by more, in one direction."""
    wins: int
    """Sentences in which B is better."""
    losses: int
    ties: int

    @property
    def difference(self) -> float:
        """B - A."""
        return self.b - self.a


def compare(a: Statistics, b: Statistics, options: ScoreOptions) -> dict[str, Difference]:
    """Compare two systems by the paired bootstrap, on the metrics that both have.

    The p-value is sacreBLEU's (`sacrebleu --paired-bs`), except that systems with equal scores get
    1, where sacreBLEU's count of larger differences would make them differ surely. Of a clear
    difference it counts one tail only, so it can be below 0.05 where the 95 % interval holds 0.

    Args:
        a: Counts of A's sentences.
        b: Counts of B's, in the same order of references.
        options: Resamples and their seed.

    Raises:
        ValueError: If the numbers of sentences differ.

    Source: Koehn (2004), Statistical significance tests for machine translation evaluation.
    """
    if len(a) != len(b):
        raise ValueError(f"{len(a)} sentences of A and {len(b)} of B")
    values_a, values_b = a.values(), b.values()
    drawn_a, drawn_b = a.resample(options), b.resample(options)
    single_a, single_b = sentence_scores(a), sentence_scores(b)
    found = {}
    for name in (name for name in values_a if name in values_b):
        drawn = drawn_b[name] - drawn_a[name]
        low, high = (float(bound) for bound in np.quantile(drawn, INTERVAL))
        gain = single_b[name] - single_a[name]
        gain = -gain if name in LOWER_IS_BETTER else gain
        wins, losses = int((gain > TIE).sum()), int((gain < -TIE).sum())
        found[name] = Difference(
            name, values_a[name], values_b[name], low, high,
            _p_value(drawn, values_b[name] - values_a[name]),
            wins, losses, len(gain) - wins - losses,
        )  # fmt: skip
    return found


def _p_value(drawn: FloatArray, difference: float) -> float:
    if difference == 0:
        return 1.0
    sizes = np.abs(drawn)
    # Centred on its mean the bootstrap stands for two systems that are equally good.
    larger = int((sizes - sizes.mean() > abs(difference)).sum())
    return (larger + 1) / (len(drawn) + 1)
