"""Sources: what a model reads of a clip, its landmarks, features of others or its glosses.

Which of them a model reads is decided once, where data are opened (`open_source`) or a checkpoint
is loaded (`source_of_fields`). A source has the clips; its reader, which is bound to feature
options, turns them into rows. Shape letters: S source frames or tokens, F features.
"""

import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from signloom.config import parse_options
from signloom.corpus.landmarks import (
    COORDINATES,
    FEATURES,
    NO_LANDMARKS,
    LandmarkSequence,
    Layout,
    check_same_extractor,
)
from signloom.corpus.shards import (
    find_shards,
    read_clip_frames,
    read_clip_rates,
    read_shards,
    shard_bound,
    shards_metadata,
    widen_halves,
)
from signloom.errors import UserError, name_some
from signloom.features.augment import (
    AugmentOptions,
    augment,
    augment_rows,
    augmented_frames,
    lose_hands,
    mirror,
)
from signloom.features.features import (
    FeatureOptions,
    FloatArray,
    build_features,
    check_groups,
    compute_features,
    feature_width,
    hand_columns,
    prepare,
    prepared_frames,
    resample,
)
from signloom.features.glosses import NO_GLOSSES, UNKNOWN, GlossSequence, GlossVocabulary, IntArray
from signloom.features.leading import is_left_led
from signloom.features.rests import find_signing, take_frames
from signloom.features.targets import Target, read_glosses
from signloom.log import ONCE
from signloom.paths import REJECTS
from signloom.tables import read_columns, take_rows

SourceKind = Literal["landmarks", "features", "glosses"]  # `model.source` in params.yaml
# What a clip has for a model to translate.
SourceSequence = LandmarkSequence | GlossSequence
# What a model reads of one clip: features (S, F), or ids of source tokens (S,).
Rows = FloatArray | IntArray
# First frame that is read, the one after the last, and whether it is read as a mirror shows it.
Part = tuple[int, int, bool]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Clips:
    """The clips of a split, of which only the targets need to be in memory."""

    targets: Sequence[Target]  # one a clip
    frames: Sequence[int]  # frames of each clip, as stored; of glosses, source tokens
    fps: Sequence[float]  # frames a second of each clip; 1 for glosses, which have none
    source: "Source"  # what a model reads of them
    read: Callable[[Sequence[int]], Sequence[SourceSequence]]
    """From clip numbers to their landmarks or glosses, in that order."""

    def __len__(self) -> int:
        return len(self.targets)


class Source(ABC):
    """What the clips of a corpus have for a model to translate.

    Attributes:
        kind: Its name in params.yaml.
        name: What messages call it.
        where_missing: Where a person sees which clips lack it.
        has_frames: Whether it lies in time, so that features, augmentation, subsampling, CTC and
            times of tokens mean something.
    """

    kind: ClassVar[SourceKind]
    name: ClassVar[str]
    where_missing: ClassVar[str]
    has_frames: ClassVar[bool]

    @property
    def is_shared(self) -> bool:
        """Whether its ids are those of the targets."""
        return False

    @property
    def row_names(self) -> tuple[str, ...]:
        """A name for each row of the source embedding; none where there is no such table."""
        return ()

    def landmarks(
        self, owner: str | Path = "this model", *, as_points: bool = False
    ) -> "LandmarkSource":
        """Return the source of a model that reads landmarks.

        Args:
            owner: What the model is called in the message.
            as_points: Refuse features of another network, too.

        Raises:
            UserError: If the model reads something else.
        """
        raise UserError(
            f"{owner} was trained on {self.name} (model.source: {self.kind}), not on landmarks"
        )

    def glosses(self, owner: str | Path = "this model") -> GlossVocabulary:
        """Return the vocabulary of a model that reads glosses; as `landmarks` else."""
        raise UserError(
            f"{owner} was trained on {self.name}, not on glosses (model.source: glosses)"
        )

    @abstractmethod
    def reader(self, features: FeatureOptions) -> "Reader":
        """Return what turns clips into the rows that a model reads.

        Raises:
            UserError: If the landmarks lack a group which the options ask for.
        """

    @abstractmethod
    def read(self, targets: Sequence[Target], shards: Path) -> dict[str, SourceSequence]:
        """Return clip id to landmarks or glosses, of all clips that have them.

        Args:
            targets: Of all clips; with the glosses.

        Raises:
            UserError: If landmarks are missing, damaged or of another make than these.
        """

    @abstractmethod
    def open_clips(
        self, targets: Sequence[Target], shards: Path, *, cache_mb: int
    ) -> tuple[Clips, Clips]:
        """Open the train and dev clips for training; arguments as for `read`.

        Args:
            targets: Of all clips.
            cache_mb: Most memory for landmarks; clips beyond it stream from the shards.

        Raises:
            UserError: If a split has none.
        """

    @abstractmethod
    def differences(self, second: "Source") -> Iterator[str]:
        """Yield how another source of the same kind differs from this one, for a warm start."""

    @abstractmethod
    def to_fields(self) -> dict[str, Any]:
        """Return what a checkpoint keeps of it; `source_of_fields` reads it."""


class Reader(ABC):
    """Turns the clips of a source into the rows that a model reads, under some feature options."""

    @property
    @abstractmethod
    def width(self) -> int:
        """The features of a frame, F, or the rows of the source embedding."""

    @property
    def hand_columns(self) -> tuple[int, ...]:
        """Which features are of hands; none where that is not known."""
        return ()

    @abstractmethod
    def rows(self, sequence: SourceSequence) -> Rows:
        """Return what the model reads of a clip, nothing augmented.

        Raises:
            UserError: If the clip is of another kind or layout.
        """

    def find_part(self, sequence: SourceSequence) -> Part:
        """Return which part of a clip is read; of no effect where rows are no moments."""
        return (0, 0, False)

    def trim(self, sequence: SourceSequence, part: Part | None = None) -> SourceSequence:
        """Return the part of a clip that is read; looked for unless `find_part` has found it."""
        return sequence

    def start_s(self, sequence: SourceSequence) -> float:
        """Return the time in the clip of the first row, seconds."""
        return 0.0

    def labels(self, sequence: SourceSequence) -> tuple[str, ...]:
        """Return a name for each row; none where rows are moments."""
        return ()

    @abstractmethod
    def blind(self, rows: Rows) -> Rows:
        """Return rows of the same length without information: a control of evaluation."""

    @abstractmethod
    def lengths(self, clips: Clips) -> list[int]:
        """Return how long each clip is, as batches count it."""

    def augmented_rows(
        self, sequence: SourceSequence, options: AugmentOptions, chance: Generator, duration: float
    ) -> Rows:
        """Return what the model reads of what `trim` has left, changed as by `augment`."""
        return self.rows(sequence)

    def augmented_lengths(
        self, lengths: list[int], options: AugmentOptions, durations: Sequence[float]
    ) -> list[int]:
        """Return the lengths of the clips after random changes, at most."""
        return lengths


@dataclass(frozen=True, kw_only=True)
class LandmarkSource(Source):
    """Landmarks, turned into feature matrices."""

    layout: Layout  # of the landmarks
    extractor: dict[str, Any]  # what found them: detector options, versions, hashes of models

    kind: ClassVar[SourceKind] = "landmarks"
    name: ClassVar[str] = "landmarks"
    where_missing: ClassVar[str] = str(REJECTS)
    has_frames: ClassVar[bool] = True

    def landmarks(
        self, owner: str | Path = "this model", *, as_points: bool = False
    ) -> "LandmarkSource":
        """Return itself, unless it is features and points are asked for."""
        return super().landmarks(owner) if as_points and self.kind != "landmarks" else self

    def reader(self, features: FeatureOptions) -> Reader:
        """Return what computes features; groups that the layout lacks are refused."""
        check_groups(features, self.layout)
        return _LandmarkReader(self.layout, features)

    def check_extractor(self, extractor: Mapping[str, Any]) -> None:
        """Refuse landmarks that were found in another way than these.

        Args:
            extractor: What made them, from the metadata of their shards.

        Raises:
            UserError: If anything differs; all of it in one message.
        """
        hint = "run `dvc repro`, which extracts and trains again"
        check_same_extractor(extractor, self.extractor, hint=hint)

    def read(self, targets: Sequence[Target], shards: Path) -> dict[str, SourceSequence]:
        """Read the clips that are in the shards."""
        self.check_extractor(json.loads(shards_metadata(shards).extractor))
        frames = read_clip_frames(shards)
        return {**read_shards(shards, [t.clip_id for t in targets if t.clip_id in frames])}

    def open_clips(
        self, targets: Sequence[Target], shards: Path, *, cache_mb: int
    ) -> tuple[Clips, Clips]:
        """Take the clips that have landmarks; the others are logged."""
        landmarks = StoredLandmarks(shards, self, cache_mb=cache_mb)
        train, dev = (_with_landmarks(targets, landmarks, split) for split in ("train", "dev"))
        pairs = chain(*(read_columns(split, "clip_id") for split in (train, dev)))
        clip_ids = [clip_id for (clip_id,) in pairs]
        with_landmarks = landmarks.keep(clip_ids)
        if with_landmarks < len(clip_ids):
            logger.info(
                "%d of %d clips fit into train.cache_mb: %d; the others stream from %s",
                with_landmarks,
                len(clip_ids),
                cache_mb,
                shards,
            )
        return landmarks.clips(train), landmarks.clips(dev)

    def differences(self, second: Source) -> Iterator[str]:
        """Compare layout and extractor."""
        if not isinstance(second, LandmarkSource):
            return
        if self.layout != second.layout:
            first, now = (
                f"{layout.name} version {layout.version} ({', '.join(layout.group_names)})"
                for layout in (self.layout, second.layout)
            )
            yield f"landmarks: trained on {first}, now {now}"
        for name in sorted({*self.extractor, *second.extractor}):
            was, is_now = self.extractor.get(name), second.extractor.get(name)
            if was != is_now:
                yield f"what found the landmarks, {name}: trained with {was!r}, now {is_now!r}"

    def to_fields(self) -> dict[str, Any]:
        """Return layout and extractor."""
        return _fields(self.layout, self.extractor, NO_GLOSSES)


@dataclass(frozen=True, slots=True)
class _LandmarkReader(Reader):
    """Computes features, shape (S, F)."""

    layout: Layout
    features: FeatureOptions

    @property
    def width(self) -> int:
        return feature_width(self.features, self.layout)

    @property
    def hand_columns(self) -> tuple[int, ...]:
        return hand_columns(self.features, self.layout)

    def rows(self, sequence: SourceSequence) -> FloatArray:
        return compute_features(self.trim(sequence), self.features)

    def find_part(self, sequence: SourceSequence) -> Part:
        """Return where the signing is, and whether it is turned so that the right hand leads."""
        clip = _check_layout(sequence, self.layout)
        start, stop = find_signing(clip, self.features.rest_s)
        is_turned = self.features.right_handed and is_left_led(take_frames(clip, start, stop))
        return start, stop, is_turned

    def trim(self, sequence: SourceSequence, part: Part | None = None) -> LandmarkSequence:
        """Return a clip without the rests at its ends, its leading hand being the right one."""
        clip = _check_layout(sequence, self.layout)
        start, stop, is_turned = self.find_part(clip) if part is None else part
        signing = take_frames(clip, start, stop)
        return mirror(signing) if is_turned else signing

    def start_s(self, sequence: SourceSequence) -> float:
        clip = _check_layout(sequence, self.layout)
        return find_signing(clip, self.features.rest_s)[0] / clip.fps

    def blind(self, rows: Rows) -> Rows:
        return np.zeros_like(rows)

    def lengths(self, clips: Clips) -> list[int]:
        """Return the frames of each clip at the rate of the features; rests may be cut of them."""
        length_of = cache(partial(prepared_frames, options=self.features))
        return [length_of(*pair) for pair in zip(clips.frames, clips.fps, strict=True)]

    def augmented_rows(
        self, sequence: SourceSequence, options: AugmentOptions, chance: Generator, duration: float
    ) -> FloatArray:
        """Return features of augmented landmarks."""
        read = _check_layout(sequence, self.layout)
        (losing,) = chance.spawn(1)
        prepared = prepare(lose_hands(read, options, losing), self.features)
        return build_features(augment(prepared, options, chance, duration), self.features)

    def augmented_lengths(
        self, lengths: list[int], options: AugmentOptions, durations: Sequence[float]
    ) -> list[int]:
        """Return the frames of each clip after resting and stretching."""
        rests = 2 * round(options.rest_s * self.features.fps)
        pairs = zip(lengths, durations, strict=True)
        return [augmented_frames(frames + rests, options, drawn) for frames, drawn in pairs]


def _check_layout(sequence: SourceSequence, layout: Layout) -> LandmarkSequence:
    if not isinstance(sequence, LandmarkSequence):
        raise UserError(
            "this checkpoint was trained on landmarks, not on glosses (model.source: glosses)"
        )
    if sequence.layout != layout:
        raise UserError(
            f"these landmarks have layout {sequence.layout.name} version "
            f"{sequence.layout.version}, the checkpoint was trained on {layout.name} "
            f"version {layout.version}; extract them again"
        )
    return sequence


@dataclass(frozen=True, kw_only=True)
class FeatureSource(LandmarkSource):
    """Features that another network found, as they were imported: of the options, fps alone counts.

    They are stored as the points of one group, three to a point.
    """

    kind: ClassVar[SourceKind] = "features"
    name: ClassVar[str] = "features"

    def reader(self, features: FeatureOptions) -> Reader:
        """Return what resamples features; which frames and columns mean what is not known."""
        return _FeatureReader(self.layout, features)


@dataclass(frozen=True, slots=True)
class _FeatureReader(_LandmarkReader):
    """Resamples features that were imported, shape (S, F)."""

    hand_columns = ()

    @property
    def width(self) -> int:
        """A multiple of three."""
        return COORDINATES * self.layout.points

    find_part = Reader.find_part

    def trim(self, sequence: SourceSequence, part: Part | None = None) -> LandmarkSequence:
        return _check_layout(sequence, self.layout)

    def start_s(self, sequence: SourceSequence) -> float:
        return 0.0

    def rows(self, sequence: SourceSequence) -> FloatArray:
        points = resample(self.trim(sequence), self.features.fps).points
        return points.reshape(len(points), -1)

    def augmented_rows(
        self, sequence: SourceSequence, options: AugmentOptions, chance: Generator, duration: float
    ) -> FloatArray:
        """Return the features, stretched, scaled and shifted by column, a span of them left out."""
        return augment_rows(self.rows(sequence), options, chance, duration)

    def augmented_lengths(
        self, lengths: list[int], options: AugmentOptions, durations: Sequence[float]
    ) -> list[int]:
        """Return the frames of each clip after stretching."""
        pairs = zip(lengths, durations, strict=True)
        return [augmented_frames(frames, options, drawn) for frames, drawn in pairs]


@dataclass(frozen=True, kw_only=True)
class GlossSource(Source):
    """Glosses, as ids of a vocabulary."""

    vocabulary: GlossVocabulary

    kind: ClassVar[SourceKind] = "glosses"
    name: ClassVar[str] = "glosses"
    where_missing: ClassVar[str] = "the column gloss of the manifest"
    has_frames: ClassVar[bool] = False

    @property
    def is_shared(self) -> bool:
        """Whether its ids are those of the targets."""
        return self.vocabulary.kind == "shared"

    @property
    def row_names(self) -> tuple[str, ...]:
        """The names of the vocabulary's rows."""
        return self.vocabulary.row_names

    def glosses(self, owner: str | Path = "this model") -> GlossVocabulary:
        """Return the vocabulary."""
        return self.vocabulary

    def reader(self, features: FeatureOptions) -> Reader:
        """Return what gives the ids: glosses have no features."""
        return _GlossReader(self.vocabulary)

    def read(self, targets: Sequence[Target], shards: Path) -> dict[str, SourceSequence]:
        """Encode the glosses of every clip that has some."""
        return {t.clip_id: self.vocabulary.encode(t.gloss) for t in targets if t.gloss}

    def clips(self, targets: Sequence[Target]) -> Clips:
        """Return the clips of these targets."""
        sequences = [self.vocabulary.encode(target.gloss) for target in targets]
        return Clips(
            targets=targets,
            frames=[len(sequence.ids) for sequence in sequences],
            fps=[1.0] * len(sequences),
            source=self,
            read=lambda numbers: [sequences[number] for number in numbers],
        )

    def open_clips(
        self, targets: Sequence[Target], shards: Path, *, cache_mb: int
    ) -> tuple[Clips, Clips]:
        """Take all clips, with or without landmarks; glosses that train lacks are logged."""
        train, dev = (
            self.clips([target for target in targets if target.split == split])
            for split in ("train", "dev")
        )
        unknown = {name for t in dev.targets for name in self.vocabulary.encode(t.gloss).unknown}
        if unknown:
            some = name_some(sorted(unknown))
            logger.info("%d glosses of dev never occur in train: %s", len(unknown), some)
        return train, dev

    def differences(self, second: Source) -> Iterator[str]:
        """Compare the kind of vocabulary; its rows may differ."""
        if isinstance(second, GlossSource) and self.vocabulary.kind != second.vocabulary.kind:
            was, is_now = self.vocabulary.kind, second.vocabulary.kind
            yield f"source tokens: trained with {was}, now {is_now}"

    def to_fields(self) -> dict[str, Any]:
        """Return the vocabulary."""
        return _fields(NO_LANDMARKS, {}, self.vocabulary)


@dataclass(frozen=True, slots=True)
class _GlossReader(Reader):
    """Gives the ids of glosses, shape (S,); in training nothing is changed at random."""

    vocabulary: GlossVocabulary

    @property
    def width(self) -> int:
        return self.vocabulary.size

    def rows(self, sequence: SourceSequence) -> IntArray:
        if not isinstance(sequence, GlossSequence):
            raise UserError(
                "this checkpoint was trained on glosses (model.source: glosses), not on landmarks; "
                "`signloom translate --glosses` gives it some"
            )
        return sequence.ids

    def labels(self, sequence: SourceSequence) -> tuple[str, ...]:
        return self.vocabulary.labels(sequence) if isinstance(sequence, GlossSequence) else ()

    def blind(self, rows: Rows) -> Rows:
        """Return the id of an unknown gloss instead of each."""
        return np.full_like(rows, UNKNOWN)

    def lengths(self, clips: Clips) -> list[int]:
        """Return the tokens of glosses and sentence together, which take about as long."""
        pairs = zip(clips.frames, clips.targets, strict=True)
        return [tokens + len(target.ids) for tokens, target in pairs]


def _fields(layout: Layout, extractor: dict[str, Any], glosses: GlossVocabulary) -> dict[str, Any]:
    return {
        "layout": json.loads(layout.to_json()),
        "extractor": extractor,
        "glosses": glosses.to_fields(),
    }


def source_of_fields(kind: SourceKind, fields: Mapping[str, Any], *, where: str) -> Source:
    """Return the source that `Source.to_fields` described.

    Args:
        kind: Which one.
        fields: With keys layout, extractor and glosses, perhaps among others.
        where: Of the file, for messages.

    Raises:
        UserError: If a field is of another type.
        KeyError: If a field is missing.
    """
    if kind == "glosses":
        glosses = parse_options(fields["glosses"], GlossVocabulary, where=f"{where}: glosses")
        return GlossSource(vocabulary=glosses)
    layout = Layout.from_fields(fields["layout"], where=f"{where}: layout")
    extractor = parse_options(fields["extractor"], dict[str, Any], where=f"{where}: extractor")
    kind_of = FeatureSource if kind == "features" else LandmarkSource
    return kind_of(layout=layout, extractor=extractor)


def open_source(kind: SourceKind, *, shards: Path, targets: Path) -> Source:
    """Return the source of a corpus that models are to be trained on.

    Args:
        kind: What the model reads, `model.source`.
        targets: Text side of the clips.

    Raises:
        UserError: If a file is missing or of another format, or the corpus has no such source.
    """
    if kind == "glosses":
        vocabulary = read_glosses(targets)
        if vocabulary.kind == "none":
            raise UserError(
                "model.source is glosses, but tokenize_targets.source is none, so there are no "
                "glosses to read; set it to glosses, subwords or shared and run `dvc repro "
                "tokenize_targets`"
            )
        return GlossSource(vocabulary=vocabulary)
    metadata = shards_metadata(shards)
    if metadata.layout == NO_LANDMARKS:
        raise UserError(
            "model.source is landmarks, but the manifest has no column video: this corpus is one "
            "of glosses and sentences. Set model.source: glosses and tokenize_targets.source: "
            "subwords in params.yaml"
        )
    available = FEATURES if metadata.layout.name.startswith(FEATURES) else "landmarks"
    if available != kind:
        raise UserError(
            f"model.source is {kind}, but the corpus has {available}; set model.source: {available}"
        )
    kind_of = FeatureSource if kind == "features" else LandmarkSource
    return kind_of(layout=metadata.layout, extractor=json.loads(metadata.extractor))


class StoredLandmarks:
    """The landmarks of a folder of shards, some of them in memory.

    The others stream: of their shards only the row groups that hold them are read. Both give the
    same numbers.
    """

    def __init__(self, shards: Path, source: LandmarkSource, *, cache_mb: int) -> None:
        """Look into the shards; no landmarks are read yet.

        Args:
            source: What a model reads of them.
            cache_mb: Most memory that landmarks may take between two batches, in 10^6 bytes.

        Raises:
            UserError: If the folder or a file is missing, damaged or of another version.
        """
        self._shards, self._source, self._room = shards, source, cache_mb * 1_000_000
        # Half floats like those of the shards, (S, P, 3), and what makes a clip of its points.
        self._kept: dict[str, tuple[npt.NDArray[np.float16], partial[LandmarkSequence]]] = {}
        self.frames = read_clip_frames(shards)
        self.fps = read_clip_rates(shards)

    def clips(self, targets: Sequence[Target]) -> Clips:
        """Return the clips of these targets, all of which must have landmarks."""
        ids = [clip_id for (clip_id,) in read_columns(targets, "clip_id")]
        return Clips(
            targets=targets,
            frames=[self.frames[clip_id] for clip_id in ids],
            fps=[self.fps[clip_id] for clip_id in ids],
            source=self._source,
            read=lambda numbers: self.read([ids[number] for number in numbers]),
        )

    def keep(self, clip_ids: Sequence[str]) -> int:
        """Read clips into memory, a shard at a time, as far as there is room.

        Returns:
            How many fitted; the others stream.
        """
        before = len(self._kept)
        chosen = set(self._fitting(clip_ids))
        bounds = sorted(shard_bound(path.name) for path in self._shards.glob("*.parquet"))
        for ids in find_shards(chosen, bounds).values():
            for clip_id, sequence in read_shards(self._shards, ids).items():
                self._kept[clip_id] = (
                    sequence.points.astype(np.float16),
                    partial(
                        LandmarkSequence,
                        present=sequence.present,
                        fps=sequence.fps,
                        width=sequence.width,
                        height=sequence.height,
                        layout=sequence.layout,
                    ),
                )
        return len(self._kept) - before

    def read(self, clip_ids: Sequence[str]) -> list[LandmarkSequence]:
        """Return the landmarks of clips, in that order."""
        away = {clip_id for clip_id in clip_ids if clip_id not in self._kept}
        streamed = read_shards(self._shards, away) if away else {}
        return [
            streamed[clip_id] if clip_id in away else self._widen(clip_id) for clip_id in clip_ids
        ]

    def _widen(self, clip_id: str) -> LandmarkSequence:
        halves, build = self._kept[clip_id]
        return build(points=widen_halves(halves))

    def _fitting(self, clip_ids: Sequence[str]) -> list[str]:
        """Take clips in the given order while there is room, and take that room."""
        layout = self._source.layout
        width = 2 * 3 * layout.points + len(layout.groups)  # bytes a frame
        fitting = []
        for clip_id in clip_ids:
            size = width * self.frames[clip_id]
            if size <= self._room:
                self._room -= size
                fitting.append(clip_id)
        return fitting


def _with_landmarks(
    targets: Sequence[Target], landmarks: StoredLandmarks, split: str
) -> Sequence[Target]:
    """Return the targets of a split that have landmarks; say which have none."""
    pairs = enumerate(read_columns(targets, "clip_id", "split"))
    chosen = [(number, clip_id) for number, (clip_id, name) in pairs if name == split]
    missing = [clip_id for _, clip_id in chosen if clip_id not in landmarks.frames]
    if missing:
        logger.warning(
            "%d of %d %s clips have no landmarks and are left out (%s says why): %s",
            len(missing),
            len(chosen),
            split,
            REJECTS,
            name_some(missing),
            extra=ONCE,
        )
    if len(missing) == len(chosen):
        raise UserError(
            f"no clip of split {split} has landmarks; the manifest needs train and dev clips, and "
            f"{REJECTS} says which were rejected"
        )
    return take_rows(targets, [number for number, clip_id in chosen if clip_id in landmarks.frames])
