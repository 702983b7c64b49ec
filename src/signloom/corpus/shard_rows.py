"""Sequences come in, rows of a shard go out, and back: one row a clip.

Points are stored in half precision, which is at most 2.4e-4 off for values up to 1 (a quarter of a
pixel in a picture 1,000 wide) and is exact for what `extract` hands over.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from signloom.corpus.half_floats import pack_halves, unpack_halves
from signloom.corpus.landmarks import COORDINATES, LandmarkSequence, Layout

# Nothing is ever null: saying so makes reading a sixth faster.
_FLAGS = pa.list_(pa.field("element", pa.bool_(), nullable=False))
SCHEMA = pa.schema(
    [
        pa.field("clip_id", pa.string(), nullable=False),
        pa.field("fps", pa.float64(), nullable=False),
        pa.field("width", pa.int32(), nullable=False),
        pa.field("height", pa.int32(), nullable=False),
        pa.field("frames", pa.int32(), nullable=False),
        pa.field("points", pa.binary(), nullable=False),  # (2, P, 3, S) uint8, see `half_floats`
        pa.field("present", _FLAGS, nullable=False),  # (G, S), row by row
    ]
)
Row = tuple[str, LandmarkSequence]  # clip id, its landmarks


def to_table(group: Mapping[str, LandmarkSequence], schema: pa.Schema) -> pa.Table:
    """Return a row for each clip of a group, under a schema that may say more than `SCHEMA`."""
    sequences = group.values()
    flags = [sequence.present.T.ravel() for sequence in sequences]
    ends = np.cumsum([0, *(len(found) for found in flags)])
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
