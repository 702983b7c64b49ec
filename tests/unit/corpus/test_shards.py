"""What is written is read back; what is damaged, missing or of another make is refused."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from signloom.config import UserError
from signloom.corpus.landmarks import HANDS_POSE, LandmarkSequence, Layout
from signloom.corpus.shards import (
    CLIPS_PER_ROW_GROUP,
    Item,
    read_shards,
    shards_metadata,
    write_shards,
)

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


def clips_of(count: int) -> list[Item]:
    return [(f"clip-{seed:03d}", clip_of(seed, frames=seed % 7 + 1)) for seed in range(count)]


def write(folder: Path, items: list[Item], clips_per_shard: int = 10) -> int:
    return write_shards(
        folder, items, layout=HANDS_POSE, extractor=MADE_BY, clips_per_shard=clips_per_shard
    )


def digest(folder: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}


def assert_equal(found: LandmarkSequence, expected: LandmarkSequence) -> None:
    np.testing.assert_array_equal(found.points, expected.points)
    np.testing.assert_array_equal(found.present, expected.present)
    for name in ("fps", "width", "height", "layout"):
        assert getattr(found, name) == getattr(expected, name)


def test_all_clips_are_read_back_in_order(tmp_path: Path) -> None:
    items = clips_of(25)
    assert write(tmp_path / "shards", items) == 25
    assert sorted(digest(tmp_path / "shards")) == [f"shard-{n:05d}.parquet" for n in range(3)]
    found = read_shards(tmp_path / "shards")
    assert list(found) == [clip_id for clip_id, _ in items]
    for clip_id, expected in items:
        assert_equal(found[clip_id], expected)


def test_chosen_clips_are_read_alone(tmp_path: Path) -> None:
    items = dict(clips_of(25))
    write(tmp_path / "shards", list(items.items()))
    found = read_shards(tmp_path / "shards", ["clip-017", "clip-003"])
    assert list(found) == ["clip-003", "clip-017"]
    assert_equal(found["clip-017"], items["clip-017"])
    assert read_shards(tmp_path / "shards", []) == {}


def test_the_bytes_are_the_same_each_time(tmp_path: Path) -> None:
    write(tmp_path / "one", clips_of(25))
    write(tmp_path / "two", clips_of(25))
    assert digest(tmp_path / "one") == digest(tmp_path / "two")


def test_any_parquet_reader_can_use_a_shard(tmp_path: Path) -> None:
    write(tmp_path / "shards", clips_of(9))
    file = pq.ParquetFile(tmp_path / "shards" / "shard-00000.parquet")
    assert file.num_row_groups == -(-9 // CLIPS_PER_ROW_GROUP)
    row = file.read().to_pylist()[3]
    assert row["clip_id"] == "clip-003"
    assert len(row["points"]) == row["frames"] * 51 * 3
    layout = json.loads(file.schema_arrow.metadata[b"signloom.layout"])
    assert [group["name"] for group in layout["groups"]] == ["left_hand", "right_hand", "pose"]


def test_the_metadata_tells_layout_and_make(tmp_path: Path) -> None:
    write(tmp_path / "shards", clips_of(3))
    metadata = shards_metadata(tmp_path / "shards")
    assert metadata.layout == HANDS_POSE
    assert metadata.extractor == MADE_BY


def test_writing_replaces_what_was_there(tmp_path: Path) -> None:
    write(tmp_path / "shards", clips_of(25))
    write(tmp_path / "shards", clips_of(3))
    assert len(read_shards(tmp_path / "shards")) == 3


def test_an_error_midway_leaves_nothing_behind(tmp_path: Path) -> None:
    def stream() -> Iterator[Item]:
        yield from clips_of(15)
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        write_shards(
            tmp_path / "shards", stream(), layout=HANDS_POSE, extractor=MADE_BY, clips_per_shard=4
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("order", "message"),
    [([1, 0], "expected ascending ids"), ([1, 1], "expected ascending ids"), ([], "no clip")],
)
def test_ids_must_ascend(tmp_path: Path, order: list[int], message: str) -> None:
    items = clips_of(2)
    with pytest.raises(ValueError, match=message):
        write(tmp_path / "shards", [items[index] for index in order])


def test_another_layout_is_refused(tmp_path: Path) -> None:
    hands = Layout("hands", 1, HANDS_POSE.groups[:2])
    with pytest.raises(ValueError, match="has the layout 'hands-pose'"):
        write_shards(
            tmp_path / "s", clips_of(1), layout=hands, extractor=MADE_BY, clips_per_shard=4
        )


def test_missing_clips_are_named(tmp_path: Path) -> None:
    write(tmp_path / "shards", clips_of(3))
    with pytest.raises(UserError, match=r"no landmarks of 2 clips \(x, y\).*rejects.tsv"):
        read_shards(tmp_path / "shards", ["clip-001", "y", "x"])


def test_a_missing_folder_says_which_stage_makes_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no landmark shards there; run `dvc repro extract`"):
        read_shards(tmp_path / "shards")


def test_another_version_names_both(tmp_path: Path) -> None:
    write(tmp_path / "shards", clips_of(3))
    path = tmp_path / "shards" / "shard-00000.parquet"
    table = pq.read_table(path)
    metadata = table.schema.metadata | {b"signloom.format_version": b"7"}
    pq.write_table(table.replace_schema_metadata(metadata), path)
    with pytest.raises(UserError, match="found landmark format version 7, this program reads 1"):
        read_shards(tmp_path / "shards")


def test_a_foreign_parquet_file_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    with pytest.raises(UserError, match="format version none"):
        read_shards(tmp_path)


def test_shards_of_different_make_do_not_mix(tmp_path: Path) -> None:
    write(tmp_path / "one", clips_of(2))
    write_shards(
        tmp_path / "two", clips_of(2), layout=HANDS_POSE, extractor="{}", clips_per_shard=4
    )
    shard = tmp_path / "two" / "shard-00000.parquet"
    shard.rename(tmp_path / "one" / "shard-00001.parquet")
    with pytest.raises(UserError, match="made in different ways"):
        read_shards(tmp_path / "one")


@pytest.mark.parametrize("keep", [0, 4, 0.5, 0.99])
def test_a_torn_file_is_refused(tmp_path: Path, keep: float) -> None:
    write(tmp_path / "shards", clips_of(9))
    path = tmp_path / "shards" / "shard-00000.parquet"
    raw = path.read_bytes()
    path.write_bytes(raw[: int(keep * len(raw)) if keep < 1 else int(keep)])
    with pytest.raises(UserError, match=r"damaged shard.*run `dvc repro extract` again"):
        read_shards(tmp_path / "shards")


def test_flipped_bytes_are_noticed(tmp_path: Path) -> None:
    write(tmp_path / "shards", clips_of(9))
    path = tmp_path / "shards" / "shard-00000.parquet"
    raw = bytearray(path.read_bytes())
    for place in range(200, len(raw) // 2, 50):
        raw[place] ^= 0xFF
    path.write_bytes(raw)
    with pytest.raises(UserError, match="damaged shard"):
        read_shards(tmp_path / "shards")
