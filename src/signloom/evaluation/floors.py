"""Floors: what the best constant sentence and the nearest training clip score.

Landmarks are compared frame by frame, glosses by how many of them must be changed.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.bleu import BLEU

from signloom.errors import UserError
from signloom.evaluation.metrics import MAX_ORDER, ScoreOptions, bleu_of_sums
from signloom.features.features import FloatArray
from signloom.features.glosses import GlossSequence, split_glosses
from signloom.features.sources import Rows, SourceSequence
from signloom.features.targets import Target
from signloom.translation.translator import Translator


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


RETRIEVAL_FRAMES = 16  # every clip is resampled to this many to be compared
_ABSENT = -1  # behind the end of a shorter sequence; no gloss has this number


class RetrievalIndex(ABC):
    """Sentences that can be found by what is signed."""

    @abstractmethod
    def nearest(self, sequence: SourceSequence) -> str:
        """Return the sentence of the training clip nearest to a clip."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LandmarkIndex(RetrievalIndex):
    """The training clips as vectors of one length."""

    translator: Translator  # for its features
    vectors: FloatArray  # (N, D), standardised
    texts: list[str]
    mean: FloatArray  # (D,)
    std: FloatArray  # (D,), 1 where a column never changes

    def nearest(self, sequence: SourceSequence) -> str:
        """Return the sentence of the training clip with the nearest features."""
        query = (clip_vector(self.translator.rows(sequence)) - self.mean) / self.std
        # |v - q|^2 without |q|^2, which is the same for all.
        distances = (self.vectors**2).sum(axis=1) - 2 * self.vectors @ query
        return self.texts[int(np.argmin(distances))]


class GlossIndex(RetrievalIndex):
    """The training clips as rows of glosses."""

    def __init__(self, glosses: Sequence[Sequence[str]], texts: Sequence[str]) -> None:
        """Take the glosses of each clip and its sentence."""
        names = {name for line in glosses for name in line}
        self._number = {name: number for number, name in enumerate(sorted(names))}
        self._lengths = np.array([len(line) for line in glosses])
        self._rows = np.full((len(glosses), max(self._lengths)), _ABSENT)
        for row, line in zip(self._rows, glosses, strict=True):
            row[: len(line)] = [self._number[name] for name in line]
        self._texts = list(texts)

    def nearest(self, sequence: SourceSequence) -> str:
        """Return the sentence of the training clip with the fewest edits for its length."""
        if not isinstance(sequence, GlossSequence):
            raise TypeError("found landmarks, expected glosses")
        longer = np.maximum(self._lengths, max(1, len(sequence.glosses)))
        return self._texts[int(np.argmin(self.count_edits(sequence.glosses) / longer))]

    def count_edits(self, glosses: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return how many glosses must be changed, left out or added for each training clip.

        Source: Levenshtein (1966), a row of the table for all clips at once.
        """
        places = np.arange(self._rows.shape[1] + 1)
        table = np.tile(places, (len(self._rows), 1))
        for count, name in enumerate(glosses, start=1):
            is_other = self._rows != self._number.get(name, _ABSENT - 1)
            above = table
            table = np.empty_like(above)
            table[:, 0] = count
            table[:, 1:] = np.minimum(above[:, 1:] + 1, above[:, :-1] + is_other)
            # Or one more than the cell to the left, and so on.
            table = np.minimum.accumulate(table - places, axis=1) + places
        found: npt.NDArray[np.int64] = table[np.arange(len(table)), self._lengths]
        return found


def clip_vector(matrix: Rows, frames: int = RETRIEVAL_FRAMES) -> FloatArray:
    """Resample a feature matrix in time and flatten it.

    Args:
        matrix: Shape (S, F).
        frames: Positions kept, spread evenly from the first frame to the last.

    Returns:
        Shape (frames * F,).
    """
    position = np.linspace(0, len(matrix) - 1, frames)
    before = position.astype(np.int64)
    after = np.minimum(before + 1, len(matrix) - 1)
    share = (position - before)[:, None]
    return ((1 - share) * matrix[before] + share * matrix[after]).astype(np.float32).ravel()


def build_retrieval(
    translator: Translator, targets: Sequence[Target], sequences: Mapping[str, SourceSequence]
) -> RetrievalIndex:
    """Index the training clips that have landmarks or glosses, as the model reads them.

    Raises:
        UserError: If none has.
    """
    train = [t for t in targets if t.split == "train" and t.clip_id in sequences]
    if not train:
        what, where = translator.source.name, translator.source.where_missing
        raise UserError(f"no train clip has {what}, so there are no floors; see {where}")
    texts = [target.text for target in train]
    if translator.source.kind == "tokens":
        return GlossIndex([split_glosses(target.gloss) for target in train], texts)
    matrix = np.stack([clip_vector(translator.rows(sequences[t.clip_id])) for t in train])
    mean, std = matrix.mean(axis=0), matrix.std(axis=0)
    std[std < 1e-6] = 1.0  # a column that never changes tells nothing and must not divide by zero
    return LandmarkIndex(
        translator=translator, vectors=(matrix - mean) / std, texts=texts, mean=mean, std=std
    )
