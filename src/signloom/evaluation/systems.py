"""A trained translator and the clips of a split come in; what it and the floors say goes out.

A score means something only beside what can be had without looking: the floors here (one constant
sentence, a random one, the sentence of the nearest training clip), and two controls: the model
with its landmarks zeroed, and with the video of another clip.
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
    "swapped": "the model, seeing another clip",
    "retrieval": "the sentence of the nearest training clip",
    "constant": "the best constant training sentence",
    "random": "a random training sentence",
}
HANDS = ("left_hand", "right_hand")
RETRIEVAL_FRAMES = 16  # every clip is resampled to this many to be compared

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipFacts:
    """What a clip's landmarks say about it before any model has seen them."""

    hands: float | None  # share of the frames with a hand; None where the layout has no hands
    fps: float  # of the video
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitResult:
    """What every system says for the clips of one split.

    Attributes:
        split: `dev` or `test`.
        targets: The clips that have landmarks, in the corpus's order.
        facts: One a target.
        missing: Ids of clips without landmarks; they are counted and not scored.
        translations: The model's, one a target.
        texts: System (a key of `SYSTEMS`) to one sentence a target. `swapped` is left out where
            all clips have one sentence.
    """

    split: str
    targets: list[Target]
    facts: list[ClipFacts]
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
        seed = [score.seed, *split.encode()]
        others = swap_clips(refs, np.random.default_rng(seed))
        if others is not None:
            # What a model says depends on the landmarks alone: nothing is translated again.
            texts["swapped"] = [texts["model"][other] for other in others]
        texts["retrieval"] = [index.nearest(translator.features(clip)) for clip in landmarks]
        texts |= _blind_floors(train_texts, refs, score, np.random.default_rng(seed))
        results.append(
            SplitResult(
                split=split,
                targets=kept,
                facts=[clip_facts(clip) for clip in landmarks],
                missing=missing,
                translations=translations,
                texts=texts,
            )
        )
    if not results:
        raise UserError(
            f"no clip of {' or '.join(splits)} has landmarks, so there is nothing to evaluate; the "
            "manifest needs such clips, and data/landmarks/rejects.tsv says which were rejected"
        )
    return results


def clip_facts(sequence: LandmarkSequence) -> ClipFacts:
    """Return what the landmarks say of their clip."""
    groups = [sequence.layout.group(hand) for hand in HANDS if hand in sequence.layout.group_names]
    hands = float(sequence.present[:, groups].any(axis=1).mean()) if groups else None
    return ClipFacts(hands=hands, fps=sequence.fps, seconds=sequence.seconds)


def swap_clips(texts: Sequence[str], rng: np.random.Generator) -> list[int] | None:
    """Give each clip another one, of another sentence wherever there are enough of them.

    Args:
        texts: The sentence of each clip.
        rng: Decides who gets whom.

    Returns:
        For each clip the index of the other; a permutation without fixed points. None where all
        have one sentence, so that another clip would be no other input.
    """
    groups: dict[str, list[int]] = {}
    for index in rng.permutation(len(texts)).tolist():
        groups.setdefault(texts[index], []).append(index)
    if len(groups) < 2:
        return None
    # Sentence by sentence in a circle: a step as long as the largest group leaves every group.
    circle = [index for group in groups.values() for index in group]
    step = max(len(group) for group in groups.values())
    others = [0] * len(texts)
    for place, index in enumerate(circle):
        others[index] = circle[(place + step) % len(circle)]
    return others


def _blind_floors(
    train_texts: Sequence[str], refs: Sequence[str], score: ScoreOptions, rng: np.random.Generator
) -> dict[str, list[str]]:
    """Return what can be said without looking at a clip."""
    chosen = rng.integers(0, len(train_texts), len(refs))
    return {
        "constant": [best_constant(train_texts, refs, score)] * len(refs),
        "random": [train_texts[i] for i in chosen],
    }


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
    return model, {name: plain_texts(translations) for name, translations in said.items()}


def plain_texts(translations: Sequence[Translation]) -> list[str]:
    """Return the sentences with single spaces.

    Byte-level tokens can spell tabs and line ends, which no table would survive.
    """
    return [" ".join(translation.text.split()) for translation in translations]
