"""Heat maps, and those of the attention behind translations.

Written by hand, not by matplotlib: a browser shapes labels of any script, right to left too.
"""

import html
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from signloom.corpus.landmarks import LandmarkSequence
from signloom.errors import UserError
from signloom.report.canvas import BLUE, GRID, INK, MUTED, ORANGE, PAPER, RED
from signloom.report.skeletons import draw_moments

LEVELS = 16  # shades between nothing and 1
WIDTH = 760.0  # of the whole picture, SVG units
TOP, RIGHT = 4.0, 8.0  # margins of the cells, SVG units
FONT = "font: 11px sans-serif"
START = '<svg xmlns="http://www.w3.org/2000/svg" viewBox='
FORMAT_VERSION = 1  # of alignments.parquet, which evaluation/results.py writes
ROW_HEIGHT, LABEL_WIDTH = 18.0, 110.0  # of a token, SVG units
MAX_PICTURE = 90.0  # side of a skeleton below the time axis, SVG units
MAX_LABEL = 16  # characters
TICKS_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)  # between the ticks of the time axis, seconds
MAX_TICKS = 12
_SIZE = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')

Matrix = npt.NDArray[np.float32] | npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """What is written beside the cells."""

    rows: Sequence[str]  # A label for each row, in its own script and direction; may be empty
    columns: Sequence[tuple[float, str]]
    """Position (in columns, from the left edge of the first) and label of each tick."""
    x_label: str  # what the columns are
    title: str = ""  # over the picture; may be empty


def draw_heatmap(
    matrix: Matrix, axes: Axes, *, row_height: float, label_width: float, width: float = WIDTH
) -> str:
    """Draw one cell for each number.

    Args:
        matrix: Shape (rows, columns), -1 to 1: 0 is paper, 1 full blue, -1 full orange. Its
            colours are those of the report, so `inline_svg` makes them follow the theme.
        axes: Labels.
        row_height: Of one row, SVG units.
        label_width: Room for the row labels, SVG units.
        width: Of the whole picture, SVG units.

    Returns:
        An SVG file.
    """
    rows, columns = matrix.shape
    top = 20.0 if axes.title else TOP
    cell, bottom = (width - label_width - RIGHT) / columns, top + rows * row_height
    height = bottom + 34
    parts = [
        f'{START}"0 0 {width:g} {height:g}">',
        f'<rect width="{width:g}" height="{height:g}" fill="{PAPER}"/>',
        f'<g transform="translate({label_width:g} {top:g}) scale({cell:.5g} {row_height:.5g})">',
        *(_shade(matrix, sign, level) for sign in (1, -1) for level in range(1, LEVELS + 1)),
        f'</g><rect x="{label_width:g}" y="{top:g}" width="{cell * columns:.6g}" '
        f'height="{rows * row_height:g}" fill="none" stroke="{GRID}"/>',
    ]
    if axes.title:
        parts.append(draw_text(label_width, 13.0, axes.title, "start", INK))
    for row, label in enumerate(axes.rows):
        if label:
            middle = top + (row + 0.5) * row_height + 3.5
            parts.append(draw_text(label_width - 6, middle, label, "end", INK))
    for position, label in axes.columns:
        x = label_width + position * cell
        parts.append(f'<path d="M{x:.1f} {bottom:g}v4" stroke="{MUTED}"/>')
        parts.append(draw_text(x, bottom + 15, label, "middle", MUTED))
    centre = label_width + cell * columns / 2
    parts.append(draw_text(centre, bottom + 29, axes.x_label, "middle", MUTED))
    return "".join((*parts, "</svg>\n"))


def join_heatmaps(pictures: Sequence[str], *, gap: float = 12.0) -> str:
    """Set pictures side by side in one SVG file, each as wide as it was drawn."""
    parts, left, tallest = [], 0.0, 0.0
    for picture in pictures:
        width, height = find_size(picture)
        parts.append(place_picture(picture, left, 0.0, width, height))
        left, tallest = left + width + gap, max(tallest, height)
    return f'{START}"0 0 {left - gap:g} {tallest:g}">{"".join(parts)}</svg>\n'


def find_size(picture: str) -> tuple[float, float]:
    """Return width and height of an SVG file, in its own units."""
    width, height = _SIZE.findall(picture)[0]
    return float(width), float(height)


def place_picture(picture: str, x: float, y: float, width: float, height: float) -> str:
    """Make an SVG file a part of another one."""
    start = f'<svg x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" viewBox='
    return picture.strip().replace(START, start, 1)


def draw_text(x: float, y: float, text: str, anchor: str, colour: str) -> str:
    """Write one line of any script; anchor is start, middle or end."""
    # An anchor means the start or end of the reading direction, which a label of another direction
    # would turn round: the line is left to right, the label within it isolated.
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" style="{FONT}">'
        f"\u2068{html.escape(text)}\u2069</text>"
    )


def _shade(matrix: Matrix, sign: int, level: int) -> str:
    """All cells of one shade as one path, in units of cells; neighbours in a row are joined."""
    hit = np.rint(np.clip(sign * matrix, 0, 1) * LEVELS).astype(np.int64) == level
    steps = np.diff(hit.astype(np.int8), axis=1, prepend=0, append=0)
    starts, ends = np.argwhere(steps == 1), np.argwhere(steps == -1)
    if not len(starts):
        return ""
    path = "".join(
        f"M{start} {row}h{end - start}v1h{start - end}z"
        for (row, start), (_, end) in zip(starts.tolist(), ends.tolist(), strict=True)
    )
    colour = BLUE if sign > 0 else ORANGE
    return f'<path d="{path}" fill="{colour}" fill-opacity="{level / LEVELS:g}"/>'


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
    hint = "run `dvc repro evaluate` again"
    try:
        table = pq.read_table(path)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; {hint}") from None
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{path} is damaged ({error}); {hint}") from None
    version = (table.schema.metadata or {}).get(b"signloom.format_version", b"none").decode()
    if version != str(FORMAT_VERSION):
        raise UserError(
            f"{path}: found format version {version}, this Signloom reads {FORMAT_VERSION}; {hint}"
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
    positions = np.arange(0.5, count) * columns / count  # of their middles, columns
    drawn = draw_moments(sequence, ((positions - 0.5) * alignment.step_s).clip(min=0).tolist())
    size = min(slot, MAX_PICTURE)
    parts = [
        place_picture(drawn[i].svg, LABEL_WIDTH + position * cell - size / 2, height, size, size)
        for i, position in enumerate(positions)
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
    """A token as it can be read in a narrow column."""
    text = token.strip()
    return text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 1] + "…"
