"""Forgetting a person (`signloom forget`).

First a journal says who is to go and by what they are found, then each step removes what it knows
of; the journal goes last. Every step may be done twice, so whatever ends a removal in the middle,
the same command finishes it.
"""

import dataclasses
import difflib
import json
import unicodedata
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from signloom.config import load_params, load_section, parse_options, read_json
from signloom.corpus.manifest import (
    Clip,
    CorpusOptions,
    check_splits,
    read_manifest,
    write_manifest,
)
from signloom.corpus.shards import read_clip_frames, read_shards, shards_metadata, write_shards
from signloom.dvc import DvcCache, refuse_drawn, track_again, track_version
from signloom.errors import UserError
from signloom.extraction.cache import VideoHashes, cache_folder, cache_key
from signloom.extraction.extract import ExtractOptions, extractor_fingerprint
from signloom.extraction.video import DECODER
from signloom.features.targets import read_targets
from signloom.files import to_text, write_file
from signloom.intake.ledgers import DELIVERIES, WITHDRAWN
from signloom.intake.staging import change_corpus, commit
from signloom.intake.withdraw import stage_removal
from signloom.nightly.store import ModelStore
from signloom.paths import (
    EVALUATION,
    FIGURES,
    FORGET_JOURNAL,
    LANDMARKS,
    LAST_NIGHT,
    MODELS,
    REPORT_PAGE,
    REPORTS,
    SHARDS,
    TARGETS,
    TOKENS,
    WITHDRAWN_VIDEOS,
)
from signloom.privacy.names import Person
from signloom.privacy.traces import blank_versions, erase, scrub, versions_of, videos_like
from signloom.tracking.run import TrackingOptions

# Written by stages, which write them anew without the person.
DERIVED = (LANDMARKS, TOKENS, EVALUATION, REPORT_PAGE, FIGURES)
REASON = "consent withdrawn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where a project keeps what may be of a person, from its root."""

    corpus: CorpusOptions
    extract: ExtractOptions
    copies: tuple[Path, ...]  # folders of videos beside the corpus: the inbox, what was withdrawn
    store: ModelStore


@dataclass(frozen=True, slots=True)
class Step:
    """Something to remove."""

    what: str  # for a person
    found: Sequence[object]
    act: Callable[[], object]


def read_places(params: Path) -> Places:
    """Read where things lie from a parameters file in the project's root."""
    inbox = load_params(params).get("retrain", {}).get("inbox")  # who retrains by hand has none
    return Places(
        corpus=load_section(params, "corpus", CorpusOptions),
        extract=load_section(params, "extract", ExtractOptions),
        copies=(*([Path(inbox)] if inbox else []), WITHDRAWN_VIDEOS),
        store=ModelStore(MODELS),
    )


def find_person(signer: str, places: Places) -> Person:
    """Return by what a signer is found; of a removal that was cut short, what it had found.

    Raises:
        UserError: If nothing names them, with names that are near; if the removal of somebody else
            is not finished; if the corpus is drawn, or without them there is nothing to learn from.
    """
    name = unicodedata.normalize("NFC", signer.strip())
    if FORGET_JOURNAL.is_file():
        content = read_json(FORGET_JOURNAL, hint="remove it and run this again")
        person = parse_options(content, Person, where=str(FORGET_JOURNAL))
        if person.signer != name:
            raise UserError(
                f"the removal of {person.signer!r} was cut short; finish it first: "
                f"`signloom forget {person.signer}`"
            )
        return person
    clips = read_manifest(places.corpus.path, places.corpus.signer_disjoint)
    stored = {t.clip_id: t.signer for t in read_targets(TARGETS)} if TARGETS.is_file() else {}
    by_clip = {**stored, **{clip.clip_id: clip.signer for clip in clips}}
    theirs = tuple(sorted(clip_id for clip_id, who in by_clip.items() if who == name))
    known = {*by_clip.values(), *versions_of(places.store).keys()}
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else "`signloom summary` names them"
        raise UserError(
            f"no clip and no model version is of a signer {name!r}; {hint} (Of somebody who was "
            "forgotten before, nothing is left to remove.)"
        )
    refuse_drawn(places.corpus.folder)
    check_splits(places.corpus.path, [clip for clip in clips if clip.signer != name])
    return _describe(name, theirs, clips, places)


def _describe(
    name: str, clip_ids: tuple[str, ...], clips: Sequence[Clip], places: Places
) -> Person:
    """Hash the videos that show nobody else, and find what the cache has of the clips."""
    theirs = [clip for clip in clips if clip.signer == name]
    shared = {clip.video for clip in clips if clip.signer != name}
    hashed = VideoHashes(cache_folder()).hash_videos(c.video for c in theirs if c.video)
    makes = {extractor_fingerprint(places.extract.detector_options), *_makes(places)}
    entries = {
        cache_key(
            video=hashed[clip.video].sha256, start_s=clip.start_s, end_s=clip.end_s,
            decoder=DECODER, extractor=make,
        )
        for clip in theirs if clip.video in hashed
        for make in makes
    }  # fmt: skip
    own = {video: found for video, found in hashed.items() if video not in shared}
    folder = places.corpus.folder
    return Person(
        signer=name,
        request=uuid.uuid4().hex[:8],
        clip_ids=clip_ids,
        videos=tuple(sorted({found.sha256 for found in own.values()})),
        files=tuple(sorted(video.relative_to(folder).as_posix() for video in own)),
        shared=tuple(sorted(v.relative_to(folder).as_posix() for v in hashed if v in shared)),
        entries=tuple(sorted(entries)),
    )


def _makes(places: Places) -> Iterable[str]:
    """Yield how landmarks were found before now, as far as models and shards tell."""
    if SHARDS.is_dir():
        yield shards_metadata(SHARDS).extractor
    for version in places.store.versions():
        path = places.store.checkpoint(version) / "checkpoint.json"
        yield json.dumps(json.loads(path.read_text(encoding="utf-8"))["extractor"], sort_keys=True)


def plan_removal(person: Person, places: Places) -> list[Step]:
    """Return what is to be done, in its order; steps that find nothing are left out."""
    dvc = DvcCache()
    cache = cache_folder()
    copies = [path for folder in places.copies for path in videos_like(folder, person)]
    copies += [text for path in copies if (text := path.with_suffix(".txt")).is_file()]
    entries = [cache / key[:2] / f"{key}.clip" for key in person.entries]
    entries = [path for path in entries if path.is_file()]
    derived = [path for path in DERIVED if path.exists()]
    shown = [path for path in sorted(REPORTS.glob("retrain*/**/*")) if path.is_file()]
    shown += [path for path in [LAST_NIGHT] if path.is_file()]
    steps = [
        Step("clips of the corpus", person.clip_ids, lambda: _leave_corpus(person, places, dvc)),
        Step("copies of their videos", copies, lambda: _erase(copies, dvc)),
        Step("names in tables", [person.signer], lambda: _scrub_tables(person, places, dvc)),
        Step("landmarks in the cache", entries, lambda: _clear_cache(entries)),
        Step("what stages made", derived, lambda: _erase(derived, dvc)),
        Step("what nights reported", shown, lambda: [scrub(path, person, dvc) for path in shown]),
        Step(
            "model versions",
            places.store.versions(),
            lambda: _blank_versions(person, places, dvc),
        ),
    ]
    return [step for step in steps if step.found]


def remove(person: Person, steps: Sequence[Step], tell: Callable[[str], object]) -> None:
    """Do the steps; from the first on, the journal tells the next call what is left.

    Args:
        person: Who.
        steps: What `plan_removal` found.
        tell: Hears of each step that is done.
    """
    FORGET_JOURNAL.parent.mkdir(parents=True, exist_ok=True)
    write_file(FORGET_JOURNAL, to_text(dataclasses.asdict(person)))
    for step in steps:
        step.act()
        tell(step.what)


def end_removal() -> None:
    """Forget the name itself: to be called when what is left was told."""
    FORGET_JOURNAL.unlink(missing_ok=True)


def _leave_corpus(person: Person, places: Places, dvc: DvcCache) -> None:
    corpus = places.corpus
    if corpus.imported_shards.parent.is_dir():
        _leave_imported(person, places, dvc)
        return
    clips = read_manifest(corpus.path, corpus.signer_disjoint)
    there = {clip.clip_id for clip in clips}
    if there & set(person.clip_ids):
        dvc.drop(corpus.path)
        for name in person.files:
            dvc.drop(corpus.folder / name)
        gone = [clip for clip in clips if clip.clip_id in person.clip_ids]
        with change_corpus(corpus) as (change, _):
            stage_removal(change, corpus, clips, gone, REASON, to=None)
            commit(corpus, change)


def _leave_imported(person: Person, places: Places, dvc: DvcCache) -> None:
    """Write manifest and landmarks without the person; the landmarks by two renames."""
    corpus, shards = places.corpus, places.corpus.imported_shards
    new, old = shards.with_name("shards.new"), shards.with_name("shards.old")
    if not old.exists():
        clips = read_manifest(corpus.path, corpus.signer_disjoint)
        left = [clip for clip in clips if clip.clip_id not in person.clip_ids]
        check_splits(corpus.path, left)
        dvc.drop(corpus.path)
        write_manifest(corpus.path, left)
        made, frames = shards_metadata(shards), read_clip_frames(shards)
        kept = {name: count for name, count in frames.items() if name not in person.clip_ids}
        write_shards(
            new,
            kept,
            lambda clip_id: read_shards(shards, [clip_id])[clip_id],
            layout=made.layout,
            extractor=made.extractor,
            frames_per_shard=places.extract.frames_per_shard,
        )
        shards.rename(old)
    if not shards.exists():
        new.rename(shards)
    erase(old, dvc)
    track_version(corpus.folder)


def _scrub_tables(person: Person, places: Places, dvc: DvcCache) -> None:
    """Take the names out of the tables beside the manifest and those of deliveries.

    What must not come in again is known by its hash: that row stays.
    """
    corpus = places.corpus
    ledgers = {
        corpus.folder / DELIVERIES: ("source", "reason"),
        corpus.folder / WITHDRAWN: ("file", "reason"),
    }
    with change_corpus(corpus):
        changed = [
            path
            for folder in (corpus.folder, *places.copies)
            for path in sorted(folder.rglob("*"))
            if path.suffix in (".tsv", ".csv", ".txt")
            and path != corpus.path
            and scrub(path, person, dvc, columns=ledgers.get(path, ()))
        ]
    if any(corpus.folder in path.parents for path in changed):
        track_version(corpus.folder)


def _blank_versions(person: Person, places: Places, dvc: DvcCache) -> None:
    blank_versions(person, places.store, places.corpus.folder, dvc)
    track_again(places.store.root)


def _erase(paths: Sequence[Path], dvc: DvcCache) -> None:
    for path in paths:
        erase(path, dvc)


def _clear_cache(entries: Sequence[Path]) -> None:
    for path in entries:
        path.unlink(missing_ok=True)
    VideoHashes(cache_folder()).prune()


def sync_marks(params: Path, places: Places) -> str:
    """Have the model registry show the marks; say what came of it."""
    tracking = load_section(params, "tracking", TrackingOptions)
    if not tracking.enabled or not places.store.versions():
        return "the model registry has nothing to be told"
    from signloom.nightly.publish import sync_registry  # it loads MLflow

    try:
        changed = sync_registry(places.store, tracking)
    except UserError as error:
        return f"the model registry was not told: {error}; `signloom champion sync` makes it up"
    return f"the model registry was told: {'; '.join(changed) or 'it knew'}"
