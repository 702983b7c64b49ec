"""Floors: the best constant sentence, that of the nearest training clip, a linear classifier's."""

import warnings
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, compress

import numpy as np
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist as cdist_strings
from sacrebleu.metrics.bleu import BLEU
from scipy.spatial.distance import cdist
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from signloom.errors import UserError
from signloom.evaluation.metric_names import Metric
from signloom.evaluation.metrics import MAX_ORDER, FloatArray, ScoreOptions, bleu_of_sums
from signloom.features.glosses import GlossSequence, IntArray, split_glosses
from signloom.features.sources import Rows, SourceSequence
from signloom.features.targets import Target
from signloom.tables import read_columns, take_rows
from signloom.translation.familiarity import rounded_floats
from signloom.translation.linear_classifier import LinearClassifier, Vector, resample_clip
from signloom.translation.translator import Translator

_BY_WORD = ("13a", "none")  # splitters that give a word the same tokens in every sentence
_AT_ONCE = 2**16  # sentences whose n-grams are in memory together
_MOST = 2**31  # tokens, n-grams of an order
_END = -1  # after the tokens of a text
_LAST = np.iinfo(np.int64).max  # of a sorted table, so that every number has a place in it


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
    sentences = list(dict.fromkeys(candidates))
    if not sentences or not refs:
        raise ValueError(f"best constant of {len(sentences)} candidates on {len(refs)} references")

    def fold(text: str) -> str:
        return text.lower() if options.lowercase else text

    if metric == Metric.EXACT:
        frequency = Counter(map(fold, refs))
        return min(sentences, key=lambda sentence: (-frequency[fold(sentence)], sentence))
    splitter, is_by_word = BLEU(tokenize=options.splitter).tokenizer, options.splitter in _BY_WORD
    numbers: dict[str, int] = {}  # of tokens

    @lru_cache(maxsize=2**16)
    def number_tokens(part: str | None) -> list[int]:
        if part is None:
            return [_END]
        tokens = splitter(fold(part)).split()
        return [numbers.setdefault(token, len(numbers)) for token in tokens]

    def tokenize(texts: Iterable[str]) -> IntArray:
        parts = ((*(text.split() if is_by_word else [text]), None) for text in texts)
        tokens = chain.from_iterable(map(number_tokens, chain.from_iterable(parts)))
        return np.fromiter(tokens, np.int64)

    ref_tokens, counted = tokenize(refs), []
    ngrams = _NGrams(ref_tokens)
    for start in range(0, len(sentences), _AT_ONCE):
        tokens = tokenize(sentences[start : start + _AT_ONCE])
        lengths = np.diff(np.flatnonzero(tokens == _END), prepend=-1) - 1
        counted.append(np.column_stack([lengths, *ngrams.count_matches(tokens, len(lengths))]))
    lengths, *matches = np.concatenate(counted).T
    totals = [len(refs) * np.maximum(lengths - order, 0) for order in range(MAX_ORDER)]
    ref_length = np.full(len(sentences), np.count_nonzero(ref_tokens != _END))
    sums = np.stack([totals[0], ref_length, *matches, *totals], axis=1).astype(np.float64)
    scores = bleu_of_sums(sums, MAX_ORDER)
    return min(compress(sentences, scores == scores.max()))


class _NGrams:
    """The n-grams of references, and how many of these hold one once, twice and so on."""

    def __init__(self, refs: IntArray) -> None:
        """Take the numbers of the references' tokens, from 0, and `_END` after each."""
        self._words = refs.max() + 1
        self._tables: list[IntArray] = []  # of each order from 2: its n-grams, sorted
        self._counts = []
        for _, ngrams, repeats in self._list(refs):
            pairs, counts = np.unique(ngrams * _MOST + repeats, return_counts=True)
            starts = np.searchsorted(pairs, np.arange(ngrams.max(initial=0) + 2) * _MOST)
            self._counts.append((starts, counts))

    def count_matches(self, tokens: IntArray, texts: int) -> Iterator[FloatArray]:
        """Yield of each order the clipped matches that each text has in all references."""
        for (rows, ngrams, repeats), (starts, counts) in zip(
            self._list(tokens), self._counts, strict=True
        ):
            places = starts[ngrams] + repeats
            is_match = places < starts[ngrams + 1]
            yield np.bincount(rows[is_match], counts[places[is_match]], texts).astype(np.float64)

    def _list(self, tokens: IntArray) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        """Yield of each order the n-grams of all texts: text, number, how often it came before."""
        starts = np.flatnonzero((tokens != _END) & (tokens < self._words))
        rows, ngrams = np.cumsum(tokens == _END), tokens[starts]
        for order in range(MAX_ORDER):
            if order:
                # An n-gram is the one that it begins with, of one token less, and its last token.
                last = tokens[starts + order]
                keys = ngrams * _MOST + last
                if len(self._tables) < order:
                    self._tables.append(np.append(np.unique(keys[last != _END]), _LAST))
                by_key = np.argsort(keys)  # a sorted table is searched quicker in its order
                starts, keys = starts[by_key], keys[by_key]
                table = self._tables[order - 1]
                ngrams = np.searchsorted(table, keys)
                is_known = table[ngrams] == keys
                starts, ngrams = starts[is_known], ngrams[is_known]
            pairs = np.sort(rows[starts] * _MOST + ngrams)
            firsts = np.flatnonzero(np.diff(pairs, prepend=-1))
            repeats = np.arange(len(pairs)) - np.repeat(firsts, np.diff(firsts, append=len(pairs)))
            yield pairs // _MOST, pairs % _MOST, repeats


Floor = Callable[[Sequence[SourceSequence]], list[str]]
"""What gives each of some clips a text."""
RETRIEVAL_FRAMES = 16  # every clip is resampled to this many to be compared
NEVER = -20.0  # logit of a label that no clip shows
PENALTIES = (1.0, 0.1, 0.01, 0.001)  # that it is tried with, scikit-learn's C
MOST_STEPS = 200  # of the logistic regression
MOST_TRAIN = 20_000  # training clips that are read: each is compared with each evaluated clip
MOST_CLASSES = 500  # different training texts beyond which a text is no class to be told apart


def thin_train(targets: Sequence[Target]) -> list[Target]:
    """Return all targets, of train at most `MOST_TRAIN`, evenly spread."""
    splits = [split for (split,) in read_columns(targets, "split")]
    train = [number for number, split in enumerate(splits) if split == "train"]
    some = {*train[:: max(1, -(-len(train) // MOST_TRAIN))]}
    numbers = [n for n, split in enumerate(splits) if split != "train" or n in some]
    return list(take_rows(targets, numbers))


def targets_with_clips(
    targets: Sequence[Target], split: str, sequences: Container[str] | None = None
) -> list[Target]:
    """Return the clips of a split; those among `sequences`, which can be read, if it is given."""
    pairs = enumerate(read_columns(targets, "split", "clip_id"))
    of_split = ((number, clip_id) for number, (name, clip_id) in pairs if name == split)
    numbers = [n for n, clip_id in of_split if sequences is None or clip_id in sequences]
    return list(take_rows(targets, numbers))


def fit_nearest(
    translator: Translator, targets: Sequence[Target], sequences: Mapping[str, SourceSequence]
) -> Floor:
    """Return what gives a clip the text of the nearest training clip; of equals the first.

    Clips are compared as the model reads them.

    Raises:
        UserError: If no training clip has landmarks, or glosses.
    """
    train = targets_with_clips(targets, "train", sequences)
    if not train:
        source_name, where = translator.source.name, translator.source.where_missing
        raise UserError(f"no train clip has {source_name}, so there are no floors; see {where}")
    if translator.source.has_frames:
        distances = _feature_distances(translator, [sequences[t.clip_id] for t in train])
    else:
        distances = gloss_distances([split_glosses(t.gloss) for t in train])
    return lambda clips: [train[int(np.argmin(distances(clip)))].text for clip in clips]


def _feature_distances(
    translator: Translator, train: Sequence[SourceSequence]
) -> Callable[[SourceSequence], FloatArray]:
    vectors = np.stack([clip_vector(translator.rows(clip)) for clip in train])
    variance = np.square(vectors.std(axis=0), dtype=np.float64)
    variance[variance < 1e-12] = 1.0  # a column that never changes tells nothing
    train_vectors = vectors.astype(np.float64)  # once: SciPy would for every clip

    def distances(sequence: SourceSequence) -> FloatArray:
        query = clip_vector(translator.rows(sequence))
        row: FloatArray = cdist(query[None], train_vectors, "seuclidean", V=variance)[0]
        return row

    return distances


def fit_linear(
    translator: Translator, targets: Sequence[Target], sequences: Mapping[str, SourceSequence]
) -> Floor | None:
    """Return what names clips by `fit_regression`; None where texts are no classes."""
    model = fit_regression(translator, targets, sequences)
    return model and (
        lambda clips: [str(text) for text in model.predict(resample_clips(translator, clips))]
    )


def fit_regression(
    translator: Translator, targets: Sequence[Target], sequences: Mapping[str, SourceSequence]
) -> Pipeline | None:
    """Fit a logistic regression from clips to texts; None where texts are no classes.

    It is what anyone would try first: every training text a class, some frames of a clip, what is
    missing replaced by its mean over train, each number brought to mean 0 and deviation 1, and
    scikit-learn's penalty by dev.
    """
    train, dev = (targets_with_clips(targets, split, sequences) for split in ("train", "dev"))
    texts = [target.text for target in train]
    if not (translator.source.has_frames and 2 <= len(set(texts)) <= MOST_CLASSES):
        return None
    train_vectors = resample_clips(translator, (sequences[target.clip_id] for target in train))
    models = (fit_classifier(train_vectors, texts, penalty) for penalty in PENALTIES)
    if not dev:
        return next(models)
    dev_vectors = resample_clips(translator, (sequences[target.clip_id] for target in dev))
    dev_texts = [target.text for target in dev]
    return max(models, key=lambda model: np.mean(model.predict(dev_vectors) == dev_texts))


def resample_clips(translator: Translator, clips: Iterable[SourceSequence]) -> Vector:
    """Return `resample_clip` of each clip, shape (N, D)."""
    return np.stack(
        [resample_clip(translator.source, translator.spec.features, clip) for clip in clips]
    )


def fit_linear_classifier(
    translator: Translator, targets: Sequence[Target], sequences: Mapping[str, SourceSequence]
) -> LinearClassifier | None:
    """Return `fit_regression` as what a model of single signs is read with; else None."""
    names, is_read = translator.spec.ctc.names, translator.reads_single_signs
    model = fit_regression(translator, targets, sequences) if is_read else None
    if model is None:
        return None
    imputer, scaler, *rotation, regression = (step for _, step in model.steps)
    coefficients = regression.coef_ @ rotation[0].components_ if rotation else regression.coef_
    weights = np.zeros((len(names), len(scaler.scale_)))
    bias = np.full(len(names), NEVER)  # of a sign whose clips have no landmarks
    rows = [names.index(text) for text in regression.classes_]
    # Of two signs scikit-learn has the second one's logit alone.
    is_whole = len(coefficients) == len(rows)
    bias[rows], rows = 0.0, rows if is_whole else rows[1:]
    weights[rows], bias[rows] = coefficients / scaler.scale_, regression.intercept_
    return LinearClassifier(
        middle=rounded_floats(imputer.statistics_),
        weights=tuple(map(rounded_floats, weights)),
        bias=rounded_floats(bias),
    )


def fit_classifier(vectors: Vector, texts: Sequence[str], penalty: float = 1.0) -> Pipeline:
    """Fit a logistic regression to vectors (N, D), NaN where something is missing.

    Args:
        vectors: Of the training clips.
        texts: What each of them says.
        penalty: scikit-learn's C: the smaller, the less it trusts single numbers.
    """
    # The penalty keeps the weights in the space that the clips span, and turning its axes changes
    # neither it nor L-BFGS: as many numbers as clips say the same.
    is_wide = vectors.shape[0] < vectors.shape[1]
    model = make_pipeline(
        SimpleImputer(keep_empty_features=True),
        StandardScaler(),
        *([PCA(svd_solver="full")] if is_wide else []),
        LogisticRegression(C=penalty, max_iter=MOST_STEPS),
    )
    with warnings.catch_warnings():
        # A floor may stop before the end, and tell sentences apart that occur once each.
        warnings.simplefilter("ignore", UserWarning)
        # PCA's share of the variance, where no clip shows anything.
        warnings.filterwarnings("ignore", "invalid value", RuntimeWarning)
        model.fit(vectors, texts)
    return model


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
