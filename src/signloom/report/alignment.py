"""The attention of translations comes in, a heat map for each sample of the report goes out."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from signloom.config import UserError
from signloom.report.heatmap import Axes, draw_heatmap

FORMAT_VERSION = 1
ROW_HEIGHT, LABEL_WIDTH = 18.0, 110.0  # SVG units
MAX_LABEL = 16  # characters
TICKS_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)  # between the ticks of the time axis, seconds
MAX_TICKS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """Where a model looked while it wrote a translation."""

    tokens: list[str]
    step_s: float  # between two positions of the memory, seconds
    weights: npt.NDArray[np.float32]  # (T, M), rows sum to about 1


def read_alignments(path: Path, clip_ids: Collection[str]) -> dict[str, Alignment]:
    """Read the attention of some clips; none for a model that has no attention.

    Raises:
        UserError: If the file is missing, damaged or of another format version.
    """
    mend = "run `dvc repro evaluate` again"
    try:
        table = pq.read_table(path)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; {mend}") from None
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{path} is damaged ({error}); {mend}") from None
    version = (table.schema.metadata or {}).get(b"signloom.format_version", b"none").decode()
    if version != str(FORMAT_VERSION):
        raise UserError(
            f"{path}: found format version {version}, this Signloom reads {FORMAT_VERSION}; {mend}"
        )
    wanted = pc.is_in(table["clip_id"], pa.array(sorted(clip_ids), pa.string()))
    return {
        row["clip_id"]: Alignment(
            tokens=row["tokens"],
            step_s=row["step_s"],
            weights=np.array(row["weights"], np.float32).reshape(len(row["tokens"]), -1) / 255,
        )
        for row in table.filter(wanted).to_pylist()
    }


def draw_alignment(alignment: Alignment) -> str:
    """Draw target tokens, from the first at the top, against the clip's time."""
    columns = alignment.weights.shape[1]
    seconds = columns * alignment.step_s
    gap = next((gap for gap in TICKS_S if seconds / gap <= MAX_TICKS), seconds)
    # A position is centred on its moment, so that moment is the middle of its column.
    ticks = [
        (index * gap / alignment.step_s + 0.5, f"{index * gap:g}")
        for index in range(int((columns - 1) * alignment.step_s / gap) + 1)
    ]
    most = float(alignment.weights.max()) or 1.0  # all zero for a clip of padding only
    axes = Axes(
        rows=[_label(token) for token in alignment.tokens],
        columns=ticks,
        x_label=f"time in the clip, seconds (darkest: {100 * most:.0f} % of a token's attention)",
    )
    return draw_heatmap(
        alignment.weights / most, axes, row_height=ROW_HEIGHT, label_width=LABEL_WIDTH
    )


def _label(token: str) -> str:
    """A token as it can be read in a narrow place."""
    text = token.strip()
    return text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 1] + "…"
