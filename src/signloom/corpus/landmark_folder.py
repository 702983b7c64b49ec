"""The folder data/landmarks/: shards, quality table and reject report of a corpus."""

import itertools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from signloom.corpus.landmarks import NO_LANDMARKS, LandmarkSequence, Layout
from signloom.corpus.manifest import Clip
from signloom.corpus.quality import ClipQuality, measure_quality, write_quality
from signloom.corpus.shards import (
    assign_shards,
    read_clip_frames,
    read_shards,
    shards_metadata,
    write_shards,
)
from signloom.errors import Problem, UserError
from signloom.files import write_file

SHARDS, QUALITY, REJECTS = "shards", "quality.parquet", "rejects.tsv"

_AHEAD = 64  # imported clips that are read at once

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reject:
    """A clip that cannot be read; one row of rejects.tsv."""

    clip_id: str
    video: str  # path as in the manifest, seen from the project; empty if there is none
    problem: Problem


class Ledger:
    """What became of each clip of a corpus.

    Args:
        clips: How many there are.
        max_rejected_share: Fail if more than this share of them is rejected, 0 to 1, or all.
        report: Where to write the rejects.

    Attributes:
        frames: Of the clips that have landmarks, by clip id.
        rejects: The others, by clip id.
        cached: How many of those with landmarks were in the cache already.
    """

    def __init__(self, clips: int, max_rejected_share: float, report: Path) -> None:
        self._clips = clips
        self._max_share = max_rejected_share
        self._report = report
        self.frames: dict[str, int] = {}
        self.rejects: dict[str, Reject] = {}
        self.cached = 0

    def keep(self, clips: Sequence[Clip], frames: int, *, cached: bool) -> None:
        """Note that clips have landmarks, in the cache already or found just now."""
        self.frames.update((clip.clip_id, frames) for clip in clips)
        self.cached += len(clips) if cached else 0

    def reject(self, clips: Sequence[Clip], problem: Problem) -> None:
        """Note that clips cannot be read.

        Raises:
            UserError: If there are too many of them; the report is written then.
        """
        for clip in clips:
            video = clip.video.as_posix() if clip.video else ""
            self.rejects[clip.clip_id] = Reject(clip.clip_id, video, problem)
        count = len(self.rejects)
        if count < self._clips and count <= self._max_share * self._clips:
            return
        write_rejects(self._report, self._sorted())
        first = self._sorted()[:5]
        lines = "\n".join(f"  {r.clip_id} ({r.video}): {r.problem}" for r in first)
        raise UserError(
            f"{count} of {self._clips} clips ({count / self._clips:.1%}) cannot be read, at most "
            f"{self._max_share:.1%} are accepted (extract.max_rejected_share). No landmarks were "
            f"written; {self._report} lists the clips, of which the first are\n{lines}"
        )

    def progress(self) -> str:
        """Return how far it is, in words for a progress bar."""
        done = len(self.frames) + len(self.rejects)
        return f"clips {done}/{self._clips}, {self.cached} cached, {len(self.rejects)} rejected"

    def summary(self) -> str:
        """Return what became of the clips as a small table."""
        rows = {
            "clips": f"{self._clips:,}",
            "kept": f"{len(self.frames):,}, {sum(self.frames.values()):,} frames",
            "rejected": f"{len(self.rejects):,}" + (f", see {self._report}" * bool(self.rejects)),
        }
        return "\n".join(f"  {name:<9} {value}" for name, value in rows.items())

    def write_report(self) -> None:
        """Write rejects.tsv; now each clip is in one of the two lists."""
        assert len(self.frames.keys() | self.rejects.keys()) == self._clips, "a clip got lost"
        assert not self.frames.keys() & self.rejects.keys(), "a clip is both kept and rejected"
        write_rejects(self._report, self._sorted())

    def _sorted(self) -> list[Reject]:
        return [self.rejects[clip_id] for clip_id in sorted(self.rejects)]


def write_rejects(path: Path, rejects: Sequence[Reject]) -> None:
    """Write a header, then a line a clip."""
    lines = ["clip_id\tvideo\treason\tmend"]
    lines += [f"{r.clip_id}\t{r.video}\t{r.problem.reason}\t{r.problem.hint}" for r in rejects]
    write_file(path, "\n".join(lines) + "\n")


def write_landmarks(
    folder: Path,
    ledger: Ledger,
    load: Callable[[str], LandmarkSequence],
    *,
    layout: Layout,
    extractor: str,
    frames_per_shard: int,
) -> None:
    """Write shards, quality table and reject report; some clips are in memory at a time.

    Args:
        folder: Made if need be.
        ledger: What became of each clip.
        load: Gives the landmarks of a clip that has some.
        layout: Of all landmarks.
        extractor: What made them, JSON.
        frames_per_shard: Most frames of a file.
    """
    quality: list[ClipQuality] = []

    def measured(clip_id: str) -> LandmarkSequence:
        sequence = load(clip_id)
        quality.append(measure_quality(clip_id, sequence))
        return sequence

    write_shards(
        folder / SHARDS,
        ledger.frames,
        measured,
        layout=layout,
        extractor=extractor,
        frames_per_shard=frames_per_shard,
    )
    write_quality(folder / QUALITY, sorted(quality, key=lambda row: row.clip_id))
    ledger.write_report()
    if handless := sum(row.any_hand == 0 for row in quality):
        logger.warning("%d clips show no hand at all; see %s", handless, folder / QUALITY)


def write_no_landmarks(folder: Path) -> None:
    """Write the folder of a text corpus: every file that later stages read, without a clip."""
    write_shards(
        folder / SHARDS, {}, _refuse, layout=NO_LANDMARKS, extractor="{}", frames_per_shard=1
    )
    write_quality(folder / QUALITY, [])
    write_rejects(folder / REJECTS, [])


def _refuse(clip_id: str) -> LandmarkSequence:
    raise AssertionError(f"clip {clip_id} has no landmarks")


def take_imported(
    clips: Sequence[Clip],
    shards: Path,
    folder: Path,
    *,
    frames_per_shard: int,
    max_rejected_share: float,
) -> None:
    """Write the landmarks of a corpus that came without videos; see `signloom import`.

    Args:
        clips: Those without landmarks are rejected.
        shards: What was imported.
        folder: Made if need be.
        frames_per_shard: Most frames of a file.
        max_rejected_share: Fail if more than this share of the clips is rejected, or all.

    Raises:
        UserError: If too many clips are rejected, or the imported landmarks are damaged.
    """
    made, there = shards_metadata(shards), read_clip_frames(shards)
    ledger = Ledger(len(clips), max_rejected_share, folder / REJECTS)
    for clip in clips:
        if clip.clip_id in there:
            ledger.keep([clip], there[clip.clip_id], cached=False)
        else:
            hint = "import them with `signloom import`, or remove the row from the manifest"
            ledger.reject([clip], Problem(f"{shards} has no landmarks of it", hint))
    # In the order in which they will be asked for.
    dealt = assign_shards(ledger.frames, frames_per_shard).values()
    order = itertools.chain.from_iterable(dealt)
    ahead: dict[str, LandmarkSequence] = {}

    def load(clip_id: str) -> LandmarkSequence:
        if clip_id not in ahead:
            ahead.update(read_shards(shards, list(itertools.islice(order, _AHEAD))))
        return ahead.pop(clip_id)

    write_landmarks(
        folder,
        ledger,
        load,
        layout=made.layout,
        extractor=made.extractor,
        frames_per_shard=frames_per_shard,
    )
    logger.info("%s", ledger.summary())
