"""Ingest: the corpus grows by what is good in the deliveries."""

import hashlib
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tqdm import tqdm

from signloom.corpus.manifest import (
    SPLITS,
    Clip,
    CorpusOptions,
    id_problem,
    parse_segment,
    read_manifest,
    write_manifest,
)
from signloom.errors import UserError
from signloom.files import flush_to_disk
from signloom.importing.new_corpus import PLACE, clip_id_of
from signloom.intake.checks import Judge, Judgement, look_at
from signloom.intake.deliveries import Candidate, Fault
from signloom.intake.inbox import (
    Request,
    Survey,
    check_growable,
    fingerprint,
    from_project,
    other_id,
    survey,
)
from signloom.intake.ledgers import (
    DELIVERIES,
    IN,
    REJECTS,
    Delivery,
    IntakeReject,
    changed_ledgers,
    ledger_text,
    read_deliveries,
    read_rejects,
)
from signloom.intake.options import IngestOptions
from signloom.intake.staging import Finished, Move, Watch, Workshop, open_workshop
from signloom.progress import progress_file


def deal_signers(
    new: Mapping[str, int], counts: Mapping[str, int], shares: Sequence[float]
) -> dict[str, str]:
    """Deal new signers to the splits so that the shares are approached; nobody else moves.

    The busiest go first, each to the split that lacks most clips. Ties are settled by a hash of
    the name: the order of a folder must not decide who is tested.

    Args:
        new: Signers and their clips.
        counts: Clips that each split has.
        shares: Of train, dev and test; any scale.

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
    found: Survey,
    judged: Judgement,
    corpus: CorpusOptions,
    options: IngestOptions,
    batch: str,
) -> tuple[list[Clip], dict[str, Path]]:
    """Return the new clips, and where each video that the corpus lacks belongs, by its hash."""
    splits = _find_splits(found, judged, corpus, options)
    taken = set(found.stock.ids)
    videos = dict(found.stock.videos)
    places: dict[str, Path] = {}
    clips = []
    for arrival, split in zip(judged.arrivals, splits, strict=True):
        values, sha256 = arrival.candidate.values, arrival.content[0]
        clip_id = clip_id_of(arrival.candidate.name)
        other = other_id(arrival.candidate.name, arrival.content)
        clip_id = other if clip_id in taken else clip_id
        taken.add(clip_id)
        if sha256 not in videos:
            suffix = arrival.candidate.video.suffix.lower() if arrival.candidate.video else ""
            place = corpus.folder / PLACE / batch / f"{clip_id}{suffix}"
            # Nobody's file is overwritten, not even one that no clip needs.
            place = place.with_name(f"{other}{suffix}") if place.exists() else place
            videos[sha256] = places[sha256] = place
        start_s, end_s, _ = parse_segment(values)
        clips.append(
            Clip(
                clip_id=clip_id, video=videos[sha256], start_s=start_s, end_s=end_s,
                text=values["text"], signer=values["signer"], split=split,
                gloss=values.get("gloss") or None, language=values.get("language") or None,
                batch=batch,
            )
        )  # fmt: skip
    return clips, places


def manifest_move(shop: Workshop, clips: Sequence[Clip]) -> Move:
    """Make a manifest of these clips ready; return its move."""
    corpus = shop.corpus
    path = shop.staged / "tables" / corpus.manifest
    path.parent.mkdir(parents=True, exist_ok=True)
    moved = [
        replace(clip, video=clip.video and path.parent / clip.video.relative_to(corpus.folder))
        for clip in clips
    ]
    write_manifest(path, moved)
    flush_to_disk(path)
    return path, corpus.path


def _find_splits(
    found: Survey, judged: Judgement, corpus: CorpusOptions, options: IngestOptions
) -> list[str]:
    """Return the split of each arrival: as before, as asked, else as dealt."""
    if not corpus.signer_disjoint:
        return [one.candidate.values.get("split") or SPLITS[0] for one in judged.arrivals]
    signers = [one.candidate.values["signer"] for one in judged.arrivals]
    settled = {
        signer: next(iter(found.stock.splits.get(signer) or judged.said[signer]), "")
        for signer in signers
    }
    counts = Counter(clip.split for clip in found.clips)
    counts.update(settled[signer] for signer in signers if settled[signer])
    new = Counter(signer for signer in signers if not settled[signer])
    dealt = deal_signers(new, counts, options.shares)
    return [settled[signer] or dealt[signer] for signer in signers]


@dataclass(slots=True)
class IngestResult:
    """What became of some deliveries.

    Attributes:
        batch: What the clips came in as, None if there are none.
        clips: That are new; after a crash, those of the batch that it cut short as well.
        rejects: That lie in the sources.
        known: Clips in the sources that were in the corpus before.
        waiting: Files that changed a moment ago, and may still be on their way.
        version: What became of the version of the corpus, in words; empty if nothing changed.
    """

    batch: str | None = None
    clips: list[Clip] = field(default_factory=list)
    rejects: list[IntakeReject] = field(default_factory=list)
    known: int = 0
    waiting: list[Path] = field(default_factory=list)
    version: str = ""


def ingest(
    corpus: CorpusOptions,
    sources: Sequence[Path],
    options: IngestOptions,
    *,
    day: str,
    table: Path | None = None,
    signer: str | None = None,
    inbox: bool = False,
    dry_run: bool = False,
    watch: Watch | None = None,
) -> IngestResult:
    """Take new clips into a corpus; what came in before, and what is wrong, stays where it is.

    Args:
        corpus: With a manifest.
        sources: Folders of videos with a table or text files.
        options: What a clip must be like.
        day: Names the batch; a second one of a day gets a number.
        table: Of the clips in the only source; None: found in the folders.
        signer: Who signs where no table says it; None: `signer.txt`, or the folder's name.
        inbox: The sources hold deliveries, so their own names name no signer.
        dry_run: Only say what would come in.
        watch: Hears of each step that lies on the disk for good.

    Raises:
        UserError: If the corpus cannot grow, a source is missing, or the disk is full.
    """
    if problem := id_problem(day) if day else "is empty":
        raise UserError(f"day {day!r} {problem}; it names the batch, as 2026-11-21 would")
    if table is not None and len(sources) != 1:
        raise UserError(f"--table {table} describes one folder, found {len(sources)}")
    check_growable(corpus, sources)
    request = Request(
        sources=sources, table=table, signer=signer, inbox=inbox, settle_s=options.settle_s
    )
    if dry_run:
        found, judged = _look_through(corpus, request, options)
        clips, _ = make_clips(found, judged, corpus, options, _name_batch(corpus, found, day))
        rejects = _list_rejects(corpus, found, judged, options)
        return _report(found, judged, rejects, clips, Finished("", ""))
    with open_workshop(corpus, watch) as shop:
        earlier = shop.finish()
        result = _ingest(shop, request, options, day)
        if earlier.batch:
            there = read_manifest(corpus.path, corpus.signer_disjoint)
            result.clips[:0] = [clip for clip in there if clip.batch == earlier.batch]
            result.batch = result.batch or earlier.batch
        result.version = result.version or earlier.version
        return result


def _ingest(shop: Workshop, request: Request, options: IngestOptions, day: str) -> IngestResult:
    corpus = shop.corpus
    found, judged = _look_through(corpus, request, options)
    _stage(shop, found, judged)
    batch = _name_batch(corpus, found, day)
    clips, places = make_clips(found, judged, corpus, options, batch)
    rejects = _list_rejects(corpus, found, judged, options)
    moves = [(shop.staged_video(sha256), place) for sha256, place in places.items()]
    if clips:
        moves.append(manifest_move(shop, [*found.clips, *clips]))
    before = read_rejects(corpus)
    deliveries = read_deliveries(corpus)
    if clips:
        source = "; ".join(from_project(one).as_posix() for one in request.sources)
        new = len(set(rejects) - set(before))
        deliveries.append(Delivery(batch, day, len(clips), new, source, IN, ""))
    texts = {
        DELIVERIES: ledger_text(deliveries, Delivery),
        REJECTS: ledger_text(_merge(before, rejects, request.sources), IntakeReject),
    }
    moves += [shop.stage_text(name, text) for name, text in changed_ledgers(corpus, texts).items()]
    done = shop.carry_out(moves, batch if clips else "") if moves else Finished("", "")
    return _report(found, judged, rejects, clips, done)


def _look_through(
    corpus: CorpusOptions, request: Request, options: IngestOptions
) -> tuple[Survey, Judgement]:
    found = survey(corpus, request)
    judge = Judge(found.stock, found.hashes, options, corpus.signer_disjoint, look_at)
    return found, judge.judge(found.candidates)


def _stage(shop: Workshop, found: Survey, judged: Judgement) -> None:
    """Copy what is to come in to the corpus's disk; what changes meanwhile has to wait."""
    todo = {
        arrival.content[0]: arrival.candidate.video
        for arrival in reversed(judged.arrivals)
        if arrival.candidate.video and arrival.content[0] not in found.stock.videos
    }
    sizes = {sha256: found.hashes[video].signature[0] for sha256, video in todo.items()}
    total = sum(sizes.values())
    lacking = sum(size for sha256, size in sizes.items() if not shop.staged_video(sha256).exists())
    free = shutil.disk_usage(shop.folder).free
    if lacking > free:
        raise UserError(
            f"{shop.corpus.folder}: the disk has {free / 1e6:,.0f} MB free, the new videos take "
            f"{lacking / 1e6:,.0f} MB. Nothing came in; free some space and run the same again"
        )
    gone: set[str] = set()
    with tqdm(
        total=total, desc="copying", unit="B", unit_scale=True, delay=1.0, file=progress_file()
    ) as bar:
        for sha256, video in todo.items():
            try:
                is_whole = shop.stage_video(video, sha256, bar.update)
            except FileNotFoundError:
                is_whole = False
            if not is_whole:
                gone.add(sha256)
                found.waiting.append(video)
    judged.arrivals[:] = [one for one in judged.arrivals if one.content[0] not in gone]


def _name_batch(corpus: CorpusOptions, found: Survey, day: str) -> str:
    taken = {delivery.batch for delivery in read_deliveries(corpus)}
    taken |= {clip.batch for clip in found.clips if clip.batch}
    number = 2
    name = day
    while name in taken:
        name, number = f"{day}-{number}", number + 1
    return name


def _list_rejects(
    corpus: CorpusOptions, found: Survey, judged: Judgement, options: IngestOptions
) -> list[IntakeReject]:
    # A row that stands there already stays as it is, though the corpus may have grown meanwhile.
    before = {(row.delivery, row.where, row.fingerprint): row for row in read_rejects(corpus)}
    rows = []
    for candidate, faults in judged.rejects:
        mark = fingerprint(candidate, found.content(candidate), options)
        new = _reject(candidate, faults, mark)
        rows.append(before.get((new.delivery, new.where, mark), new))
    return rows


def _reject(candidate: Candidate, faults: Sequence[Fault], mark: str) -> IntakeReject:
    cells = (
        candidate.delivery, candidate.where, candidate.name,
        "; ".join(reason for reason, _ in faults),
        "; ".join(dict.fromkeys(mend for _, mend in faults)), mark,
    )  # fmt: skip
    return IntakeReject(*(" ".join(cell.split()) for cell in cells))


def _merge(
    before: Sequence[IntakeReject], now: Sequence[IntakeReject], sources: Sequence[Path]
) -> list[IntakeReject]:
    """Return the rejects of all sources: those of these ones are replaced."""
    seen = [from_project(source) for source in sources]
    others = [
        row for row in before if not any(Path(row.delivery).is_relative_to(one) for one in seen)
    ]
    return sorted({*others, *now}, key=lambda row: (row.delivery, row.where, row.fingerprint))


def _report(
    found: Survey,
    judged: Judgement,
    rejects: list[IntakeReject],
    clips: list[Clip],
    done: Finished,
) -> IngestResult:
    return IngestResult(
        batch=clips[0].batch if clips else None,
        clips=clips,
        rejects=rejects,
        known=judged.known,
        waiting=sorted(set(found.waiting)),
        version=done.version,
    )
