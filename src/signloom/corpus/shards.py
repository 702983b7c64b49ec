"""Landmark sequences come in, Parquet shards of them go out, and back; docs/data.md has the format.

One row a clip. Points are stored in half precision, which is at most 2.4e-4 off for values up to
1 (a quarter of a pixel in a picture 1,000 wide) and is exact for what `extract` hands over.
"""

import shutil
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from signloom.config import UserError
from signloom.corpus.landmarks import COORDINATES, LandmarkSequence, Layout

FORMAT_VERSION = 1
CLIPS_PER_ROW_GROUP = 8  # what must be read to get at one clip

_SCHEMA = pa.schema(
    [
        ("clip_id", pa.string()),
        ("fps", pa.float64()),
        ("width", pa.int32()),
        ("height", pa.int32()),
        ("frames", pa.int32()),
        ("points", pa.list_(pa.float16())),  # (S, P, 3), row by row
        ("present", pa.list_(pa.bool_())),  # (S, G), row by row
    ]
)
_VERSION_KEY, _LAYOUT_KEY = b"signloom.format_version", b"signloom.layout"
_EXTRACTOR_KEY = b"signloom.extractor"
_MEND = "run `dvc repro extract` again"

Item = tuple[str, LandmarkSequence]
"""Clip id, its landmarks."""


@dataclass(frozen=True, slots=True)
class ShardsMetadata:
    """What all shards of a folder share."""

    layout: Layout
    extractor: str  # what made the landmarks, JSON; see `extract.extractor_fingerprint`


def write_shards(
    folder: Path, items: Iterable[Item], *, layout: Layout, extractor: str,
    clips_per_shard: int,
) -> int:  # fmt: skip
    """Write sequences into a folder of shards: all of them or, on any error, nothing.

    The bytes depend on the arguments and the pyarrow version only. One row group is in memory.

    Args:
        folder: Made, or replaced if it is there.
        items: Sorted by clip id, each id once.
        layout: The layout of every sequence.
        extractor: What made the landmarks, JSON.
        clips_per_shard: Rows of a file.

    Returns:
        How many clips were written.

    Raises:
        ValueError: If an id is out of order or twice there, a layout differs, or there is no clip.
    """
    temporary = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    metadata = {
        _VERSION_KEY: str(FORMAT_VERSION).encode(),
        _LAYOUT_KEY: layout.to_json().encode(),
        _EXTRACTOR_KEY: extractor.encode(),
    }
    try:
        count = 0
        for number, shard in enumerate(_chunks(_checked(items, layout), clips_per_shard)):
            path = temporary / f"shard-{number:05d}.parquet"
            count += _write_shard(path, shard, _SCHEMA.with_metadata(metadata))
        if count == 0:
            raise ValueError(f"{folder}: no clip to write")
        shutil.rmtree(folder, ignore_errors=True)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return count


def read_shards(
    folder: Path, clip_ids: Collection[str] | None = None
) -> dict[str, LandmarkSequence]:
    """Read sequences from a folder of shards.

    Args:
        folder: What `write_shards` wrote.
        clip_ids: Which clips, all if None. Only the row groups that hold them are read.

    Returns:
        The sequences by clip id, sorted by it.

    Raises:
        UserError: If the folder, a file or a clip is missing, damaged or of another version.
    """
    wanted = None if clip_ids is None else set(clip_ids)
    layout = shards_metadata(folder).layout
    sequences: dict[str, LandmarkSequence] = {}
    for path in _shard_paths(folder):
        try:
            sequences.update(_read_shard(path, layout, wanted))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise UserError(f"{path}: damaged shard ({error}); {_MEND}") from error
    missing = sorted((wanted or set()) - sequences.keys())
    if missing:
        names = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        raise UserError(
            f"{folder}: no landmarks of {len(missing)} clips ({names}); {_MEND}, and look into "
            "rejects.tsv beside it"
        )
    return sequences


def shards_metadata(folder: Path) -> ShardsMetadata:
    """Return what the shards of a folder share, after checking that they do.

    Raises:
        UserError: If there is no shard, or one is damaged, of another version or of another make.
    """
    found: dict[ShardsMetadata, Path] = {}
    for path in _shard_paths(folder):
        found.setdefault(_read_metadata(path), path)
    if len(found) > 1:
        first, second = list(found.values())[:2]
        raise UserError(f"{first} and {second.name} were made in different ways; {_MEND}")
    return next(iter(found))


def _checked(items: Iterable[Item], layout: Layout) -> Iterator[Item]:
    last = None
    for clip_id, sequence in items:
        if last is not None and clip_id <= last:
            raise ValueError(f"clip {clip_id!r} comes after {last!r}; expected ascending ids")
        if sequence.layout != layout:
            raise ValueError(f"clip {clip_id!r} has the layout {sequence.layout.name!r}")
        last = clip_id
        yield clip_id, sequence


def _chunks(items: Iterator[Item], size: int) -> Iterator[Iterator[Item]]:
    """Cut a stream into streams of at most `size`; each must be used up before the next."""
    for first in items:

        def chunk(first: Item = first) -> Iterator[Item]:
            yield first
            for _, item in zip(range(size - 1), items, strict=False):
                yield item

        yield chunk()


def _write_shard(path: Path, items: Iterator[Item], schema: pa.Schema) -> int:
    count = 0
    with pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        compression_level=9,  # 4 % smaller than 3 at no time that matters beside detection
        use_dictionary=False,
        write_page_checksum=True,
        # The two bytes of each number apart: the upper ones change little and compress well.
        column_encoding={"points.list.element": "BYTE_STREAM_SPLIT"},
    ) as writer:
        for group in _chunks(items, CLIPS_PER_ROW_GROUP):
            rows = [_to_row(clip_id, sequence) for clip_id, sequence in group]
            count += len(rows)
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
    return count


def _to_row(clip_id: str, sequence: LandmarkSequence) -> dict[str, Any]:
    return {
        "clip_id": clip_id,
        "fps": sequence.fps,
        "width": sequence.width,
        "height": sequence.height,
        "frames": len(sequence.points),
        "points": sequence.points.astype(np.float16).ravel(),
        "present": sequence.present.ravel(),
    }


def _shard_paths(folder: Path) -> list[Path]:
    paths = sorted(folder.glob("*.parquet"))
    if not paths:
        raise UserError(f"{folder}: no landmark shards there; run `dvc repro extract`")
    return paths


def _read_metadata(path: Path) -> ShardsMetadata:
    try:
        metadata = pq.read_schema(path).metadata or {}
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{path}: damaged shard ({error}); {_MEND}") from error
    version = metadata.get(_VERSION_KEY, b"none").decode()
    if version != str(FORMAT_VERSION):
        raise UserError(
            f"{path}: found landmark format version {version}, this program reads "
            f"{FORMAT_VERSION}; {_MEND}"
        )
    layout = Layout.from_json(metadata[_LAYOUT_KEY].decode())
    return ShardsMetadata(layout, metadata[_EXTRACTOR_KEY].decode())


def _read_shard(path: Path, layout: Layout, wanted: set[str] | None) -> Iterator[Item]:
    file = pq.ParquetFile(path, page_checksum_verification=True)
    for group in range(file.num_row_groups):
        ids = file.read_row_group(group, columns=["clip_id"])["clip_id"].to_pylist()
        if wanted is not None and wanted.isdisjoint(ids):
            continue
        table = file.read_row_group(group).combine_chunks()
        for row, clip_id in enumerate(ids):
            if wanted is None or clip_id in wanted:
                yield clip_id, _to_sequence(table, row, layout)


def _to_sequence(table: pa.Table, row: int, layout: Layout) -> LandmarkSequence:
    frames = table["frames"][row].as_py()
    points = table["points"][row].values.to_numpy(zero_copy_only=False)
    present = table["present"][row].values.to_numpy(zero_copy_only=False)
    return LandmarkSequence(
        points=points.astype(np.float32).reshape(frames, layout.points, COORDINATES),
        present=present.reshape(frames, len(layout.groups)),
        fps=table["fps"][row].as_py(),
        width=table["width"][row].as_py(),
        height=table["height"][row].as_py(),
        layout=layout,
    )
