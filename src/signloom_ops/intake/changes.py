"""Changes of a corpus: its manifest, its films and the small tables next to the manifest.

A change adds what is new under names that nothing uses yet (the films of a delivery, the copies of
films that leave, rows of tables), then replaces the manifest, then settles: films that no row of
the manifest names are removed, if this change brought them or a table lists them as withdrawn.
Every change also settles first, and so finishes what a process that was killed left. Next to the
corpus, where DVC does not look, lie the lock and, until DVC keeps the version, a note of the
change.
"""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TypeVar, cast

import signloom.paths
from signloom.config import check_shape, explained, read_json, shape
from signloom.corpus.manifest import (
    Clip,
    CorpusOptions,
    Manifest,
    is_text_corpus,
    load_manifest,
    write_manifest,
)
from signloom.errors import FULL_DISK, UserError
from signloom.extraction.cache import VideoHashes, cache_folder
from signloom.files import flush_to_disk, half_written, hash_file, to_text, write_file
from signloom.tables import read_columns, read_rows, tsv_text
from signloom_ops.lock import hold_lock
from signloom_tools.dvc import refuse_drawn, track_version
from signloom_tools.importing.new_corpus import VIDEOS

DELIVERIES = "deliveries.tsv"
INTAKE_REJECTS = "intake_rejects.tsv"
WITHDRAWN = "withdrawn.tsv"

IN, OUT = "in", "withdrawn"  # states of a delivery

_CHANGE = "change.json"  # the batch that a change brings; empty: none
_JOURNAL = "journal.json"  # of Signloom 0.2
_NOTE = shape(batch=str)
_HINT = "remove it, and look for films that no row of the manifest names"
_WAIT_S = 600.0  # for the lock


@dataclass(frozen=True, slots=True)
class Delivery:
    """What one ingest brought into the corpus."""

    batch: str
    day: str
    clips: int
    rejects: int  # that were new with it
    source: str  # folders, separated by "; "
    state: str  # in or withdrawn
    reason: str  # of the withdrawal


@dataclass(frozen=True, slots=True)
class IntakeReject:
    """A clip, or a file, that was left where it is."""

    delivery: str  # folder
    where: str  # file or line in it
    clip_id: str
    reason: str  # names no person and no clip
    hint: str  # what to do about it
    fingerprint: str  # of all that was looked at, so that nothing is tried twice in vain
    concerns: str  # clips, signers and files that the reason means, separated by "; "

    @property
    def key(self) -> tuple[str, str, str]:
        """What was rejected: the same file with the same content is the same reject."""
        return self.delivery, self.where, self.fingerprint


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A video that was taken out of the corpus and does not come in again."""

    sha256: str
    file: str
    batch: str
    reason: str


LedgerRow = TypeVar("LedgerRow", Delivery, IntakeReject, Withdrawn)


def read_deliveries(corpus: CorpusOptions) -> list[Delivery]:
    """Return what came into a corpus after its founding, the oldest first."""
    return read_ledger(corpus.folder / DELIVERIES, Delivery)


def read_withdrawn(corpus: CorpusOptions) -> dict[str, Withdrawn]:
    """Return what must not come in again, by the SHA-256 of the video."""
    return {row.sha256: row for row in read_ledger(corpus.folder / WITHDRAWN, Withdrawn)}


def read_rejects(corpus: CorpusOptions) -> list[IntakeReject]:
    """Return what was left out so far and has not been corrected."""
    return read_ledger(corpus.folder / INTAKE_REJECTS, IntakeReject)


def read_ledger(path: Path, kind: type[LedgerRow]) -> list[LedgerRow]:
    """Read the rows of a table; there are none where it does not exist.

    Raises:
        UserError: If it is damaged.
    """
    if not path.is_file():
        return []
    build = cast("Callable[..., LedgerRow]", kind)
    names = [field.name for field in fields(kind)]
    counts = {field.name for field in fields(kind) if field.type in (int, "int")}
    hint = "restore it with `dvc checkout`, or from a backup"
    if path.name == INTAKE_REJECTS:
        hint = "remove it: the next `signloom ingest` lists again what it leaves out"
    with explained(path, hint):
        header = path.read_text(encoding="utf-8").partition("\n")[0]
        if header.split("\t") != names:
            raise ValueError(f"found the columns {header!r}, expected {', '.join(names)}")
        return [
            build(**{name: int(cell) if name in counts else cell for name, cell in row.items()})
            for row in read_rows(path)
        ]


def ledger_text(rows: Sequence[LedgerRow], kind: type[LedgerRow]) -> str:
    """Return the table of some rows; line ends and tabs within a cell become spaces."""
    return tsv_text([field.name for field in fields(kind)], (asdict(row).values() for row in rows))


def changed_ledger(path: Path, rows: Sequence[LedgerRow], kind: type[LedgerRow]) -> dict[Path, str]:
    """Return a table by its path if its rows are other ones now."""
    return {} if list(rows) == read_ledger(path, kind) else {path: ledger_text(rows, kind)}


def write_ledger(path: Path, rows: Sequence[LedgerRow], kind: type[LedgerRow]) -> None:
    """Replace a table by one of other rows; one without rows is removed."""
    for changed, text in changed_ledger(path, rows, kind).items():
        if rows:
            write_file(changed, text)
        else:
            remove_paths([changed])


def is_unfinished(corpus: CorpusOptions) -> bool:
    """Return whether a change of a corpus was interrupted."""
    folder = changes_folder(corpus)
    notes = (folder / _CHANGE, removal_note(corpus), folder / _JOURNAL)
    return any(note.is_file() for note in notes)


def recover_corpus(corpus: CorpusOptions) -> None:
    """Settle an interrupted change, if there is one; every later change also does so first."""
    if is_unfinished(corpus):
        with change_corpus(corpus):
            pass


@contextlib.contextmanager
def change_corpus(corpus: CorpusOptions) -> Iterator[None]:
    """Hold the lock of a corpus, and settle what an earlier call left; an error undoes a delivery.

    Raises:
        UserError: As `lock_corpus`, or if the removal of a person is not finished.
    """
    with lock_corpus(corpus):
        if removal_note(corpus).is_file():
            raise UserError(
                "the removal of a person was interrupted; run the same `signloom forget` again, "
                "which finishes the rest"
            )
        settle_change(corpus)
        try:
            yield
        except BaseException:
            with contextlib.suppress(OSError, UserError):  # the next call settles
                _clear(corpus)
            raise


@contextlib.contextmanager
def lock_corpus(corpus: CorpusOptions) -> Iterator[None]:
    """Hold the lock of a corpus without settling; see `change_corpus`.

    Raises:
        UserError: If another process holds it for too long, the disk is full, or a change by
            Signloom 0.2 is not finished.
    """
    folder = changes_folder(corpus)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with hold_lock(folder / "lock", wait_s=_WAIT_S):
            if (folder / _JOURNAL).is_file():
                raise UserError(
                    f"{folder / _JOURNAL}: a change of {corpus.folder} was interrupted under "
                    "Signloom 0.2, and this version cannot finish it; run the same command again "
                    "with Signloom 0.2, then go on with this one"
                )
            shutil.rmtree(folder / "staged", ignore_errors=True)  # of Signloom 0.2
            remove_paths([*half_written(folder, ".*.tmp")])
            yield
    except OSError as error:
        if error.errno not in FULL_DISK:
            raise
        raise UserError(
            f"{error.filename2 or error.filename or folder}: the disk is full "
            f"({os.strerror(error.errno or 0)}). Free some space and run the same again"
        ) from error


def begin_change(corpus: CorpusOptions, batch: str = "") -> None:
    """Note that a change is under way, before its first file.

    Args:
        corpus: Whose lock is held.
        batch: Batch that comes in; nothing of its name may be in the corpus. Empty: none.
    """
    write_file(changes_folder(corpus) / _CHANGE, to_text({"batch": batch}))


def replace_manifest(corpus: CorpusOptions, before: Manifest, clips: Sequence[Clip]) -> Manifest:
    """Replace the manifest, after all other files of a change.

    Raises:
        UserError: If somebody has edited it since it was read.
    """
    if hash_file(corpus.path) != before.sha256:
        raise UserError(
            f"{corpus.path} was edited while this command was at work, so its clips stay as they "
            "are; run the same again"
        )
    write_manifest(corpus.path, clips)
    return Manifest(clips, hash_file(corpus.path))


def settle_change(corpus: CorpusOptions, former: Manifest | None = None) -> str:
    """Clear what the manifest no longer names, and have DVC keep the version.

    Args:
        corpus: Whose lock is held.
        former: The manifest, if the caller has it.

    Returns:
        What `track_version` says; empty if no change was under way.
    """
    if not (changes_folder(corpus) / _CHANGE).is_file():
        return ""
    _clear(corpus, former)
    version = track_version(corpus.folder)
    _end(corpus)
    return version


def _clear(corpus: CorpusOptions, former: Manifest | None = None) -> None:
    """Remove withdrawn films that no row names, and a delivery that did not come in."""
    path = changes_folder(corpus) / _CHANGE
    if not path.is_file():
        return
    note = check_shape(read_json(path, hint=_HINT), _NOTE, where=path, hint=_HINT)
    clips, withdrawn = load_manifest(corpus, former).clips, read_withdrawn(corpus)
    listed = {corpus.folder / row.file for row in withdrawn.values()}
    named = {clip.video for clip in clips} if listed else set()
    hashes = VideoHashes(cache_folder()).hash_videos(listed - named)
    films = [film for film, hashed in hashes.items() if hashed.sha256 in withdrawn]
    remove_paths([*films, *half_written(corpus.folder, "**/.*.tmp")])
    if (batch := note["batch"]) and (batch,) not in read_columns(clips, "batch"):
        remove_paths([corpus.folder / VIDEOS / batch])
        deliveries = [delivery for delivery in read_deliveries(corpus) if delivery.batch != batch]
        write_ledger(corpus.folder / DELIVERIES, deliveries, Delivery)
        _end(corpus)


def _end(corpus: CorpusOptions) -> None:
    remove_paths([changes_folder(corpus) / _CHANGE])


def remove_paths(paths: Sequence[Path]) -> None:
    """Remove files, links and whole folders, also from the disk; what is gone is gone."""
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for folder in {path.parent for path in paths}:
        if folder.is_dir():
            flush_to_disk(folder)


def changes_folder(corpus: CorpusOptions) -> Path:
    """Return the folder of the lock and the notes; see `signloom.paths`."""
    return signloom.paths.changes_folder(corpus.folder)


def removal_note(corpus: CorpusOptions) -> Path:
    """Return the file that is there while a person is removed; see `signloom.paths`."""
    return signloom.paths.removal_note(corpus.folder)


def check_videos(corpus: CorpusOptions, clips: Sequence[Clip]) -> None:
    """Refuse a corpus without videos where new ones would come to it.

    Raises:
        UserError: If it is of glosses and sentences.
    """
    if is_text_corpus(corpus, clips):
        raise UserError(
            f"{corpus.path} is of glosses and sentences: videos cannot come to it, and a night "
            "(`signloom retrain`) is for models of landmarks. Add rows to it by hand and run `dvc "
            "repro`, or name a corpus of videos in params.yaml (corpus.folder)"
        )


def check_growable(corpus: CorpusOptions, sources: Sequence[Path] = ()) -> None:
    """Refuse a corpus into which nothing may come.

    Raises:
        UserError: If its landmarks are imported, a stage draws it, or a source is part of it.
    """
    if corpus.imported_shards.is_dir():
        raise UserError(
            f"{corpus.folder} holds imported landmarks, and videos cannot come to them. Import "
            "all sources at once (`signloom import`), or name a corpus of videos in params.yaml"
        )
    refuse_drawn(corpus.folder)
    root = corpus.folder.resolve()
    for source in sources:
        if source.resolve().is_relative_to(root) or root.is_relative_to(source.resolve()):
            raise UserError(
                f"{source} holds the corpus or lies in it; name the folder in which new videos lie"
            )
