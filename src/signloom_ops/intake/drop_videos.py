"""Conversion of a corpus of videos to one of landmarks (`signloom drop-videos`).

Nothing is deleted before the extraction of the new corpus has been tried and has given the same
bytes as that of the videos. Then one transaction brings the landmarks and the manifest in, and
removes the videos.
"""

import contextlib
import filecmp
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from signloom.corpus.landmark_folder import QUALITY_NAME, SHARDS_NAME, take_imported
from signloom.corpus.manifest import (
    IMPORTED_SHARDS,
    Clip,
    CorpusOptions,
    read_manifest,
    write_manifest,
)
from signloom.corpus.rejects import REJECTS_NAME
from signloom.corpus.shards import read_clip_frames
from signloom.dvc import refuse_drawn
from signloom.errors import UserError
from signloom.files import copy_folder
from signloom_ops.intake.staging import change_corpus, commit

_AGAIN = "run `dvc repro extract`, then this again"


@dataclass(frozen=True, kw_only=True, slots=True)
class Dropped:
    """The videos that are removed, or would be."""

    clips: int  # of the manifest; they stay
    without_landmarks: (
        int  # of them, without landmarks: their videos could not be read, and leave too
    )
    videos: list[Path]  # the files that the manifest names
    size_bytes: int  # of these
    version: str  # what became of the version that DVC keeps; empty: nothing has been done


def plan_drop(corpus: CorpusOptions, landmarks: Path) -> Dropped:
    """Return what `drop_videos` would delete.

    Args:
        corpus: The corpus, with videos.
        landmarks: What `extract` made of it.

    Raises:
        UserError: If the corpus has no videos, is drawn by a stage, or has clips of which the
            landmarks' folder knows nothing.
    """
    clips = read_manifest(corpus.path, corpus.signer_disjoint)
    videos = sorted({clip.video for clip in clips if clip.video})
    if not videos:
        raise UserError(f"{corpus.path} names no videos; there is nothing to drop")
    refuse_drawn(corpus.folder)
    ids = {clip.clip_id for clip in clips}
    known = read_clip_frames(landmarks / SHARDS_NAME).keys()
    try:
        rejects = (landmarks / REJECTS_NAME).read_text(encoding="utf-8").splitlines()[1:]
    except UnicodeDecodeError as error:
        raise UserError(
            f"{landmarks / REJECTS_NAME} is damaged ({error.reason}); run `dvc repro extract` again"
        ) from None
    without_landmarks = {line.split("\t")[0] for line in rejects}
    if unknown := sorted(ids ^ (known | without_landmarks)):
        raise UserError(
            f"{landmarks} is not of {corpus.path}: only one of them has {unknown[0]!r} (and "
            f"{len(unknown) - 1} more clips); {_AGAIN}"
        )
    return Dropped(
        clips=len(clips),
        without_landmarks=len(without_landmarks),
        videos=videos,
        size_bytes=sum(video.stat().st_size for video in videos),
        version="",
    )


def drop_videos(
    corpus: CorpusOptions,
    landmarks: Path,
    *,
    frames_per_shard: int,
    max_rejected_share: float,
    check: Callable[[], None],
) -> Dropped | None:
    """Turn a corpus of videos into one of landmarks.

    `extract` then writes the same shards as before, and all later stages have nothing to do.

    Args:
        corpus: The corpus.
        landmarks: What `extract` made of its videos, as they are now.
        frames_per_shard: As `extract` has it.
        max_rejected_share: Likewise.
        check: Called before any work; raises if the landmarks are not of these videos.

    Returns:
        What was deleted; None if this call ended the work of one that was killed.

    Raises:
        UserError: If something is in the way; nothing has changed then.
    """
    with change_corpus(corpus) as (change, earlier):
        if corpus.imported_shards.is_dir():
            _remove_empty_folders(corpus.folder)
        if earlier:
            return None
        found = plan_drop(corpus, landmarks)
        check()
        made = change.staged / "corpus"
        _make_corpus(corpus, landmarks, made)
        _try_extraction(
            replace(corpus, folder=made),
            landmarks,
            frames_per_shard=frames_per_shard,
            max_rejected_share=max_rejected_share,
        )
        rejects = made / IMPORTED_SHARDS.parent / REJECTS_NAME
        for path in [*sorted((made / IMPORTED_SHARDS).iterdir()), rejects, made / corpus.manifest]:
            change.move(path, corpus.folder / path.relative_to(made))
        for video in found.videos:
            change.remove(video)
        version = commit(corpus, change).version
        _remove_empty_folders(corpus.folder)
        return replace(found, version=version)


def _make_corpus(corpus: CorpusOptions, landmarks: Path, made: Path) -> None:
    """Write the corpus of landmarks beside that of videos."""
    shutil.rmtree(made, ignore_errors=True)
    (made / IMPORTED_SHARDS.parent).mkdir(parents=True)
    copy_folder(landmarks / SHARDS_NAME, made / IMPORTED_SHARDS)
    # Of clips that stay without landmarks, this alone says why.
    shutil.copyfile(landmarks / REJECTS_NAME, made / IMPORTED_SHARDS.parent / REJECTS_NAME)
    clips = read_manifest(corpus.path, corpus.signer_disjoint)
    write_manifest(made / corpus.manifest, [_without_video(clip) for clip in clips])


def _without_video(clip: Clip) -> Clip:
    return replace(clip, video=None, start_s=None, end_s=None)


def _try_extraction(
    made: CorpusOptions, landmarks: Path, *, frames_per_shard: int, max_rejected_share: float
) -> None:
    """Read all that was written, as `extract` will, and compare what comes out.

    Raises:
        UserError: If it is not what the videos gave.
    """
    tried = made.folder.with_name("tried")
    take_imported(
        read_manifest(made.path, made.signer_disjoint),
        made.imported_shards,
        tried,
        frames_per_shard=frames_per_shard,
        max_rejected_share=max_rejected_share,
    )
    names = {
        path.name for folder in (tried, landmarks) for path in (folder / SHARDS_NAME).iterdir()
    }
    paths = [QUALITY_NAME, *(f"{SHARDS_NAME}/{name}" for name in sorted(names))]
    _, differing, absent = filecmp.cmpfiles(tried, landmarks, paths, shallow=False)
    if differing or absent:
        raise UserError(
            f"{(differing + absent)[0]}: an extraction without the videos would not give what "
            f"{landmarks} has, so they stay; {_AGAIN}"
        )
    shutil.rmtree(tried)


def _remove_empty_folders(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            with contextlib.suppress(OSError):  # it is not empty
                path.rmdir()
