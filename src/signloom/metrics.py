"""Hypotheses and references go in, scores with interval and signature come out.

The only module that knows sacreBLEU and jiwer. Pure: no files, no global random state.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Literal

import jiwer
import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

METRICS = ("bleu1", "bleu2", "bleu3", "bleu4", "chrf", "wer", "cer")
MAX_ORDER = 4  # n-grams counted for BLEU: up to four words
INTERVAL = (0.025, 0.975)  # quantiles of the 95 % percentile interval


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreOptions:
    """How hypotheses are scored."""

    # sacreBLEU's word splitter for BLEU: 13a where words have spaces between them, char or zh for
    # Chinese, none for text that is tokenised already. These need no further package.
    tokenizer: Literal["13a", "intl", "char", "zh", "none"]
    resamples: int  # bootstrap resamples behind every 95 % interval, >= 100
    seed: int  # of the resamples, >= 0

    def __post_init__(self) -> None:
        if self.resamples < 100:
            raise ValueError(f"resamples: found {self.resamples}, expected at least 100")
        if self.seed < 0:
            raise ValueError(f"seed: found {self.seed}, expected at least 0")


@dataclass(frozen=True, slots=True)
class Score:
    """One corpus score with its 95 % bootstrap interval."""

    name: str
    value: float
    """0 to 100, except WER and CER, which insertions can take above 100."""
    low: float
    high: float
    signature: str
    """Every setting that changes the number, as sacreBLEU writes it."""


@dataclass(frozen=True, slots=True)
class WordEdit:
    """A stretch of words that agree or differ between reference and hypothesis."""

    kind: Literal["equal", "substitute", "insert", "delete"]
    reference: tuple[str, ...]
    """Empty for an insertion."""
    hypothesis: tuple[str, ...]
    """Empty for a deletion."""


def score_corpus(
    hyps: Sequence[str], refs: Sequence[str], options: ScoreOptions
) -> dict[str, Score]:
    """Score hypotheses against one reference each.

    Args:
        hyps: Detokenised sentences; empty ones are allowed and cost what they lack.
        refs: Their references in the same order, none empty.
        options: Tokenizer, bootstrap size and seed.

    Returns:
        A score for each of `METRICS`. All intervals come from the same resamples, so that a
        resample is one imagined test set and not seven.

    Raises:
        ValueError: If the lengths differ, there is nothing to score or a reference is empty.
    """
    _check_pairs(hyps, refs)
    values, signatures = _corpus_values(hyps, refs, options)
    stats = np.concatenate(
        [_bleu_stats(hyps, refs, options), _chrf_stats(hyps, refs), _edit_stats(hyps, refs)], axis=1
    )
    rng = np.random.default_rng(options.seed)
    n = len(refs)
    # Every statistic is a sum over sentences: a resample is a weighted sum, no string is re-read.
    sums = np.stack(
        [np.bincount(rng.integers(0, n, n), minlength=n) @ stats for _ in range(options.resamples)]
    )
    resampled = _scores_from_sums(sums.astype(np.float64))
    scores = {}
    for name in METRICS:
        low, high = (float(bound) for bound in np.quantile(resampled[name], INTERVAL))
        scores[name] = Score(name, values[name], low, high, signatures[name])
    return scores


def sentence_scores(hyp: str, ref: str, options: ScoreOptions) -> tuple[float, float]:
    """Sentence BLEU-4 (effective order, so that short sentences count) and WER, in percent."""
    _check_pairs([hyp], [ref])
    bleu = BLEU(tokenize=options.tokenizer, effective_order=True)
    wer = _process([hyp], [ref], _split_words).wer
    return float(bleu.sentence_score(hyp, [ref]).score), 100.0 * float(wer)


def align_words(hyp: str, ref: str) -> list[WordEdit]:
    """The cheapest edits that turn the reference into the hypothesis; each costs 1."""
    output = _process([hyp], [ref], _split_words)
    ref_words, hyp_words = output.references[0], output.hypotheses[0]
    return [
        WordEdit(
            chunk.type,
            tuple(ref_words[chunk.ref_start_idx : chunk.ref_end_idx]),
            tuple(hyp_words[chunk.hyp_start_idx : chunk.hyp_end_idx]),
        )
        for chunk in output.alignments[0]
    ]


def best_constant(candidates: Sequence[str], refs: Sequence[str], options: ScoreOptions) -> str:
    """The candidate that, said for every clip, gets the highest corpus BLEU-4.

    An upper bound of what a model can score without looking: it is picked on the evaluated
    references themselves. Exact and linear in the text: the clipped matches of an n-gram that a
    candidate holds k times are a table over k, summed once over all references.

    Args:
        candidates: Train sentences; duplicates cost nothing.
        refs: The evaluated references.
        options: The tokenizer to count with.

    Returns:
        The sentence; of equals the first in code point order.
    """
    sentences = sorted(set(candidates))
    if not sentences or not refs:
        raise ValueError(f"best constant of {len(sentences)} candidates on {len(refs)} references")
    tokenize = BLEU(tokenize=options.tokenizer).tokenizer
    ref_grams = [Counter(_ngrams(tokenize(ref).split())) for ref in refs]
    # at_least[gram][k - 1]: references that hold the gram k times or more.
    at_least: dict[tuple[str, ...], list[int]] = {}
    for grams in ref_grams:
        for gram, count in grams.items():
            row = at_least.setdefault(gram, [])
            row.extend([0] * (count - len(row)))
            for k in range(count):
                row[k] += 1
    ref_len = sum(len(tokenize(ref).split()) for ref in refs)
    stats = np.zeros((len(sentences), 2 + 2 * MAX_ORDER))
    for row_index, sentence in enumerate(sentences):
        tokens = tokenize(sentence).split()
        stats[row_index, :2] = len(refs) * len(tokens), ref_len
        for gram, count in Counter(_ngrams(tokens)).items():
            stats[row_index, 1 + len(gram)] += sum(at_least.get(gram, [])[:count])
            stats[row_index, 1 + MAX_ORDER + len(gram)] += len(refs) * count
    return sentences[int(np.argmax(_bleu(stats, MAX_ORDER)))]


def _check_pairs(hyps: Sequence[str], refs: Sequence[str]) -> None:
    if len(hyps) != len(refs):
        raise ValueError(f"{len(hyps)} hypotheses for {len(refs)} references, expected as many")
    if not refs:
        raise ValueError("no sentence to score")
    for number, ref in enumerate(refs, start=1):
        if not ref.strip():
            raise ValueError(f"reference {number} of {len(refs)} is empty: WER is not defined")


def _corpus_values(
    hyps: Sequence[str], refs: Sequence[str], options: ScoreOptions
) -> tuple[dict[str, float], dict[str, str]]:
    """Values and signatures as the two libraries give them, without a formula of ours."""
    values, signatures = {}, {}
    for order in range(1, MAX_ORDER + 1):
        # force: only silences the hint that text ending in " ." looks tokenised.
        bleu = BLEU(tokenize=options.tokenizer, max_ngram_order=order, force=True)
        values[f"bleu{order}"] = float(bleu.corpus_score(hyps, [refs]).score)
        signature = bleu.get_signature()
        if order < MAX_ORDER:
            signature.update("order", order)
        signatures[f"bleu{order}"] = str(signature)
    chrf = CHRF()
    values["chrf"] = float(chrf.corpus_score(hyps, [refs]).score)
    signatures["chrf"] = str(chrf.get_signature())
    for name, split in (("wer", _split_words), ("cer", _split_characters)):
        values[name] = 100.0 * float(_process(hyps, refs, split).wer)
        signatures[name] = (
            f"nrefs:1|case:mixed|norm:none|tok:{'words' if name == 'wer' else 'characters'}"
            f"|cost:sub1+ins1+del1|version:jiwer-{version('jiwer')}"
        )
    return values, signatures


def _split_words(texts: Sequence[str]) -> list[list[str]]:
    return [text.split() for text in texts]


def _split_characters(texts: Sequence[str]) -> list[list[str]]:
    return [list(" ".join(text.split())) for text in texts]


def _process(
    hyps: Sequence[str], refs: Sequence[str], split: Callable[[Sequence[str]], list[list[str]]]
) -> Any:
    """The alignment of jiwer, on exactly the tokens that the signature names."""
    return jiwer.process_words(
        list(refs), list(hyps), reference_transform=split, hypothesis_transform=split
    )


def _ngrams(tokens: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for order in range(1, MAX_ORDER + 1):
        yield from (tuple(tokens[i : i + order]) for i in range(len(tokens) - order + 1))


def _bleu_stats(hyps: Sequence[str], refs: Sequence[str], options: ScoreOptions) -> IntArray:
    """Counts of sacreBLEU, shape (N, 10): hyp length, ref length, 4 x correct, 4 x total."""
    bleu = BLEU(tokenize=options.tokenizer, force=True)
    return np.array(bleu._extract_corpus_statistics(hyps, [refs]), dtype=np.int64)


def _chrf_stats(hyps: Sequence[str], refs: Sequence[str]) -> IntArray:
    """Counts of sacreBLEU, shape (N, 18): hyp, ref and common character n-grams, 6 orders."""
    return np.array(CHRF()._extract_corpus_statistics(hyps, [refs]), dtype=np.int64)


def _edit_stats(hyps: Sequence[str], refs: Sequence[str]) -> IntArray:
    """Shape (N, 4): word edits, reference words, character edits, reference characters."""
    columns = []
    for split in (_split_words, _split_characters):
        output = _process(hyps, refs, split)
        columns.append([_edits(chunks) for chunks in output.alignments])
        columns.append([len(tokens) for tokens in output.references])
    return np.array(columns, dtype=np.int64).T


def _edits(chunks: Sequence[Any]) -> int:
    return sum(
        max(chunk.ref_end_idx - chunk.ref_start_idx, chunk.hyp_end_idx - chunk.hyp_start_idx)
        for chunk in chunks
        if chunk.type != "equal"
    )


def _scores_from_sums(sums: FloatArray) -> dict[str, FloatArray]:
    """The metrics of R summed statistics, shape (R, 32) as `score_corpus` joins them."""
    bleu, chrf, edits = np.split(sums, [10, 28], axis=1)
    scores = {f"bleu{order}": _bleu(bleu, order) for order in range(1, MAX_ORDER + 1)}
    scores["chrf"] = _chrf(chrf)
    scores["wer"] = 100 * edits[:, 0] / edits[:, 1]
    scores["cer"] = 100 * edits[:, 2] / edits[:, 3]
    return scores


def _bleu(stats: FloatArray, order: int) -> FloatArray:
    """Corpus BLEU with exponential smoothing of R summed statistics, shape (R, 10).

    Source: Papineni et al. (2002); smoothing as in sacreBLEU (`smooth:exp`).
    """
    hyp_len, ref_len = stats[:, 0], stats[:, 1]
    correct = stats[:, 2 : 2 + order]
    total = stats[:, 2 + MAX_ORDER : 2 + MAX_ORDER + order]
    # The k-th order without a match counts as 1 / 2^k matches.
    smoothed = np.where(correct > 0, correct, 0.5 ** np.cumsum(correct == 0, axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        log_precision = np.log(smoothed / total).mean(axis=1)
        brevity = np.where(hyp_len < ref_len, 1 - ref_len / hyp_len, 0.0)
        scores = 100 * np.exp(brevity + log_precision)
    defined = (total > 0).all(axis=1) & (correct > 0).any(axis=1)
    return np.where(defined, scores, 0.0)


def _chrf(stats: FloatArray) -> FloatArray:
    """Corpus chrF2 of R summed statistics, shape (R, 18).

    Source: Popovic (2015); orders that one side lacks are left out, as in sacreBLEU (`eff:yes`).
    """
    hyp, ref, match = np.moveaxis(stats.reshape(len(stats), -1, 3), 2, 0)
    counted = (hyp > 0) & (ref > 0)
    orders = np.maximum(counted.sum(axis=1), 1)
    precision = np.where(counted, match / np.maximum(hyp, 1), 0.0).sum(axis=1) / orders
    recall = np.where(counted, match / np.maximum(ref, 1), 0.0).sum(axis=1) / orders
    weighted = CHRF.BETA**2 * precision + recall
    f_score = (1 + CHRF.BETA**2) * precision * recall / np.where(weighted > 0, weighted, 1.0)
    return np.asarray(100 * f_score)
