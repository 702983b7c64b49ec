"""Withdrawal of clips and deliveries from a corpus."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

from signloom.corpus.manifest import (
    Clip,
    CorpusOptions,
    Manifest,
    check_splits,
    has_ended,
    load_manifest,
    read_table,
    write_table,
)
from signloom.errors import UserError
from signloom.extraction.cache import VideoHashes, cache_folder
from signloom.files import hash_file
from signloom.paths import WITHDRAWN_VIDEOS
from signloom_ops.intake.ledgers import (
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
from signloom_ops.intake.staging import change_corpus, check_growable, commit, stage_manifest
from signloom_ops.transaction import Transaction

TABLE = "table.tsv"  # beside withdrawn films: as a delivery has it
_COLUMNS = ("clip_id", "video", "text", "signer", "split", "start_s", "end_s", "gloss", "language")
ENDED = "the consent of their signers has ended"


def withdraw(
    corpus: CorpusOptions,
    batch: str,
    reason: str,
    *,
    known: Manifest | None = None,
    to: Path = WITHDRAWN_VIDEOS,
) -> tuple[list[Clip], Manifest]:
    """Take a delivery out of a corpus again.

    Args:
        corpus: A corpus with a manifest.
        batch: Batch of the clips.
        reason: Written into the tables, and shown to whoever brings the videos again.
        known: The manifest, if the caller has read it.
        to: The videos go to a folder of the batch's name in it.

    Returns:
        The clips, as they were; none if the batch was withdrawn before. The corpus without them.

    Raises:
        UserError: If there is no such batch, or nothing to learn from would be left.
    """
    with change_corpus(corpus) as (change, _):
        manifest = load_manifest(corpus, known)
        gone = [clip for clip in manifest.clips if clip.batch == batch]
        deliveries = {delivery.batch: delivery for delivery in read_deliveries(corpus)}
        if not gone and (batch not in deliveries or deliveries[batch].state != OUT):
            named = ", ".join(name for name, one in deliveries.items() if one.state != OUT)
            raise UserError(
                f"{corpus.path}: no clip is of the batch {batch!r}; there are {named or 'none'}"
            )
        if not gone:
            return [], manifest
        return gone, _remove(change, corpus, manifest, gone, reason, to=to / batch, batch=batch)


def withdraw_ended(
    corpus: CorpusOptions, *, known: Manifest | None = None, to: Path = WITHDRAWN_VIDEOS
) -> tuple[list[Clip], Manifest]:
    """Take the clips out of a corpus whose signers agreed until a day that is over.

    Args:
        corpus: A corpus with a manifest.
        known: The manifest, if the caller has read it.
        to: The videos go to a folder of today's name in it.

    Returns:
        The clips, as they were. The corpus without them.

    Raises:
        UserError: If nothing to learn from would be left.
    """
    manifest = load_manifest(corpus, known)
    if not list_ended(manifest.clips):
        return [], manifest
    with change_corpus(corpus) as (change, _):
        manifest = load_manifest(corpus, manifest)
        gone = list_ended(manifest.clips)
        folder = to / f"consent-ended-{date.today().isoformat()}"
        return gone, _remove(change, corpus, manifest, gone, ENDED, to=folder)


def _remove(
    change: Transaction,
    corpus: CorpusOptions,
    manifest: Manifest,
    gone: Sequence[Clip],
    reason: str,
    *,
    to: Path,
    batch: str = "",
) -> Manifest:
    """Take some clips out of a corpus that may change; return what is left."""
    check_growable(corpus)
    stage_removal(change, corpus, manifest.clips, gone, reason, to=to, batch=batch)
    commit(corpus, change)
    names = {clip.clip_id for clip in gone}
    left = [clip for clip in manifest.clips if clip.clip_id not in names]
    return Manifest(left, hash_file(corpus.path))


def list_ended(clips: Sequence[Clip]) -> list[Clip]:
    """Return the clips whose signers' consent has ended."""
    return [clip for clip in clips if has_ended(clip.consent_until)]


def stage_removal(
    change: Transaction,
    corpus: CorpusOptions,
    clips: Sequence[Clip],
    gone: Sequence[Clip],
    reason: str,
    *,
    to: Path | None,
    batch: str = "",
    edit: Callable[[str, str], str] = lambda _, text: text,
) -> None:
    """Make ready a corpus without some clips, and without the videos that nobody needs any more.

    Args:
        change: Open transaction of the corpus.
        corpus: A corpus with a manifest.
        clips: All of the corpus.
        gone: Those that leave.
        reason: Written into the table of what must not come in again.
        to: Folder that the videos go to; None: they are deleted.
        batch: Batch that is removed as a whole; empty: none is.
        edit: Called with the name and the text of each small table before it is made ready.

    Raises:
        UserError: If nothing to learn from would be left.
    """
    names = {clip.clip_id for clip in gone}
    left = [clip for clip in clips if clip.clip_id not in names]
    check_splits(corpus.path, left)
    stage_manifest(corpus, change, left)
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
        DELIVERIES: edit(DELIVERIES, ledger_text(deliveries, Delivery)),
        WITHDRAWN: edit(WITHDRAWN, ledger_text(list(refused.values()), Withdrawn)),
    }
    for name, text in changed_ledgers(corpus, texts).items():
        change.write(corpus.folder / name, text)
    for video in videos:
        if to:
            change.move(video, to / video.relative_to(corpus.folder))
        else:
            change.remove(video)
    if to and videos:
        _stage_table(change, corpus, to, [clip for clip in gone if clip.video in videos])


def _stage_table(
    change: Transaction, corpus: CorpusOptions, folder: Path, clips: Sequence[Clip]
) -> None:
    """Note beside withdrawn films who signs what, so that `signloom forget` finds them."""
    path = folder / TABLE
    noted = read_table(path) if path.is_file() else None
    rows = (
        [dict(zip(noted.header, cells, strict=False)) for _, cells in noted.rows] if noted else []
    )
    for clip in clips:
        assert clip.video
        row = {
            name: "" if (value := getattr(clip, name)) is None else str(value) for name in _COLUMNS
        }
        rows.append({**row, "video": clip.video.relative_to(corpus.folder).as_posix()})
    write_table(change.stage(path), rows)
