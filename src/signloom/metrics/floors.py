"""Train sentences and references come in; what can be had without looking goes out."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from signloom.metrics.ngrams import MAX_ORDER, bleu_of_sums
from signloom.metrics.options import ScoreOptions


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
    splitter = BLEU(tokenize=options.splitter).tokenizer

    def tokenize(text: str) -> list[str]:
        return splitter(text.lower() if options.lowercase else text).split()

    # at_least[gram][k - 1]: references that hold the gram k times or more.
    at_least: dict[tuple[str, ...], list[int]] = {}
    ref_tokens = [tokenize(ref) for ref in refs]
    for tokens in ref_tokens:
        for gram, count in Counter(_ngrams(tokens)).items():
            row = at_least.setdefault(gram, [])
            row.extend([0] * (count - len(row)))
            for k in range(count):
                row[k] += 1
    ref_len = sum(len(tokens) for tokens in ref_tokens)
    sums = np.zeros((len(sentences), 2 + 2 * MAX_ORDER))
    for row_index, sentence in enumerate(sentences):
        tokens = tokenize(sentence)
        sums[row_index, :2] = len(refs) * len(tokens), ref_len
        for gram, count in Counter(_ngrams(tokens)).items():
            sums[row_index, 1 + len(gram)] += sum(at_least.get(gram, [])[:count])
            sums[row_index, 1 + MAX_ORDER + len(gram)] += len(refs) * count
    return sentences[int(np.argmax(bleu_of_sums(sums, MAX_ORDER)))]


def _ngrams(tokens: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for order in range(1, MAX_ORDER + 1):
        yield from (tuple(tokens[i : i + order]) for i in range(len(tokens) - order + 1))
