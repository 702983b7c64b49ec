"""Landmark shards: Parquet files of many clips, one row a clip.

The numbers of one landmark are stored together, as neighbours in time are alike, and so are all
upper bytes, as they change little: zstd then needs a third of the space. Parquet's
BYTE_STREAM_SPLIT would do the same to lists of half floats, but takes twice the time to read, and
DuckDB does not know it for them.

Extendible hashing (Fagin et al., 1979): a clip's position is the start of its name's SHA-256, a
shard holds a range of positions, and a range with too many frames is halved. So a clip that is
added touches one range and leaves all other files as they are.

Points are stored in half precision, which is at most 2.4e-4 off for values up to 1 (a quarter of a
pixel in a picture 1,000 wide) and is exact for what `extract` hands over.
"""

import bisect
import contextlib
import functools
import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from signloom.corpus.landmarks import COORDINATES, LandmarkSequence, Layout
from signloom.errors import UserError, name_some
from signloom.files import whole_folder

_LARGEST = float(np.finfo(np.float16).max)
_SINGLES = (
    np.arange(2**16, dtype="<u2").view("<f2").astype(np.float32)
)  # every half float, in order


def pack_halves(points: npt.NDArray[np.float32]) -> bytes:
    """Return points (S, P, 3), rounded, as uint8 (2, P, 3, S): lower bytes, then upper bytes.

    Raises:
        ValueError: If a number is beyond half precision.
    """
    with np.errstate(over="ignore"):
        halves = points.transpose(1, 2, 0).astype("<f2", order="C")
    if np.isinf(halves).any():
        raise ValueError(f"a coordinate is beyond half precision ({_LARGEST:.0f})")
    return halves.view(np.uint8).reshape(-1, 2).T.tobytes()


def unpack_halves(
    packed: npt.NDArray[np.uint8], shape: tuple[int, int, int]
) -> npt.NDArray[np.float32]:
    """Return the points of a shape (S, P, 3) that `pack_halves` packed."""
    count = len(packed) // 2
    numbers = np.left_shift(packed[count:], 8, dtype=np.uint16)
    np.bitwise_or(numbers, packed[:count], out=numbers)
    tracks = numbers.reshape(-1, shape[0])
    # A look-up is 2 to 3 times as fast as NumPy's conversion; in 16 bits, nothing is out of range.
    return _SINGLES.take(tracks.T, mode="wrap").reshape(shape)


def widen_halves(halves: npt.NDArray[np.float16]) -> npt.NDArray[np.float32]:
    """Return half floats as singles: the same numbers, by the same look-up."""
    return _SINGLES.take(halves.view(np.uint16), mode="wrap")


FRAMES_PER_SHARD = 25_000  # at most, some 5 MB
_BITS = 32  # of a position; clips that share one stay together


def hash_position(clip_id: str) -> int:
    """Return where a clip lies among 2^32 positions."""
    return int.from_bytes(hashlib.sha256(clip_id.encode()).digest()[: _BITS // 8], "big")


def assign_shards(clip_frames: Mapping[str, int], frames_per_shard: int) -> dict[int, list[str]]:
    """Deal clips out to shards.

    Args:
        frames_per_shard: A range with more frames (and two clips or more) is halved.

    Returns:
        The sorted clip ids of each shard, by the lower bound of its range, which ascends. A range
        without a clip has no shard.
    """
    shards: dict[int, list[str]] = {}

    def deal(low: int, size: int, clips: list[tuple[int, str]]) -> None:
        ids = [clip_id for _, clip_id in clips]
        frames = sum(clip_frames[clip_id] for clip_id in ids)
        if len(clips) > 1 and frames > frames_per_shard and size > 1:
            middle = low + size // 2
            half = bisect.bisect_left(clips, (middle, ""))
            deal(low, size // 2, clips[:half])
            deal(middle, size // 2, clips[half:])
        elif clips:
            shards[low] = sorted(ids)

    deal(0, 2**_BITS, sorted((hash_position(clip_id), clip_id) for clip_id in clip_frames))
    return shards


def find_shards(clip_ids: Collection[str], bounds: Sequence[int]) -> dict[int, set[str]]:
    """Return which of the shards can hold which of the clips.

    Args:
        clip_ids: Any clips; one below the first range is in no shard and left out.
        bounds: The ascending lower bounds of all shards of a folder.
    """
    endings: dict[int, set[str]] = {}
    for clip_id in clip_ids:
        number = bisect.bisect_right(bounds, hash_position(clip_id)) - 1
        if number >= 0:
            endings.setdefault(bounds[number], set()).add(clip_id)
    return endings


def shard_name(bound: int) -> str:
    """Return the file name of the shard whose range starts at `bound`."""
    return f"shard-{bound:0{_BITS // 4}x}.parquet"


def shard_bound(name: str) -> int:
    """Inverse of `shard_name`.

    Raises:
        ValueError: If it is no shard's name.
    """
    digits = name.removeprefix("shard-").removesuffix(".parquet")
    try:
        bound = int(digits, 16)
    except ValueError:
        bound = -1
    if bound < 0 or shard_name(bound) != name:
        raise ValueError(f"{name!r} is no shard's name, such as {shard_name(0)!r}")
    return bound


# Nothing is ever null: saying so makes reading a sixth faster.
_FLAGS = pa.list_(pa.field("element", pa.bool_(), nullable=False))
SCHEMA = pa.schema(
    [
        pa.field("clip_id", pa.string(), nullable=False),
        pa.field("fps", pa.float64(), nullable=False),
        pa.field("width", pa.int32(), nullable=False),
        pa.field("height", pa.int32(), nullable=False),
        pa.field("frames", pa.int32(), nullable=False),
        pa.field("points", pa.binary(), nullable=False),  # (2, P, 3, S) uint8, see `pack_halves`
        pa.field("present", _FLAGS, nullable=False),  # (G, S), row by row
    ]
)
Row = tuple[str, LandmarkSequence]  # clip id, its landmarks


def to_table(group: Mapping[str, LandmarkSequence], schema: pa.Schema) -> pa.Table:
    """Return a row for each clip of a group, under a schema that may say more than `SCHEMA`."""
    sequences = group.values()
    flags = [sequence.present.T.ravel() for sequence in sequences]
    ends = np.cumsum([0, *(len(clip_flags) for clip_flags in flags)])
    columns = {
        "clip_id": list(group),
        "fps": [sequence.fps for sequence in sequences],
        "width": [sequence.width for sequence in sequences],
        "height": [sequence.height for sequence in sequences],
        "frames": [len(sequence.points) for sequence in sequences],
        "points": [pack_halves(sequence.points) for sequence in sequences],
        "present": pa.ListArray.from_arrays(
            pa.array(ends, pa.int32()), pa.array(np.concatenate(flags)), type=_FLAGS
        ),
    }
    arrays = [pa.array(columns[field.name], field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def to_sequences(batch: pa.RecordBatch, layout: Layout, wanted: set[str] | None) -> Iterator[Row]:
    """Yield the wanted clips of some rows. Columns are taken apart once: reading is mostly this."""
    clip_ids = batch.column("clip_id").to_pylist()
    frames = batch.column("frames").to_pylist()
    sizes = [batch.column(name).to_pylist() for name in ("fps", "width", "height")]
    planes, plane_ends = _bytes_of(batch.column("points"))
    lists = batch.column("present")
    flags, flag_ends = lists.values.to_numpy(zero_copy_only=False), lists.offsets.to_pylist()
    rows = zip(clip_ids, frames, *sizes, strict=True)
    for row, (clip_id, count, fps, width, height) in enumerate(rows):
        if wanted is not None and clip_id not in wanted:
            continue
        mine = planes[plane_ends[row] : plane_ends[row + 1]]
        present = flags[flag_ends[row] : flag_ends[row + 1]].reshape(len(layout.groups), count).T
        sequence = LandmarkSequence(
            points=unpack_halves(mine, (count, layout.points, COORDINATES)),
            present=np.ascontiguousarray(present),
            fps=fps,
            width=width,
            height=height,
            layout=layout,
        )
        yield clip_id, sequence


def _bytes_of(column: pa.Array) -> tuple[npt.NDArray[np.uint8], list[int]]:
    """Return the bytes of all values, and where each starts and the last ends."""
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    return np.frombuffer(data, np.uint8), ends.tolist()


FORMAT_VERSION = 2
FRAMES_PER_ROW_GROUP = 300  # about what must be read to get at one clip

_VERSION_KEY, _LAYOUT_KEY = b"signloom.format_version", b"signloom.layout"
_EXTRACTOR_KEY = b"signloom.extractor"
_HINT = "make it again: `dvc repro extract`, or `signloom import` for imported landmarks"


@dataclass(frozen=True, slots=True)
class ShardsMetadata:
    """What all shards of a folder share."""

    layout: Layout
    extractor: str  # what made the landmarks, JSON; see `extract.extractor_fingerprint`


def write_shards(
    folder: Path,
    clip_frames: Mapping[str, int],
    load: Callable[[str], LandmarkSequence],
    *,
    layout: Layout,
    extractor: str,
    frames_per_shard: int,
) -> int:
    """Write sequences into a folder of shards: all of them or, on any error, nothing.

    The bytes depend on the clips, the other arguments and the pyarrow version only, and those of a
    shard on its own clips (see `assign_shards`). One row group is in memory at a time.

    Args:
        folder: Made, or replaced if it is there.
        load: Gives the landmarks of a clip; called once for each.
        extractor: What made the landmarks, JSON.
        frames_per_shard: Most frames of a file, except one that holds a single longer clip.

    Returns:
        How many clips were written.

    Raises:
        ValueError: If there is no clip although the layout has landmarks, or a clip has another
            layout, another number of frames or numbers beyond half precision.
    """
    if not clip_frames and layout.groups:
        raise ValueError(f"{folder}: no clip to write")
    metadata = {
        _VERSION_KEY: str(FORMAT_VERSION).encode(),
        _LAYOUT_KEY: layout.to_json().encode(),
        _EXTRACTOR_KEY: extractor.encode(),
    }

    def checked(clip_id: str) -> LandmarkSequence:
        sequence, frames = load(clip_id), clip_frames[clip_id]
        if sequence.layout != layout:
            raise ValueError(f"clip {clip_id!r} has the layout {sequence.layout.name!r}")
        if len(sequence.points) != frames:
            raise ValueError(f"clip {clip_id!r} has {len(sequence.points)} frames, not {frames}")
        return sequence

    with whole_folder(folder) as temporary:
        # One file at least, to say of which layout.
        for bound, clip_ids in (assign_shards(clip_frames, frames_per_shard) or {0: []}).items():
            path = temporary / shard_name(bound)
            _write_shard(path, clip_ids, checked, SCHEMA.with_metadata(metadata))
    return len(clip_frames)


def read_shards(
    folder: Path, clip_ids: Collection[str] | None = None
) -> dict[str, LandmarkSequence]:
    """Read sequences from a folder of shards.

    Args:
        folder: What `write_shards` wrote.
        clip_ids: Which clips, all if None. Only the row groups that may hold them are read.

    Returns:
        The sequences by clip id, sorted by it.

    Raises:
        UserError: If the folder, a file or a clip is missing, damaged or of another version.
    """
    paths = _shard_paths(folder)
    by_path: dict[int, set[str] | None] = dict.fromkeys(paths)
    if clip_ids is not None:
        by_path = {**find_shards(clip_ids, list(paths))}
    metadata: dict[ShardsMetadata, Path] = {}
    sequences: dict[str, LandmarkSequence] = {}
    for bound, ids in by_path.items():
        sequences.update(_read_shard(paths[bound], ids, metadata))
    missing = sorted(set(clip_ids or ()) - sequences.keys())
    if missing:
        raise UserError(
            f"{folder}: no landmarks of {len(missing)} clips ({name_some(missing)}); {_HINT}, "
            "and see rejects.tsv next to it"
        )
    return dict(sorted(sequences.items()))


def read_clip_frames(folder: Path) -> dict[str, int]:
    """Return the frames of every clip in a folder of shards, by clip id, without its landmarks.

    Raises:
        UserError: As `read_shards`.
    """
    return _read_column(folder, "frames")


def read_clip_rates(folder: Path) -> dict[str, float]:
    """Return the frames a second of every clip, as `read_clip_frames`."""
    return _read_column(folder, "fps")


def _read_column(folder: Path, name: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    metadata: dict[ShardsMetadata, Path] = {}
    for path in _shard_paths(folder).values():
        with _open_shard(path, metadata) as (file, _):
            table = file.read(columns=["clip_id", name])
        values.update(zip(table["clip_id"].to_pylist(), table[name].to_pylist(), strict=True))
    return dict(sorted(values.items()))


def shards_metadata(folder: Path) -> ShardsMetadata:
    """Return what the shards of a folder share, after checking that they do.

    Raises:
        UserError: If there is no shard, or one is damaged, of another version or of another make.
    """
    metadata: dict[ShardsMetadata, Path] = {}
    for path in _shard_paths(folder).values():
        with _open_shard(path, metadata):
            pass
    return next(iter(metadata))


def _write_shard(
    path: Path, clip_ids: Sequence[str], load: Callable[[str], LandmarkSequence], schema: pa.Schema
) -> None:
    with pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        compression_level=3,  # 9 is 4 % smaller and takes twice the time
        use_dictionary=False,
        write_page_checksum=True,
        write_statistics=["clip_id"],  # the others say nothing, and a small footer opens faster
    ) as writer:
        group: dict[str, LandmarkSequence] = {}
        for clip_id in clip_ids:
            group[clip_id] = load(clip_id)
            if sum(len(s.points) for s in group.values()) >= FRAMES_PER_ROW_GROUP:
                writer.write_table(to_table(group, schema))
                group = {}
        if group:
            writer.write_table(to_table(group, schema))


def _shard_paths(folder: Path) -> dict[int, Path]:
    """Return the files by the lower bounds of their ranges, which ascend."""
    state = folder.stat() if folder.is_dir() else None
    return _list_shards(folder, state and (state.st_ino, state.st_mtime_ns))


@functools.lru_cache(maxsize=8)
def _list_shards(folder: Path, _state: tuple[int, int] | None) -> dict[int, Path]:
    """List a folder once, not for every batch that streams from it: there may be thousands."""
    paths = sorted(folder.glob("*.parquet"))
    if not paths:
        raise UserError(f"{folder}: no landmark shards there; run `dvc repro extract`")
    try:
        return {shard_bound(path.name): path for path in paths}
    except ValueError as error:
        raise UserError(f"{folder}: {error}; take foreign files out, or {_HINT}") from None


@functools.lru_cache(maxsize=256)
def _read_footer(path: Path, _size: int, _changed_ns: int) -> pq.FileMetaData:
    """Read a footer once, not for every batch that streams from its shard: most of opening it."""
    return pq.read_metadata(path)


@contextlib.contextmanager
def _open_shard(
    path: Path, made: dict[ShardsMetadata, Path]
) -> Iterator[tuple[pq.ParquetFile, Layout]]:
    """Open a shard, note in `made` how it was made, and refuse one unlike those before."""
    try:
        state = path.stat()
        footer = _read_footer(path, state.st_size, state.st_mtime_ns)
        with pq.ParquetFile(path, metadata=footer, page_checksum_verification=True) as file:
            metadata = file.schema_arrow.metadata or {}
            version = metadata.get(_VERSION_KEY, b"none").decode()
            if version != str(FORMAT_VERSION):
                raise UserError(
                    f"{path}: found landmark format version {version}, this program reads "
                    f"{FORMAT_VERSION}; {_HINT}"
                )
            try:
                texts = (metadata[_LAYOUT_KEY].decode(), metadata[_EXTRACTOR_KEY].decode())
                parsed = _parse_metadata(*texts)
            except UserError as error:
                raise ValueError(str(error)) from None
            made.setdefault(parsed, path)
            if len(made) > 1:
                raise UserError(
                    f"{next(iter(made.values()))} and {path.name} were made in different ways; "
                    f"{_HINT}"
                )
            yield file, parsed.layout
    except UserError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, AttributeError) as error:
        raise UserError(f"{path}: damaged shard ({error}); {_HINT}") from error


@functools.lru_cache(maxsize=8)  # all shards of a folder have the same
def _parse_metadata(layout: str, extractor: str) -> ShardsMetadata:
    """Check what the metadata of a shard says.

    Raises:
        ValueError: If it is damaged.
    """
    try:
        is_map = isinstance(json.loads(extractor), dict)
    except RecursionError:
        is_map = False
    if not is_map:
        raise ValueError("the extractor in its metadata is no map")
    return ShardsMetadata(Layout.from_json(layout), extractor)


def _read_shard(
    path: Path, clip_ids: set[str] | None, metadata: dict[ShardsMetadata, Path]
) -> Iterator[Row]:
    with _open_shard(path, metadata) as (file, layout):
        groups: Sequence[int] = range(file.num_row_groups)
        if clip_ids is not None:
            rows = file.metadata
            after = {
                bisect.bisect_right(
                    groups, clip_id, key=lambda n: rows.row_group(n).column(0).statistics.min
                )
                for clip_id in clip_ids
            }  # of the row groups that start after them
            groups = sorted(row_group - 1 for row_group in after if row_group > 0)
        for batch in file.read_row_groups(groups, use_threads=False).to_batches():
            yield from to_sequences(batch, layout, clip_ids)
