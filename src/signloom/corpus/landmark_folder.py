"""The landmarks of a corpus come in, from the cache or imported; `data/landmarks/` goes out."""

import itertools
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from signloom.corpus.landmarks import NO_LANDMARKS, LandmarkSequence, Layout
from signloom.corpus.manifest import Clip
from signloom.corpus.quality import ClipQuality, measure_quality, write_quality
from signloom.corpus.rejects import Ledger, write_rejects
from signloom.corpus.shard_ranges import assign_shards
from signloom.corpus.shards import read_clip_frames, read_shards, shards_metadata, write_shards

SHARDS, QUALITY, REJECTS = "shards", "quality.parquet", "rejects.tsv"

_AHEAD = 64  # imported clips that are read at once

logger = logging.getLogger(__name__)


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
            mend = "import them with `signloom import`, or remove the row from the manifest"
            ledger.reject([clip], f"{shards} has no landmarks of it", mend)
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
