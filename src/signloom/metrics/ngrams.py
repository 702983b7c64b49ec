"""BLEU and chrF, counted by sacreBLEU."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from signloom.metrics.counted import Counted
from signloom.metrics.options import FloatArray, ScoreOptions

MAX_ORDER = 4  # n-grams counted for BLEU: up to four words
CHRFPP_WORDS = 2  # n-grams of words in chrF++: up to two


def count_bleu(hyps: Sequence[str], refs: Sequence[str], options: ScoreOptions) -> Counted:
    """BLEU-1 to BLEU-4; counts hyp length, ref length, 4 x correct, 4 x total."""
    signatures = {}
    for order in range(1, MAX_ORDER + 1):
        # force: only silences the hint that text ending in " ." looks tokenised.
        bleu = BLEU(
            tokenize=options.splitter, lowercase=options.lowercase, max_ngram_order=order,
            force=True,
        )  # fmt: skip
        signatures[f"bleu{order}"] = sacrebleu_signature(
            bleu, options, {"order": order} if order < MAX_ORDER else {}
        )
    return Counted(
        counts=np.array(bleu._extract_corpus_statistics(hyps, [refs]), dtype=np.float64),
        signatures=signatures,
        scores=lambda sums: _all_orders(sums, effective=False),
        singly=lambda sums: _all_orders(sums, effective=True),
        values=_bleu_values,
    )


def count_chrf(hyps: Sequence[str], refs: Sequence[str], options: ScoreOptions) -> Counted:
    """chrF2 and chrF++; counts hyp, ref and common n-grams: characters 1 to 6, words 1 and 2."""
    # chrF++ has the orders of chrF, and those of words after them.
    metrics = {
        name: CHRF(word_order=words, lowercase=options.lowercase)
        for name, words in (("chrf", 0), ("chrfpp", CHRFPP_WORDS))
    }

    def scores(sums: FloatArray) -> dict[str, FloatArray]:
        return {name: _chrf_of_sums(sums[:, : 3 * m.order]) for name, m in metrics.items()}

    def values(sums: FloatArray) -> dict[str, float]:
        return {
            name: float(m._compute_score_from_stats(sums[: 3 * m.order].tolist()).score)
            for name, m in metrics.items()
        }

    counts = metrics["chrfpp"]._extract_corpus_statistics(hyps, [refs])
    return Counted(
        counts=np.array(counts, dtype=np.float64),
        signatures={name: sacrebleu_signature(m, options) for name, m in metrics.items()},
        scores=scores,
        singly=scores,
        values=values,
    )


def bleu_of_sums(sums: FloatArray, order: int, *, effective: bool = False) -> FloatArray:
    """Corpus BLEU with exponential smoothing of R summed counts, shape (R, 10).

    Args:
        sums: As `count_bleu` counts.
        order: Longest n-gram.
        effective: Leave out the orders that the hypothesis is too short for.

    Source: Papineni et al. (2002); smoothing as in sacreBLEU (`smooth:exp`).
    """
    hyp_len, ref_len = sums[:, 0], sums[:, 1]
    correct = sums[:, 2 : 2 + order]
    total = sums[:, 2 + MAX_ORDER : 2 + MAX_ORDER + order]
    counted = total > 0
    # The k-th order without a match counts as 1 / 2^k matches.
    smoothed = np.where(correct > 0, correct, 0.5 ** np.cumsum(correct == 0, axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        log_precision = np.where(counted, np.log(smoothed / total), 0).sum(axis=1)
        log_precision = log_precision / counted.sum(axis=1)
        brevity = np.where(hyp_len < ref_len, 1 - ref_len / hyp_len, 0.0)
        scores = 100 * np.exp(brevity + log_precision)
    defined = (counted[:, 0] if effective else counted.all(axis=1)) & (correct > 0).any(axis=1)
    return np.where(defined, scores, 0.0)


def sacrebleu_signature(
    metric: Any, options: ScoreOptions, extra: dict[str, Any] | None = None
) -> str:
    """Return the signature of sacreBLEU, with the name of the mode if it has one."""
    metric.num_refs = 1  # which sacreBLEU knows only after it has scored
    signature = metric.get_signature()
    for key, value in {**(extra or {}), **options.mode}.items():
        signature.update(key, value)
    return str(signature)


def _all_orders(sums: FloatArray, *, effective: bool) -> dict[str, FloatArray]:
    return {
        f"bleu{order}": bleu_of_sums(sums, order, effective=effective)
        for order in range(1, MAX_ORDER + 1)
    }


def _bleu_values(sums: FloatArray) -> dict[str, float]:
    hyp_len, ref_len, *counts = (int(number) for number in sums)
    correct, total = counts[:MAX_ORDER], counts[MAX_ORDER:]
    values = {}
    for order in range(1, MAX_ORDER + 1):
        found = BLEU.compute_bleu(
            correct[:order], total[:order], hyp_len, ref_len,
            smooth_method="exp", max_ngram_order=order,
        )  # fmt: skip
        values[f"bleu{order}"] = float(found.score)
    return values


def _chrf_of_sums(sums: FloatArray) -> FloatArray:
    """Corpus chrF of R summed counts, shape (R, 3 x orders).

    Source: Popovic (2015); orders that one side lacks are left out, as in sacreBLEU (`eff:yes`).
    """
    hyp, ref, match = np.moveaxis(sums.reshape(len(sums), -1, 3), 2, 0)
    counted = (hyp > 0) & (ref > 0)
    orders = np.maximum(counted.sum(axis=1), 1)
    precision = np.where(counted, match / np.maximum(hyp, 1), 0.0).sum(axis=1) / orders
    recall = np.where(counted, match / np.maximum(ref, 1), 0.0).sum(axis=1) / orders
    weighted = CHRF.BETA**2 * precision + recall
    f_score = (1 + CHRF.BETA**2) * precision * recall / np.where(weighted > 0, weighted, 1.0)
    return np.asarray(100 * f_score)
