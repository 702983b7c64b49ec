"""What is written is read back; what is damaged, missing or of another make is refused."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from signloom.corpus.landmarks import HANDS_POSE, LandmarkSequence
from signloom.corpus.shards import (
    FRAMES_PER_ROW_GROUP,
    ShardsMetadata,
    find_shards,
    read_clip_frames,
    read_shards,
    shard_bound,
    shard_name,
    shards_metadata,
    write_shards,
)
from signloom.errors import UserError
from tests import tiny

MADE_BY = '{"detector": "none"}'


def clip_of(seed: int, frames: int = 12) -> LandmarkSequence:
    rng = np.random.default_rng(seed)
    points = rng.random((frames, HANDS_POSE.points, 3)).astype(np.float16).astype(np.float32)
    present = rng.random((frames, 3)) < 0.8
    for column, name in enumerate(HANDS_POSE.group_names):
        points[~present[:, column], HANDS_POSE.slice(name)] = np.nan
    return LandmarkSequence(
        points=points, present=present, fps=25.0 + seed, width=320, height=240, layout=HANDS_POSE
    )


def clips_of(count: int) -> dict[str, LandmarkSequence]:
    return {f"clip-{seed:03d}": clip_of(seed, frames=seed % 7 + 1) for seed in range(count)}


def write(folder: Path, clips: Mapping[str, LandmarkSequence], frames_per_shard: int = 40) -> int:
    return tiny.write_clips(folder, clips, MADE_BY, frames_per_shard)


def only_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def digest(folder: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}


def assert_equal(actual: LandmarkSequence, expected: LandmarkSequence) -> None:
    np.testing.assert_array_equal(actual.points, expected.points)
    np.testing.assert_array_equal(actual.present, expected.present)
    for name in ("fps", "width", "height", "layout"):
        assert getattr(actual, name) == getattr(expected, name)


def test_only_the_shard_of_a_chosen_clip_is_opened(tmp_path: Path) -> None:
    clips = clips_of(60)
    folder = tmp_path / "shards"
    write(folder, clips)
    frames = {clip_id: len(clip.points) for clip_id, clip in clips.items()}
    assert read_clip_frames(folder) == frames
    assert shards_metadata(folder) == ShardsMetadata(layout=HANDS_POSE, extractor=MADE_BY)
    bounds = sorted(shard_bound(path.name) for path in folder.iterdir())
    (bound,) = find_shards(["clip-017"], bounds)
    for path in folder.iterdir():
        if path.name != shard_name(bound):
            path.write_bytes(b"torn")
    assert_equal(read_shards(folder, ["clip-017"])["clip-017"], clips["clip-017"])
    assert read_shards(folder, []) == {}
    with pytest.raises(UserError, match="damaged shard"):
        read_shards(folder)


def test_only_the_row_group_of_a_chosen_clip_is_read(tmp_path: Path) -> None:
    clips = {name: clip_of(0, FRAMES_PER_ROW_GROUP) for name in ("clip-000", "clip-001", "last")}
    write(tmp_path / "shards", clips, frames_per_shard=10_000)
    path = only_file(tmp_path / "shards")
    last = pq.ParquetFile(path).metadata.row_group(2).column(5)
    raw = bytearray(path.read_bytes())
    place_of_points = last.data_page_offset + last.total_compressed_size // 2
    raw[place_of_points] ^= 0xFF
    path.write_bytes(raw)
    first = "clip-000"
    assert_equal(read_shards(tmp_path / "shards", [first])[first], clips[first])
    with pytest.raises(UserError, match="damaged shard"):
        read_shards(tmp_path / "shards", [max(clips)])


def test_pandas_can_use_a_shard(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    clips = clips_of(9)
    write(tmp_path / "shards", clips, frames_per_shard=1000)
    path = only_file(tmp_path / "shards")
    row = pandas.read_parquet(path).set_index("clip_id").loc["clip-003"]
    layout = json.loads(pq.read_schema(path).metadata[b"signloom.layout"])
    assert [group["name"] for group in layout["groups"]] == ["left_hand", "right_hand", "pose"]
    marks = sum(len(group["landmarks"]) for group in layout["groups"])
    halves = np.frombuffer(row.points, np.uint8).reshape(2, -1).T.copy().view("<f2")
    points = halves.reshape(marks, 3, row.frames).transpose(2, 0, 1)
    np.testing.assert_array_equal(points, clips["clip-003"].points)
    present = row.present.reshape(len(layout["groups"]), row.frames).T
    np.testing.assert_array_equal(present, clips["clip-003"].present)


def test_an_error_midway_leaves_what_was_there(tmp_path: Path) -> None:
    clips = clips_of(15)
    write(tmp_path / "shards", clips)
    before = digest(tmp_path / "shards")

    def load(clip_id: str) -> LandmarkSequence:
        if clip_id == "clip-014":
            raise RuntimeError("power cut")
        return clips[clip_id]

    with pytest.raises(RuntimeError, match="power cut"):
        write_shards(
            tmp_path / "shards",
            {name: len(clip.points) for name, clip in clips.items()},
            load,
            layout=HANDS_POSE,
            extractor="{}",
            frames_per_shard=20,
        )
    assert list(tmp_path.iterdir()) == [tmp_path / "shards"]
    assert digest(tmp_path / "shards") == before


@pytest.mark.parametrize(
    ("frames", "scale", "message"),
    [(11, 1, "clip 'a' has 12 frames, not 11"), (12, 1e6, r"beyond half precision \(65504\)")],
)
def test_bad_clips_are_not_written(tmp_path: Path, frames: int, scale: float, message: str) -> None:
    clip = clip_of(0)
    clip = dataclasses.replace(clip, points=clip.points * np.float32(scale))
    with pytest.raises(ValueError, match=message):
        write_shards(
            tmp_path / "s",
            {"a": frames},
            lambda _: clip,
            layout=HANDS_POSE,
            extractor="{}",
            frames_per_shard=9,
        )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("shard-00000000.parquet", "found landmark format version 7, this program reads 2"),
        ("a.parquet", "take foreign files out"),
    ],
)
def test_what_is_missing_or_foreign_is_named(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(UserError, match="no landmark shards there; run `dvc repro extract`"):
        read_shards(tmp_path)
    write(tmp_path / "shards", clips_of(3))
    with pytest.raises(UserError, match=r"no landmarks of 2 clips \(x, y\).*rejects.tsv"):
        read_shards(tmp_path / "shards", ["clip-001", "y", "x"])
    (tmp_path / "other").mkdir()
    table = pa.table({"a": [1]}, metadata={"signloom.format_version": "7"})
    pq.write_table(table, tmp_path / "other" / name)
    with pytest.raises(UserError, match=message):
        read_shards(tmp_path / "other")


def test_shards_of_different_make_do_not_mix(tmp_path: Path) -> None:
    write(tmp_path / "one", clips_of(2))
    tiny.write_clips(tmp_path / "two", clips_of(2))
    only_file(tmp_path / "two").rename(tmp_path / "one" / shard_name(1))
    for read in (read_shards, read_clip_frames, shards_metadata):
        with pytest.raises(UserError, match="made in different ways"):
            read(tmp_path / "one")


@pytest.mark.parametrize("keep", [0, 4, 0.5, 0.99])
def test_a_torn_file_is_refused(tmp_path: Path, keep: float) -> None:
    write(tmp_path / "shards", clips_of(9), frames_per_shard=1000)
    path = only_file(tmp_path / "shards")
    raw = path.read_bytes()
    path.write_bytes(raw[: int(keep * len(raw)) if keep < 1 else int(keep)])
    with pytest.raises(UserError, match=r"damaged shard.*`dvc repro extract`"):
        read_shards(tmp_path / "shards")
