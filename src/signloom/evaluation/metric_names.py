"""Names of the metrics and of the systems that are scored, and which metric decides."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from statistics import mean
from typing import Any

from signloom.config import get_map
from signloom.corpus.manifest import is_single_word

DECIMALS = 4  # of every number written; scores are 0 to 100
LEVEL = 0.05  # of significance; intervals have the rest, 95 %
TOO_FEW = "too few clips to decide"
LEAST_SIGNERS = 3  # in train, for `signloom outlook`: to learn from one, from two, and to test on


def rounded(value: Any, digits: int = DECIMALS) -> Any:
    """Return a value as files have it: numbers, also those in maps and lists, with few digits."""
    if isinstance(value, dict):
        return {name: rounded(number, digits) for name, number in value.items()}
    if isinstance(value, list):
        return [rounded(number, digits) for number in value]
    return round(value, digits) if isinstance(value, float) else value


def are_few(clips: int, level: float = LEVEL) -> bool:
    """Return whether no result on these clips can be significant.

    Resamples of a few clips are so alike that their interval has hardly a width. By the sign test n
    clips that all speak for one of two systems have the p-value 2 * 0.5^n: 6 clips are the fewest.
    """
    return 2 * 0.5**clips > level


class Metric(StrEnum):
    """The metrics that every sentence is scored by."""

    BLEU1 = "bleu1"
    BLEU2 = "bleu2"
    BLEU3 = "bleu3"
    BLEU4 = "bleu4"
    CHRF = "chrf"
    CHRFPP = "chrfpp"
    TER = "ter"
    WER = "wer"
    CER = "cer"
    ROUGE_L = "rouge_l"
    EXACT = "exact"


GLOSS_WER = "gloss_wer"  # word error rate of the signs, of models that read them
LOWER_IS_BETTER: tuple[str, ...] = (Metric.TER, Metric.WER, Metric.CER, GLOSS_WER)
# Those that are kept of seeds, floors and slices, and for changes.
MAIN_METRICS = (Metric.BLEU4, Metric.CHRF, Metric.WER, Metric.EXACT)
# Where texts are single words: that of the nearest training clip, or one of the five nearest.
LOOKUPS = {"lookup_top1": 1, "lookup_top5": 5}
METRIC_LABELS: dict[str, str] = {
    Metric.BLEU1: "BLEU-1",
    Metric.BLEU2: "BLEU-2",
    Metric.BLEU3: "BLEU-3",
    Metric.BLEU4: "BLEU-4",
    Metric.CHRF: "chrF",
    Metric.CHRFPP: "chrF++",
    Metric.TER: "TER",
    Metric.WER: "WER",
    Metric.CER: "CER",
    Metric.ROUGE_L: "ROUGE-L",
    Metric.EXACT: "exact",
    GLOSS_WER: "gloss WER",
}


def metric_label(name: str) -> str:
    """Return what people call a metric."""
    return METRIC_LABELS.get(name, name)


def metric_heading(name: str) -> str:
    """Return the same with the unit, for the head of a column."""
    return metric_label(name) + (", %" if name in (*LOWER_IS_BETTER, Metric.EXACT) else "")


def describe_only(sentence: str, clips: int) -> str:
    """Describe that a model writes the same for every clip, which may be nothing."""
    content = f"one and the same sentence, “{sentence}”," if sentence else "nothing"
    return (
        f"This model writes {content} for each of the {clips} clips: it has not learnt to translate"
    )


def headline_metric(train_texts: Iterable[str]) -> Metric:
    """Return the metric by which a model of this corpus is judged first.

    That is BLEU-4; where most texts are single words, in which there are no four words to match,
    the share of texts that are exactly right.
    """
    texts = list(train_texts)
    are_words = bool(texts) and mean(map(is_single_word, texts)) >= 0.5
    return Metric.EXACT if are_words else Metric.BLEU4


def shown_metrics(headline: str) -> tuple[Metric, ...]:
    """Return the metrics shown where there is room for three, the headline first."""
    return Metric(headline), Metric.CHRF, Metric.WER


class System(StrEnum):
    """Whoever gives every clip a sentence: the model, its controls, and floors without a model."""

    MODEL = "model"
    GREEDY = "greedy"
    BLIND = "blind"
    SWAPPED = "swapped"
    CONSTANT = "constant"
    RETRIEVAL = "retrieval"
    LINEAR = "linear"
    RANDOM = "random"
    COPY = "copy"  # of a model of glosses alone: the glosses in lower case


# Systems that learn next to nothing or see nothing.
FLOORS = (
    System.RETRIEVAL,
    System.LINEAR,
    System.BLIND,
    System.CONSTANT,
    System.RANDOM,
    System.COPY,
)
SYSTEM_LABELS: dict[str, str] = {
    System.MODEL: "model",
    System.GREEDY: "model, greedy search",
    System.RETRIEVAL: "nearest training clip",
    System.LINEAR: "logistic regression",
    System.SWAPPED: "model, another clip's video",
    System.BLIND: "model, landmarks zeroed",
    System.CONSTANT: "best constant sentence",
    System.RANDOM: "random training sentence",
}
# The same where a model reads glosses.
GLOSS_SYSTEM_LABELS: dict[str, str] = {
    **SYSTEM_LABELS,
    System.SWAPPED: "model, another clip's glosses",
    System.BLIND: "model, glosses unknown",
    System.COPY: "the glosses, copied",
}


def reads_glosses(spec: Mapping[str, Any]) -> bool:
    """Return whether a model reads glosses; else it reads landmarks.

    Args:
        spec: A checkpoint.json, or parameters; both have `model.source`.
    """
    return bool(get_map(spec, "model").get("source") == "glosses")
