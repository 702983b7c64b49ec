"""Targets and landmark shards come in, the clips of a split go out, in as much memory as allowed.

What fits is kept as half floats, as the shards have it; the clips beyond stream from their shards,
of which only the row groups that hold them are read. Both give the same numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from signloom.corpus.clips import Clips
from signloom.corpus.half_floats import widen_halves
from signloom.corpus.landmarks import LandmarkSequence, Layout
from signloom.corpus.shard_ranges import find_shards, shard_bound
from signloom.corpus.shards import (
    read_clip_frames,
    read_clip_rates,
    read_shards,
    shards_metadata,
)
from signloom.corpus.targets import Target


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
