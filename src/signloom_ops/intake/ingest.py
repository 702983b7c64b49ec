"""Ingest: the good clips of deliveries become part of the corpus."""

import hashlib
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from tqdm import tqdm

from signloom.corpus.manifest import (
    SPLITS,
    Clip,
    CorpusOptions,
    Manifest,
    id_problem,
    parse_consent,
    parse_segment,
)
from signloom.errors import UserError, shorten
from signloom.files import flush_to_disk, hash_file
from signloom.importing.captions import Choice, CueRules
from signloom.importing.new_corpus import VIDEOS, clip_id_of, join_signers
from signloom.progress import progress_file
from signloom.terminal import printable
from signloom_ops.intake.checks import Accepted, Checked, check_candidates
from signloom_ops.intake.deliveries import Request, from_project
from signloom_ops.intake.inbox import Inbox, Index, other_id, read_inbox
from signloom_ops.intake.ledgers import (
    DELIVERIES,
    IN,
    INTAKE_REJECTS,
    Delivery,
    IntakeReject,
    changed_ledgers,
    ledger_text,
    read_deliveries,
    read_rejects,
)
from signloom_ops.intake.staging import (
    Finished,
    change_corpus,
    check_growable,
    commit,
    stage_manifest,
)
from signloom_ops.options import IngestOptions
from signloom_ops.transaction import Transaction

_CHUNK_BYTES = 1 << 20


def deal_signers(
    new: Mapping[str, int], counts: Mapping[str, int], shares: Sequence[float]
) -> dict[str, str]:
    """Deal new signers to the splits so that the shares are approached; nobody else moves.

    The busiest go first, each to the split that lacks most clips. Ties are settled by a hash of
    the name: the order of a folder must not decide who is tested.

    Args:
        new: Signers and their clips.
        counts: Clips that each split has.
        shares: Shares of train, dev and test; any scale.

    Returns:
        Signer and split.
    """
    wanted = {name: share for name, share in zip(SPLITS, shares, strict=True) if share > 0}
    have = {name: counts.get(name, 0) for name in SPLITS}
    dealt: dict[str, str] = {}
    for signer in sorted(new, key=lambda signer: (-new[signer], _hash(signer))):
        total = sum(have.values()) + new[signer]
        lacks = {
            name: share / sum(wanted.values()) * total - have[name]
            for name, share in wanted.items()
        }
        split = max(wanted, key=lambda name: (lacks[name], _hash(signer + name)))
        dealt[signer] = split
        have[split] += new[signer]
    return dealt


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def make_clips(
    index: Index,
    accepted: Sequence[Accepted],
    corpus: CorpusOptions,
    options: IngestOptions,
    batch: str,
) -> tuple[list[Clip], dict[str, Path]]:
    """Return the new clips, and where each video that the corpus lacks belongs, by its hash."""
    taken = {clip.clip_id for clip in index.clips}
    videos = dict(index.videos)
    places: dict[str, Path] = {}
    clips = []
    splits = _find_splits(index, accepted, corpus, options)
    for one, split in zip(accepted, splits, strict=True):
        values, sha256 = one.candidate.values, one.content[0]
        clip_id = clip_id_of(one.candidate.name)
        other = other_id(one.candidate.name, one.content)
        clip_id = other if clip_id in taken else clip_id
        taken.add(clip_id)
        if sha256 not in videos:
            suffix = one.video.suffix.lower()
            place = corpus.folder / VIDEOS / batch / f"{clip_id}{suffix}"
            # Nobody's file is overwritten, not even one that no clip needs.
            place = place.with_name(f"{other}{suffix}") if place.exists() else place
            videos[sha256] = places[sha256] = place
        start_s, end_s, _ = parse_segment(values)
        clips.append(
            Clip(
                clip_id=clip_id, video=videos[sha256], start_s=start_s, end_s=end_s,
                text=values["text"], signer=values["signer"], split=split,
                gloss=values.get("gloss") or None, language=values.get("language") or None,
                corpus=values.get("corpus") or None, batch=batch,
                consent_until=parse_consent(values)[0],
            )
        )  # fmt: skip
    return clips, places


def _find_splits(
    index: Index, accepted: Sequence[Accepted], corpus: CorpusOptions, options: IngestOptions
) -> list[str]:
    """Return the split of each new clip: as its signer's, or as asked for, else as dealt."""
    if not corpus.signer_disjoint:
        return [one.split or SPLITS[0] for one in accepted]
    counts = Counter(clip.split for clip in index.clips)
    counts.update(one.split for one in accepted if one.split)
    # Who shares a film with somebody goes where that one goes: no film is in two splits.
    signers = [one.candidate.values["signer"] for one in accepted]
    same = join_signers((one.content[0], who) for one, who in zip(accepted, signers, strict=True))
    found = {same[who]: one.split for one, who in zip(accepted, signers, strict=True) if one.split}
    new = Counter(same[who] for who in signers if same[who] not in found)
    found |= deal_signers(new, counts, options.shares)
    return [one.split or found[same[who]] for one, who in zip(accepted, signers, strict=True)]


@dataclass(frozen=True, slots=True)
class IngestResult:
    """The result of an ingest."""

    manifest: Manifest  # the corpus as it is now
    batch: str | None = None  # name under which the clips came in; None if there are none
    clips: list[Clip] = field(default_factory=list)
    """New clips; after a crash, those of the interrupted batch as well."""
    changes: list[tuple[Clip, Clip]] = field(default_factory=list)
    """Clips that were corrected: before and after."""
    rejects: list[IntakeReject] = field(default_factory=list)  # rejected files in the sources
    known: int = 0  # clips in the sources that were in the corpus before
    waiting: list[Path] = field(default_factory=list)
    """Files that changed a moment ago, and may still be on their way."""
    version: str = ""
    """What became of the version of the corpus, in words; empty if nothing changed."""


def ingest(
    corpus: CorpusOptions,
    sources: Sequence[Path],
    options: IngestOptions,
    *,
    day: str | None = None,
    table: Path | None = None,
    signer: str | None = None,
    fps: float | None = None,
    choice: Choice | None = None,
    rules: CueRules | None = None,
    inbox: bool = False,
    dry_run: bool = False,
    known: Manifest | None = None,
) -> IngestResult:
    """Take new clips into a corpus; what came in before, and what is wrong, stays where it is.

    Args:
        corpus: A corpus with a manifest.
        sources: Folders of videos with a table or text files.
        options: What a clip must be like.
        day: Names the batch, a second one of a day gets a number; None: today.
        table: Table of the clips in the only source; None: found in the folders.
        signer: Who signs where no table says it; None: `signer.txt`, or the folder's name.
        fps: Frames a second of folders of pictures, where no table says it.
        choice: What to take of captions; None: as its defaults say.
        rules: How their cues become clips; None: each one is a clip.
        inbox: The sources hold deliveries, so their own names name no signer.
        dry_run: Only say what would come in.
        known: The manifest, if the caller has read it.

    Raises:
        UserError: If the corpus cannot grow, a source is missing, or the disk is full.
    """
    day = datetime.now().astimezone().date().isoformat() if day is None else day
    if problem := id_problem(day) if day else "is empty":
        raise UserError(f"day {day!r} {problem}; it names the batch, as 2026-11-21 would")
    if table is not None and len(sources) != 1:
        raise UserError(f"--table {table} describes one folder, found {len(sources)}")
    check_growable(corpus, sources)
    request = Request(
        sources=sources,
        table=table,
        signer=signer,
        fps=fps,
        choice=choice or Choice(),
        rules=rules or CueRules(),
        inbox=inbox,
        settle_s=options.settle_s,
    )
    if dry_run:
        found, checked = _check_inbox(corpus, request, options, known)
        batch = _name_batch(corpus, found.index, day)
        clips, _ = make_clips(found.index, checked.accepted, corpus, options, batch)
        return IngestResult(
            manifest=found.manifest,
            batch=batch if clips else None,
            clips=clips,
            changes=checked.changes,
            rejects=_list_rejects(corpus, found, checked, options),
            known=checked.known,
            waiting=sorted(set(found.waiting)),
        )
    with change_corpus(corpus) as (change, earlier):
        found, checked = _check_inbox(corpus, request, options, known)
        gone = _stage_videos(corpus, change, found, checked.accepted)
        accepted = [one for one in checked.accepted if one.content[0] not in gone]
        batch = _name_batch(corpus, found.index, day)
        clips, places = make_clips(found.index, accepted, corpus, options, batch)
        rejects = _list_rejects(corpus, found, checked, options)
        for sha256, place in places.items():
            change.move(change.staged / sha256, place)
        after = {before.clip_id: new for before, new in checked.changes}
        corrected = [after.get(clip.clip_id, clip) for clip in found.index.clips]
        if clips or after:
            stage_manifest(corpus, change, [*corrected, *clips])
        named = "; ".join(from_project(one).as_posix() for one in sources)
        delivery = Delivery(batch, day, len(clips), 0, named, IN, "")
        _stage_tables(corpus, change, delivery, rejects, sources)
        done, manifest = Finished("", ""), found.manifest
        if change.operations:
            done = commit(corpus, change, batch if clips else "")
        if clips or after:
            manifest = Manifest([*corrected, *clips], hash_file(corpus.path))
        earlier = earlier or Finished("", "")
        cut_short = [c for c in found.index.clips if earlier.batch and c.batch == earlier.batch]
        return IngestResult(
            manifest=manifest,
            batch=(batch if clips else "") or earlier.batch or None,
            clips=[*cut_short, *clips],
            changes=checked.changes,
            rejects=rejects,
            known=checked.known,
            waiting=sorted({*found.waiting, *gone.values()}),
            version=done.version or earlier.version,
        )


def _check_inbox(
    corpus: CorpusOptions, request: Request, options: IngestOptions, known: Manifest | None
) -> tuple[Inbox, Checked]:
    found = read_inbox(corpus, request, known)
    return found, check_candidates(found, options, signer_disjoint=corpus.signer_disjoint)


def _stage_videos(
    corpus: CorpusOptions, change: Transaction, found: Inbox, accepted: Sequence[Accepted]
) -> dict[str, Path]:
    """Copy what is to come in to the corpus's disk; return, by hash, what changes meanwhile."""
    todo = {
        one.content[0]: one.video
        for one in reversed(accepted)
        if one.content[0] not in found.index.videos
    }
    sizes = {sha256: found.hashes[video].signature[0] for sha256, video in todo.items()}
    # An earlier call that was killed may have copied some.
    lacking = sum(size for sha256, size in sizes.items() if not (change.staged / sha256).exists())
    free = shutil.disk_usage(change.folder).free
    if lacking > free:
        raise UserError(
            f"{corpus.folder}: the disk has {free / 1e6:,.0f} MB free, the new videos take "
            f"{lacking / 1e6:,.0f} MB. Nothing came in; free some space and run the same again"
        )
    gone = {}
    change.staged.mkdir(exist_ok=True)
    with tqdm(
        total=sum(sizes.values()), desc="copying", unit="B", unit_scale=True, delay=1.0,
        file=progress_file(),
    ) as bar:  # fmt: skip
        for sha256, video in todo.items():
            try:
                is_whole = _copy_video(video, change.staged / sha256, sha256, bar.update)
            except FileNotFoundError:
                is_whole = False
            if not is_whole:
                gone[sha256] = video
    return gone


def _copy_video(source: Path, target: Path, sha256: str, count: Callable[[int], object]) -> bool:
    """Copy a video, unless it is there; return whether it still is what was hashed."""
    if target.is_file():
        count(target.stat().st_size)
        return True
    temporary = target.with_suffix(".tmp")
    digest = hashlib.sha256()
    with source.open("rb") as old, temporary.open("wb") as new:
        while chunk := old.read(_CHUNK_BYTES):
            digest.update(chunk)
            count(new.write(chunk))
    flush_to_disk(temporary)
    if digest.hexdigest() != sha256:
        temporary.unlink()
        return False
    temporary.replace(target)
    return True


def _stage_tables(
    corpus: CorpusOptions,
    change: Transaction,
    delivery: Delivery,
    rejects: Sequence[IntakeReject],
    sources: Sequence[Path],
) -> None:
    """Make ready the tables of deliveries and rejects, where they change."""
    before = read_rejects(corpus)
    deliveries = read_deliveries(corpus)
    if delivery.clips:
        deliveries.append(replace(delivery, rejects=len(set(rejects) - set(before))))
    seen = [from_project(source) for source in sources]
    others = [
        row for row in before if not any(Path(row.delivery).is_relative_to(one) for one in seen)
    ]
    merged = sorted({*others, *rejects}, key=lambda row: row.key)
    texts = {
        DELIVERIES: ledger_text(deliveries, Delivery),
        INTAKE_REJECTS: ledger_text(merged, IntakeReject),
    }
    for name, text in changed_ledgers(corpus, texts).items():
        change.write(corpus.folder / name, text)


def _name_batch(corpus: CorpusOptions, index: Index, day: str) -> str:
    taken = {delivery.batch for delivery in read_deliveries(corpus)}
    taken |= {clip.batch for clip in index.clips if clip.batch}
    number = 2
    name = day
    while name in taken:
        name, number = f"{day}-{number}", number + 1
    return name


def _list_rejects(
    corpus: CorpusOptions, found: Inbox, checked: Checked, options: IngestOptions
) -> list[IntakeReject]:
    # A row that is there already stays as it is, though the corpus may have grown meanwhile.
    before = {row.key: row for row in read_rejects(corpus)}
    rows = []
    for one, problems in checked.rejects:
        cells = (
            one.delivery, one.where, one.name, "; ".join(problem.reason for problem in problems),
            "; ".join(dict.fromkeys(problem.hint for problem in problems)),
            found.fingerprint(one, options),
            "; ".join(dict.fromkeys(name for problem in problems for name in problem.concerns)),
        )  # fmt: skip
        row = IntakeReject(*(shorten(printable(" ".join(cell.split()))) for cell in cells))
        rows.append(before.get(row.key, row))
    return rows
