"""Google's Parquet files, as on Kaggle: MediaPipe Holistic's 543 landmarks a frame.

Isolated signs have a row a landmark (frame, row_id, type, landmark_index, x, y, z), a file a clip.
Fingerspelling has a row a frame (sequence_id, frame, x_face_0, ..., z_right_hand_20), many clips a
file. Both hold shares of the picture and say neither its size nor the frame rate, except the files
that `signloom landmarks` writes, as Parquet or CSV: they have columns for both.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from signloom.corpus.landmarks import COORDINATES, PART_POINTS
from signloom.errors import ClipError
from signloom_tools.importing.file_names import MOST_GAPS, SIZES
from signloom_tools.importing.foreign import (
    ClipSource,
    ForeignClip,
    LandmarkPart,
    check_memory,
    require_rate_and_size,
)
from signloom_tools.importing.options import SourceDefaults

_LONG = ("frame", "type", "landmark_index", "x", "y", "z")
_WIDE = ("sequence_id", "frame", "x_left_hand_0")
_WIDE_NAMES = {
    "sequence_id": ("sequence_id", "sample_id", "clip_id", "video_id", "video", "name"),
    "frame": ("frame", "frame_id", "frame_idx", "frame_number", "frame_no"),
}
"""What others call the columns of a row a frame; without the first, a file is a clip."""
_COLUMNS = ("{axis}_{part}_{index}", "{part}_{index}_{axis}", "{part}_{axis}_{index}",
            "{part}_{axis}{index}", "{part}{index}_{axis}")  # fmt: skip
_HANDS: tuple[Mapping[str, str], ...] = (
    {},
    {"left_hand": "hand_0", "right_hand": "hand_1"},
    {"left_hand": "lh", "right_hand": "rh"},
    {"left_hand": "left", "right_hand": "right"},
    {"left_hand": "hand_left", "right_hand": "hand_right"},
)
_OF_PICTURES = (42, 63, 84, 126)  # numbers of one hand or two
_KEYS = ("sequence_id", "frame", "type", "landmark_index")  # say where a row belongs
_WHOLE = "whole numbers"
_KINDS = {"type": ("texts",), "sequence_id": (_WHOLE, "texts"), "landmark_index": (_WHOLE,)}
_ROW_BYTES = 64  # of each row, in addition to its columns: where it belongs
_FRAME_BYTES = 4 * COORDINATES * sum(PART_POINTS.values())


def read_kaggle(path: Path, defaults: SourceDefaults) -> Iterator[ClipSource]:
    """Yield the clips of a Parquet or CSV file.

    Raises:
        ClipError: If the file cannot be read or has neither of the two shapes.
    """
    kind = "CSV" if path.suffix.lower() == ".csv" else "Parquet"
    try:
        source: Path | pa.BufferReader = path
        if kind == "CSV":
            check_memory(path.stat().st_size, defaults)
            sink = pa.BufferOutputStream()
            pq.write_table(csv.read_csv(path), sink)
            source = pa.BufferReader(sink.getvalue())
        # Texts stay numbers that point at a text: each is in the file, and in memory, once.
        schema = pq.read_schema(source)
        names = {column.name for column in schema if column.type != pa.null()}
        wide = _find_wide(names)
        texts = sorted(names & {"type", *(key for key in wide if wide[key] == "sequence_id")})
        with pq.ParquetFile(source, read_dictionary=texts) as file:
            size_columns = [
                column.name
                for column in file.schema_arrow
                if column.name in SIZES and column.type != pa.null()
            ]
            if set(_LONG) <= names:
                tables = iter([(path.stem, _read_table(file, [*_LONG, *size_columns], defaults))])
                read = _long_parts
            elif wide:
                table = _read_table(file, [*wide, *size_columns], defaults, wide)
                table = table.rename_columns([wide.get(name, name) for name in table.column_names])
                has_clips = "sequence_id" in table.column_names
                tables = _by_sequence(table) if has_clips else iter([(path.stem, table)])
                read = _wide_parts
            else:
                numbers = sum(map(pa.types.is_floating, schema.types))
                if numbers in _OF_PICTURES:
                    raise ClipError(
                        f"each row is one picture ({', '.join(schema.names[:4])}, ...: {numbers} "
                        "numbers of hands), and a clip has many",
                        f"number the frames of each clip: columns {', '.join(_WIDE)}, ...",
                    )
                raise ClipError(
                    f"its columns are {', '.join(sorted(names)[:6])}, ...",
                    f"use files with the columns {', '.join(_LONG)}, or {', '.join(_WIDE)}, ...",
                )
    except (pa.ArrowException, OSError) as error:
        reason = " ".join(f"not a readable {kind} file ({error})".split())
        raise ClipError(reason, "restore it from where it came") from None
    for clip_id, table in tables:
        yield clip_id, partial(_read_clip, path, clip_id, table, read, defaults)


def _read_table(
    file: pq.ParquetFile,
    names: Sequence[str],
    defaults: SourceDefaults,
    ours: Mapping[str, str] = MappingProxyType({}),
) -> pa.Table:
    """Read some columns, if they are what they should be and the rows are not too many.

    Args:
        file: The open file.
        names: Of the columns.
        defaults: How much memory they may take.
        ours: What Kaggle calls a column, where that is another name.

    Raises:
        ClipError: If not.
    """
    row_bytes = _ROW_BYTES
    for name in names:
        kind = file.schema_arrow.field(name).type
        is_text, expected = (
            pa.types.is_dictionary(kind),
            _KINDS.get(ours.get(name, name), ("numbers", _WHOLE)),
        )
        fallback = "numbers" if pa.types.is_floating(kind) else ""
        category = "texts" if is_text else _WHOLE if pa.types.is_integer(kind) else fallback
        if category not in expected:
            raise ClipError(
                f"its column {name} holds {kind}, expected {' or '.join(expected)}",
                "write it with the types that Kaggle's files have",
            )
        row_bytes += 4 if is_text else kind.bit_width // 8
    check_memory(file.metadata.num_rows * row_bytes, defaults)
    table = file.read(columns=list(names))
    empty = [name for name in names if ours.get(name, name) in _KEYS and table[name].null_count]
    if empty:
        raise ClipError(f"some rows have no {empty[0]}", "leave these rows out")
    return table


def _read_clip(
    path: Path,
    clip_id: str,
    table: pa.Table,
    read: Callable[[pa.Table, npt.NDArray[np.int64]], dict[str, LandmarkPart]],
    defaults: SourceDefaults,
) -> ForeignClip:
    rows = _frame_rows(table["frame"].to_numpy())
    check_memory((int(rows.max()) + 1) * _FRAME_BYTES, defaults)
    parts = read(table, rows)
    fps, width, height = require_rate_and_size(path, defaults, _read_sizes(table))
    return ForeignClip(clip_id=clip_id, parts=parts, fps=fps, width=width, height=height)


def _read_sizes(table: pa.Table) -> dict[str, float | int]:
    """Return the rate and the size of a clip by its rows, which may leave them out."""
    sizes: dict[str, float | int] = {}
    for name in SIZES.keys() & {*table.column_names}:
        values = np.unique(table[name].to_numpy())
        values = values[np.isfinite(values)]
        if len(values) > 1:
            raise ClipError(f"its {name} is {values[0]} and {values[1]}", "give each clip one")
        sizes.update((name, SIZES[name](value)) for value in values)
    return sizes


def _frame_rows(frames: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int64]:
    """Return the place of each row's frame, from 0; numbers that are left out leave a gap."""
    if len(frames) == 0:
        raise ClipError("it has no rows", "leave it out")
    if (frames != np.floor(frames)).any():
        raise ClipError("its frames are no whole numbers", "number the frames one by one")
    positions = frames.astype(np.int64) - int(frames.min())
    if positions.max() >= MOST_GAPS * len(np.unique(positions)):
        raise ClipError(
            f"its frames are numbered up to {frames.max()}, but only {len(np.unique(positions))} "
            "are there",
            "number the frames one by one",
        )
    return positions


def _long_parts(table: pa.Table, rows: npt.NDArray[np.int64]) -> dict[str, LandmarkPart]:
    xyz = np.stack([table[axis].to_numpy() for axis in "xyz"], axis=1).astype(np.float32)
    index = table["landmark_index"].to_numpy()
    types = table["type"].unify_dictionaries().combine_chunks()
    kinds = np.array(types.dictionary.to_pylist(), dtype=object)[types.indices.to_numpy()]
    parts = {}
    for name, count in PART_POINTS.items():
        chosen = (kinds == name) & (index >= 0) & (index < count)
        if chosen.any():
            points = np.full((rows.max() + 1, count, COORDINATES), np.nan, np.float32)
            points[rows[chosen], index[chosen]] = xyz[chosen]
            parts[name] = LandmarkPart(points, tuple(range(count)))
    return parts


def _find_wide(names: set[str]) -> dict[str, str]:
    """Return the columns of a table with a row a frame, and what Kaggle calls them; or none."""
    found = (
        (next((n for n in spelt if n in names), ""), ours) for ours, spelt in _WIDE_NAMES.items()
    )
    keys = {name: ours for name, ours in found if name}
    for column, hands in itertools.product(_COLUMNS, _HANDS):
        columns = {
            column.format(
                axis=axis, part=hands.get(part, part), index=index
            ): f"{axis}_{part}_{index}"
            for part, count in PART_POINTS.items()
            for index in range(count)
            for axis in "xyz"
        }
        columns = {name: ours for name, ours in columns.items() if name in names}
        if "frame" in keys.values() and any("hand" in ours for ours in columns.values()):
            return keys | columns
    return {}


def _by_sequence(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Cut a file into its clips, in their order; their names are the sequence ids."""
    column = table["sequence_id"].unify_dictionaries().combine_chunks()
    is_text = pa.types.is_dictionary(column.type)
    ids, first, which = np.unique(
        (column.indices if is_text else column).to_numpy(), return_index=True, return_inverse=True
    )
    rows = np.split(np.argsort(which, kind="stable"), np.cumsum(np.bincount(which))[:-1])
    for number in np.argsort(first):
        name = column.dictionary[int(ids[number])] if is_text else ids[number]
        yield str(name), table.take(rows[number])


def _wide_parts(table: pa.Table, rows: npt.NDArray[np.int64]) -> dict[str, LandmarkPart]:
    if len(np.unique(rows)) < len(rows):
        raise ClipError("a frame occurs twice", "number the frames one by one")
    columns: Mapping[str, int] = {name: number for number, name in enumerate(table.column_names)}
    parts = {}
    for name, count in PART_POINTS.items():
        names = [f"{axis}_{name}_{number}" for number in range(count) for axis in "xyz"]
        if not set(names) <= columns.keys():
            continue
        values = np.stack([table[column].to_numpy() for column in names], axis=1)
        points = np.full((rows.max() + 1, count, COORDINATES), np.nan, np.float32)
        points[rows] = values.reshape(len(rows), count, COORDINATES)
        parts[name] = LandmarkPart(points, tuple(range(count)))
    return parts
