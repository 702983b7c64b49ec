"""Withdrawal of clips and deliveries from a corpus."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from signloom.corpus.manifest import Clip, CorpusOptions, check_splits, read_manifest
from signloom.errors import UserError
from signloom.extraction.cache import VideoHashes, cache_folder
from signloom.intake.inbox import check_growable
from signloom.intake.ingest import manifest_move
from signloom.intake.ledgers import (
    DELIVERIES,
    OUT,
    WITHDRAWN,
    Delivery,
    Withdrawn,
    changed_ledgers,
    ledger_text,
    read_deliveries,
    read_withdrawn,
)
from signloom.intake.staging import Watch, Workshop, open_workshop
from signloom.paths import WITHDRAWN_VIDEOS


def withdraw(
    corpus: CorpusOptions,
    batch: str,
    reason: str,
    *,
    to: Path = WITHDRAWN_VIDEOS,
    watch: Watch | None = None,
) -> list[Clip]:
    """Take a delivery out of a corpus again.

    Args:
        corpus: With a manifest.
        batch: Of the clips.
        reason: For the tables, and for whoever brings the videos again.
        to: The videos go to a folder of the batch's name in it.
        watch: Hears of each step that lies on the disk for good.

    Returns:
        The clips, as they were; none if the batch was withdrawn before.

    Raises:
        UserError: If there is no such batch, or nothing to learn from would be left.
    """
    with open_workshop(corpus, watch) as shop:
        shop.finish()
        clips = read_manifest(corpus.path, corpus.signer_disjoint)
        gone = [clip for clip in clips if clip.batch == batch]
        deliveries = {delivery.batch: delivery for delivery in read_deliveries(corpus)}
        if not gone and (batch not in deliveries or deliveries[batch].state != OUT):
            known = ", ".join(name for name, one in deliveries.items() if one.state != OUT)
            raise UserError(f"{corpus.path}: no clip is of the batch {batch!r}; there are "
                            f"{known or 'none'}")  # fmt: skip
        _remove(shop, clips, gone, reason, to=to / batch, batch=batch)
        return gone


def remove_clips(
    corpus: CorpusOptions,
    clip_ids: Collection[str],
    reason: str,
    *,
    to: Path | None,
    watch: Watch | None = None,
) -> list[Clip]:
    """Take clips out of a corpus, whatever brought them.

    Args:
        corpus: With a manifest.
        clip_ids: Of the clips; unknown ones do not matter.
        reason: For the table of what must not come in again.
        to: Folder that the videos go to; None: they are deleted.
        watch: Hears of each step that lies on the disk for good.

    Returns:
        The clips, as they were.

    Raises:
        UserError: If nothing to learn from would be left.
    """
    with open_workshop(corpus, watch) as shop:
        shop.finish()
        clips = read_manifest(corpus.path, corpus.signer_disjoint)
        gone = [clip for clip in clips if clip.clip_id in clip_ids]
        _remove(shop, clips, gone, reason, to=to, batch="")
        return gone


def _remove(
    shop: Workshop,
    clips: list[Clip],
    gone: list[Clip],
    reason: str,
    *,
    to: Path | None,
    batch: str,
) -> None:
    """Write the manifest without some clips, then move the videos that nobody needs any more."""
    if not gone:
        return
    corpus = shop.corpus
    check_growable(corpus)
    names = {clip.clip_id for clip in gone}
    left = [clip for clip in clips if clip.clip_id not in names]
    check_splits(corpus.path, left)
    kept = {clip.video for clip in left}
    videos = dict.fromkeys(clip.video for clip in gone if clip.video and clip.video not in kept)
    hashes = VideoHashes(cache_folder()).hash_videos(videos)
    refused = read_withdrawn(corpus)
    for video, found in hashes.items():
        name = video.relative_to(corpus.folder).as_posix()
        refused[found.sha256] = Withdrawn(found.sha256, name, batch, reason)
    deliveries = [
        replace(one, state=OUT, reason=reason) if one.batch == batch else one
        for one in read_deliveries(corpus)
    ]
    texts = {
        DELIVERIES: ledger_text(deliveries, Delivery),
        WITHDRAWN: ledger_text(list(refused.values()), Withdrawn),
    }
    moves = [manifest_move(shop, left)]
    moves += [shop.stage_text(name, text) for name, text in changed_ledgers(corpus, texts).items()]
    away = to or shop.staged / "deleted"
    moves += [(video, away / video.relative_to(corpus.folder)) for video in videos]
    shop.carry_out(moves, "")
