"""The clips of a split: targets at hand, sources read when a batch asks for them.

What fits is kept as half floats, as the shards have it; the clips beyond stream from their shards,
of which only the row groups that hold them are read. Both give the same numbers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import numpy as np
import numpy.typing as npt

from signloom.corpus.landmarks import NO_LANDMARKS, LandmarkSequence, Layout
from signloom.corpus.shards import (
    find_shards,
    read_clip_frames,
    read_clip_rates,
    read_shards,
    shard_bound,
    shards_metadata,
    widen_halves,
)
from signloom.features.glosses import GlossSequence, GlossVocabulary
from signloom.features.targets import Target

# What a model may translate.
SourceSequence = LandmarkSequence | GlossSequence


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """One clip ready for training."""

    target: Target
    sequence: SourceSequence


@dataclass(frozen=True, slots=True, eq=False)
class Clips(Sequence[Example]):
    """Examples by number, of which only the targets need to be in memory.

    Attributes:
        targets: One a clip.
        frames: Frames of each clip, as stored; of glosses, source tokens.
        fps: Frames a second of each clip; glosses have none, and 1 stands in.
        layout: Of all landmarks; `NO_LANDMARKS` for clips of glosses.
        read: From clip numbers to their landmarks or glosses, in that order.
    """

    targets: Sequence[Target]
    frames: Sequence[int]
    fps: Sequence[float]
    layout: Layout
    read: Callable[[Sequence[int]], Sequence[SourceSequence]]

    @property
    def are_glosses(self) -> bool:
        """Whether the sources are glosses, not landmarks."""
        return self.layout == NO_LANDMARKS

    def __len__(self) -> int:
        return len(self.targets)

    @overload
    def __getitem__(self, index: int) -> Example: ...

    @overload
    def __getitem__(self, index: slice) -> list[Example]: ...

    def __getitem__(self, index: int | slice) -> Example | list[Example]:
        """Read a clip, or several."""
        numbers = range(len(self))[index]
        if isinstance(numbers, int):
            return Example(self.targets[numbers], self.read([numbers])[0])
        sequences = self.read(numbers)
        return [Example(self.targets[n], s) for n, s in zip(numbers, sequences, strict=True)]


def read_gloss_clips(targets: Sequence[Target], vocabulary: GlossVocabulary) -> Clips:
    """Return the clips of these targets, whose sources are their glosses."""
    sequences = [vocabulary.encode(target.gloss) for target in targets]
    return Clips(
        targets=targets,
        frames=[len(sequence.ids) for sequence in sequences],
        fps=[1.0] * len(sequences),
        layout=NO_LANDMARKS,
        read=lambda numbers: [sequences[number] for number in numbers],
    )


def hold_clips(examples: Sequence[Example]) -> Clips:
    """Return examples of landmarks that are in memory anyway as clips.

    Raises:
        ValueError: If there is none, or one is of glosses.
    """
    sequences = [e.sequence for e in examples if isinstance(e.sequence, LandmarkSequence)]
    if not examples or len(sequences) < len(examples):
        raise ValueError(f"found {len(sequences)} examples of landmarks of {len(examples)}")
    return Clips(
        targets=[example.target for example in examples],
        frames=[len(sequence.points) for sequence in sequences],
        fps=[sequence.fps for sequence in sequences],
        layout=sequences[0].layout,
        read=lambda numbers: [sequences[number] for number in numbers],
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    """A clip in memory."""

    halves: npt.NDArray[np.float16]  # (S, P, 3)
    present: npt.NDArray[np.bool_]
    fps: float
    width: int
    height: int

    def widen(self, layout: Layout) -> LandmarkSequence:
        return LandmarkSequence(
            points=widen_halves(self.halves),
            present=self.present,
            fps=self.fps,
            width=self.width,
            height=self.height,
            layout=layout,
        )


class StoredLandmarks:
    """The landmarks of a folder of shards, some of them in memory."""

    def __init__(self, shards: Path, *, cache_mb: int) -> None:
        """Look into the shards; no landmarks are read yet.

        Args:
            shards: The folder.
            cache_mb: Most memory that landmarks may take between two batches, in 10^6 bytes.

        Raises:
            UserError: If the folder or a file is missing, damaged or of another version.
        """
        self._shards, self._room = shards, cache_mb * 1_000_000
        self._kept: dict[str, _Kept] = {}
        self.layout = shards_metadata(shards).layout
        self.frames = read_clip_frames(shards)
        self.fps = read_clip_rates(shards)

    def clips(self, targets: Sequence[Target]) -> Clips:
        """Return the clips of these targets, all of which must have landmarks."""
        ids = [target.clip_id for target in targets]
        return Clips(
            targets=targets,
            frames=[self.frames[clip_id] for clip_id in ids],
            fps=[self.fps[clip_id] for clip_id in ids],
            layout=self.layout,
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
                self._kept[clip_id] = _Kept(
                    halves=sequence.points.astype(np.float16),
                    present=sequence.present,
                    fps=sequence.fps,
                    width=sequence.width,
                    height=sequence.height,
                )
        return len(self._kept) - before

    def read(self, clip_ids: Sequence[str]) -> list[LandmarkSequence]:
        """Return the landmarks of clips, in that order."""
        away = {clip_id for clip_id in clip_ids if clip_id not in self._kept}
        streamed = read_shards(self._shards, away) if away else {}
        return [
            streamed[clip_id] if clip_id in away else self._kept[clip_id].widen(self.layout)
            for clip_id in clip_ids
        ]

    def _fitting(self, clip_ids: Sequence[str]) -> list[str]:
        """Take clips in the given order while there is room, and take that room."""
        width = 2 * 3 * self.layout.points + len(self.layout.groups)  # bytes a frame
        fitting = []
        for clip_id in clip_ids:
            size = width * self.frames[clip_id]
            if size <= self._room:
                self._room -= size
                fitting.append(clip_id)
        return fitting
