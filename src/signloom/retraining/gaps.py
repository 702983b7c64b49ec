"""What two systems said for the same clips comes in, how far apart they are goes out.

A system is one model or the same model trained with several seeds. Its score is then the mean of
the seeds' corpus scores, in every resample of the clips: all seeds of both systems see the same
imagined test sets.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from signloom.metrics import ScoreOptions, Statistics
from signloom.metrics.edits import count_wer
from signloom.metrics.ngrams import count_bleu, count_chrf
from signloom.metrics.options import FloatArray

DECIMALS = 4
REPORTED = ("chrf", "bleu4", "wer")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Counts:
    """What was counted in the sentences of each seed of a system."""

    seeds: tuple[Statistics, ...]

    def select(self, rows: Sequence[int]) -> "Counts":
        """Return the counts of some clips."""
        return Counts(seeds=tuple(one.select(np.array(rows)) for one in self.seeds))

    def values(self, metric: str) -> list[float]:
        """Return the score of each seed."""
        return [one.values()[metric] for one in self.seeds]

    def resample(self, metric: str, score: ScoreOptions) -> FloatArray:
        """Return the mean over the seeds in each of R resamples, shape (R,)."""
        alone = [
            Statistics(parts=tuple(part for part in one.parts if metric in part.signatures))
            for one in self.seeds
        ]
        drawn = np.stack([one.resample(score)[metric] for one in alone])
        mean: FloatArray = drawn.mean(axis=0)
        return mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A metric of systems A and B on the same clips.

    Attributes:
        a: Mean over A's seeds.
        b: Mean over B's seeds.
        low: Of B - A: lower end of the paired bootstrap interval.
        high: Upper end.
        p_value: Twice the smaller share of resamples on one side of no difference. So it is
            below the level where, and only where, the interval of that level leaves out 0.
    """

    a: float
    b: float
    low: float
    high: float
    p_value: float

    @property
    def difference(self) -> float:
        """B - A."""
        return self.b - self.a

    def __str__(self) -> str:
        """Return the difference with its interval."""
        return f"{self.difference:+.1f} [{self.low:+.1f}, {self.high:+.1f}]"

    def to_map(self, a: str, b: str) -> dict[str, float]:
        """Return the figures for JSON, the two systems under names."""
        found = {
            a: self.a, b: self.b, "difference": self.difference,
            "low": self.low, "high": self.high, "p_value": self.p_value,
        }  # fmt: skip
        return {name: round(value, DECIMALS) for name, value in found.items()}


def count(texts: Sequence[Sequence[str]], refs: Sequence[str], score: ScoreOptions) -> Counts:
    """Count what the reported metrics need.

    Args:
        texts: The sentences of each seed, one a clip.
        refs: The references, none empty.
        score: The tokenizer.
    """
    counters = (count_bleu, count_chrf, count_wer)
    return Counts(
        seeds=tuple(
            Statistics(parts=tuple(counter(hyps, refs, score) for counter in counters))
            for hyps in texts
        )
    )


def measure_gap(a: Counts, b: Counts, metric: str, score: ScoreOptions, level: float) -> Gap:
    """Compare two systems by the paired bootstrap over clips.

    Args:
        a: Counts of A.
        b: Counts of B on the same clips in the same order; it may have another number of seeds.
        metric: One of `REPORTED`.
        score: Resamples and their seed.
        level: 0.05 for a 95 % interval.
    """
    drawn = b.resample(metric, score) - a.resample(metric, score)
    low, high = (float(end) for end in np.quantile(drawn, (level / 2, 1 - level / 2)))
    fewer = min(int((drawn <= 0).sum()), int((drawn >= 0).sum()))
    return Gap(
        a=float(np.mean(a.values(metric))),
        b=float(np.mean(b.values(metric))),
        low=low,
        high=high,
        p_value=min(1.0, 2 * (fewer + 1) / (len(drawn) + 1)),
    )
