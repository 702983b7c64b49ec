"""Forgetting a person (`signloom forget`).

First a note is written of who it is and by what their films and landmarks are known; until it goes,
nothing else changes the corpus, and the same command goes on from wherever it was cut. Then goes
what is found by something else, before that by which it is found, and last what names the person:

1. what DVC keeps of each file that changes or goes, whose name there is a hash of the file;
2. imported landmarks, and those in the cache, whose keys are hashes of the films;
3. model versions: each gets its mark while its files still say with how many clips it was made,
   then the names in its files go, and its card is written again;
4. what stages made, logs, names in reports and judgements, half-written files;
5. copies of the films with their texts: deliveries, withdrawn films, recordings and consents;
6. names in tables of deliveries and next to the manifest; there the hashes of the films are
   listed, so that they do not come in again;
7. films of the corpus, and last the rows of its manifest.
"""

import contextlib
import dataclasses
import difflib
import hashlib
import json
import logging
import os
import shutil
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from signloom.config import check_shape, load_section, read_json, read_record, shape
from signloom.corpus.manifest import Clip, CorpusOptions, check_splits, parse_box, read_manifest
from signloom.corpus.shards import read_clip_frames, read_shards, shards_metadata, write_shards
from signloom.errors import UserError, name_some
from signloom.extraction.cache import HashedVideo, VideoHashes, cache_folder
from signloom.extraction.extract import ExtractOptions, clip_key, extractor_fingerprint
from signloom.features.targets import read_targets
from signloom.files import half_written, to_sealed, to_text, whole_file, write_file
from signloom.paths import (
    EVALUATION,
    FIGURES,
    JUDGEMENTS,
    LANDMARKS,
    LAST_NIGHT,
    LOGS,
    LOOKUP,
    MODELS,
    NIGHTS,
    REPORT_PAGE,
    REPORTS,
    SCORES_NAME,
    SHARDS,
    SNAPSHOTS,
    SPOOL,
    TARGETS,
    TOKENS,
    TUNE,
    WITHDRAWN_VIDEOS,
)
from signloom.tracking.run import read_tracking
from signloom_ops.app.takes import TakeStore
from signloom_ops.intake.changes import (
    DELIVERIES,
    INTAKE_REJECTS,
    WITHDRAWN,
    Delivery,
    IntakeReject,
    Withdrawn,
    changed_ledger,
    lock_corpus,
    read_deliveries,
    read_rejects,
    read_withdrawn,
    removal_note,
    remove_paths,
    settle_change,
)
from signloom_ops.nightly.card import CARD, write_card
from signloom_ops.nightly.store import FROZEN, MARKS, ModelStore
from signloom_ops.options import load_ops
from signloom_ops.privacy.names import (
    BLANK,
    CONSENTS,
    Person,
    Span,
    blank_folders,
    delivered_signers,
    files_naming,
    find_delivered,
    scrub_file,
    texts_of,
    videos_like,
)
from signloom_ops.privacy.trained_versions import (
    TrainedVersion,
    mark_versions,
    trained_on,
    versions_of,
)
from signloom_tools.dvc import (
    DvcCache,
    check_names,
    refuse_drawn,
    stages_at_work,
    track_again,
    track_version,
)
from signloom_tools.importing.person_names import like_key, name_key
from signloom_tools.versions import POINTER

# Written by stages, which write them again without the person; and logs.
DERIVED = (LANDMARKS, TOKENS, EVALUATION, REPORT_PAGE, FIGURES, LOOKUP, SNAPSHOTS, LOGS)
# Written once, and read by people.
SHOWN = (NIGHTS, LAST_NIGHT, JUDGEMENTS, TUNE, SPOOL)
REASON = "consent withdrawn"
VERSIONS = "model versions"
HALF_WRITTEN = "what killed programs left half written"
_LEDGERS = (DELIVERIES, WITHDRAWN, INTAKE_REJECTS)
_MADE_BY = shape(extractor=(dict[str, Any] | None, None))  # of a checkpoint.json

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """Where a project keeps what may be of a person, from its root."""

    corpus: CorpusOptions
    extract: ExtractOptions
    copies: tuple[Path, ...]  # folders of videos outside the corpus: the inbox, what was withdrawn
    store: ModelStore
    recordings: TakeStore


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


def read_project(params: Path) -> Project:
    """Read where things lie from a parameters file in the project's root."""
    return Project(
        corpus=load_section(params, "corpus", CorpusOptions),
        extract=load_section(params, "extract", ExtractOptions),
        copies=(load_ops(params).inbox, WITHDRAWN_VIDEOS),
        store=ModelStore(MODELS),
        recordings=TakeStore(),
    )


def find_removal(signer: str, project: Project) -> Removal:
    """Find what belongs to a signer; after an interrupted removal, return what it had found.

    Raises:
        UserError: If nothing names them, with names that are near; if the removal of somebody else
            is not finished; if the corpus is drawn, or without them there is nothing to learn from.
    """
    name = name_key(signer)
    if is_interrupted(project):
        hint = "remove it, and forget the person again"
        person = read_record(removal_note(project.corpus), Person, hint=hint)
        if not person.signs_as(name):
            raise UserError(
                f"the removal of {person.signer!r} was interrupted; finish it first: "
                f"`signloom forget {person.signer}`"
            )
        return Removal(person, trained_on(person, project.store))
    clips = _read_clips(project.corpus)
    stored = {t.clip_id: t.signer for t in read_targets(TARGETS)} if TARGETS.is_file() else {}
    by_clip = {**stored, **{clip.clip_id: clip.signer for clip in clips}}
    theirs = tuple(sorted(clip_id for clip_id, who in by_clip.items() if name_key(who) == name))
    signers = {*by_clip.values(), *versions_of(project.store).keys()}
    signers |= project.recordings.signers() | delivered_signers(project.copies)
    if name not in map(name_key, signers):
        folded = {signer_name.casefold(): signer_name for signer_name in signers}
        matches = difflib.get_close_matches(name.casefold(), folded, n=3, cutoff=0.5)
        near = [folded[match] for match in matches]
        hint = f"did you mean {' or '.join(near)}?" if near else "`signloom summary` names them"
        raise UserError(
            f"no clip, recording, delivery or model version is of a signer {name!r}; {hint} (Of "
            "somebody who was forgotten before, nothing is left to remove.)"
        )
    if theirs:
        refuse_drawn(project.corpus.folder)
        check_names(project.corpus.folder)
        remaining = [clip for clip in clips if name_key(clip.signer) != name]
        check_splits(project.corpus.path, remaining)
    person = _describe(name, theirs, clips, project)
    alike = {who for who in signers if like_key(who) == like_key(name) and name_key(who) != name}
    person = replace(person, alike=tuple(sorted(alike)))
    return Removal(person, trained_on(person, project.store))


def is_interrupted(project: Project) -> bool:
    """Return whether a removal was interrupted, which has to be finished before all else."""
    return removal_note(project.corpus).is_file()


def _read_clips(corpus: CorpusOptions) -> Sequence[Clip]:
    """Return the clips of a corpus; where only the app has recorded so far, there is none."""
    return read_manifest(corpus.path, corpus.signer_disjoint) if corpus.path.is_file() else []


def _describe(
    name: str, clip_ids: tuple[str, ...], clips: Sequence[Clip], project: Project
) -> Person:
    """Hash the videos that show no one else, find their copies and what the cache has of them."""
    corpus_spans = _spans_in_corpus(name, clips)
    delivered = find_delivered(project.copies, name)
    spans = _with_copies(corpus_spans, project.recordings.films_of(name), delivered.films)
    films_of_others = {clip.video for clip in clips if clip.video and name_key(clip.signer) != name}
    films_of_others.update(delivered.shared)
    hashed = VideoHashes(cache_folder()).hash_videos([*spans, *films_of_others])
    exclusive = _exclusive_films(spans, films_of_others, hashed)
    video_hashes = {hashed[film].sha256 for film in exclusive}
    copies = [path for place in project.copies for path in videos_like(place, video_hashes)]
    copies += [path for path in delivered.films if path not in copies]
    texts = [*delivered.texts, *(text for path in copies for text in texts_of(path))]
    folder = project.corpus.folder
    return Person(
        signer=name,
        request=uuid.uuid4().hex[:8],
        clip_ids=clip_ids,
        videos=tuple(sorted(video_hashes)),
        files=_names_below(folder, corpus_spans.keys() & exclusive),
        shared=_names_below(folder, (corpus_spans.keys() & hashed.keys()) - exclusive),
        entries=tuple(sorted(_cached(project, spans, hashed))),
        # Deliveries may have names that are not UTF-8.
        copies=tuple(quote(os.fsencode(path)) for path in (*copies, *texts, *delivered.folders)),
        shared_copies=_distinct_names(path for path in delivered.shared if path not in texts),
        recordings=_distinct_names(project.recordings.places_of(name)),
    )


def _spans_in_corpus(name: str, clips: Iterable[Clip]) -> dict[Path, set[Span]]:
    """Return the films of the corpus that show a signer, with when and where in the picture."""
    spans: dict[Path, set[Span]] = defaultdict(set)
    for clip in clips:
        if clip.video and name_key(clip.signer) == name:
            spans[clip.video].add((clip.start_s, clip.end_s, parse_box(clip.box or "")))
    return spans


def _with_copies(
    spans: Mapping[Path, Set[Span]],
    recorded: Mapping[Path, Iterable[tuple[float | None, float | None]]],
    delivered: Mapping[Path, Set[Span]],
) -> dict[Path, Set[Span]]:
    """Return spans of the films of the corpus with those of recorded and delivered films."""
    of_copies: dict[Path, Set[Span]] = {
        **{film: {(*times, None) for times in film_times} for film, film_times in recorded.items()},
        **delivered,
    }
    return {**spans, **{film: spans.get(film, set()) | of_copies[film] for film in of_copies}}


def _exclusive_films(
    films: Iterable[Path], films_of_others: Iterable[Path], hashed: Mapping[Path, HashedVideo]
) -> set[Path]:
    """Return the readable films whose content no film of another person has."""
    hashes_of_others = {hashed[film].sha256 for film in films_of_others if film in hashed}
    return {
        film for film in films if film in hashed and hashed[film].sha256 not in hashes_of_others
    }


def _distinct_names(paths: Iterable[Path]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(path.as_posix() for path in paths))


def _names_below(folder: Path, films: Iterable[Path]) -> tuple[str, ...]:
    return _distinct_names(sorted(film.relative_to(folder) for film in films))


def _cached(
    project: Project, spans: Mapping[Path, Set[Span]], hashed: Mapping[Path, HashedVideo]
) -> set[str]:
    """Return the keys that the cache may have of clips in some films, and of the whole films."""
    makes = {extractor_fingerprint(project.extract.detector_options), *_extractors(project)}
    return {
        clip_key(video, make, *span, box)
        for path, film_spans in spans.items()
        if path in hashed
        # And as versions before 0.3 read it.
        for video in (hashed[path], replace(hashed[path], traits=None))
        # And of the whole film, or picture, which may have been looked at.
        for start_s, end_s, of in film_spans
        for span, box in product({(start_s, end_s), (None, None)}, {of, None})
        for make in makes
    }


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
    corpus = project.corpus
    entries = _there(cache_folder() / key[:2] / f"{key}.clip" for key in person.entries)
    versions, removed = _scrub_versions(person, project.store)
    shown = [path for place in SHOWN for path in _files_of(place) if path.is_file()]
    logs = [path for path in shown if path.suffix == ".log"]
    derived = [*_there(DERIVED), *logs]
    places = (Path("data"), REPORTS, cache_folder())
    half = sorted({path for place in places for path in half_written(place, "**/.*.tmp")})
    copies = _there(Path(os.fsdecode(unquote_to_bytes(quoted))) for quoted in person.copies)
    recordings = _there(map(Path, person.recordings))
    tables = {**_scrub_tables(person, project, copies), **_scrub_ledgers(person, corpus)}
    films = _there(corpus.folder / name for name in person.files)
    parts = [
        RemovalPart("landmarks in the cache", entries, removed=entries),
        RemovalPart(VERSIONS, project.store.versions(), rewritten=versions, removed=removed),
        RemovalPart("what stages made", derived, removed=derived),
        RemovalPart("reports and judgements", shown, rewritten=_scrub_files(shown, person)),
        RemovalPart(HALF_WRITTEN, half, removed=half),
        RemovalPart("copies of their videos", copies, removed=copies),
        RemovalPart("recordings and consents of the app", recordings, removed=recordings),
        RemovalPart("names in tables", list(tables), rewritten=tables),
        RemovalPart("clips of the corpus", person.clip_ids, removed=films),
    ]
    return [part for part in parts if part.found]


def _there(paths: Iterable[Path]) -> list[Path]:
    return [path for path in paths if os.path.lexists(path)]


def _files_of(path: Path) -> list[Path]:
    return [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]


def _scrub_files(paths: Iterable[Path], person: Person) -> dict[Path, str | bytes]:
    every = {path: scrub_file(path, person) for path in paths}
    scrubbed = {path: content for path, content in every.items() if content is not None}
    return {**_renew_checksums(scrubbed), **scrubbed}


def _renew_checksums(scrubbed: dict[Path, str | bytes]) -> dict[Path, bytes]:
    """Take each scores.json out, and return it with the checksums of the tables that change.

    It is written before them, so that a removal that was cut off between them finds itself again.
    """
    renewed = {}
    for path in {table_path.with_name(SCORES_NAME) for table_path in scrubbed}:
        with contextlib.suppress(OSError, ValueError):  # none, or damaged
            content = json.loads(scrubbed.get(path) or path.read_bytes())
            for name in content.get("tables", {}):
                if (table := scrubbed.get(path.with_name(name))) is not None:
                    raw = table if isinstance(table, bytes) else table.encode()
                    content["tables"][name] = hashlib.sha256(raw).hexdigest()
            renewed[path] = to_sealed(content, indent=2)
            scrubbed.pop(path, None)
    return renewed


def _scrub_versions(
    person: Person, store: ModelStore
) -> tuple[dict[Path, str | bytes], list[Path]]:
    """Take the names out of the files of all versions but the weights and the card."""
    removed, files = [], []
    for version in store.versions():
        folder, translations = store.folder(version), store.folder(version) / "translations"
        if translations.is_dir() and person.clip_ids:  # kept so as not to search twice
            removed.append(translations)
        files += [
            path
            for path in sorted(folder.rglob("*"))
            if path.is_file() and not {store.checkpoint(version), translations} & set(path.parents)
        ]
    rewritten = _scrub_files(files, person)
    if (content := store.without_clips(person.clip_ids)) is not None:
        rewritten[store.root / POINTER] = content
        old = (store.root / name for name in (FROZEN, MARKS))  # what they said is in it now
        removed += [path for path in old if path.is_file()]
    return rewritten, removed


def _scrub_tables(
    person: Person, project: Project, without: Sequence[Path]
) -> dict[Path, str | bytes]:
    """Take the person's rows out of the tables of deliveries and those next to the manifest."""
    corpus = project.corpus
    excluded = {corpus.path, *(corpus.folder / name for name in _LEDGERS), *without}
    return _scrub_files(
        (
            path
            for folder in (corpus.folder, *project.copies)
            for path in sorted(folder.rglob("*"))
            if (path.suffix in (".tsv", ".csv", ".txt") or path.name == CONSENTS)
            and path.is_file()
            and excluded.isdisjoint((path, *path.parents))
        ),
        person,
    )


def _scrub_ledgers(person: Person, corpus: CorpusOptions) -> dict[Path, str]:
    """Take the names out of the corpus's own tables, and list its films of the person there."""
    named = set(map(name_key, (*person.clip_ids, *person.files, person.signer)))
    deliveries = [
        replace(row, source=blank_folders(row.source, person)) for row in read_deliveries(corpus)
    ]
    rejects = [
        replace(
            row,
            delivery=blank_folders(row.delivery, person),
            concerns="; ".join(
                BLANK if name_key(concern) in named else concern
                for concern in row.concerns.split("; ")
            ),
        )
        for row in read_rejects(corpus)
        if row.clip_id not in person.clip_ids
    ]
    refused = {
        sha256: replace(row, file=BLANK)
        if sha256 in person.videos or name_key(row.file) in named
        else row
        for sha256, row in read_withdrawn(corpus).items()
    }
    films = [corpus.folder / name for name in person.files]
    for film in VideoHashes(cache_folder()).hash_videos(films).values():
        refused.setdefault(film.sha256, Withdrawn(film.sha256, BLANK, "", REASON))
    return {
        **changed_ledger(corpus.folder / DELIVERIES, deliveries, Delivery),
        **changed_ledger(corpus.folder / INTAKE_REJECTS, rejects, IntakeReject),
        **changed_ledger(corpus.folder / WITHDRAWN, list(refused.values()), Withdrawn),
    }


def remove(signer: str, project: Project) -> Removal:
    """Remove all that is a person's, or what an interrupted removal left; see `end_removal`.

    Everything is found again, since more may have come in while a person was asked.

    Returns:
        What was found.

    Raises:
        UserError: As `find_removal`, or if another process changes the corpus or runs stages.
    """
    corpus, store = project.corpus, project.store
    with lock_corpus(corpus):
        if not (was_interrupted := is_interrupted(project)):
            settle_change(corpus)
            store.settle()
        removal = find_removal(signer, project)
        person = removal.person
        write_file(removal_note(corpus), to_text(dataclasses.asdict(person)))
        try:
            refuse_stages()  # now that the note keeps others from starting
        except UserError:
            if not was_interrupted:
                remove_paths([removal_note(corpus)])
            raise
        parts, cards = plan_removal(person, project), _find_cards(removal, store)
        of_clips = [corpus.path, *_files_of(corpus.imported_shards)] if person.clip_ids else []
        _remove_kept(parts, [*cards.values(), *of_clips])
        _remove_landmarks(person, project)
        mark_versions(person, removal.trained, store)
        for part in parts:
            remove_paths(part.removed)
            for path, content in part.rewritten.items():
                if path == store.root / POINTER:  # which has the marks since it was read
                    content = store.without_clips(person.clip_ids) or content
                write_file(path, content)
            if part.what == VERSIONS:
                _write_cards(cards, project)
        VideoHashes(cache_folder()).prune()
        if person.clip_ids and corpus.path.is_file():
            # As it is now: it may have been edited meanwhile.
            if (rows := scrub_file(corpus.path, person)) is not None:
                write_file(corpus.path, rows)
            track_version(corpus.folder)
        track_again(store.root)
    return removal


def refuse_stages() -> None:
    """Refuse to remove a person while stages run, which would write their landmarks again.

    Raises:
        UserError: If any does, or DVC is at work between them.
    """
    if working := stages_at_work():
        raise UserError(
            f"{name_some(working)}: at work in this project, and would write again what is to be "
            "removed; wait until it ends, or stop it (Ctrl-C), then run the same command again"
        )


def end_removal(person: Person, project: Project) -> None:
    """Let other commands change the corpus again, and forget the name.

    Raises:
        UserError: If something of the person is there again; then nothing ends yet.
    """
    if paths := find_traces(person, project):
        raise UserError(
            f"of what was removed, {name_some(paths)} is there again: a program wrote it "
            "meanwhile. End that program and run the same command again, which removes it; until "
            "then nothing else changes the corpus"
        )
    remove_paths([removal_note(project.corpus)])


def find_traces(person: Person, project: Project) -> list[Path]:
    """Return what a removal removes and is there, but what programs are just writing."""
    parts = [part for part in plan_removal(person, project) if part.what != HALF_WRITTEN]
    return [path for part in parts for path in (*part.removed, *part.rewritten)]


def _remove_kept(parts: Sequence[RemovalPart], further: Sequence[Path]) -> None:
    """Remove what DVC keeps of the present content of files; links to it become files.

    Where other clones have links to it, too, the tables stay, or they would have no corpus.

    Args:
        parts: What is to be removed and rewritten.
    """
    cache = DvcCache()
    removed = {file for part in parts for path in part.removed for file in _files_of(path)}
    rewritten = [path for part in parts for path in part.rewritten]
    changed = () if cache.is_linked_by_others else (*rewritten, *further)
    cached_files = {cached for path in (*removed, *changed) if (cached := cache.kept(path))}
    for file in cached_files:
        for link in cache.links(file):
            if link not in removed:
                with whole_file(link) as temporary:
                    shutil.copyfile(link, temporary)
    remove_paths(sorted(cached_files))


def _remove_landmarks(person: Person, project: Project) -> None:
    """Write imported landmarks without the person's clips."""
    shards = project.corpus.imported_shards
    if not shards.is_dir():
        return
    metadata, frames = shards_metadata(shards), read_clip_frames(shards)
    remaining = {name: count for name, count in frames.items() if name not in person.clip_ids}
    if len(remaining) < len(frames):
        write_shards(
            shards,
            remaining,
            lambda clip_id: read_shards(shards, [clip_id])[clip_id],
            layout=metadata.layout,
            extractor=metadata.extractor,
            frames_per_shard=project.extract.frames_per_shard,
        )


def _find_cards(removal: Removal, store: ModelStore) -> dict[int, Path]:
    """Return the cards of versions that get a mark, and those that name the person."""
    cards = {version: store.folder(version) / CARD for version in store.versions()}
    marked = {model.version for model in removal.trained}
    naming = files_naming([store.root], removal.person, [CARD]) if removal.person.clip_ids else []
    return {
        version: path
        for version, path in cards.items()
        if path.is_file() and (version in marked or path in naming)
    }


def _write_cards(cards: Mapping[int, Path], project: Project) -> None:
    store = project.store
    for version, path in cards.items():
        try:
            write_card(store.folder(version), project.corpus.folder, store.marks(version))
        except UserError as error:  # of damaged scores, say: what was removed is removed
            remove_paths([path])
            logger.warning("version %s has no card now: %s", version, error)


def sync_marks(params: Path, project: Project) -> str:
    """Have the model registry show the marks; return what came of it."""
    tracking = read_tracking(params)
    if not tracking.enabled or not project.store.versions():
        return "the model registry has no version to mark"
    from signloom_ops.nightly.registry import sync_registry  # it loads MLflow

    try:
        changed = sync_registry(project.store, tracking)
    except UserError as error:
        return (
            f"the model registry was not updated: {error}; `signloom champion sync` does it later"
        )
    return f"the model registry was updated: {'; '.join(changed) or 'nothing changed'}"
