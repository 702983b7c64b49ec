"""Withdrawal of clips and deliveries from a corpus."""

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
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
from signloom.files import disk_name, flush_to_disk, half_written, hash_file, whole_file
from signloom.paths import WITHDRAWN_VIDEOS
from signloom.tables import read_columns, take_rows
from signloom_ops.intake.changes import (
    DELIVERIES,
    OUT,
    WITHDRAWN,
    Delivery,
    Withdrawn,
    begin_change,
    change_corpus,
    check_growable,
    read_deliveries,
    read_withdrawn,
    remove_paths,
    replace_manifest,
    settle_change,
    write_ledger,
)

TABLE = "table.tsv"  # next to withdrawn films, as in a delivery
_COLUMNS = ("clip_id", "video", "text", "signer", "split", "start_s", "end_s", "gloss", "language")
_LONGEST_PAUSE = 366  # days without a commit after which the clock is in doubt
ENDED = "the consent of their signers has ended"


def withdraw(
    corpus: CorpusOptions,
    batch: str,
    reason: str,
    *,
    former: Manifest | None = None,
    to: Path = WITHDRAWN_VIDEOS,
) -> tuple[list[Clip], Manifest]:
    """Take a delivery out of a corpus again.

    Args:
        reason: Written into the tables, and shown to whoever brings the videos again.
        former: The manifest, if the caller has read it.
        to: The videos go to a folder of the batch's name in it.

    Returns:
        The clips, as they were; none if the batch was withdrawn before. The corpus without them.

    Raises:
        UserError: If there is no such batch, or nothing to learn from would be left.
    """
    with change_corpus(corpus):
        manifest = load_manifest(corpus, former)
        withdrawn = [clip for clip in manifest.clips if clip.batch == batch]
        deliveries = {delivery.batch: delivery for delivery in read_deliveries(corpus)}
        if not withdrawn and (batch not in deliveries or deliveries[batch].state != OUT):
            named = ", ".join(
                name for name, delivery in deliveries.items() if delivery.state != OUT
            )
            raise UserError(
                f"{corpus.path}: no clip is of the batch {batch!r}; there are {named or 'none'}"
            )
        if not withdrawn:
            return [], manifest
        return withdrawn, _remove(corpus, manifest, withdrawn, reason, to=to / batch, batch=batch)


def withdraw_ended(
    corpus: CorpusOptions, *, former: Manifest | None = None, to: Path = WITHDRAWN_VIDEOS
) -> tuple[list[Clip], Manifest]:
    """Take the clips out of a corpus whose signers agreed until a day that is over.

    Args:
        former: The manifest, if the caller has read it.
        to: The videos go to a folder of today's name in it.

    Returns:
        The clips, as they were. The corpus without them.

    Raises:
        UserError: If nothing to learn from would be left, or the clock is more than a year ahead of
            the project's last commit.
    """
    manifest = load_manifest(corpus, former)
    if not list_ended(manifest.clips):
        return [], manifest
    _check_clock()
    with change_corpus(corpus):
        manifest = load_manifest(corpus, manifest)
        withdrawn = list_ended(manifest.clips)
        folder = to / f"consent-ended-{date.today().isoformat()}"
        return withdrawn, _remove(corpus, manifest, withdrawn, ENDED, to=folder)


def _check_clock() -> None:
    command = ["git", "log", "-1", "--format=%cs"]
    try:
        last = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):  # there is no Git, repository or commit
        return
    today = date.today()
    if (today - date.fromisoformat(last)).days > _LONGEST_PAUSE:
        raise UserError(
            f"the clock says {today}, the last commit is of {last}: clips whose consent has ended "
            "by this clock stay until somebody has looked at it. Set the clock; if it is right, "
            "make a commit (`git commit --allow-empty --message clock`) and run the same again"
        )


def list_ended(clips: Sequence[Clip]) -> list[Clip]:
    """Return the clips whose signers' consent has ended."""
    days = {day: has_ended(day) for (day,) in {*read_columns(clips, "consent_until")}}
    rows = enumerate(read_columns(clips, "consent_until"))
    return list(take_rows(clips, [number for number, (day,) in rows if days[day]]))


def _remove(
    corpus: CorpusOptions,
    manifest: Manifest,
    withdrawn: Sequence[Clip],
    reason: str,
    *,
    to: Path,
    batch: str = "",
) -> Manifest:
    """Take some clips out of a corpus; films that no other clip needs go to a folder."""
    check_growable(corpus)
    ids = {clip.clip_id for clip in withdrawn}
    remaining = [clip for clip in manifest.clips if clip.clip_id not in ids]
    check_splits(corpus.path, remaining)
    begin_change(corpus)
    needed = {clip.video for clip in remaining}
    alone = [clip for clip in withdrawn if clip.video and clip.video not in needed]
    hashed = VideoHashes(cache_folder()).hash_videos(clip.video for clip in alone if clip.video)
    films = {film: video.sha256 for film, video in hashed.items()}
    _copy_films(corpus, films, alone, to)
    names = {film: film.relative_to(corpus.folder).as_posix() for film in films}
    rows = [Withdrawn(sha256, names[film], batch, reason) for film, sha256 in films.items()]
    refuse_videos(corpus, rows)
    deliveries = [
        replace(delivery, state=OUT, reason=reason) if delivery.batch == batch else delivery
        for delivery in read_deliveries(corpus)
    ]
    write_ledger(corpus.folder / DELIVERIES, deliveries, Delivery)
    after = replace_manifest(corpus, manifest, remaining)
    settle_change(corpus, after)
    return after


def _copy_films(
    corpus: CorpusOptions, films: Mapping[Path, str], clips: Sequence[Clip], folder: Path
) -> None:
    """Copy films to a folder, with a table of who signs what, which `signloom forget` reads.

    A film of the same name that is already there stays: the new one gets another name.

    Args:
        corpus: Whose films they are.
        films: The films with their hashes.
        folder: Where they go.
    """
    remove_paths([*half_written(folder, "**/.*.tmp")])
    table = folder / TABLE
    rows = []
    if table.is_file():
        noted = read_table(table)
        rows = [dict(zip(noted.header, cells, strict=False)) for _, cells in noted.rows]
    names = Counter(map(disk_name, films))
    targets = {
        film: _target(film, sha256, corpus, folder, is_alone=names[disk_name(film)] == 1)
        for film, sha256 in films.items()
    }
    for clip in clips:
        if clip.video in targets:
            values = {name: getattr(clip, name) for name in _COLUMNS}
            row = {name: "" if value is None else str(value) for name, value in values.items()}
            row["video"] = targets[clip.video].relative_to(folder).as_posix()
            rows += [row] if row not in rows else []
    if targets:
        write_table(table, list(rows[0]), (row.values() for row in rows))
    for film, target in targets.items():
        if not target.exists():
            _copy(film, target)


def _target(
    film: Path, sha256: str, corpus: CorpusOptions, folder: Path, *, is_alone: bool
) -> Path:
    """Return where a film goes: to a name that no other film has."""
    target = folder / film.relative_to(corpus.folder)
    is_free = is_alone and (not target.exists() or hash_file(target) == sha256)
    return target if is_free else target.with_stem(f"{target.stem}-{sha256[:8]}")


def _copy(film: Path, target: Path) -> None:
    """Give a film, or what a link leads to, a second name; copy it if that is another disk."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(film.resolve(), target)
        flush_to_disk(target.parent)
    except OSError:
        with whole_file(target) as temporary:
            shutil.copyfile(film, temporary)


def refuse_videos(corpus: CorpusOptions, videos: Sequence[Withdrawn]) -> None:
    """Note videos that must not come in again."""
    refused = read_withdrawn(corpus) | {video.sha256: video for video in videos}
    write_ledger(corpus.folder / WITHDRAWN, list(refused.values()), Withdrawn)
