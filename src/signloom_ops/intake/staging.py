"""Changes of a corpus: which it takes, one transaction each, of which DVC keeps a version."""

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from signloom.corpus.manifest import Clip, CorpusOptions, is_text_corpus, write_manifest
from signloom.dvc import refuse_drawn, track_version
from signloom.errors import UserError
from signloom_ops.transaction import Transaction, open_transaction

FORGET = "forget"  # note of a transaction that only `signloom forget` can finish


@dataclass(frozen=True, slots=True)
class Finished:
    """A change of a corpus that is done."""

    batch: str  # that came in; empty: none
    version: str  # what `track_version` says


def staging_folder(corpus: CorpusOptions) -> Path:
    """Return where the changes of a corpus are made ready: beside it, where DVC does not look."""
    folder = corpus.folder.resolve()
    return folder.parent / f".{folder.name}.intake"


def is_unfinished(corpus: CorpusOptions) -> bool:
    """Return whether a change of a corpus was interrupted, so that the next call finishes it."""
    return Transaction(staging_folder(corpus)).journal.is_file()


def recover_corpus(corpus: CorpusOptions) -> None:
    """Finish an interrupted change, if there is one; every later change does so first, too."""
    if is_unfinished(corpus):
        with change_corpus(corpus):
            pass


@contextlib.contextmanager
def change_corpus(corpus: CorpusOptions) -> Iterator[tuple[Transaction, Finished | None]]:
    """Hold the lock of a corpus; finish what an earlier call left.

    Yields:
        The transaction, and what was finished.

    Raises:
        UserError: If another process holds it for too long, the disk is full, or the removal of a
            person is not finished.
    """
    with open_transaction(staging_folder(corpus)) as change:
        yield change, change.recover(functools.partial(finish, corpus))


def commit(corpus: CorpusOptions, change: Transaction, batch: str = "") -> Finished:
    """Do what was made ready; the manifest, if it changes, comes after new files only."""
    is_of_manifest = corpus.path in [target for _, target in change.operations]
    return change.commit(
        {"batch": batch},
        functools.partial(finish, corpus),
        unless_changed=corpus.path if is_of_manifest else None,
    )


def stage_manifest(corpus: CorpusOptions, change: Transaction, clips: Sequence[Clip]) -> None:
    """Have the manifest replaced."""
    path = change.stage(corpus.path)
    moved = [
        replace(clip, video=clip.video and path.parent / clip.video.relative_to(corpus.folder))
        for clip in clips
    ]
    write_manifest(path, moved)


def finish(corpus: CorpusOptions, note: Mapping[str, Any]) -> Finished:
    """Have DVC keep the version of a corpus whose files are as they should be."""
    if FORGET in note:
        raise UserError(
            "the removal of a person was interrupted; say the same `signloom forget` again, it "
            "finishes the rest"
        )
    return Finished(note["batch"], track_version(corpus.folder))


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
