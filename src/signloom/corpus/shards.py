"""Landmark sequences come in, Parquet shards of them go out, and back; see docs/data.md."""

import bisect
import contextlib
import functools
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from signloom.config import UserError
from signloom.corpus.landmarks import LandmarkSequence, Layout
from signloom.corpus.shard_ranges import assign_shards, find_shards, shard_bound, shard_name
from signloom.corpus.shard_rows import SCHEMA, Row, to_sequences, to_table

FORMAT_VERSION = 2
FRAMES_PER_ROW_GROUP = 300  # about what must be read to get at one clip

_VERSION_KEY, _LAYOUT_KEY = b"signloom.format_version", b"signloom.layout"
_EXTRACTOR_KEY = b"signloom.extractor"
_MEND = "make it again: `dvc repro extract`, or `signloom import` for imported landmarks"


@dataclass(frozen=True, slots=True)
class ShardsMetadata:
    """What all shards of a folder share."""

    layout: Layout
    extractor: str  # what made the landmarks, JSON; see `extract.extractor_fingerprint`


def write_shards(
    folder: Path, clip_frames: Mapping[str, int], load: Callable[[str], LandmarkSequence], *,
    layout: Layout, extractor: str, frames_per_shard: int,
) -> int:  # fmt: skip
    """Write sequences into a folder of shards: all of them or, on any error, nothing.

    The bytes depend on the clips, the other arguments and the pyarrow version only, and those of a
    shard on its own clips (see `shard_ranges`). One row group is in memory at a time.

    Args:
        folder: Made, or replaced if it is there.
        clip_frames: Frames of every clip to write.
        load: Gives the landmarks of a clip; called once for each.
        layout: The layout of every sequence.
        extractor: What made the landmarks, JSON.
        frames_per_shard: Most frames of a file, but for one that holds a single longer clip.

    Returns:
        How many clips were written.

    Raises:
        ValueError: If there is no clip although the layout has landmarks, or a clip has another
            layout, another number of frames or numbers beyond half precision.
    """
    if not clip_frames and layout.groups:
        raise ValueError(f"{folder}: no clip to write")
    temporary = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
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

    try:
        # One file at least, to say of which layout.
        for bound, clip_ids in (assign_shards(clip_frames, frames_per_shard) or {0: []}).items():
            path = temporary / shard_name(bound)
            _write_shard(path, clip_ids, checked, SCHEMA.with_metadata(metadata))
        shutil.rmtree(folder, ignore_errors=True)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
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
    wanted: dict[int, set[str] | None] = dict.fromkeys(paths)
    if clip_ids is not None:
        wanted = {**find_shards(clip_ids, list(paths))}
    made: dict[ShardsMetadata, Path] = {}
    found: dict[str, LandmarkSequence] = {}
    for bound, ids in wanted.items():
        found.update(_read_shard(paths[bound], ids, made))
    missing = sorted(set(clip_ids or ()) - found.keys())
    if missing:
        names = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        raise UserError(
            f"{folder}: no landmarks of {len(missing)} clips ({names}); {_MEND}, and look into "
            "rejects.tsv beside it"
        )
    return dict(sorted(found.items()))


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
    found: dict[str, Any] = {}
    made: dict[ShardsMetadata, Path] = {}
    for path in _shard_paths(folder).values():
        with _open_shard(path, made) as (file, _):
            table = file.read(columns=["clip_id", name])
        found.update(zip(table["clip_id"].to_pylist(), table[name].to_pylist(), strict=True))
    return dict(sorted(found.items()))


def shards_metadata(folder: Path) -> ShardsMetadata:
    """Return what the shards of a folder share, after checking that they do.

    Raises:
        UserError: If there is no shard, or one is damaged, of another version or of another make.
    """
    made: dict[ShardsMetadata, Path] = {}
    for path in _shard_paths(folder).values():
        with _open_shard(path, made):
            pass
    return next(iter(made))


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
    paths = sorted(folder.glob("*.parquet"))
    if not paths:
        raise UserError(f"{folder}: no landmark shards there; run `dvc repro extract`")
    try:
        return {shard_bound(path.name): path for path in paths}
    except ValueError as error:
        raise UserError(f"{folder}: {error}; take foreign files out, or {_MEND}") from None


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
                    f"{FORMAT_VERSION}; {_MEND}"
                )
            layout = Layout.from_json(metadata[_LAYOUT_KEY].decode())
            made.setdefault(ShardsMetadata(layout, metadata[_EXTRACTOR_KEY].decode()), path)
            if len(made) > 1:
                raise UserError(
                    f"{next(iter(made.values()))} and {path.name} were made in different ways; "
                    f"{_MEND}"
                )
            yield file, layout
    except UserError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise UserError(f"{path}: damaged shard ({error}); {_MEND}") from error


def _read_shard(
    path: Path, wanted: set[str] | None, made: dict[ShardsMetadata, Path]
) -> Iterator[Row]:
    with _open_shard(path, made) as (file, layout):
        groups: Sequence[int] = range(file.num_row_groups)
        if wanted is not None:
            rows = file.metadata
            places = {
                bisect.bisect_right(
                    groups, clip_id, key=lambda n: rows.row_group(n).column(0).statistics.min
                )
                for clip_id in wanted
            }  # of the row groups that start after them
            groups = sorted(place - 1 for place in places if place > 0)
        for batch in file.read_row_groups(groups, use_threads=False).to_batches():
            yield from to_sequences(batch, layout, wanted)
