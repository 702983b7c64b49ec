"""Heat maps, and those of the attention behind translations.

Written by hand, not by matplotlib: a browser shapes labels of any script, right to left too.
"""

import html
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from signloom.corpus.landmarks import LandmarkSequence
from signloom.report.canvas import BLUE, GRID, INK, MUTED, ORANGE, PAPER, RED, inline_svg
from signloom.report.pages import render_page
from signloom.report.skeletons import build_player
from signloom.tables import read_parquet

LEVELS = 16  # shades between nothing and 1
WIDTH = 760.0  # of the whole picture, SVG units
TOP, RIGHT = 4.0, 8.0  # margins of the cells, SVG units
FONT = "font: 11px sans-serif"
START = '<svg xmlns="http://www.w3.org/2000/svg" viewBox='
FORMAT_VERSION = 2  # of alignments.parquet, which evaluation/results.py writes
ROW_HEIGHT, LABEL_WIDTH = 18.0, 110.0  # of a token, SVG units
MAX_LABEL = 16  # characters
TICKS_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)  # between the ticks of the time axis, seconds
MAX_TICKS = 12
DIGITS = "0123456789abcdefg"  # a level each
START_LABEL, END = "(start)", "(end)"
SLANTED_HEIGHT = 4.5  # of a letter of a slanted label below the columns, SVG units
SQUARE = 420.0  # most of the height of a map of the source, SVG units
PARTS = {  # of a model, in the order of the picker
    "cross": "the translation looks at the source",
    "encoder": "the source looks at itself",
    "decoder": "the translation looks at itself",
}
_SIZE = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')

Matrix = npt.NDArray[np.float32] | npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """Labels of the rows and columns."""

    rows: Sequence[str]  # A label for each row, in its own script and direction; may be empty
    columns: Sequence[tuple[float, str]]
    """Position (in columns, from the left edge of the first) and label of each tick."""
    x_label: str  # what the columns are
    title: str = ""  # over the picture; may be empty
    is_slanted: bool = False  # labels of columns, which are words


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
    longest = max((len(label) for _, label in axes.columns), default=0)
    slanted = SLANTED_HEIGHT * longest if axes.is_slanted else 0.0
    height = bottom + slanted + 34
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
        if axes.is_slanted:
            text = draw_text(0, 0, label, "end", INK)
            parts.append(
                f'<g transform="translate({x + 3:.1f} {bottom + 12:g}) rotate(-40)">{text}</g>'
            )
        else:
            parts.append(draw_text(x, bottom + 15, label, "middle", MUTED))
    centre = label_width + cell * columns / 2
    parts.append(draw_text(centre, height - 5, axes.x_label, "middle", MUTED))
    return "".join((*parts, "</svg>\n"))


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
    """All cells of one shade as a path, in units of cells; neighbours in a row are joined."""
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
class AttentionMap:
    """Where a model looked while it wrote a translation."""

    tokens: Sequence[str]
    step_s: float  # between two positions of the memory, seconds; 0 where they are glosses
    weights: npt.NDArray[np.float32]  # (T, M), rows sum to about 1
    source: Sequence[str] = ()  # glosses at the positions; empty where they are moments
    maps: Mapping[str, npt.NDArray[np.float32]] = field(default_factory=dict)
    """Of every layer and head by part, (L, H, rows, columns); empty where there are none."""


def read_alignments(path: Path, clip_ids: Collection[str]) -> dict[str, AttentionMap]:
    """Read the attention of some clips; none for a model that has no attention.

    Raises:
        UserError: If the file is missing, damaged or of another format version.
    """
    table = read_parquet(path, FORMAT_VERSION, hint="run `dvc repro evaluate` again")
    is_chosen = pc.is_in(table["clip_id"], pa.array(sorted(clip_ids), pa.string()))
    return {
        row["clip_id"]: AttentionMap(
            tokens=row["tokens"],
            step_s=row["step_s"],
            weights=np.array(row["weights"], np.float32).reshape(len(row["tokens"]), -1) / 255,
            source=row["source"],
            maps=_read_maps(row),
        )
        for row in table.filter(is_chosen).to_pylist()
    }


def _read_maps(row: dict[str, Any]) -> dict[str, npt.NDArray[np.float32]]:
    """Return the maps of one clip by part; none of a clip without them."""
    target = len(row["tokens"])
    source = len(row["weights"]) // target
    shapes = {"encoder": (source, source), "decoder": (target, target), "cross": (target, source)}
    return {
        part: np.array(row[part], np.float32).reshape(-1, row["heads"], *shape)
        for part, shape in shapes.items()
        if row[part]
    }


def _draw_part(alignment: AttentionMap, part: str, weights: Matrix) -> str:
    """Draw one map, shape (rows, columns) as `PARTS` says, its strongest cell in full colour."""
    rows, columns = weights.shape
    tokens = [_label(token) for token in alignment.tokens]
    tokens[-1] = tokens[-1] or END
    ticks = (
        _time_ticks(rows, alignment.step_s) if part == "encoder" and not alignment.source else []
    )
    glosses = [_label(gloss) for gloss in alignment.source]
    if part == "decoder":
        labels = [(index + 0.5, label) for index, label in enumerate([START_LABEL, *tokens[:-1]])]
        x_label = "tokens before"
    elif glosses:
        labels = [(index + 0.5, label) for index, label in enumerate(glosses)]
        x_label = "source"
    else:
        labels, x_label = _time_ticks(columns, alignment.step_s), "time in the clip, seconds"
    if part != "encoder":
        row_labels = tokens
    elif glosses:
        row_labels = glosses
    else:
        times = {int(position): f"{label} s" for position, label in ticks}
        row_labels = [times.get(row, "") for row in range(rows)]
    is_slanted = part == "decoder" or bool(glosses)
    axes = Axes(rows=row_labels, columns=labels, x_label=x_label, is_slanted=is_slanted)
    height = ROW_HEIGHT if any(row_labels[1:2]) or part != "encoder" else SQUARE / rows
    most = float(weights.max(initial=0)) or 1.0  # all zero for a clip of padding only
    return draw_heatmap(
        weights / most, axes, row_height=min(height, ROW_HEIGHT), label_width=LABEL_WIDTH
    )


def _time_ticks(columns: int, step_s: float) -> list[tuple[float, str]]:
    """Return position and label of each tick of a time axis."""
    seconds = columns * step_s
    gap = next((gap for gap in TICKS_S if seconds / gap <= MAX_TICKS), seconds)
    # A position is centred on its moment, so that moment is the middle of its column.
    return [
        (index * gap / step_s + 0.5, f"{index * gap:g}")
        for index in range(int((columns - 1) * step_s / gap) + 1)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionPart:
    """The attention of one part of a model as `attention_picker.js` takes it."""

    label: str
    svg: str  # the mean over layers and heads
    layers: int
    heads: int
    rows: int
    columns: int
    strongest: str  # per cent of each head of each layer
    cells: str  # a digit a cell, of base `LEVELS` + 1, in that head's share of its strongest one


def build_picker(alignment: AttentionMap, *, name: str, clip_id: str) -> list[AttentionPart]:
    """Prepare the attention of a clip for the page, one picture at a time; nothing without maps.

    Args:
        name: Unique on the page; letters, digits and hyphens.
        clip_id: The clip, for those who cannot see the picture.
    """
    return [_build_part(alignment, part, name, clip_id) for part in PARTS if part in alignment.maps]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionClip:
    """One clip, or line of glosses, of a page of attention."""

    name: str
    text: str  # its translation
    alignment: AttentionMap | None  # None of a model without attention
    sequence: LandmarkSequence | None = None


def render_attention(title: str, clips: Sequence[AttentionClip]) -> str:
    """Return a page with the attention of every layer and head in some clips."""
    shown = [
        {
            "name": clip.name,
            "text": clip.text,
            "player": build_player(
                clip.sequence, name=f"player{number}", label=f"Moving skeleton of {clip.name}"
            )
            if clip.sequence
            else None,
            "picker": build_picker(clip.alignment, name=f"attention{number}", clip_id=clip.name)
            if clip.alignment
            else [],
        }
        for number, clip in enumerate(clips, start=1)
    ]
    return render_page("attention.html", title=title, clips=shown)


def _build_part(alignment: AttentionMap, part: str, name: str, clip_id: str) -> AttentionPart:
    maps = alignment.maps[part]
    layers, heads, rows, columns = maps.shape
    # What `align` gives is no plain mean where source and target share a softmax.
    weights = alignment.weights if part == "cross" else maps.mean(axis=(0, 1))
    most = maps.max(axis=(2, 3), initial=0, keepdims=True)
    levels = np.rint(maps / np.where(most > 0, most, 1) * LEVELS).astype(np.int64)
    label = f"Attention in {clip_id}: {PARTS[part]}; mean of {layers} layers of {heads} heads"
    svg = _draw_part(alignment, part, weights)
    if part != "decoder" and not alignment.source:  # its columns are moments
        line = _draw_playhead(find_size(svg)[1] - TOP - 34, columns, alignment.step_s)
        svg = svg.replace("</svg>", f"{line}</svg>")
    return AttentionPart(
        label=PARTS[part],
        svg=inline_svg(svg, f"{name}-{part}", html.escape(label)),
        layers=layers,
        heads=heads,
        rows=rows,
        columns=columns,
        strongest=" ".join(f"{100 * share:.3g}" for share in most.ravel().tolist()),
        cells="".join(DIGITS[level] for level in levels.ravel().tolist()),
    )


def _draw_playhead(height: float, columns: int, step_s: float) -> str:
    """A line for the time that a moving skeleton has reached, over the cells of a map."""
    cell = (WIDTH - LABEL_WIDTH - RIGHT) / columns
    return (
        f'<path d="M{LABEL_WIDTH + cell / 2:.1f} {TOP:g}v{height:g}" stroke="{RED}" '
        f'stroke-width="1.5" visibility="hidden" data-per-second="{cell / step_s:.3f}"/>'
    )


def _label(token: str) -> str:
    """A token as it can be read in a narrow column."""
    text = token.strip()
    return text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 1] + "…"
