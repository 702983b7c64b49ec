"""Hypotheses and references go in, scores with interval and signature come out."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from signloom.metrics.counted import Counted, mean
from signloom.metrics.edits import count_cer, count_exact, count_rouge_l, count_ter, count_wer
from signloom.metrics.ngrams import count_bleu, count_chrf
from signloom.metrics.options import FloatArray, Score, ScoreOptions

INTERVAL = (0.025, 0.975)  # quantiles of the 95 % percentile interval
COUNTERS = (count_bleu, count_chrf, count_ter, count_wer, count_cer, count_rouge_l, count_exact)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Statistics:
    """What was counted in each of N sentences; every score of any of them follows."""

    parts: tuple[Counted, ...]

    def __len__(self) -> int:
        return len(self.parts[0].counts)

    def select(self, rows: npt.NDArray[np.int64]) -> "Statistics":
        """Return the statistics of some sentences."""
        return Statistics(parts=tuple(part.select(rows) for part in self.parts))

    def extend(self, name: str, values: Sequence[float], signature: str) -> "Statistics":
        """Add a metric that gave a number for each sentence; its score is their mean."""
        return Statistics(parts=(*self.parts, mean(name, signature, values)))

    def values(self) -> dict[str, float]:
        """Return every metric of all sentences together."""
        found: dict[str, float] = {}
        for part in self.parts:
            found |= part.values(part.counts.sum(axis=0))
        return found

    def resample(self, options: ScoreOptions) -> dict[str, FloatArray]:
        """Return every metric of every bootstrap resample, each of shape (R,).

        Equal numbers of sentences get the same resamples, whatever their text: so two systems
        are compared on the same imagined test sets.
        """
        rng = np.random.default_rng(options.seed)
        n = len(self)
        counts = np.concatenate([part.counts for part in self.parts], axis=1)
        draws = (np.bincount(rng.integers(0, n, n), minlength=n) for _ in range(options.resamples))
        sums = np.stack([draw.astype(np.float64) @ counts for draw in draws])
        ends = np.cumsum([part.counts.shape[1] for part in self.parts])[:-1]
        found: dict[str, FloatArray] = {}
        for part, columns in zip(self.parts, np.split(sums, ends, axis=1), strict=True):
            found |= part.scores(columns)
        return found


def measure(hyps: Sequence[str], refs: Sequence[str], options: ScoreOptions) -> Statistics:
    """Count in each sentence what the metrics need.

    Args:
        hyps: Detokenised sentences; empty ones are allowed and cost what they lack.
        refs: Their references in the same order, none empty.
        options: The tokenizer.

    Raises:
        ValueError: If the lengths differ, there is nothing to score or a reference is empty.
    """
    _check_pairs(hyps, refs)
    return Statistics(parts=tuple(counter(hyps, refs, options) for counter in COUNTERS))


def score_statistics(statistics: Statistics, options: ScoreOptions) -> dict[str, Score]:
    """Score counted sentences.

    Returns:
        A score for each metric. All intervals come from the same resamples, so that a
        resample is one imagined test set and not eleven.
    """
    values, resampled = statistics.values(), statistics.resample(options)
    scores = {}
    for part in statistics.parts:
        for name, signature in part.signatures.items():
            low, high = (float(bound) for bound in np.quantile(resampled[name], INTERVAL))
            scores[name] = Score(name, values[name], low, high, signature)
    return scores


def score_corpus(
    hyps: Sequence[str], refs: Sequence[str], options: ScoreOptions
) -> dict[str, Score]:
    """Score hypotheses against one reference each; see `measure` and `score_statistics`."""
    return score_statistics(measure(hyps, refs, options), options)


def sentence_scores(statistics: Statistics) -> dict[str, FloatArray]:
    """Return every metric of each sentence by itself, shape (N,).

    BLEU is of effective order, so that short sentences count.
    """
    found: dict[str, FloatArray] = {}
    for part in statistics.parts:
        found |= part.singly(part.counts)
    return found


def _check_pairs(hyps: Sequence[str], refs: Sequence[str]) -> None:
    if len(hyps) != len(refs):
        raise ValueError(f"{len(hyps)} hypotheses for {len(refs)} references, expected as many")
    if not refs:
        raise ValueError("no sentence to score")
    for number, ref in enumerate(refs, start=1):
        if not ref.strip():
            raise ValueError(f"reference {number} of {len(refs)} is empty: WER is not defined")
