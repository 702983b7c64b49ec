"""Ingest: the good clips of deliveries become part of the corpus.

It scans folders (`inbox`), checks what it finds (`checks`), makes a plan and applies it.
"""

import hashlib
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from tqdm import tqdm

from signloom.corpus.manifest import (
    SPLITS,
    Clip,
    CorpusOptions,
    Manifest,
    add_clips,
    clip_of_cells,
    id_problem,
)
from signloom.errors import UserError, shorten
from signloom.files import disk_name, whole_file
from signloom.progress import progress_file
from signloom.tables import read_columns
from signloom.terminal import printable
from signloom_ops.intake.changes import (
    DELIVERIES,
    IN,
    INTAKE_REJECTS,
    Delivery,
    IntakeReject,
    begin_change,
    change_corpus,
    check_growable,
    read_deliveries,
    read_rejects,
    replace_manifest,
    settle_change,
    write_ledger,
)
from signloom_ops.intake.checks import Accepted, Checked, check_candidates
from signloom_ops.intake.deliveries import ScanRequest, from_project
from signloom_ops.intake.inbox import Inbox, Index, other_id, read_inbox
from signloom_ops.options import IngestOptions
from signloom_tools.importing.dealing import join_signers
from signloom_tools.importing.new_corpus import VIDEOS, clip_id_of

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class NewVideo:
    """A video that is to be copied into the corpus."""

    source: Path
    size_bytes: int
    target: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestPlan:
    """What an ingest would do, or did; a dry run prints it."""

    manifest: Manifest
    """The corpus before; after an ingest the one that it made."""
    batch: str | None
    """Name under which the clips come in; None if there are none."""
    clips: list[Clip]
    """New clips."""
    videos: Mapping[str, NewVideo]
    """The videos that the corpus lacks, by hash."""
    changes: list[tuple[Clip, Clip]]
    """Clips that are corrected: before and after."""
    rejects: list[IntakeReject]
    """Rejected files in the sources."""
    known: int
    """Clips in the sources that were in the corpus before."""
    waiting: list[Path]
    """Files that changed a moment ago, and may still be on their way."""
    version: str | None = None
    """What became of the version of the corpus, empty if nothing changed; None: nothing was done.
    """


def ingest(
    corpus: CorpusOptions,
    request: ScanRequest,
    options: IngestOptions,
    *,
    day: str | None = None,
    former: Manifest | None = None,
) -> IngestPlan:
    """Take new clips into a corpus; what came in before, and what is wrong, stays where it is.

    Args:
        request: Folders of videos with a table or text files, and what is said of them.
        day: Names the batch, a second one of a day gets a number; None: today.
        former: The manifest, if the caller has read it.

    Raises:
        UserError: If the corpus cannot grow, a source is missing, or the disk is full.
    """
    day = _check_day(day)
    check_growable(corpus, request.sources)
    with change_corpus(corpus):
        plan = plan_ingest(corpus, request, options, day=day, former=former)
        return _apply(corpus, plan, day, request.sources)


def plan_ingest(
    corpus: CorpusOptions,
    request: ScanRequest,
    options: IngestOptions,
    *,
    day: str | None = None,
    former: Manifest | None = None,
) -> IngestPlan:
    """Return what `ingest` would do now; arguments and errors are the same, nothing is written."""
    day = _check_day(day)
    check_growable(corpus, request.sources)
    inbox = read_inbox(corpus, request, options, former)
    checked = check_candidates(inbox, options, signer_disjoint=corpus.signer_disjoint)
    return _make_plan(corpus, inbox, checked, options, day)


def _make_plan(
    corpus: CorpusOptions, inbox: Inbox, checked: Checked, options: IngestOptions, day: str
) -> IngestPlan:
    batch = _name_batch(corpus, inbox.index, day)
    clips, videos = _make_clips(corpus, inbox, checked.accepted, options, batch)
    return IngestPlan(
        manifest=inbox.manifest,
        batch=batch if clips else None,
        clips=clips,
        videos=videos,
        changes=checked.changes,
        rejects=_list_rejects(corpus, inbox, checked, options),
        known=checked.known,
        waiting=sorted(set(inbox.waiting)),
    )


def _check_day(day: str | None) -> str:
    day = datetime.now().astimezone().date().isoformat() if day is None else day
    if problem := id_problem(day) if day else "is empty":
        raise UserError(f"day {day!r} {problem}; it names the batch, as 2026-11-21 would")
    return day


def _name_batch(corpus: CorpusOptions, index: Index, day: str) -> str:
    batches = {delivery.batch for delivery in read_deliveries(corpus)}
    batches |= {batch for (batch,) in read_columns(index.clips, "batch") if batch}
    batches = set(map(disk_name, batches))
    number, name, videos = 2, day, corpus.folder / VIDEOS
    while disk_name(name) in batches or any((videos / name).rglob("*")):
        name, number = f"{day}-{number}", number + 1
    return name


def _make_clips(
    corpus: CorpusOptions,
    inbox: Inbox,
    accepted: Sequence[Accepted],
    options: IngestOptions,
    batch: str,
) -> tuple[list[Clip], dict[str, NewVideo]]:
    """Return the new clips, and by its hash each video that the corpus lacks."""
    pairs = read_columns(inbox.index.clips, "clip_id")
    clip_ids = {disk_name(clip_id) for (clip_id,) in pairs}  # they name files
    videos = dict(inbox.index.videos)
    new: dict[str, NewVideo] = {}
    clips = []
    splits = _find_splits(inbox.index, accepted, corpus, options)
    for clip, split in zip(accepted, splits, strict=True):
        values, sha256 = clip.candidate.values, clip.content.sha256
        clip_id = clip_id_of(clip.candidate.name)
        alternative_id = other_id(clip.candidate.name, clip.content)
        clip_id = alternative_id if disk_name(clip_id) in clip_ids else clip_id
        clip_ids.add(disk_name(clip_id))
        if sha256 not in videos:
            suffix = clip.video.suffix.lower()
            target = corpus.folder / VIDEOS / batch / f"{clip_id}{suffix}"
            size_bytes = inbox.hashes[clip.video].signature[0]
            videos[sha256], new[sha256] = target, NewVideo(clip.video, size_bytes, target)
        cells = {**values, "clip_id": clip_id, "split": split, "batch": batch}
        clips.append(clip_of_cells(cells, videos[sha256])[0])
    return clips, new


def _find_splits(
    index: Index, accepted: Sequence[Accepted], corpus: CorpusOptions, options: IngestOptions
) -> list[str]:
    """Return the split of each new clip: as its signer's, or as asked for, else as dealt."""
    if not corpus.signer_disjoint:
        return [clip.split or SPLITS[0] for clip in accepted]
    counts = Counter(split for (split,) in read_columns(index.clips, "split"))
    counts.update(clip.split for clip in accepted if clip.split)
    # Signers who share a film go to the same split: no film is in two splits.
    signers = [clip.candidate.values["signer"] for clip in accepted]
    film_signers = [
        (sha256, who) for (sha256, _), names in index.signers.items() for who in sorted(names)
    ]
    new_signers = [*zip(accepted, signers, strict=True)]
    same = join_signers([*film_signers, *((clip.content.sha256, who) for clip, who in new_signers)])
    splits = {same[who]: min(index.splits[who]) for _, who in film_signers}
    splits |= {same[who]: clip.split for clip, who in new_signers if clip.split}
    new = Counter(same[who] for who in signers if same[who] not in splits)
    splits |= deal_signers(new, counts, options.shares)
    return [clip.split or splits[same[who]] for clip, who in zip(accepted, signers, strict=True)]


def deal_signers(
    new: Mapping[str, int], counts: Mapping[str, int], shares: Sequence[float]
) -> dict[str, str]:
    """Deal new signers to the splits so that the shares are approached; no other signer moves.

    The busiest go first, each to the split that lacks most clips. Ties are settled by a hash of
    the name: the order of a folder must not decide who is tested.

    Args:
        new: Signers and their clips.
        counts: Clips that each split has.
        shares: Shares of train, dev and test; any scale.

    Returns:
        Signer and split.
    """
    share_of = {name: share for name, share in zip(SPLITS, shares, strict=True) if share > 0}
    have = {name: counts.get(name, 0) for name in SPLITS}
    dealt: dict[str, str] = {}
    for signer in sorted(new, key=lambda signer: (-new[signer], _hash(signer))):
        total = sum(have.values()) + new[signer]
        lacks = {
            name: share / sum(share_of.values()) * total - have[name]
            for name, share in share_of.items()
        }
        split = max(share_of, key=lambda name: (lacks[name], _hash(signer + name)))
        dealt[signer] = split
        have[split] += new[signer]
    return dealt


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _copy_videos(corpus: CorpusOptions, plan: IngestPlan) -> IngestPlan:
    """Copy the new videos into the corpus; return the plan without those that change meanwhile."""
    total = sum(new.size_bytes for new in plan.videos.values())
    free = shutil.disk_usage(corpus.folder).free
    if total > free:
        raise UserError(
            f"{corpus.folder}: the disk has {free / 1e6:,.0f} MB free, the new videos take "
            f"{total / 1e6:,.0f} MB. Nothing came in; free some space and run the same again"
        )
    with tqdm(
        total=total, desc="copying", unit="B", unit_scale=True, delay=1.0, file=progress_file()
    ) as bar:
        changing = [
            new for sha256, new in plan.videos.items() if not _copy_video(new, sha256, bar.update)
        ]
    targets = {new.target for new in changing}
    clips = [clip for clip in plan.clips if clip.video not in targets]
    waiting = sorted({*plan.waiting, *(new.source for new in changing)})
    return replace(plan, batch=plan.batch if clips else None, clips=clips, waiting=waiting)


class _ChangedError(Exception):
    """A video is no longer what was hashed."""


def _copy_video(new: NewVideo, sha256: str, count: Callable[[int], object]) -> bool:
    """Copy a video; return whether it still is what was hashed."""
    try:
        with new.source.open("rb") as source, whole_file(new.target) as temporary:
            digest = hashlib.sha256()
            with temporary.open("wb") as copy:
                while chunk := source.read(_CHUNK_BYTES):
                    digest.update(chunk)
                    count(copy.write(chunk))
            if digest.hexdigest() != sha256:
                raise _ChangedError
    except (FileNotFoundError, _ChangedError):
        return False
    return True


def _apply(
    corpus: CorpusOptions, plan: IngestPlan, day: str, sources: Sequence[Path]
) -> IngestPlan:
    """Do what was planned: new videos first, their delivery, the manifest, what was left out."""
    before, rejects = read_rejects(corpus), _merge_rejects(corpus, plan, sources)
    manifest = plan.manifest
    if plan.clips or plan.changes or rejects != before:
        begin_change(corpus, plan.batch or "")
    if plan.clips:
        plan = _copy_videos(corpus, plan)
    if plan.batch:
        named = "; ".join(from_project(source).as_posix() for source in sources)
        new = len(set(plan.rejects) - set(before))
        delivery = Delivery(plan.batch, day, len(plan.clips), new, named, IN, "")
        write_ledger(corpus.folder / DELIVERIES, [*read_deliveries(corpus), delivery], Delivery)
    if plan.clips or plan.changes:
        clips, after = manifest.clips, {before.clip_id: clip for before, clip in plan.changes}
        if after:
            clips = [after.get(clip.clip_id, clip) for clip in clips]
        clips = add_clips(corpus.folder, clips, plan.clips)
        manifest = replace_manifest(corpus, manifest, clips)
    write_ledger(corpus.folder / INTAKE_REJECTS, rejects, IntakeReject)
    return replace(plan, manifest=manifest, version=settle_change(corpus, manifest))


def _merge_rejects(
    corpus: CorpusOptions, plan: IngestPlan, sources: Sequence[Path]
) -> list[IntakeReject]:
    """Return the rejects of these sources as they are now, and those of others as they were."""
    folders = [from_project(source) for source in sources]
    remaining = [
        row
        for row in read_rejects(corpus)
        if not any(Path(row.delivery).is_relative_to(folder) for folder in folders)
    ]
    return sorted({*remaining, *plan.rejects}, key=lambda row: row.key)


def _list_rejects(
    corpus: CorpusOptions, inbox: Inbox, checked: Checked, options: IngestOptions
) -> list[IntakeReject]:
    # An existing row stays as it is, though the corpus may have grown meanwhile.
    before = {row.key: row for row in read_rejects(corpus)}
    rows = []
    for candidate, problems in checked.rejects:
        cells = (
            candidate.delivery,
            candidate.where,
            candidate.name,
            "; ".join(problem.reason for problem in problems),
            "; ".join(dict.fromkeys(problem.hint for problem in problems)),
            inbox.fingerprint(candidate, options),
            "; ".join(dict.fromkeys(name for problem in problems for name in problem.concerns)),
        )
        row = IntakeReject(*(shorten(printable(" ".join(cell.split()))) for cell in cells))
        rows.append(before.get(row.key, row))
    return rows
