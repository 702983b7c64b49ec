"""What metrics are made of: numbers counted in each sentence, and formulas of their sums.

A corpus score is a function of sums over sentences. So any group of clips and any bootstrap
resample is scored without reading a string again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from signloom.metrics.options import FloatArray

METRICS = (
    "bleu1", "bleu2", "bleu3", "bleu4", "chrf", "chrfpp", "ter", "wer", "cer", "rouge_l", "exact",
)  # fmt: skip
LOWER_IS_BETTER = ("ter", "wer", "cer")

Formula = Callable[[FloatArray], dict[str, FloatArray]]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Counted:
    """What was counted for some metrics in N sentences, and how scores follow.

    Attributes:
        counts: Shape (N, K).
        signatures: Metric to every setting that changes its number.
        scores: R sums of counts, shape (R, K), to each metric of them, shape (R,).
        singly: The same where every row is one sentence.
        values: One sum, shape (K,), to each metric, by the library's own formula if it has one.
    """

    counts: FloatArray
    signatures: Mapping[str, str]
    scores: Formula
    singly: Formula
    values: Callable[[FloatArray], dict[str, float]]

    def select(self, rows: npt.NDArray[np.int64]) -> "Counted":
        """Return what was counted in some of the sentences."""
        return replace(self, counts=self.counts[rows])


Numbers = Sequence[int] | Sequence[float]


def ratio(name: str, signature: str, above: Numbers, below: Numbers) -> Counted:
    """Return a metric that is one sum over another, in percent."""

    def scores(sums: FloatArray) -> dict[str, FloatArray]:
        return {name: 100 * sums[:, 0] / sums[:, 1]}

    return Counted(
        counts=np.array([above, below], dtype=np.float64).T,
        signatures={name: signature},
        scores=scores,
        singly=scores,
        values=lambda sums: {name: float(100 * sums[0] / sums[1])},
    )


def mean(name: str, signature: str, values: Sequence[float]) -> Counted:
    """Return a metric that is the mean of one number a sentence."""
    return ratio(name, signature, [value / 100 for value in values], [1.0] * len(values))
