"""Forgetting a person (`signloom forget`).

All changes in the project are one transaction, whose journal names the person. Then the versions of
the model are marked and the leftovers are listed, before the journal is removed: an interrupted
removal is finished by the same command.
"""

import dataclasses
import difflib
import functools
import json
import logging
import shutil
import unicodedata
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from signloom.config import check_shape, load_section, parse_options, read_json, shape
from signloom.corpus.manifest import Clip, CorpusOptions, check_splits, read_manifest
from signloom.corpus.shards import read_clip_frames, read_shards, shards_metadata, write_shards
from signloom.dvc import DvcCache, check_names, refuse_drawn, track_again, track_version
from signloom.errors import UserError
from signloom.extraction.cache import VideoHashes, cache_folder
from signloom.extraction.extract import ExtractOptions, clip_key, extractor_fingerprint
from signloom.features.targets import read_targets
from signloom.files import half_written
from signloom.paths import (
    BASELINE,
    EVALUATION,
    FIGURES,
    JUDGEMENTS,
    LANDMARKS,
    LAST_NIGHT,
    LOGS,
    LOOKUP,
    METRICS,
    MODELS,
    NIGHTS,
    REPORT_PAGE,
    REPORTS,
    SHARDS,
    SNAPSHOTS,
    SPOOL,
    TARGETS,
    TOKENS,
    TUNE,
    WITHDRAWN_VIDEOS,
)
from signloom.tracking.run import read_tracking
from signloom_ops.intake.ledgers import DELIVERIES, WITHDRAWN
from signloom_ops.intake.staging import (
    FORGET,
    finish,
    recover_corpus,
    stage_manifest,
    staging_folder,
)
from signloom_ops.intake.withdraw import stage_removal
from signloom_ops.nightly.card import CARD, write_card
from signloom_ops.nightly.store import FROZEN, MARKS, ModelStore
from signloom_ops.options import load_ops
from signloom_ops.privacy.copies import Span, delivered_signers, find_delivered, texts_of
from signloom_ops.privacy.leftovers import unnamed_films
from signloom_ops.privacy.models import TrainedVersion, mark_versions, trained_on, versions_of
from signloom_ops.privacy.names import CONSENTS, Person, blank_columns, scrub_file, videos_like
from signloom_ops.transaction import Transaction, open_transaction
from signloom_tools.versions import POINTER

# Written by stages, which write them again without the person.
DERIVED = (LANDMARKS, TOKENS, EVALUATION, REPORT_PAGE, FIGURES, LOOKUP, SNAPSHOTS)
# Written once, and read by people.
SHOWN = (NIGHTS, LAST_NIGHT, JUDGEMENTS, LOGS, TUNE, METRICS, BASELINE, SPOOL)
REASON = "consent withdrawn"
_MADE_BY = shape(extractor=(dict[str, Any] | None, None))  # of a checkpoint.json
_FORGOTTEN = "forgotten"  # what a removal ends with, unlike other changes of the corpus
_LEDGER_COLUMNS = {DELIVERIES: ("source", "reason"), WITHDRAWN: ("file", "reason")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """Where a project keeps what may be of a person, from its root."""

    corpus: CorpusOptions
    extract: ExtractOptions
    copies: tuple[Path, ...]  # folders of videos beside the corpus: the inbox, what was withdrawn
    store: ModelStore
    recordings: "Recordings"


class Recordings(Protocol):
    """What the app keeps of a signer."""

    def signers(self) -> set[str]:
        """Return who has a recording or a consent."""

    def films_of(self, signer: str) -> dict[Path, set[Span]]:
        """Return the films of a signer, and the clips in each."""

    def places_of(self, signer: str) -> list[Path]:
        """Return the folders and files that are a signer's alone."""


@dataclass(frozen=True, slots=True)
class Removal:
    """Who is to be forgotten, and which versions of the model they had a part in."""

    person: Person
    trained: Sequence[TrainedVersion]


@dataclass(frozen=True, slots=True)
class RemovalPart:
    """One kind of thing that a removal changes."""

    what: str
    found: Sequence[object]
    rewritten: Mapping[Path, str | bytes] = field(default_factory=dict)
    removed: Sequence[Path] = ()


logger = logging.getLogger(__name__)


def read_project(params: Path, recordings: Recordings) -> Project:
    """Read where things lie from a parameters file in the project's root."""
    return Project(
        corpus=load_section(params, "corpus", CorpusOptions),
        extract=load_section(params, "extract", ExtractOptions),
        copies=(load_ops(params).inbox, WITHDRAWN_VIDEOS),
        store=ModelStore(MODELS),
        recordings=recordings,
    )


def find_removal(signer: str, project: Project) -> Removal:
    """Find what belongs to a signer; after an interrupted removal, return what it had found.

    Raises:
        UserError: If nothing names them, with names that are near; if the removal of somebody else
            is not finished; if the corpus is drawn, or without them there is nothing to learn from.
    """
    name = unicodedata.normalize("NFC", signer.strip())
    if unfinished := _read_unfinished(project):
        if unfinished.person.signer != name:
            raise UserError(
                f"the removal of {unfinished.person.signer!r} was interrupted; finish it first: "
                f"`signloom forget {unfinished.person.signer}`"
            )
        return unfinished
    project.store.settle()
    recover_corpus(project.corpus)
    clips = _read_clips(project.corpus)
    stored = {t.clip_id: t.signer for t in read_targets(TARGETS)} if TARGETS.is_file() else {}
    by_clip = {**stored, **{clip.clip_id: clip.signer for clip in clips}}
    theirs = tuple(sorted(clip_id for clip_id, who in by_clip.items() if who == name))
    known = {*by_clip.values(), *versions_of(project.store).keys()}
    known |= project.recordings.signers() | delivered_signers(project.copies)
    if name not in known:
        folded = {one.casefold(): one for one in known}
        matches = difflib.get_close_matches(name.casefold(), folded, n=3, cutoff=0.5)
        near = [folded[one] for one in matches]
        hint = f"did you mean {' or '.join(near)}?" if near else "`signloom summary` names them"
        hint += f"; {films}" if (films := unnamed_films(WITHDRAWN_VIDEOS)) else ""
        raise UserError(
            f"no clip, recording, delivery or model version is of a signer {name!r}; {hint} (Of "
            "somebody who was forgotten before, nothing is left to remove.)"
        )
    if theirs:
        refuse_drawn(project.corpus.folder)
        check_names(project.corpus.folder)
        check_splits(project.corpus.path, [clip for clip in clips if clip.signer != name])
    person = _describe(name, theirs, clips, project)
    return Removal(person, trained_on(person, project.store))


def _read_clips(corpus: CorpusOptions) -> list[Clip]:
    """Return the clips of a corpus; where only the app has recorded so far, there is none."""
    return read_manifest(corpus.path, corpus.signer_disjoint) if corpus.path.is_file() else []


def is_interrupted(project: Project) -> bool:
    """Return whether a removal was interrupted, which has to be finished before all else."""
    return _read_unfinished(project) is not None


def _read_unfinished(project: Project) -> Removal | None:
    """Return what an interrupted removal had found."""
    note = Transaction(staging_folder(project.corpus)).note
    if note and FORGET in note:
        return _parse(note)
    return None


def _parse(note: Mapping[str, Any]) -> Removal:
    found = note[FORGET]
    return Removal(
        parse_options(found["person"], Person, where="the journal"),
        [parse_options(row, TrainedVersion, where="the journal") for row in found["trained"]],
    )


def _describe(
    name: str, clip_ids: tuple[str, ...], clips: Sequence[Clip], project: Project
) -> Person:
    """Hash the videos that show nobody else, and find what the cache has of the clips."""
    films = [(clip, clip.video) for clip in clips if clip.video]
    shared = {film for clip, film in films if clip.signer != name}
    corpus = {film for clip, film in films if clip.signer == name}
    spans: dict[Path, set[Span]] = defaultdict(set)
    for clip, film in films:
        if clip.signer == name:
            spans[film].add((clip.start_s, clip.end_s))
    delivered = find_delivered(project.copies, name)
    beside = {**project.recordings.films_of(name), **delivered.films}
    spans |= {path: {*spans[path], *found} for path, found in beside.items()}
    hashed = VideoHashes(cache_folder()).hash_videos([*spans, *shared, *delivered.shared])
    entries = _cached(project, spans, {path: found.sha256 for path, found in hashed.items()})
    of_others = {hashed[path].sha256 for path in (*shared, *delivered.shared) if path in hashed}
    own = {path for path, found in hashed.items() if found.sha256 not in of_others} & spans.keys()

    def names(films: Iterable[Path]) -> tuple[str, ...]:
        return tuple(sorted(one.relative_to(project.corpus.folder).as_posix() for one in films))

    return Person(
        signer=name,
        request=uuid.uuid4().hex[:8],
        clip_ids=clip_ids,
        videos=tuple(sorted({hashed[path].sha256 for path in own})),
        files=names(corpus & own),
        shared=names((corpus & hashed.keys()) - own),
        entries=tuple(sorted(entries)),
        shared_copies=tuple(path.as_posix() for path in delivered.shared),
    )


def _cached(
    project: Project, spans: Mapping[Path, Iterable[Span]], hashes: Mapping[Path, str]
) -> set[str]:
    """Return the keys that the cache may have of clips in some films, and of the whole films."""
    makes = {extractor_fingerprint(project.extract.detector_options), *_extractors(project)}
    return {
        clip_key(hashes[path], make, start_s, end_s)
        for path, found in spans.items() if path in hashes
        # And of the whole film, which somebody may have looked at.
        for start_s, end_s in (*found, (None, None))
        for make in makes
    }  # fmt: skip


def _extractors(project: Project) -> Iterable[str]:
    """Yield how landmarks were found before now, as far as models and shards tell."""
    if SHARDS.is_dir():
        yield shards_metadata(SHARDS).extractor
    for version in project.store.versions():
        path = project.store.checkpoint(version) / "checkpoint.json"
        hint = f"bring it back with `dvc checkout {MODELS}.dvc`"
        content = check_shape(read_json(path, hint=hint), _MADE_BY, where=path, hint=hint)
        yield json.dumps(content.get("extractor"), sort_keys=True)


def plan_removal(person: Person, project: Project) -> list[RemovalPart]:
    """Return what is to be done, in its order; parts that find nothing are left out."""
    copies, recordings = _plan_copies(person, project), project.recordings.places_of(person.signer)
    entries = [cache_folder() / key[:2] / f"{key}.clip" for key in person.entries]
    entries = [path for path in entries if path.is_file()]
    derived = [path for path in DERIVED if path.exists()]
    places = (Path("data"), REPORTS, cache_folder())
    half = sorted({path for place in places for path in half_written(place, "**/.*.tmp")})
    shown = [path for place in SHOWN for path in _files_of(place) if path.is_file()]
    store = project.store
    files, gone = _plan_versions(person, store)
    parts = [
        RemovalPart("clips of the corpus", person.clip_ids),
        RemovalPart("copies of their videos", copies, removed=copies),
        RemovalPart("recordings and consents of the app", recordings, removed=recordings),
        RemovalPart(
            "names in tables", [person.signer], rewritten=_plan_tables(person, project, copies)
        ),
        RemovalPart("landmarks in the cache", entries, removed=entries),
        RemovalPart("what stages made", derived, removed=derived),
        RemovalPart("reports, logs and judgements", shown, rewritten=_scrub_files(shown, person)),
        RemovalPart("what killed programs left half written", half, removed=half),
        RemovalPart("model versions", store.versions(), rewritten=files, removed=gone),
    ]
    return [part for part in parts if part.found]


def _plan_copies(person: Person, project: Project) -> list[Path]:
    """Find the films beside the corpus, by their bytes and by who is named, with their texts."""
    delivered = find_delivered(project.copies, person.signer)
    films = [path for folder in project.copies for path in videos_like(folder, person)]
    films += [path for path in delivered.films if path not in films]
    texts = [text for path in films for text in texts_of(path)]
    return list(dict.fromkeys([*films, *texts, *delivered.folders]))


def _plan_tables(
    person: Person, project: Project, without: Sequence[Path]
) -> dict[Path, str | bytes]:
    """Take the names out of the tables beside the manifest and those of deliveries.

    What must not come in again is known by its hash: that row stays.
    """
    corpus = project.corpus
    rewritten = {}
    for folder in (corpus.folder, *project.copies):
        for path in sorted(folder.rglob("*")):
            is_ours = path.suffix in (".tsv", ".csv", ".txt") or path.name == CONSENTS
            gone = {path, *path.parents} & {corpus.path, *without}
            if is_ours and path.is_file() and not gone:
                columns = _LEDGER_COLUMNS.get(path.name, ()) if folder == corpus.folder else ()
                content = scrub_file(path, person, columns=columns)
                if content is not None:
                    rewritten[path] = content
    return rewritten


def _plan_versions(person: Person, store: ModelStore) -> tuple[dict[Path, str | bytes], list[Path]]:
    """Take the names out of the files of all versions, except the weights."""
    removed, files = [], []
    for version in store.versions():
        folder = store.folder(version)
        if (kept := folder / "translations").is_dir():  # kept so as not to search twice
            removed.append(kept)
        files += [
            path
            for path in sorted(folder.rglob("*"))
            if path.is_file()
            and path != folder / CARD  # written again when all is done
            and not {store.checkpoint(version), kept} & set(path.parents)
        ]
    rewritten = _scrub_files(files, person)
    if (content := store.without_clips(person.clip_ids)) is not None:
        rewritten[store.root / POINTER] = content
        old = (store.root / name for name in (FROZEN, MARKS))  # what they said is in it now
        removed += [path for path in old if path.is_file()]
    return rewritten, removed


def _scrub_files(paths: Sequence[Path], person: Person) -> dict[Path, str | bytes]:
    found = {path: scrub_file(path, person) for path in paths}
    return {path: content for path, content in found.items() if content is not None}


def remove(removal: Removal, project: Project, tell: Callable[[Removal], object]) -> None:
    """Remove all that `plan_removal` finds, or finish an interrupted removal.

    Args:
        removal: What `find_removal` found.
        project: Where.
        tell: Called when all is done, while the journal still knows the name.
    """
    then = functools.partial(_finish, project, tell)
    with open_transaction(staging_folder(project.corpus)) as change:
        earlier = change.recover(then)
        if earlier == _FORGOTTEN:
            return
        if earlier:  # a delivery came in, which may have brought more of theirs
            removal = find_removal(removal.person.signer, project)
        store = project.store
        cards = [v for v in store.versions() if (store.folder(v) / CARD).is_file()]
        _stage(change, removal.person, project)
        note = {
            "person": dataclasses.asdict(removal.person),
            "trained": [dataclasses.asdict(found) for found in removal.trained],
            "cards": cards,
        }
        is_of_manifest = project.corpus.path in [target for _, target in change.operations]
        change.commit(
            {FORGET: note}, then, unless_changed=project.corpus.path if is_of_manifest else None
        )


def _finish(project: Project, tell: Callable[[Removal], object], note: Mapping[str, Any]) -> object:
    """Mark the versions, write their cards, have DVC keep the new state, tell what is left."""
    if FORGET not in note:
        return finish(project.corpus, note)
    removal, store = _parse(note), project.store
    mark_versions(removal.person, removal.trained, store)
    for version in note[FORGET]["cards"]:
        try:
            write_card(store.folder(version), project.corpus.folder, store.marks(version))
        except UserError as error:  # of damaged scores, say: what was removed is removed
            logger.warning("version %s has no card now: %s", version, error)
    VideoHashes(cache_folder()).prune()
    if project.corpus.folder.is_dir() and removal.person.clip_ids:
        track_version(project.corpus.folder)
    track_again(store.root)
    tell(removal)
    return _FORGOTTEN


def _stage(change: Transaction, person: Person, project: Project) -> None:
    """Make ready all that changes, the manifest first, and last what DVC keeps of it."""
    _stage_corpus(change, person, project)
    there = {target for _, target in change.operations}
    for part in plan_removal(person, project):
        for path, content in part.rewritten.items():
            if path not in there:
                change.write(path, content)
        for path in part.removed:
            change.remove(path)
    store = project.store
    for version in store.versions():
        if (card := store.folder(version) / CARD).is_file():
            change.remove(card)
    cache = DvcCache()
    changed = [
        path
        for source, target in change.operations
        for path in _files_of(source if target is None else target)
    ]
    kept = dict.fromkeys(found for path in changed if (found := cache.kept(path)))
    for file in kept:
        for link in cache.links(file):
            if link not in changed:
                change.move(link, link)  # it becomes a file, else it would dangle
    for file in kept:
        change.remove(file)


def _files_of(path: Path) -> list[Path]:
    return [one for one in path.rglob("*") if one.is_file()] if path.is_dir() else [path]


def _stage_corpus(change: Transaction, person: Person, project: Project) -> None:
    """Make ready the corpus without the person's clips."""
    corpus, shards = project.corpus, project.corpus.imported_shards
    clips = _read_clips(corpus)
    gone = [clip for clip in clips if clip.clip_id in person.clip_ids]
    if not shards.parent.is_dir():
        if gone:
            stage_removal(
                change, corpus, clips, gone, REASON, to=None,
                edit=lambda name, text: blank_columns(text, person, _LEDGER_COLUMNS[name]),
            )  # fmt: skip
        return
    left = [clip for clip in clips if clip.clip_id not in person.clip_ids]
    if gone:
        check_splits(corpus.path, left)
        stage_manifest(corpus, change, left)
    made, frames = shards_metadata(shards), read_clip_frames(shards)
    kept = {name: count for name, count in frames.items() if name not in person.clip_ids}
    if len(kept) == len(frames):
        return
    new = change.staged / "shards"
    shutil.rmtree(new, ignore_errors=True)
    change.staged.mkdir(exist_ok=True)
    write_shards(
        new,
        kept,
        lambda clip_id: read_shards(shards, [clip_id])[clip_id],
        layout=made.layout,
        extractor=made.extractor,
        frames_per_shard=project.extract.frames_per_shard,
    )
    for path in sorted(shards.iterdir()):
        if not (new / path.name).exists():
            change.remove(path)
    for path in sorted(new.iterdir()):
        change.move(path, shards / path.name)


def sync_marks(params: Path, project: Project) -> str:
    """Have the model registry show the marks; say what came of it."""
    tracking = read_tracking(params)
    if not tracking.enabled or not project.store.versions():
        return "the model registry has nothing to be told"
    from signloom_ops.nightly.registry import sync_registry  # it loads MLflow

    try:
        changed = sync_registry(project.store, tracking)
    except UserError as error:
        return f"the model registry was not told: {error}; `signloom champion sync` makes it up"
    return f"the model registry was told: {'; '.join(changed) or 'it knew'}"
