import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from signloom.corpus.landmarks import HANDS_POSE, build_layout
from signloom.corpus.manifest import Clip
from signloom.detection.detector import DetectorOptions
from signloom.detection.video import Frame
from signloom.errors import UserError
from signloom.extraction.extract import extract_corpus, extract_video, extractor_fingerprint
from signloom_tools.importing.options import ReadOptions, SourceDefaults
from signloom_tools.translate.inputs import (
    ClipPath,
    ClipReader,
    GivenClip,
    UnreadableClip,
    find_clips,
)
from tests import tiny
from tests.extraction import OPTIONS
from tests.videos import number_of, write_pictures, write_video

VIDEOS = {"detector": "holistic", "mediapipe": "0.10.21"}
IMPORTED = {"detector": "imported", "import_version": 1, "source": "kaggle+numpy"}
DEFAULTS = SourceDefaults(fps=25.0, width=640, height=480)


def reader(extractor: dict[str, Any]) -> ClipReader:
    return ClipReader(extractor, ReadOptions(defaults=DEFAULTS))


def write_two(folder: Path, extractor: dict[str, Any]) -> None:
    clips = {"b": tiny.sequence(1), "a": tiny.sequence(2, frames=9)}
    folder.parent.mkdir(parents=True, exist_ok=True)
    tiny.write_clips(folder, clips, json.dumps(extractor))


def test_a_folder_gives_what_the_model_reads_in_the_order_of_names(tmp_path: Path) -> None:
    for name in ("b.MP4", "a/z.mov", "a/x.npz", "notes.txt", "c.parquet", "d.pose"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")

    def names(extractor: dict[str, Any]) -> list[str]:
        sources = find_clips([tmp_path], extractor)
        return [source.path.relative_to(tmp_path).as_posix() for source in sources]

    assert names(VIDEOS) == ["a/z.mov", "b.MP4"]
    assert names(IMPORTED) == ["a/x.npz", "c.parquet"]
    twice = find_clips([tmp_path / "b.MP4", tmp_path, tmp_path / "gone.mp4"], VIDEOS)
    assert [source.path.name for source in twice] == ["b.MP4", "z.mov", "gone.mp4"]


def test_a_folder_of_pictures_is_a_video(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path / "a/clip", "{:03d}.png")
    assert find_clips([folder], VIDEOS) == [ClipPath(path=folder)]
    assert find_clips([tmp_path], VIDEOS) == [ClipPath(path=folder)]
    with pytest.raises(UserError, match="no file there ends in"):
        find_clips([folder], IMPORTED)
    extractor = json.loads(extractor_fingerprint(OPTIONS))
    numbers: list[int] = []

    def watch(frames: Iterator[Frame]) -> Iterator[Frame]:
        for frame in frames:
            numbers.append(number_of(frame.rgb))
            yield frame

    options = ReadOptions(defaults=DEFAULTS)
    (clip,) = ClipReader(extractor, options, watch).read(ClipPath(path=folder), HANDS_POSE)
    assert isinstance(clip, GivenClip)
    assert (clip.clip_id, clip.source, clip.sequence.fps) == ("clip", folder, DEFAULTS.fps)
    assert numbers == list(range(5))
    rateless = replace(options, defaults=SourceDefaults(fps=None, width=None, height=None))
    (refused,) = ClipReader(extractor, rateless).read(ClipPath(path=folder), HANDS_POSE)
    assert isinstance(refused, UnreadableClip)
    assert "--fps 25" in str(refused.problem)


@pytest.mark.slow
def test_a_film_that_extraction_has_seen_is_not_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quick twin: test_a_folder_gives_what_the_model_reads_in_the_order_of_names."""
    monkeypatch.setenv("SIGNLOOM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SIGNLOOM_WORKERS", "1")
    film, torn = write_video(tmp_path / "a.mp4", 5), tmp_path / "torn.mp4"
    torn.write_bytes(film.read_bytes()[:400])
    clips = [
        Clip(clip_id=path.stem, video=path, text="je", signer="a", split="train")
        for path in (film, torn)
    ]
    options = replace(OPTIONS, max_rejected_share=1.0)
    extract_corpus(clips, options, tmp_path / "landmarks")
    looked: list[Path] = []

    def watch(frames: Iterator[Frame]) -> Iterator[Frame]:
        looked.append(tmp_path)
        return frames

    extractor = json.loads(extractor_fingerprint(options))
    reading = ClipReader(extractor, ReadOptions(defaults=DEFAULTS), watch)
    copy = (tmp_path / "b.mp4").resolve()
    copy.write_bytes(film.read_bytes())
    reading.open(ClipPath(path=copy))
    (clip,) = reading.read(ClipPath(path=copy), HANDS_POSE)
    assert isinstance(clip, GivenClip)
    assert (clip.clip_id, looked) == ("b", [])
    expected = extract_video(film, options.detector_options)
    np.testing.assert_array_equal(clip.sequence.points, expected.points)
    (refused,) = reading.read(ClipPath(path=torn), HANDS_POSE)
    assert isinstance(refused, UnreadableClip)
    changed = {**extractor, "min_detection_confidence": 0.4}
    detecting = ClipReader(changed, ReadOptions(defaults=DEFAULTS), watch)
    list(detecting.read(ClipPath(path=film), HANDS_POSE))
    copy.write_bytes(write_video(tmp_path / "c.mp4", 6).read_bytes())
    list(reading.read(ClipPath(path=copy), HANDS_POSE))
    assert len(looked) == 2


def test_a_model_of_imported_landmarks_reads_films_by_the_detector_that_made_them(
    tmp_path: Path,
) -> None:
    film = write_video(tmp_path / "a.mp4", 5)
    np.save(tmp_path / "b.npy", np.random.default_rng(0).uniform(0.2, 0.8, (8, 258)))
    extractor = IMPORTED | {"films": "holistic", "groups": ["hands", "pose"]}
    assert [source.path.name for source in find_clips([tmp_path], extractor)] == ["a.mp4", "b.npy"]
    (clip,) = reader(extractor).read(ClipPath(path=film), HANDS_POSE)
    assert isinstance(clip, GivenClip)
    options = DetectorOptions(detector="holistic", groups=("hands", "pose"))
    np.testing.assert_array_equal(clip.sequence.points, extract_video(film, options).points)
    with pytest.raises(UserError, match="import them with --detector"):
        list(reader(IMPORTED).read(ClipPath(path=film), HANDS_POSE))


def test_shards_are_read_by_clip_wherever_the_folder_is_named(tmp_path: Path) -> None:
    write_two(tmp_path / "landmarks/shards", VIDEOS)
    shards = tmp_path / "landmarks/shards"
    sources = find_clips([tmp_path / "landmarks", shards], VIDEOS)
    assert sources == [ClipPath(path=shards, clip_id="a"), ClipPath(path=shards, clip_id="b")]
    (clip,) = reader(VIDEOS).read(sources[0], HANDS_POSE)
    assert isinstance(clip, GivenClip)
    assert (clip.clip_id, len(clip.sequence.points), clip.is_video) == ("a", 9, False)


def test_shards_of_another_make_are_refused_with_what_differs(tmp_path: Path) -> None:
    write_two(tmp_path / "shards", {**VIDEOS, "mediapipe": "1.0"})
    with pytest.raises(UserError, match=r"other settings.*mediapipe: 1\.0, not 0\.10\.21"):
        find_clips([tmp_path], VIDEOS)
    (shard,) = (tmp_path / "shards").iterdir()
    with pytest.raises(UserError, match="one of several shards; give its folder"):
        list(reader(VIDEOS).read(ClipPath(path=shard), HANDS_POSE))


def save(path: Path, clips: int) -> Path:
    numbers = np.random.default_rng(0).uniform(0.2, 0.8, (clips, 8, 126))
    np.save(path, numbers.astype(np.float32))
    return path


def test_a_landmark_file_gives_each_of_its_clips(tmp_path: Path) -> None:
    layout = build_layout(("hands",))
    path = save(tmp_path / "words.npy", clips=3)
    clips = list(reader(IMPORTED).read(ClipPath(path=path), layout))
    assert [clip.clip_id for clip in clips if isinstance(clip, GivenClip)] == [
        "words-1",
        "words-2",
        "words-3",
    ]


def test_landmarks_that_the_model_needs_and_a_file_lacks_are_named(tmp_path: Path) -> None:
    path = save(tmp_path / "words.npy", clips=2)
    clips = list(reader(IMPORTED).read(ClipPath(path=path), HANDS_POSE))
    assert [clip.name for clip in clips if isinstance(clip, UnreadableClip)] == [
        f"{path}: words-1",
        f"{path}: words-2",
    ]
    assert "it has no nose of the pose" in str(clips[0])


def test_a_torn_file_and_a_missing_one_are_named_and_do_not_stop_the_rest(tmp_path: Path) -> None:
    torn = tmp_path / "torn.npz"
    torn.write_bytes(b"PK no archive")
    for path, problem in ((torn, "is not a readable NumPy"), (tmp_path / "gone.npz", "no such")):
        (clip,) = reader(IMPORTED).read(ClipPath(path=path), HANDS_POSE)
        assert isinstance(clip, UnreadableClip)
        assert str(path) in clip.name
        assert problem in clip.problem.reason


@pytest.mark.parametrize(
    ("extractor", "message"),
    [
        (VIDEOS, "a table, or landmarks of an unknown detector; expected videos .*'holistic'"),
        ({**IMPORTED, "source": "pose"}, r"imported from pose .* files that end in \.pose"),
        ({**IMPORTED, "import_version": 0}, "import version 0; this is import version 1"),
    ],
)
def test_landmarks_of_another_origin_are_refused(
    tmp_path: Path, extractor: dict[str, Any], message: str
) -> None:
    path = save(tmp_path / "words.npy", clips=1)
    with pytest.raises(UserError, match=message):
        list(reader(extractor).read(ClipPath(path=path), HANDS_POSE))
