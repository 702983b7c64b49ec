"""The folder data/landmarks/: shards, quality table and reject report of a corpus."""

import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from signloom.corpus.landmarks import NO_LANDMARKS, LandmarkSequence, Layout
from signloom.corpus.manifest import Clip
from signloom.corpus.quality import ClipQuality, measure_quality, write_quality
from signloom.corpus.rejects import (
    REJECTS_NAME,
    Reject,
    RejectLimit,
    reject_clip,
    sort_rejects,
    write_rejects,
)
from signloom.corpus.shards import (
    assign_shards,
    read_clip_frames,
    read_shards,
    shards_metadata,
    write_shards,
)
from signloom.errors import Problem, name_some

SHARDS_NAME, QUALITY_NAME = "shards", "quality.parquet"

_AHEAD = 64  # imported clips that are read together

logger = logging.getLogger(__name__)


def write_landmarks(
    folder: Path,
    frames: Mapping[str, int],
    rejects: Sequence[Reject],
    load: Callable[[str], LandmarkSequence],
    *,
    layout: Layout,
    extractor: str,
    frames_per_shard: int,
) -> None:
    """Write shards, quality table and reject report; some clips are in memory at a time.

    Args:
        folder: Made if need be.
        frames: How many each clip has, by clip id.
        rejects: The clips that have none, in any order.
        load: Gives the landmarks of a clip that has some.
        layout: Of all landmarks.
        extractor: What made them, JSON.
        frames_per_shard: Most frames of a file.
    """
    lost = [reject.clip_id for reject in rejects if reject.clip_id in frames]
    assert not lost, "a clip is both kept and rejected"
    quality: list[ClipQuality] = []
    crowded: list[str] = []

    def measured(clip_id: str) -> LandmarkSequence:
        sequence = load(clip_id)
        crowded.extend([clip_id] * sequence.is_crowded)
        quality.append(measure_quality(clip_id, sequence))
        return sequence

    write_shards(
        folder / SHARDS_NAME,
        frames,
        measured,
        layout=layout,
        extractor=extractor,
        frames_per_shard=frames_per_shard,
    )
    write_quality(folder / QUALITY_NAME, sorted(quality, key=lambda row: row.clip_id))
    write_rejects(folder / REJECTS_NAME, sort_rejects(rejects))
    if handless := sum(row.any_hand == 0 for row in quality):
        logger.warning("%d clips show no hand at all; see %s", handless, folder / QUALITY_NAME)
    if crowded:
        logger.warning(
            "%d clips show several people (%s): whose landmarks are found is not certain; give "
            "their rows a box (docs/data.md)",
            len(crowded),
            name_some(sorted(crowded)),
        )
    if short := sum(row.missing_frames > 0 for row in quality):
        logger.warning(
            "%d clips have fewer frames than their files promise (missing_frames in %s)",
            short,
            folder / QUALITY_NAME,
        )


def summarize_clips(frames: Mapping[str, int], rejects: Sequence[Reject], report: Path) -> str:
    """Return how many clips were kept and rejected as a small table."""
    rows = {
        "clips": f"{len(frames) + len(rejects):,}",
        "kept": f"{len(frames):,}, {sum(frames.values()):,} frames",
        "rejected": f"{len(rejects):,}" + (f", see {report}" * bool(rejects)),
    }
    return "\n".join(f"  {name:<9} {value}" for name, value in rows.items())


def write_no_landmarks(folder: Path) -> None:
    """Write the folder of a text corpus: every file that later stages read, without a clip."""
    write_shards(
        folder / SHARDS_NAME, {}, _refuse, layout=NO_LANDMARKS, extractor="{}", frames_per_shard=1
    )
    write_quality(folder / QUALITY_NAME, [])
    write_rejects(folder / REJECTS_NAME, [])


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
    metadata, there = shards_metadata(shards), read_clip_frames(shards)
    limit = RejectLimit(len(clips), max_rejected_share, folder / REJECTS_NAME)
    frames, rejects = {}, []
    for clip in clips:
        if clip.clip_id in there:
            frames[clip.clip_id] = there[clip.clip_id]
        else:
            hint = "import them with `signloom import`, or remove the row from the manifest"
            problem = Problem(f"{shards} has no landmarks of it", hint)
            rejects.append(reject_clip(clip, problem))
            limit.check(rejects)
    # In the order in which they will be asked for.
    dealt = assign_shards(frames, frames_per_shard).values()
    order = itertools.chain.from_iterable(dealt)
    ahead: dict[str, LandmarkSequence] = {}

    def load(clip_id: str) -> LandmarkSequence:
        if clip_id not in ahead:
            ahead.update(read_shards(shards, list(itertools.islice(order, _AHEAD))))
        return ahead.pop(clip_id)

    write_landmarks(
        folder,
        frames,
        rejects,
        load,
        layout=metadata.layout,
        extractor=metadata.extractor,
        frames_per_shard=frames_per_shard,
    )
    logger.info("%s", summarize_clips(frames, rejects, limit.report))
