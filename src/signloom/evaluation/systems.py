"""A trained translator and the clips of a split come in; what it and the floors say goes out.

A score means something only beside what can be had without looking: the floors here (one constant
sentence, a random one, the sentence of the nearest training clip) and the blind control.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from signloom.config import UserError
from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.targets import Target
from signloom.decoding import DecodingOptions
from signloom.metrics import ScoreOptions, best_constant
from signloom.translator import Translation, Translator

FloatArray = npt.NDArray[np.float32]

SYSTEMS = {
    "model": "the model, searched as configured",
    "greedy": "the model, greedy search",
    "blind": "the model, landmarks zeroed",
    "retrieval": "the sentence of the nearest training clip",
    "constant": "the best constant training sentence",
    "random": "a random training sentence",
}
RETRIEVAL_FRAMES = 16  # every clip is resampled to this many to be compared

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitResult:
    """What every system says for the clips of one split.

    Attributes:
        split: `dev` or `test`.
        targets: The clips that have landmarks, in the corpus's order.
        missing: Ids of clips without landmarks; they are counted and not scored.
        translations: The model's, one a target.
        texts: System (a key of `SYSTEMS`) to one sentence a target.
    """

    split: str
    targets: list[Target]
    missing: list[str]
    translations: list[Translation]
    texts: dict[str, list[str]]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RetrievalIndex:
    """The training clips as vectors of one length."""

    vectors: FloatArray  # (N, D), standardised
    texts: list[str]
    mean: FloatArray  # (D,)
    std: FloatArray  # (D,), 1 where a column never changes

    def nearest(self, matrix: FloatArray) -> str:
        """Return the sentence of the training clip nearest to a feature matrix, shape (S, F)."""
        query = (clip_vector(matrix) - self.mean) / self.std
        # |v - q|^2 without |q|^2, which is the same for all.
        distances = (self.vectors**2).sum(axis=1) - 2 * self.vectors @ query
        return self.texts[int(np.argmin(distances))]


def clip_vector(matrix: FloatArray, frames: int = RETRIEVAL_FRAMES) -> FloatArray:
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
    translator: Translator, targets: Sequence[Target], sequences: Mapping[str, LandmarkSequence]
) -> RetrievalIndex:
    """Index the training clips that have landmarks.

    Raises:
        UserError: If none has.
    """
    vectors, texts = [], []
    for target in targets:
        if target.split == "train" and target.clip_id in sequences:
            vectors.append(clip_vector(translator.features(sequences[target.clip_id])))
            texts.append(target.text)
    if not vectors:
        raise UserError(
            "no train clip has landmarks, so there are no floors; see data/landmarks/rejects.tsv"
        )
    matrix = np.stack(vectors)
    mean, std = matrix.mean(axis=0), matrix.std(axis=0)
    std[std < 1e-6] = 1.0  # a column that never changes tells nothing and must not divide by zero
    return RetrievalIndex(vectors=(matrix - mean) / std, texts=texts, mean=mean, std=std)


def run_systems(
    translator: Translator,
    targets: Sequence[Target],
    sequences: Mapping[str, LandmarkSequence],
    decoding: DecodingOptions,
    score: ScoreOptions,
    *,
    splits: Sequence[str] = ("dev", "test"),
) -> list[SplitResult]:
    """Let the model, its blind control and the floors translate the evaluated splits.

    Args:
        translator: The trained model.
        targets: The whole corpus; floors come from its train split.
        sequences: Clip id to landmarks, of all splits.
        decoding: How the model searches.
        score: Tokenizer of the constant floor and seed of the random one.
        splits: What to evaluate; a split without clips is left out, with a warning.

    Raises:
        UserError: If no split has a clip with landmarks.
    """
    train_texts = [target.text for target in targets if target.split == "train"]
    index = build_retrieval(translator, targets, sequences)
    results = []
    for split in splits:
        chosen = [target for target in targets if target.split == split]
        kept = [target for target in chosen if target.clip_id in sequences]
        missing = [target.clip_id for target in chosen if target.clip_id not in sequences]
        if missing:
            names = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
            logger.warning("%s: %d clips without landmarks: %s", split, len(missing), names)
        if not kept:
            logger.warning("%s: no clip to evaluate", split)
            continue
        landmarks = [sequences[target.clip_id] for target in kept]
        translations, texts = _model_texts(translator, landmarks, decoding, split)
        refs = [target.text for target in kept]
        rng = np.random.default_rng([score.seed, *split.encode()])
        constant = best_constant(train_texts, refs, score)
        texts["retrieval"] = [index.nearest(translator.features(clip)) for clip in landmarks]
        texts["constant"] = [constant] * len(refs)
        texts["random"] = [train_texts[i] for i in rng.integers(0, len(train_texts), len(refs))]
        results.append(
            SplitResult(
                split=split, targets=kept, missing=missing, translations=translations, texts=texts
            )
        )
    if not results:
        raise UserError(
            f"no clip of {' or '.join(splits)} has landmarks, so there is nothing to evaluate; the "
            "manifest needs such clips, and data/landmarks/rejects.tsv says which were rejected"
        )
    return results


def _model_texts(
    translator: Translator,
    landmarks: Sequence[LandmarkSequence],
    decoding: DecodingOptions,
    split: str,
) -> tuple[list[Translation], dict[str, list[str]]]:
    """Translate as configured, greedily and blind."""
    passes = 2 if decoding.beam_size == 1 else 3
    with tqdm(total=passes * len(landmarks), desc=f"translate {split}", unit="clip") as bar:
        model = translator.translate(landmarks, decoding, progress=bar.update)
        greedy = model
        if decoding.beam_size > 1:
            greedy_options = replace(decoding, beam_size=1)
            greedy = translator.translate(landmarks, greedy_options, progress=bar.update)
        blind = translator.translate(landmarks, decoding, blind=True, progress=bar.update)
    said = {"model": model, "greedy": greedy, "blind": blind}
    # Byte-level tokens can spell tabs and line ends, which no table would survive.
    return model, {name: [" ".join(t.text.split()) for t in ts] for name, ts in said.items()}
