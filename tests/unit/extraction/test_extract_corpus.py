"""Real MediaPipe on a drawn corpus: the same bytes always, and nothing is lost without a word."""

import logging
import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from signloom import progress
from signloom.corpus.landmark_folder import take_imported
from signloom.corpus.landmarks import HANDS_POSE
from signloom.corpus.manifest import Clip
from signloom.corpus.shards import read_shards, shards_metadata
from signloom.errors import UserError
from signloom.extraction.cache import HashedVideo, VideoHashes, cache_folder, unpack_frames
from signloom.extraction.extract import extract_corpus, extractor_fingerprint
from tests import tiny, videos
from tests.extraction import OPTIONS, assert_same, contents, draw_two_clips, frames_of, rejected


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> list[Clip]:
    return draw_two_clips(tmp_path_factory.mktemp("extract") / "corpus")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("SIGNLOOM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SIGNLOOM_WORKERS", "1")
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def known(clips: list[Clip], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that knows both clips."""
    folder = tmp_path_factory.mktemp("known")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIGNLOOM_CACHE", str(folder / "cache"))
        patch.setenv("SIGNLOOM_WORKERS", "2")
        extract_corpus(clips, OPTIONS, folder / "out")
    return folder


@pytest.fixture
def warm(known: Path, cache: Path) -> Path:
    """A copy of that cache, in use."""
    shutil.copytree(known / "cache", cache)
    return cache


@pytest.fixture
def inferred(caplog: pytest.LogCaptureFixture) -> Callable[[], int]:
    """How many frames the last run looked at, as it says itself."""
    caplog.set_level(logging.INFO)

    def count() -> int:
        return int(re.findall(r"new +([\d,]+) frames", caplog.text)[-1].replace(",", ""))

    return count


@pytest.mark.slow
@pytest.mark.mediapipe
def test_the_output_is_the_same_whoever_did_the_work_and_when(
    clips: list[Clip],
    known: Path,
    tmp_path: Path,
    inferred: Callable[[], int],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Quick twin: test_only_what_is_new_is_looked_at."""
    monkeypatch.setattr(progress, "LINE_S", 0.0)
    # Threads that tests before this one left behind do not write here.
    monkeypatch.setattr("signloom.detection.detector._shares_stderr", lambda: False)
    expected = contents(known / "out")  # by two processes
    assert sum(name.startswith("shards/") for name in expected) == 2
    metadata = shards_metadata(known / "out/shards")
    assert metadata.extractor == extractor_fingerprint(OPTIONS)
    assert metadata.layout == HANDS_POSE
    frames = sum(len(sequence.points) for sequence in read_shards(known / "out/shards").values())
    cold, warm, half = (tmp_path / name for name in ("cold", "warm", "half"))
    extract_corpus(clips[::-1], OPTIONS, cold)
    assert inferred() == frames
    extract_corpus(clips, OPTIONS, warm)
    assert inferred() == 0
    first = next(cache_folder().glob("*/*.clip"))
    lost = unpack_frames(first.read_bytes())
    first.write_bytes(first.read_bytes()[:-5])  # damaged
    extract_corpus(clips, OPTIONS, half)
    assert inferred() == lost
    assert contents(cold) == contents(warm) == contents(half) == expected
    noise = capfd.readouterr().err
    assert "frames/s, clips 2/2, 1 cached, 0 rejected" in noise
    assert "W0000" not in noise
    assert "TensorFlow" not in noise


@pytest.mark.slow
@pytest.mark.mediapipe
def test_only_what_is_new_is_looked_at(
    clips: list[Clip], warm: Path, tmp_path: Path, inferred: Callable[[], int]
) -> None:
    """Quick twin: test_cache.py::test_the_key_follows_everything_that_decides_an_entry."""
    out = tmp_path / "out"
    assert clips[0].video
    copy = tmp_path / "moved.mp4"
    shutil.copy(clips[0].video, copy)
    room = videos.write_video(tmp_path / "room.mp4", frames=7)
    other_words = [replace(clip, text="other words", gloss=None, split="dev") for clip in clips]
    for changed, options, expected in (
        (other_words, OPTIONS, 0),
        (clips, replace(OPTIONS, frames_per_shard=7, time_limit_s=99.0), 0),
        ([replace(clips[0], video=copy), clips[1]], OPTIONS, 0),
        ([*clips, replace(clips[0], clip_id="twin")], OPTIONS, 0),
        ([*clips, *(replace(clips[0], clip_id=name, video=room) for name in "ab")], OPTIONS, 7),
        ([*clips, replace(clips[0], clip_id="part", start_s=0.4, end_s=0.8)], OPTIONS, 6),
        (clips[:1], replace(OPTIONS, min_tracking_confidence=0.6), len(frames_of(clips[0]))),
    ):
        extract_corpus(changed, options, out)
        assert inferred() == expected
        assert read_shards(out / "shards").keys() == {clip.clip_id for clip in changed}


@pytest.fixture
def mixed(clips: list[Clip], tmp_path: Path) -> list[Clip]:
    """The drawn clips out of order, and some that cannot be read."""
    cut = videos.write_cut_off(tmp_path / "cut.mp4")
    late = replace(clips[0], clip_id="late", start_s=100.0)
    return [clips[1], replace(clips[0], clip_id="cut", video=cut), late, clips[0]]


@pytest.mark.mediapipe
def test_each_clip_is_kept_or_rejected_with_a_reason(
    mixed: list[Clip], warm: Path, tmp_path: Path, inferred: Callable[[], int]
) -> None:
    odd = videos.write_video(tmp_path / "-é % film.mp4", frames=2)
    truncated = videos.write_truncated(tmp_path / "half.avi")
    empty = tmp_path / "empty.mp4"
    empty.touch()
    missing = tmp_path / "missing.mp4"
    files = {"odd": odd, "truncated": truncated, "empty": empty, "missing": missing}
    clips = mixed + [replace(mixed[0], clip_id=k, video=v) for k, v in files.items()]
    options = replace(OPTIONS, max_rejected_share=0.7)
    for _ in range(2):  # the second time from the cache
        extract_corpus(clips, options, tmp_path / "out")
        reasons = rejected(tmp_path / "out")
        assert list(reasons) == ["cut", "empty", "late", "missing", "truncated"]
        assert "no video that can be decoded" in reasons["cut"]
        assert "empty" in reasons["empty"]
        assert "start_s 100 is not before the end of the video" in reasons["late"]
        assert "cannot be opened" in reasons["missing"]
        assert "truncated or damaged" in reasons["truncated"]
        clip_ids = set(read_shards(tmp_path / "out/shards"))
        assert clip_ids == {"odd", mixed[0].clip_id, mixed[3].clip_id}
        table = pq.read_table(tmp_path / "out/quality.parquet")
        assert table["clip_id"].to_pylist() == sorted(clip_ids)
    assert inferred() == 0


@pytest.mark.parametrize(("share", "kept"), [(0.1, 2), (1.0, 0)])
def test_too_many_rejects_write_the_report_and_nothing_else(
    mixed: list[Clip], tmp_path: Path, share: float, kept: int
) -> None:
    bad = ("cut", "late")
    clips = [clip for clip in mixed if clip.clip_id in bad]
    clips += [clip for clip in mixed if clip.clip_id not in bad][:kept]
    options = replace(OPTIONS, max_rejected_share=share)
    total, count = len(clips), 2 - (share * len(clips) < 1)  # it fails as soon as it can
    with pytest.raises(UserError) as caught:
        extract_corpus(clips, options, tmp_path / "out")
    assert f"{count} of {total} clips ({count / total:.1%}) cannot be read" in str(caught.value)
    assert "cut.mp4" in str(caught.value) or "start_s 100" in str(caught.value)
    assert list(contents(tmp_path / "out")) == ["rejects.tsv"]


@pytest.mark.slow
@pytest.mark.mediapipe
def test_a_video_that_changes_meanwhile_is_rejected_and_not_remembered(
    clips: list[Clip], warm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quick twin: test_cache.py::test_a_changed_file_is_rehashed."""
    room = videos.write_video(tmp_path / "room.mp4", frames=1)
    growing = replace(clips[0], clip_id="growing", video=room)
    hash_videos = VideoHashes.hash_videos

    def hash_and_grow(self: VideoHashes, paths: Iterable[Path]) -> dict[Path, HashedVideo]:
        hashes = hash_videos(self, paths)
        videos.write_video(room, frames=2)
        return hashes

    entries = len(list(warm.glob("*/*.clip")))
    with monkeypatch.context() as patch:
        patch.setattr(VideoHashes, "hash_videos", hash_and_grow)
        extract_corpus([*clips, growing], OPTIONS, tmp_path / "out")
    assert rejected(tmp_path / "out")["growing"] == "the file changed while it was read"
    assert len(list(warm.glob("*/*.clip"))) == entries


def test_imported_landmarks_are_taken_as_they_are(tmp_path: Path) -> None:
    imported = {f"clip {number}": tiny.sequence(number, frames=9) for number in range(100)}
    tiny.write_clips(tmp_path / "imported", imported, '{"from": "elsewhere"}', frames_per_shard=200)
    clips = [
        Clip(clip_id=name, video=None, text="x", signer="a", split="train")
        for name in [*imported, "absent"]
    ]
    take = {"frames_per_shard": 50, "max_rejected_share": 0.1}
    take_imported(clips, tmp_path / "imported", tmp_path / "out", **take)
    extracted = read_shards(tmp_path / "out/shards")
    assert extracted.keys() == imported.keys()
    for name, expected in read_shards(tmp_path / "imported").items():
        assert_same(extracted[name], expected)
    assert shards_metadata(tmp_path / "out/shards").extractor == '{"from": "elsewhere"}'
    assert "has no landmarks of it" in rejected(tmp_path / "out")["absent"]
    assert pq.read_table(tmp_path / "out/quality.parquet").num_rows == 100
    with pytest.raises(UserError, match="1 of 1 clips"):
        take_imported(clips[-1:], tmp_path / "imported", tmp_path / "none", **take)
