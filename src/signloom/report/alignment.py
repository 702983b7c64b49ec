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
from signloom.corpus.landmarks import LandmarkSequence
from signloom.report.heatmap import (
    RIGHT,
    START,
    TOP,
    Axes,
    draw_heatmap,
    find_size,
    place_picture,
)  # fmt: skip
from signloom.report.palette import PAPER, RED
from signloom.report.skeletons import draw_moments

FORMAT_VERSION = 1
ROW_HEIGHT, LABEL_WIDTH = 18.0, 110.0  # SVG units
MAX_PICTURE = 90.0  # side of a skeleton below the time axis, SVG units
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


def draw_alignment(
    alignment: Alignment, sequence: LandmarkSequence | None = None, pictures: int = 0
) -> str:
    """Draw target tokens, from the first at the top, against the clip's time.

    Args:
        alignment: What to draw.
        sequence: The clip, to show its skeleton below the time axis.
        pictures: How many of them, side by side.
    """
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
        x_label=f"time in the clip, seconds (strongest: {100 * most:.0f} % of a token's attention)",
    )
    weights = alignment.weights / most
    picture = draw_heatmap(weights, axes, row_height=ROW_HEIGHT, label_width=LABEL_WIDTH)
    if sequence is None or not pictures:
        return picture
    return _add_skeletons(picture, alignment, sequence, pictures)


def _add_skeletons(
    picture: str, alignment: Alignment, sequence: LandmarkSequence, count: int
) -> str:
    """Set skeletons below a heat map, each under its moment, and a line for the time played."""
    columns, rows = alignment.weights.shape[1], len(alignment.tokens)
    width, height = find_size(picture)
    slot = (width - LABEL_WIDTH - RIGHT) / count
    cell = slot * count / columns
    places = np.arange(0.5, count) * columns / count  # of their middles, columns
    drawn = draw_moments(sequence, ((places - 0.5) * alignment.step_s).clip(min=0).tolist())
    size = min(slot, MAX_PICTURE)
    parts = [
        place_picture(drawn[i].svg, LABEL_WIDTH + place * cell - size / 2, height, size, size)
        for i, place in enumerate(places)
    ]
    line = (
        f'<path d="M{LABEL_WIDTH + cell / 2:.1f} {TOP:g}v{rows * ROW_HEIGHT:g}" stroke="{RED}" '
        f'stroke-width="1.5" visibility="hidden" data-per-second="{cell / alignment.step_s:.3f}"/>'
    )
    body = (
        f'<rect y="{height:g}" width="{width:g}" height="{size:g}" fill="{PAPER}"/>'
        + place_picture(picture, 0.0, 0.0, width, height)
    )
    return f'{START}"0 0 {width:g} {height + size:g}">{body}{"".join(parts)}{line}</svg>\n'


def _label(token: str) -> str:
    """A token as it can be read in a narrow place."""
    text = token.strip()
    return text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 1] + "…"
