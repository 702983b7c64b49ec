"""A little project from which a signer is removed: Git, DVC, videos, cache, models, reports."""

from dataclasses import replace
from pathlib import Path

from signloom.corpus.manifest import Clip, CorpusOptions, write_manifest
from tests.tiny import write_clips
from tests.unit.evaluation.world import sequence
from tests.videos import write_video

CLIPS = (  # clip_id, signer, split, video, start_s, end_s
    ("zoë-1", "zoë", "train", "zoë-1.mp4", None, None),
    ("zoë-2", "zoë", "train", "both.mp4", 0.0, 0.3),
    ("eve-1", "eve", "train", "both.mp4", 0.3, None),
    ("eve-2", "eve", "train", "eve-2.mp4", None, None),
    ("ben-1", "ben", "dev", "ben-1.mp4", None, None),
    ("cleo-1", "cleo", "test", "cleo-1.mp4", None, None),
    ("dana-1", "dana", "test", "dana-1.mp4", None, None),
)


def corpus_options() -> CorpusOptions:
    return CorpusOptions(
        folder=Path("data/raw/weekly"), manifest="manifest.tsv", signer_disjoint=True
    )


def make_corpus(*, imported: bool = False) -> list[Clip]:
    """Write the manifest with its videos, or with imported landmarks instead."""
    folder = corpus_options().folder
    folder.mkdir(parents=True)
    clips = []
    for number, (clip_id, signer, split, video, start_s, end_s) in enumerate(CLIPS):
        path = folder / "videos" / video
        if not imported and not path.is_file():
            path.parent.mkdir(exist_ok=True)
            write_video(path, frames=10 + number)
        clip = Clip(
            clip_id=clip_id,
            video=path,
            text=f"phrase {number}",
            signer=signer,
            split=split,
            start_s=start_s,
            end_s=end_s,
        )
        clips.append(replace(clip, video=None, start_s=None, end_s=None) if imported else clip)
    if imported:
        write_landmarks(corpus_options().imported_shards, [clip.clip_id for clip in clips])
    write_manifest(folder / "manifest.tsv", clips)
    return clips


def write_landmarks(folder: Path, clip_ids: list[str]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    write_clips(folder, dict.fromkeys(clip_ids, sequence(1)))


def words(folder: Path) -> dict[str, str]:
    """Every readable file of a project with its text."""
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8", errors="replace")
        for path in folder.rglob("*")
        if path.is_file()
        and not {".dvc", ".git", "cache"} & set(path.relative_to(folder).parts)
        and path.suffix != ".mp4"
    }
