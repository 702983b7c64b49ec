"""Look-up: the known clips nearest to a clip, by encoder states and hand positions."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import safetensors
from safetensors.numpy import save
from tqdm import tqdm

from signloom.checkpoint import WEIGHTS
from signloom.checkpoint_file import SPEC
from signloom.corpus.shards import hash_position, read_clip_frames, read_shards, shards_metadata
from signloom.errors import UserError
from signloom.features.features import FloatArray
from signloom.features.targets import read_targets
from signloom.files import SEAL, UNSEALED, check_seal, hash_file, seal, write_file
from signloom.paths import LOOKUP, SHARDS, TARGETS
from signloom.progress import progress_file
from signloom.translation.confidence import hash_seeds
from signloom.translation.translator import Translator

# 2: hands with the encoder's states; 3: with a checksum; 4: states of all seeds, hands by thirds
FORMAT_VERSION = 4
CLIPS_AT_ONCE = 256  # whose landmarks are in memory
# Of states and of hands; docs/results.md has what they gain.
RIDGES = 0.1, 0.01  # mean variances of the training encodings that are added in every direction
SHARES = 0.4, 0.6  # of the cosine


@dataclass(frozen=True, slots=True)
class NearSign:
    """A known clip that is like the one that was asked about."""

    text: str
    clip_id: str
    similarity: float  # cosine, -1 to 1
    is_recording: bool = False  # of the app, which is in no corpus yet


@dataclass(frozen=True, slots=True, eq=False)
class Whitening:
    """How vectors (N, D) are seen so that their cosines compare signs.

    Centred on train and whitened: directions in which all training clips vary, which a model
    learnt for its own words, count no more than those in which a new sign differs. docs/results.md
    compares it with plain cosines.
    """

    centre: FloatArray  # mean of the training vectors, shape (D,)
    whitening: FloatArray  # shape (D, D)

    @classmethod
    def fit(cls, vectors: FloatArray, ridge: float) -> "Whitening":
        """Fit it to the training clips."""
        centre = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
        offsets = vectors - centre
        spread = (offsets.T @ offsets).astype(np.float64) / max(len(offsets) - 1, 1)
        added = max(ridge * np.trace(spread) / len(centre), 1e-9)
        variances, axes = np.linalg.eigh(spread + added * np.eye(len(centre)))
        return cls(centre, (axes / np.sqrt(variances)).astype(np.float32))

    def __call__(self, vectors: FloatArray) -> FloatArray:
        """Return directions of length 1, shape (N, D)."""
        whitened = (vectors - self.centre) @ self.whitening
        whitened /= np.maximum(np.linalg.norm(whitened, axis=1, keepdims=True), 1e-9)
        return whitened


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """How encodings of signs, as `Translator.encode_signs` gives them, are seen.

    States and hands are whitened apart; the cosine of what both are together is `SHARES` of theirs.
    """

    parts: tuple[Whitening, ...]

    @classmethod
    def fit(cls, encodings: FloatArray, hands: int) -> "Projection":
        """Fit it to the training clips, whose last `hands` columns are of hands."""
        parts = zip(np.split(encodings, [encodings.shape[1] - hands], axis=1), RIDGES, strict=True)
        return cls(tuple(Whitening.fit(*part) for part in parts if part[0].shape[1]))

    @property
    def width(self) -> int:
        """Numbers of an encoding."""
        return sum(len(part.centre) for part in self.parts)

    def __call__(self, encodings: FloatArray) -> FloatArray:
        """Return directions of length 1, shape (N, D + H)."""
        ends = np.cumsum([len(part.centre) for part in self.parts])[:-1]
        shares = SHARES if len(self.parts) > 1 else (1.0,)
        split = zip(self.parts, np.split(encodings, ends, axis=1), shares, strict=True)
        directions = [part(columns) * np.sqrt(np.float32(share)) for part, columns, share in split]
        return np.concatenate(directions, axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class SignIndex:
    """Clips with their texts, by the projection of their encodings."""

    clip_ids: Sequence[str]
    texts: Sequence[str]
    directions: FloatArray  # what `projection` makes of the encodings, shape (N, D)
    projection: Projection
    are_recordings: bool = False

    @classmethod
    def of_train(
        cls, clip_ids: Sequence[str], texts: Sequence[str], encodings: FloatArray, hands: int
    ) -> "SignIndex":
        """Index the training clips, whose encodings end in `hands` numbers of hands."""
        projection = Projection.fit(encodings, hands)
        return cls(clip_ids, texts, projection(encodings), projection)

    def beside(
        self, clip_ids: Sequence[str], texts: Sequence[str], encodings: FloatArray
    ) -> "SignIndex":
        """Index recordings that are in no corpus yet, to be compared as training clips are."""
        return SignIndex(
            clip_ids, texts, self.projection(encodings), self.projection, are_recordings=True
        )

    def nearest(self, encoding: FloatArray, count: int) -> list[NearSign]:
        """Return the nearest clips of `count` different texts, the nearest first."""
        similarities = self.directions @ self.projection(encoding[None])[0]
        nearest: dict[str, NearSign] = {}
        for row in np.argsort(-similarities, kind="stable").tolist():
            text, similarity = self.texts[row], round(float(similarities[row]), 4)
            sign = NearSign(text, self.clip_ids[row], similarity, self.are_recordings)
            nearest.setdefault(text, sign)
            if len(nearest) == count:
                break
        return list(nearest.values())


def find_nearest(indices: Iterable[SignIndex], encoding: FloatArray, count: int) -> list[NearSign]:
    """Return the nearest clips of `count` different texts in some indices together."""
    every = [sign for index in indices for sign in index.nearest(encoding, count)]
    nearest: dict[str, NearSign] = {}
    for sign in sorted(every, key=lambda sign: -sign.similarity):
        nearest.setdefault(sign.text, sign)
    return list(nearest.values())[:count]


def open_index(
    translator: Translator,
    checkpoint: Path,
    *,
    targets: Path = TARGETS,
    shards: Path = SHARDS,
    folder: Path = LOOKUP,
) -> SignIndex:
    """Return the training clips, encoded once and kept until model, texts or landmarks change.

    Args:
        folder: Where encodings are kept, a file a model.

    Raises:
        UserError: If the model reads glosses or other landmarks, or no training clip has any.
    """
    source = translator.source.landmarks(checkpoint)
    train = [target for target in read_targets(targets) if target.split == "train"]
    source.check_extractor(json.loads(shards_metadata(shards).extractor))
    with_landmarks = read_clip_frames(shards).keys()
    texts = {target.clip_id: target.text for target in train if target.clip_id in with_landmarks}
    if not texts:
        raise UserError(f"no training clip has landmarks in {shards}: there is nothing to look up")
    clip_ids = sorted(texts, key=hash_position)  # as they lie in the shards
    weights = hash_file(checkpoint / WEIGHTS)
    made_of = _identify(translator, checkpoint, weights, texts, shards)
    path = folder / f"{weights[:16]}.safetensors"
    encodings = _read(path, made_of)
    if encodings is None:
        encodings = np.concatenate(list(_encode(translator, clip_ids, shards)))
        metadata = {"made_of": made_of, SEAL: UNSEALED}
        write_file(path, seal(save({"encodings": encodings}, metadata)))
    names = [texts[clip_id] for clip_id in clip_ids]
    return SignIndex.of_train(clip_ids, names, encodings, translator.hand_width)


def _identify(
    translator: Translator, checkpoint: Path, weights: str, texts: dict[str, str], shards: Path
) -> str:
    """Return what changes when the encodings do."""
    stats = [(path.name, path.stat()) for path in sorted(shards.glob("*.parquet"))]
    parts = (
        FORMAT_VERSION,
        weights,
        hash_seeds(checkpoint) if translator.is_joint else {},
        hash_file(checkpoint / SPEC),
        sorted(texts),
        [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats],
    )
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _read(path: Path, made_of: str) -> FloatArray | None:
    """Return what is kept; None if it is not there, torn, or of something else."""
    try:
        check_seal(path.read_bytes())
        with safetensors.safe_open(path, "numpy") as file:
            if (file.metadata() or {}).get("made_of") == made_of:
                return np.asarray(file.get_tensor("encodings"))
    except (OSError, ValueError, safetensors.SafetensorError):
        pass
    return None


def _encode(translator: Translator, clip_ids: Sequence[str], shards: Path) -> Iterator[FloatArray]:
    """Yield the encodings of some clips at a time."""
    with tqdm(total=len(clip_ids), desc="encode train", unit="clip", file=progress_file()) as bar:
        for first in range(0, len(clip_ids), CLIPS_AT_ONCE):
            part = clip_ids[first : first + CLIPS_AT_ONCE]
            sequences = read_shards(shards, part)
            yield translator.encode_signs([sequences[clip_id] for clip_id in part])
            bar.update(len(part))
