"""Floors: the best constant sentence, that of the nearest training clip, a linear classifier's."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist as cdist_strings
from sacrebleu.metrics.bleu import BLEU
from scipy.spatial.distance import cdist
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from signloom.errors import UserError
from signloom.evaluation.metrics import MAX_ORDER, FloatArray, ScoreOptions, bleu_of_sums
from signloom.evaluation.names import Metric
from signloom.features.glosses import GlossSequence, split_glosses
from signloom.features.sources import Rows, SourceSequence
from signloom.features.targets import Target
from signloom.translation.translator import Translator


def best_constant(
    candidates: Sequence[str],
    refs: Sequence[str],
    options: ScoreOptions,
    metric: Metric = Metric.BLEU4,
) -> str:
    """Return the candidate that scores highest if every clip gets it.

    An upper bound of what a model can score without looking: it is picked on the evaluated
    references themselves. Exact and linear in the text: the clipped matches of an n-gram that a
    candidate holds k times are a table over k, summed once over all references.

    Args:
        candidates: Train sentences; duplicates cost nothing.
        refs: The evaluated references.
        options: The tokenizer to count with.
        metric: Corpus BLEU-4, or exact match: then it is the most frequent reference.

    Returns:
        The sentence; of equals the first in code point order.
    """
    sentences = sorted(set(candidates))
    if not sentences or not refs:
        raise ValueError(f"best constant of {len(sentences)} candidates on {len(refs)} references")

    def fold(text: str) -> str:
        return text.lower() if options.lowercase else text

    if metric == Metric.EXACT:
        frequency = Counter(map(fold, refs))
        return max(sentences, key=lambda sentence: frequency[fold(sentence)])
    splitter = BLEU(tokenize=options.splitter).tokenizer

    def tokenize(text: str) -> list[str]:
        return splitter(fold(text)).split()

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


Vector = npt.NDArray[np.float32]
RETRIEVAL_FRAMES = 16  # every clip is resampled to this many to be compared
MOST_STEPS = 200  # of the logistic regression
MOST_TRAIN = 20_000  # clips of train that are read: each is compared with each evaluated clip
MOST_CLASSES = 500  # different texts of train beyond which a text is no class to be told apart


class RetrievalIndex:
    """Sentences that can be found by what is signed."""

    def __init__(
        self,
        texts: Sequence[str],
        distances: Callable[[SourceSequence], FloatArray],
        vector_of: Callable[[SourceSequence], Vector] | None = None,
        vectors: Vector | None = None,
    ) -> None:
        """Take the sentence of each training clip, and how far all of them are from a clip.

        Args:
            texts: A sentence for each training clip.
            distances: Those of a clip from all of them.
            vector_of: What a linear classifier sees of a clip; None: there is none.
            vectors: The same of the training clips, a row each.
        """
        self._texts, self._distances = texts, distances
        self._vector_of, self._vectors = vector_of, vectors

    def nearest(self, sequence: SourceSequence) -> str:
        """Return the sentence of the training clip nearest to a clip; of equals the first."""
        return self._texts[int(np.argmin(self._distances(sequence)))]

    @property
    def classifies(self) -> bool:
        """Whether there are vectors, and as many different sentences as can be told apart."""
        return self._vectors is not None and 2 <= len(set(self._texts)) <= MOST_CLASSES

    def classify(self, sequences: Sequence[SourceSequence]) -> list[str]:
        """Return the sentence that a logistic regression gives each clip.

        It is what anyone would try first: every sentence of train a class, clips resampled to 16
        frames, each number brought to mean 0 and deviation 1, scikit-learn's own settings.
        """
        assert self._vector_of is not None
        found = self._classifier.predict(np.stack([self._vector_of(one) for one in sequences]))
        return [str(text) for text in found]

    @cached_property
    def _classifier(self) -> Pipeline:
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=MOST_STEPS))
        with warnings.catch_warnings():
            # A floor may stop before the end, and tell sentences apart that occur once each.
            warnings.simplefilter("ignore", UserWarning)
            model.fit(self._vectors, self._texts)
        return model


def thin_train(targets: Sequence[Target]) -> list[Target]:
    """Return all targets but those of train, of which at most `MOST_TRAIN`, evenly spread."""
    train = [target.clip_id for target in targets if target.split == "train"]
    kept = set(train[:: max(1, -(-len(train) // MOST_TRAIN))])
    return [target for target in targets if target.split != "train" or target.clip_id in kept]


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
    if not translator.source.has_frames:
        return RetrievalIndex(texts, gloss_distances([split_glosses(t.gloss) for t in train]))
    vectors = np.stack([clip_vector(translator.rows(sequences[t.clip_id])) for t in train])
    variance = np.square(vectors.std(axis=0), dtype=np.float64)
    variance[variance < 1e-12] = 1.0  # a column that never changes tells nothing
    known = vectors.astype(np.float64)  # once: SciPy would for every clip

    def vector_of(sequence: SourceSequence) -> Vector:
        return clip_vector(translator.rows(sequence))

    def distances(sequence: SourceSequence) -> FloatArray:
        query = vector_of(sequence)
        found: FloatArray = cdist(query[None], known, "seuclidean", V=variance)[0]
        return found

    return RetrievalIndex(texts, distances, vector_of, vectors)


def gloss_distances(lines: Sequence[Sequence[str]]) -> Callable[[SourceSequence], FloatArray]:
    """Return how many glosses must be changed from each line to a clip's, for the longer's length.

    Source: Levenshtein (1966).
    """

    def distances(sequence: SourceSequence) -> FloatArray:
        if not isinstance(sequence, GlossSequence):
            raise TypeError("found landmarks, expected glosses")
        measure = Levenshtein.normalized_distance
        return cdist_strings([sequence.glosses], lines, scorer=measure, dtype=np.float64)[0]

    return distances


def clip_vector(matrix: Rows) -> Vector:
    """Resample features (S, F) evenly in time and flatten them, shape (RETRIEVAL_FRAMES * F,)."""
    position = np.linspace(0, len(matrix) - 1, RETRIEVAL_FRAMES)
    before = position.astype(np.int64)
    after = np.minimum(before + 1, len(matrix) - 1)
    share = (position - before)[:, None]
    return ((1 - share) * matrix[before] + share * matrix[after]).astype(np.float32).ravel()
