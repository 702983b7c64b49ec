"""Metrics: scores of hypotheses against references, with intervals and signatures.

A corpus score is a function of sums over sentences. So any group of clips and any bootstrap
resample is scored without reading a string again.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import groupby, islice
from typing import Annotated, Any, Literal, TypeVar

import jiwer
import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray
from pydantic import Field
from rapidfuzz.distance import LCSseq
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from signloom.config import Seed, checked_dataclass
from signloom.evaluation.metric_names import GLOSS_WER, Metric, rounded

FloatArray = NDArray[np.float64]
Words = Sequence[Sequence[str]]
Numbers = Sequence[int] | Sequence[float]
Formula = Callable[[FloatArray], dict[str, FloatArray]]
Tokenizer = Literal["13a", "intl", "char", "zh", "none", "phoenix_legacy"]
GlossRules = Literal["none", "phoenix_2014"]
"""What the scoring of a data set does to glosses on both sides, before they are compared.

PHOENIX-2014's script (Koller et al. 2015, "Continuous sign language recognition") makes no
difference between variants of a sign that no recogniser is asked to tell apart.
"""
INTERVAL = (0.025, 0.975)  # quantiles of the 95 % percentile interval
MAX_ORDER = 4  # n-grams counted for BLEU: up to four words
CHRFPP_WORDS = 2  # n-grams of words in chrF++: up to two


@checked_dataclass
class ScoreOptions:
    """How hypotheses are scored."""

    # sacreBLEU's word splitter for BLEU: 13a where words have spaces between them, char or zh for
    # Chinese, none for text that is tokenised already. These need no further package.
    # phoenix_legacy: none, and everything in lower case, as papers on PHOENIX-2014T score it.
    tokenizer: Tokenizer
    gloss_rules: GlossRules = "none"  # by which signs are compared: phoenix_2014's, or as written
    # Bootstrap resamples behind every 95 % interval.
    resamples: Annotated[int, Field(ge=100, le=1_000_000)] = 1000
    seed: Seed = 1  # of the resamples

    @property
    def lowercase(self) -> bool:
        """Whether upper and lower case count as the same."""
        return self.tokenizer == "phoenix_legacy"

    @property
    def splitter(self) -> str:
        """What sacreBLEU calls the tokenizer."""
        return "none" if self.tokenizer == "phoenix_legacy" else self.tokenizer

    @property
    def mode(self) -> dict[str, str]:
        """What a signature says of a named mode."""
        return {"mode": self.tokenizer} if self.tokenizer == "phoenix_legacy" else {}

    @property
    def words(self) -> str:
        """What counts as a word where text is not split for BLEU; `words` are between spaces."""
        return self.tokenizer if self.tokenizer in ("char", "zh") else "words"


@dataclass(frozen=True, slots=True)
class Score:
    """One corpus score with its 95 % bootstrap interval."""

    name: str
    value: float
    """0 to 100, except error rates, which insertions can take above 100."""
    low: float
    high: float
    signature: str
    """Every setting that changes the number, as sacreBLEU writes it."""

    @property
    def interval(self) -> dict[str, float]:
        """The value with its interval, as files have it."""
        return dict(rounded({"value": self.value, "low": self.low, "high": self.high}))

    def to_map(self) -> dict[str, float | str]:
        """Return what scores.json has."""
        return {**self.interval, "signature": self.signature}

    def named(self, prefix: str) -> dict[str, float]:
        """Return the same under the names that metrics.json and tables have."""
        return {
            f"{prefix}{end}": value
            for end, value in zip(("", "_low", "_high"), self.interval.values(), strict=True)
        }


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over clips with its bootstrap interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return the value with its interval."""
        return f"{self.value:+.1f} [{self.low:+.1f}, {self.high:+.1f}]"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Counted:
    """What was counted for some metrics in N sentences, and how scores follow."""

    counts: FloatArray  # shape (N, K)
    signatures: Mapping[str, str]  # metric to every setting that changes its number
    scores: Formula  # R sums of counts, shape (R, K), to each metric of them, shape (R,)
    singly: Formula  # the same where every row is one sentence

    def select(self, rows: npt.NDArray[np.int64]) -> "Counted":
        """Return what was counted in some of the sentences."""
        return replace(self, counts=self.counts[rows])


Counting = Callable[[Sequence[str], Sequence[str], ScoreOptions], Counted]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Statistics:
    """What was counted in each of N sentences; every score of any of them follows."""

    parts: tuple[Counted, ...]

    def __len__(self) -> int:
        return len(self.parts[0].counts)

    def select(self, rows: npt.NDArray[np.int64]) -> "Statistics":
        """Return the statistics of some sentences."""
        return Statistics(parts=tuple(part.select(rows) for part in self.parts))

    def values(self) -> dict[str, float]:
        """Return every metric of all sentences together."""
        values: dict[str, float] = {}
        for part in self.parts:
            scores = part.scores(part.counts.sum(axis=0, keepdims=True))
            values |= {name: float(score[0]) for name, score in scores.items()}
        return values

    def resample(self, options: ScoreOptions) -> dict[str, FloatArray]:
        """Return every metric of every bootstrap resample, each of shape (R,).

        Equal numbers of sentences get the same resamples for any text: so two systems
        are compared on the same imagined test sets.
        """
        rng = np.random.default_rng(options.seed)
        n = len(self)
        counts = np.concatenate([part.counts for part in self.parts], axis=1)
        draws = (np.bincount(rng.integers(0, n, n), minlength=n) for _ in range(options.resamples))
        sums = np.stack([draw.astype(np.float64) @ counts for draw in draws])
        ends = np.cumsum([part.counts.shape[1] for part in self.parts])[:-1]
        drawn: dict[str, FloatArray] = {}
        for part, columns in zip(self.parts, np.split(sums, ends, axis=1), strict=True):
            drawn |= part.scores(columns)
        return drawn


def measure(
    hyps: Sequence[str],
    refs: Sequence[str],
    options: ScoreOptions,
    counters: Sequence[Counting] | None = None,
) -> Statistics:
    """Count in each sentence what the metrics need.

    White space of any kind and amount separates words and counts as one space.

    Args:
        hyps: Detokenised sentences; empty ones are allowed and cost what they lack.
        refs: Their references in the same order, none empty.
        options: The tokenizer.
        counters: Of the metrics that are wanted, if not all are.

    Raises:
        ValueError: If the lengths differ, there is nothing to score or a reference is empty.
    """
    _check_pairs(hyps, refs)
    hyps, refs = ([" ".join(text.split()) for text in texts] for texts in (hyps, refs))
    chosen = COUNTERS if counters is None else counters
    return Statistics(parts=tuple(count(hyps, refs, options) for count in chosen))


def score_corpus(
    hyps: Sequence[str], refs: Sequence[str], options: ScoreOptions
) -> dict[str, Score]:
    """Score hypotheses against one reference each; see `measure` and `score_statistics`."""
    return score_statistics(measure(hyps, refs, options), options)


def score_statistics(statistics: Statistics, options: ScoreOptions) -> dict[str, Score]:
    """Score counted sentences.

    Returns:
        A score for each metric. All intervals come from the same resamples, so that a
        resample is one imagined test set for all of them.
    """
    values, resampled = statistics.values(), statistics.resample(options)
    scores = {}
    for part in statistics.parts:
        for name, signature in part.signatures.items():
            low, high = (float(bound) for bound in np.quantile(resampled[name], INTERVAL))
            scores[name] = Score(name, values[name], low, high, signature)
    return scores


def seed_interval(seeds: Sequence[FloatArray], options: ScoreOptions) -> tuple[float, float]:
    """Return the interval of the mean of a metric over seeds, of resamples of clips and seeds.

    In each resample the clips are drawn anew and so are the seeds; their deviations are enlarged by
    the root of n / (n - 1), for which the resamples of so few fall short.

    Args:
        seeds: Of each seed the metric in every resample of the clips, shape (R,).
        options: For the resamples.
    """
    n = len(seeds)
    drawn = np.random.default_rng(options.seed).integers(0, n, (options.resamples, n))
    rows = np.stack(seeds, axis=1)
    means = rows.mean(axis=1)
    offsets = np.take_along_axis(rows, drawn, axis=1).mean(axis=1) - means
    enlarged = means + math.sqrt(n / (n - 1)) * offsets
    # Enlarged, some would be below 0 % or above 100.
    low, high = np.quantile(enlarged, INTERVAL).clip(rows.min(), rows.max())
    return float(low), float(high)


def sentence_scores(statistics: Statistics) -> dict[str, FloatArray]:
    """Return every metric of each sentence by itself, shape (N,).

    BLEU is of effective order, so that short sentences count.
    """
    scores: dict[str, FloatArray] = {}
    for part in statistics.parts:
        scores |= part.singly(part.counts)
    return scores


def are_right(statistics: Statistics) -> list[bool]:
    """Return of each sentence whether every word is right."""
    return [bool(value > 0) for value in sentence_scores(statistics)[Metric.EXACT]]


def _check_pairs(hyps: Sequence[str], refs: Sequence[str]) -> None:
    if len(hyps) != len(refs):
        raise ValueError(f"{len(hyps)} hypotheses for {len(refs)} references, expected as many")
    if not refs:
        raise ValueError("no sentence to score")
    for number, ref in enumerate(refs, start=1):
        if not ref.strip():
            raise ValueError(f"reference {number} of {len(refs)} is empty: WER is not defined")


RowT = TypeVar("RowT", bound=Mapping[str, Any])


def pick_clips(rows: Sequence[RowT], count: int, options: ScoreOptions) -> list[tuple[str, RowT]]:
    """Choose the best, median and worst translations, each sentence once.

    They are ranked by word error rate; of equally good ones the longest come first. A smaller
    `count` picks a subset of what a larger one picks.

    Args:
        rows: Clips with `clip_id`, `reference`, `wer` and `bleu`.
        count: Clips of each kind.
        options: Say what a word is.

    Returns:
        The kind of each and its row, the best first.
    """

    def length(row: RowT) -> int:
        return len(split_words([row["reference"]], options)[0])

    rows = sorted(rows, key=lambda row: (float(row["wer"]), -float(row["bleu"]), row["clip_id"]))
    middle = float(rows[len(rows) // 2]["wer"])
    orders = {
        "worst": sorted(
            (row for row in rows if float(row["wer"]) > 0),
            key=lambda row: (-float(row["wer"]), float(row["bleu"])),
        ),
        "median": sorted(rows, key=lambda row: abs(float(row["wer"]) - middle)),
        "best": sorted(rows, key=lambda row: (float(row["wer"]), -length(row))),
    }
    chosen: set[str] = set()
    picked: dict[str, list[tuple[str, RowT]]] = {group: [] for group in orders}
    for _ in range(count):
        for group, ordered in orders.items():
            row = next((row for row in ordered if row["reference"] not in chosen), None)
            if row is not None:
                chosen.add(row["reference"])
                picked[group].append((group, row))
    return [*picked["best"], *picked["median"], *picked["worst"]]


def split_words(
    texts: Sequence[str], options: ScoreOptions, *, keep_case: bool = False
) -> list[list[str]]:
    """Return the words of each text, in the case that counts or as they are written.

    Chinese has no spaces between its words: there, they are what sacreBLEU makes of the text.
    """
    if options.lowercase and not keep_case:
        texts = [text.lower() for text in texts]
    if options.words == "words":
        return [text.split() for text in texts]
    tokenize = BLEU(tokenize=options.splitter).tokenizer
    return [tokenize(text).split() for text in texts]


def count_bleu(hyps: Sequence[str], refs: Sequence[str], options: ScoreOptions) -> Counted:
    """BLEU-1 to BLEU-4; counts hyp length, ref length, 4 x correct, 4 x total."""
    signatures = {}
    for order in range(1, MAX_ORDER + 1):
        # force: only silences the hint that text ending in " ." looks tokenised.
        bleu = BLEU(
            tokenize=options.splitter,
            lowercase=options.lowercase,
            max_ngram_order=order,
            force=True,
        )
        signatures[f"bleu{order}"] = sacrebleu_signature(
            bleu, options, {"order": order} if order < MAX_ORDER else {}
        )
    return Counted(
        counts=np.array(bleu._extract_corpus_statistics(hyps, [refs]), dtype=np.float64),
        signatures=signatures,
        scores=lambda sums: _all_orders(sums, effective=False),
        singly=lambda sums: _all_orders(sums, effective=True),
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


def _all_orders(sums: FloatArray, *, effective: bool) -> dict[str, FloatArray]:
    return {
        f"bleu{order}": bleu_of_sums(sums, order, effective=effective)
        for order in range(1, MAX_ORDER + 1)
    }


def count_chrf(hyps: Sequence[str], refs: Sequence[str], options: ScoreOptions) -> Counted:
    """chrF2 and chrF++; counts hyp, ref and common n-grams: characters 1 to 6, words 1 and 2."""
    # chrF++ has the orders of chrF, and those of words after them.
    metrics: dict[str, Any] = {
        name: CHRF(word_order=words, lowercase=options.lowercase)
        for name, words in ((Metric.CHRF, 0), (Metric.CHRFPP, CHRFPP_WORDS))
    }

    def scores(sums: FloatArray) -> dict[str, FloatArray]:
        return {name: _chrf_of_sums(sums[:, : 3 * m.order]) for name, m in metrics.items()}

    counts = metrics[Metric.CHRFPP]._extract_corpus_statistics(hyps, [refs])
    return Counted(
        counts=np.array(counts, dtype=np.float64),
        signatures={name: sacrebleu_signature(m, options) for name, m in metrics.items()},
        scores=scores,
        singly=scores,
    )


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


def count_ter(hyps: Sequence[str], refs: Sequence[str], options: ScoreOptions) -> Counted:
    """Translation edit rate: a block of words at another position costs one edit."""
    is_chinese = options.words != "words"
    ter = TER(normalized=is_chinese, asian_support=is_chinese)
    counts = ter._extract_corpus_statistics(hyps, [refs])
    edits, lengths = zip(*counts, strict=True)
    return ratio(Metric.TER, sacrebleu_signature(ter, options), edits, lengths)


def count_wer(hyps: Sequence[str], refs: Sequence[str], options: ScoreOptions) -> Counted:
    """Word error rate; each edit costs 1."""
    return _error_rate(
        Metric.WER, options.words, split_words(hyps, options), split_words(refs, options), options
    )


def count_gloss_wer(hyps: Words, refs: Words, options: ScoreOptions) -> Counted:
    """Word error rate of glosses, as `gloss_rules` compares them; each edit costs 1."""
    rules = options.gloss_rules
    hyps, refs = clean_glosses(hyps, rules), clean_glosses(refs, rules)
    tokens = "glosses" if rules == "none" else f"glosses.{rules}"
    return _error_rate(GLOSS_WER, tokens, hyps, refs, replace(options, tokenizer="none"))


_MARKS = ("__EMOTION__", "__PU__", "__LEFTHAND__")
_WITHIN = re.compile("loc-|cl-|qu-|poss-|lh-|-PLUSPLUS|" + "|".join(_MARKS))
_NAMES = {"S0NNE": "SONNE", "HABEN2": "HABEN", "ZEIGEN": "ZEIGEN-BILDSCHIRM"}
_ROOM = re.compile("(?<=[A-Z][A-Z])RAUM")
_SPELT = re.compile(r"[A-Z](\+[A-Z])*|SCH|NN")  # a letter, or two that a sign spells together


def clean_phoenix_2014(glosses: Sequence[str]) -> tuple[str, ...]:
    """Return glosses as PHOENIX-2014's scoring compares them.

    Where a sign is, on which hand and how often it is made does not count; neighbouring letters are
    one word; what is repeated is one sign.
    """
    bare = " ".join(_WITHIN.sub("", gloss) for gloss in glosses).split()
    named = " ".join(_NAMES.get(gloss, gloss) for gloss in bare)
    named = named.replace("WIE AUSSEHEN", "WIE-AUSSEHEN")
    joined = list[str]()
    for is_spelt, run in groupby(named.split(), key=lambda gloss: bool(_SPELT.fullmatch(gloss))):
        names = [*run]
        joined += ["+".join(names)] if is_spelt else names
    return tuple(name for name, _ in groupby(_ROOM.sub("", gloss) for gloss in joined))


_GLOSS_RULES: dict[GlossRules, Callable[[Sequence[str]], tuple[str, ...]]] = {
    "none": tuple,
    "phoenix_2014": clean_phoenix_2014,
}


def clean_glosses(lines: Sequence[Sequence[str]], rules: GlossRules) -> list[tuple[str, ...]]:
    """Return lines of glosses as the rules compare them."""
    return [_GLOSS_RULES[rules](line) for line in lines]


def count_cer(hyps: Sequence[str], refs: Sequence[str], options: ScoreOptions) -> Counted:
    """Character error rate; each edit costs 1, a space is a character."""

    def split(texts: Sequence[str]) -> Words:
        cased = [text.lower() for text in texts] if options.lowercase else texts
        return [list(" ".join(text.split())) for text in cased]

    return _error_rate(Metric.CER, "characters", split(hyps), split(refs), options)


def _error_rate(name: str, tokens: str, hyps: Words, refs: Words, options: ScoreOptions) -> Counted:
    edits = [
        sum(count_edits(chunk) for chunk in chunks if chunk.type != "equal")
        for chunks in align(hyps, refs)
    ]
    signature = _join(
        {
            "nrefs": "1",
            "case": "lc" if options.lowercase else "mixed",
            "norm": "none",
            "tok": tokens,
            "cost": "sub1+ins1+del1",
            **options.mode,
            "version": f"jiwer-{version('jiwer')}",
        }
    )
    return ratio(name, signature, edits, [len(ref) for ref in refs])


def count_rouge_l(hyps: Sequence[str], refs: Sequence[str], options: ScoreOptions) -> Counted:
    """ROUGE-L: F1 of the longest common subsequence of words, in any script.

    Source: Lin (2004); as the package rouge-score, which however drops all but a to z and digits.
    """
    pairs = zip(split_words(hyps, options), split_words(refs, options), strict=True)
    # 2 P R / (P + R) with P = common / hyp and R = common / ref.
    values = [200 * LCSseq.similarity(hyp, ref) / (len(hyp) + len(ref)) for hyp, ref in pairs]
    return mean(Metric.ROUGE_L, _own_signature(options, "f:1"), values)


def count_exact(hyps: Sequence[str], refs: Sequence[str], options: ScoreOptions) -> Counted:
    """Share of the sentences that are right in every word."""
    pairs = zip(split_words(hyps, options), split_words(refs, options), strict=True)
    return mean(Metric.EXACT, _own_signature(options), [100.0 * (hyp == ref) for hyp, ref in pairs])


# To add a metric: a function here, its name and label in `metric_names.py`.
COUNTERS = (count_bleu, count_chrf, count_ter, count_wer, count_cer, count_rouge_l, count_exact)


def ratio(name: str, signature: str, above: Numbers, below: Numbers) -> Counted:
    """Return a metric that is one sum over another, in percent."""

    def scores(sums: FloatArray) -> dict[str, FloatArray]:
        # A clip without glosses has no signs, and no errors either.
        return {name: 100 * sums[:, 0] / (sums[:, 1] + (sums[:, 1] == 0))}

    return Counted(
        counts=np.array([above, below], dtype=np.float64).T,
        signatures={name: signature},
        scores=scores,
        singly=scores,
    )


def mean(name: str, signature: str, values: Sequence[float]) -> Counted:
    """Return a metric that is the mean of one number a sentence."""
    return ratio(name, signature, [value / 100 for value in values], [1.0] * len(values))


def sacrebleu_signature(
    metric: Any, options: ScoreOptions, extra: dict[str, Any] | None = None
) -> str:
    """Return the signature of sacreBLEU, with the name of the mode if it has one."""
    metric.num_refs = 1  # which sacreBLEU sets only after it has scored
    signature = metric.get_signature()
    for key, value in {**(extra or {}), **options.mode}.items():
        signature.update(key, value)
    return str(signature)


def _own_signature(options: ScoreOptions, *extra: str) -> str:
    parts = {
        "nrefs": "1",
        "case": "lc" if options.lowercase else "mixed",
        "tok": options.words,
        **dict(part.split(":") for part in extra),
        "mean": "sentences",
        **options.mode,
        "version": f"signloom-{version('signloom')}",
    }
    return _join(parts)


def _join(parts: dict[str, str]) -> str:
    return "|".join(f"{key}:{value}" for key, value in parts.items())


@dataclass(frozen=True, slots=True)
class WordEdit:
    """A stretch of words that agree or differ between reference and hypothesis."""

    kind: Literal["equal", "substitute", "insert", "delete"]
    reference: tuple[str, ...]
    """Empty for an insertion."""
    hypothesis: tuple[str, ...]
    """Empty for a deletion."""


@dataclass(frozen=True, slots=True)
class Confusion:
    """A word that was taken for another, added or left out."""

    kind: Literal["substitute", "insert", "delete"]
    reference: str
    """Empty for an insertion."""
    hypothesis: str
    """Empty for a deletion."""
    count: int


def align_words(hyp: str, ref: str, options: ScoreOptions) -> list[WordEdit]:
    """The cheapest edits that turn the reference into the hypothesis; each costs 1.

    Words and their case count as for WER; they are returned as they are written.
    """
    edits = _align(*split_words([hyp, ref], options))
    hypothesis, reference = map(iter, split_words([hyp, ref], options, keep_case=True))
    return [
        WordEdit(
            edit.kind,
            tuple(islice(reference, len(edit.reference))),
            tuple(islice(hypothesis, len(edit.hypothesis))),
        )
        for edit in edits
    ]


def count_confusions(
    hyps: Sequence[str], refs: Sequence[str], options: ScoreOptions
) -> list[Confusion]:
    """Count how each word was got wrong, the most frequent first."""
    counts: Counter[tuple[str, str, str]] = Counter()
    pairs = zip(split_words(hyps, options), split_words(refs, options), strict=True)
    for hyp, ref in pairs:
        for edit in _align(hyp, ref):
            length = max(len(edit.reference), len(edit.hypothesis))
            # Of a substitution both sides are equally long, of the others one is empty.
            added = edit.hypothesis or ("",) * length
            lost = edit.reference or ("",) * length
            if edit.kind != "equal":
                counts.update((edit.kind, *pair) for pair in zip(lost, added, strict=True))
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [Confusion(*words, count) for words, count in ordered]  # type: ignore[arg-type]


def _align(hyp: Sequence[str], ref: Sequence[str]) -> list[WordEdit]:
    return [
        WordEdit(
            chunk.type,
            tuple(ref[chunk.ref_start_idx : chunk.ref_end_idx]),
            tuple(hyp[chunk.hyp_start_idx : chunk.hyp_end_idx]),
        )
        for chunk in align([hyp], [ref])[0]
    ]


def count_edits(chunk: Any) -> int:
    """Return how many words one of jiwer's chunks changes."""
    return max(chunk.ref_end_idx - chunk.ref_start_idx, chunk.hyp_end_idx - chunk.hyp_start_idx)


def align(hyps: Words, refs: Words) -> list[list[Any]]:
    """Return jiwer's chunks for each pair, on exactly these words."""
    ref_words, hyp_words = ([list(line) for line in lines] for lines in (refs, hyps))
    output = jiwer.process_words(
        [""] * len(refs),
        [""] * len(hyps),
        reference_transform=lambda _: ref_words,
        hypothesis_transform=lambda _: hyp_words,
    )
    alignments: list[list[Any]] = output.alignments
    return alignments
