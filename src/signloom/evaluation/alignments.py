"""The attention behind translations comes in, a Parquet file for the report goes out."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from signloom.translator import Alignment

FORMAT_VERSION = 1
SCHEMA = pa.schema(
    [
        ("clip_id", pa.string()),
        ("tokens", pa.list_(pa.string())),  # of the translation; see `Alignment`
        ("step_s", pa.float64()),
        ("weights", pa.list_(pa.uint8())),  # T x M, row by row, in 255ths
    ],
    metadata={"signloom.format_version": str(FORMAT_VERSION)},
)


def write_alignments(path: Path, alignments: Mapping[str, Alignment]) -> None:
    """Write one row a clip; no rows for a model without attention."""
    rows = [
        {
            "clip_id": clip_id,
            "tokens": list(alignment.tokens),
            "step_s": alignment.step_s,
            "weights": np.rint(alignment.weights * 255).astype(np.uint8).ravel(),
        }
        for clip_id, alignment in alignments.items()
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    pq.write_table(table, temporary, compression="zstd")
    temporary.replace(path)
