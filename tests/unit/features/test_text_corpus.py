"""A corpus without videos: its manifest is read, and extract leaves what later stages read."""

from pathlib import Path

import pytest

from signloom.corpus.landmark_folder import QUALITY_NAME, SHARDS_NAME, write_no_landmarks
from signloom.corpus.landmarks import NO_LANDMARKS
from signloom.corpus.manifest import IMPORTED_SHARDS, CorpusOptions, is_text_corpus, read_manifest
from signloom.corpus.quality import read_quality
from signloom.corpus.rejects import REJECTS_NAME
from signloom.corpus.shards import read_clip_frames, read_shards, shards_metadata
from signloom.errors import UserError
from tests import glosses


def options(folder: Path) -> CorpusOptions:
    return CorpusOptions(folder=folder, manifest="manifest.tsv", signer_disjoint=True)


def test_glosses_stand_in_for_videos(tmp_path: Path) -> None:
    path = glosses.write_corpus(tmp_path)
    clips = read_manifest(path)
    assert clips == glosses.clips()
    assert is_text_corpus(options(tmp_path), clips)
    (tmp_path / IMPORTED_SHARDS).mkdir(parents=True)
    assert not is_text_corpus(options(tmp_path), clips)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("clip_id\ttext\tsigner\tsplit\tgloss\tstart_s", "'start_s' cuts videos, but there is no"),
        ("clip_id\ttext\tsigner\tsplit", "missing column video.* text corpus has a column gloss"),
    ],
)
def test_without_video_the_header_needs_glosses(tmp_path: Path, header: str, message: str) -> None:
    path = tmp_path / "manifest.tsv"
    path.write_text(f"{header}\na\tb\tc\ttrain\tD\t1\n")
    with pytest.raises(UserError, match=message):
        read_manifest(path)


def test_a_row_without_glosses_is_told_with_its_line(tmp_path: Path) -> None:
    path = glosses.write_corpus(tmp_path)
    lines = path.read_text().splitlines()
    for number in (3, 7):
        lines[number] = lines[number].rpartition("\t")[0] + "\t"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(UserError) as caught:
        read_manifest(path)
    assert str(caught.value).splitlines()[1:] == [
        "  manifest.tsv line 4: gloss is empty",
        "  manifest.tsv line 8: gloss is empty",
    ]


def test_the_landmark_folder_of_a_text_corpus_can_be_read(tmp_path: Path) -> None:
    for folder in (tmp_path / "a", tmp_path / "b"):
        write_no_landmarks(folder)
        assert shards_metadata(folder / SHARDS_NAME).layout == NO_LANDMARKS
        assert read_shards(folder / SHARDS_NAME) == {}
        assert read_clip_frames(folder / SHARDS_NAME) == {}
        assert read_quality(folder / QUALITY_NAME) == []
        assert (folder / REJECTS_NAME).read_text() == "clip_id\tvideo\treason\thint\n"
    (first,), (second,) = ((tmp_path / name / SHARDS_NAME).iterdir() for name in "ab")
    assert (first.name, first.read_bytes()) == (second.name, second.read_bytes())
