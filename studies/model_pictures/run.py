"""The pictures of docs/models.md: the model, its blocks, sinusoids and masks; written as SVG.

Usage: python -m studies.model_pictures.run [FOLDER]
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path

import numpy as np
import torch

from pipeline.stage import run
from signloom.models.layers import sinusoids
from signloom.models.registry import build_model
from signloom.models.seq2seq import Family, FloatArray, ModelOptions

FOLDER = Path("docs/images")
INK, PAPER = "#1f2937", "#ffffff"
# Of the boxes whose text has the word; the first one counts.
COLOURS = {
    "norm": "#fdf1c7", "attention": "#fbd9c6", "softmax": "#fbd9c6", "feed-forward": "#cfe3f7",
    "layers": "#cfe3f7", "convolution": "#d5efd8", "recurrence": "#e2d8f7", "": "#eceff3",
}  # fmt: skip
STEP, WIDE, HIGH = 44, 190, 26  # pixels: from box to box, and of a box
SHADES = 10  # of the sinusoids
OPTIONS = ModelOptions(
    family="transformer",
    source="landmarks",
    d_model=16,
    heads=2,
    encoder_layers=1,
    decoder_layers=1,
    d_ff=16,
    dropout=0.0,
    norm="pre",
    positions="sinusoidal",
    subsampling=1,
)


@dataclass(frozen=True, slots=True)
class Around:
    """Boxes around which a residual path leads to a sum."""

    boxes: tuple[str, ...]
    weight: str = ""  # of what the boxes return


@dataclass(slots=True)
class Drawing:
    """Boxes, arrows and texts; a place is the middle of a box in pixels."""

    width: int
    height: int
    parts: list[str] = field(default_factory=list)

    def text(self, x: float, y: float, words: str, look: str = 'text-anchor="middle"') -> None:
        """Write words; `y` is their middle."""
        self.parts.append(f'<text x="{x:g}" y="{y + 4:g}" {look}>{escape(words)}</text>')

    def wire(self, *points: tuple[float, float], tip: bool = True) -> None:
        """Draw a line with an arrow at its end."""
        way = " ".join(f"{x:g},{y:g}" for x, y in points)
        end = ' marker-end="url(#tip)"' if tip else ""
        self.parts.append(f'<polyline points="{way}" fill="none" stroke="{INK}"{end}/>')

    def box(self, x: float, y: float, words: str) -> None:
        """Draw a box; words after a bar are the shape of what leaves it."""
        words, _, shape = words.partition("|")
        colour = next(colour for word, colour in COLOURS.items() if word in words)
        self.parts.append(
            f'<rect x="{x - WIDE / 2:g}" y="{y - HIGH / 2:g}" width="{WIDE}" height="{HIGH}" '
            f'rx="4" fill="{colour}" stroke="{INK}"/>'
        )
        self.text(x, y, words)
        self.text(x + 8, y + STEP / 2, shape, 'font-size="11"')

    def column(self, x: float, y: float, steps: Sequence[str | Around]) -> float:
        """Draw one step below the other, "~words" without a box; return where the last one is."""
        for index, step in enumerate(steps):
            if isinstance(step, Around):
                before, left = y - STEP / 2 - 3, x - WIDE / 2 - 16
                for words in step.boxes:
                    self._step(x, y, words, is_first=False)
                    y += STEP
                self.wire((x, y - STEP + HIGH / 2), (x, y - 10))
                self.wire((x, before), (left, before), (left, y), (x - 10, y))
                self.parts.append(f'<circle cx="{x}" cy="{y}" r="9" fill="none" stroke="{INK}"/>')
                self.text(x, y, "+")
                self.text(x + 8, y - STEP / 2, step.weight, 'font-size="11"')
            else:
                self._step(x, y, step, is_first=index == 0)
            y += STEP
        return y - STEP

    def _step(self, x: float, y: float, words: str, *, is_first: bool) -> None:
        if not is_first:
            self.wire((x, y - STEP + 9), (x, y - HIGH / 2 - 1))
        if words.startswith("~"):
            self.text(x, y, words[1:])
        else:
            self.box(x, y, words)

    def cells(self, x: float, y: float, size: int, at: Iterable[tuple[int, int]], hue: str) -> None:
        """Fill the cells of a grid at (row, column)."""
        way = "".join(
            f"M{x + size * column:g} {y + size * row:g}h{size}v{size}h-{size}z"
            for row, column in at
        )
        self.parts.append(f'<path d="{way}" fill="{hue}"/>')

    def svg(self) -> str:
        """Return the picture, with a ground of its own: a page may be dark."""
        return "\n".join(
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
                f'width="{self.width}" height="{self.height}" font-family="sans-serif" '
                f'font-size="13" fill="{INK}">',
                '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
                f'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="{INK}"/></marker>',
                f'<rect width="{self.width}" height="{self.height}" fill="{PAPER}"/>',
                *self.parts,
                "</svg>\n",
            )
        )


def main() -> None:
    """Write every picture."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    for name, drawing in draw_all().items():
        (folder / f"model_{name}.svg").write_text(drawing.svg(), encoding="utf-8")


def draw_all() -> dict[str, Drawing]:
    """Return the pictures by name."""
    return {
        "whole": draw_whole(),
        "layers": draw_layers(),
        "attention": draw_attention(),
        "conformer": draw_conformer(),
        "recurrent": draw_recurrent(),
        "one_sided": draw_one_sided(),
        "positions_masks": draw_positions_and_masks(),
    }


def draw_whole() -> Drawing:
    """Draw an encoder-decoder."""
    drawing = Drawing(640, 485)
    memory = drawing.column(
        130,
        25,
        (
            "~landmarks (B, S, P, 3)",
            "features|(B, S, F)",
            "projection to D|(B, S, D)",
            "stem, stride = subsampling|(B, M, D)",
            "add positions",
            "encoder layers",
            "norm",
            "~memory (B, M, D)",
        ),
    )
    drawing.column(130, memory + STEP, ("CTC head|(B, M, L)",))
    drawing.wire((130, memory + 9), (130, memory + STEP - HIGH / 2 - 1))
    drawing.column(
        480,
        memory - 3 * STEP,
        (
            "~tokens so far (B, T)",
            "embedding|(B, T, D)",
            "add positions",
            "decoder layers",
            "norm",
            "projection to V",
            "~logits (B, T, V)",
        ),
    )
    drawing.wire((200, memory), (480 - WIDE / 2 - 1, memory))
    drawing.wire((130 + WIDE / 2, memory + STEP), (300, memory + STEP), (300, memory + 1))
    drawing.text(305, memory + STEP / 2, "ctc_feedback", 'font-size="11"')
    return drawing


def draw_layers() -> Drawing:
    """Draw the Transformer's layers with pre-norm."""
    drawing = Drawing(670, 515)
    feed_forward = Around(("norm", "feed-forward"))
    drawing.column(
        140,
        50,
        (
            "~x (B, M, D)",
            Around(("norm", "self-attention")),
            feed_forward,
            "~x (B, M, D)",
        ),
    )
    drawing.column(
        400,
        50,
        (
            "~x (B, T, D)",
            Around(("norm", "causal self-attention")),
            Around(("norm", "cross-attention")),
            feed_forward,
            "~x (B, T, D)",
        ),
    )
    cross = 50 + 5 * STEP
    drawing.text(602, cross, "memory (B, M, D)")
    drawing.wire((542, cross), (400 + WIDE / 2 + 1, cross))
    for x, title in ((140, "encoder layer"), (400, "decoder layer")):
        drawing.text(x, 18, title, 'text-anchor="middle" font-weight="bold"')
    return drawing


def draw_attention() -> Drawing:
    """Draw multi-head attention."""
    drawing = Drawing(690, 400)
    drawing.column(
        120,
        25,
        (
            "~queries' side (B, T, D)",
            "query W_q, heads|Q (B, H, T, K)",
            "Q Kᵀ / √K|(B, H, T, M)",
            "-∞ where the mask forbids",
            "softmax over M|weights (B, H, T, M)",
            "weights times V|(B, H, T, K)",
            "join heads|(B, T, D)",
            "output W_o",
            "~(B, T, D)",
        ),
    )
    drawing.column(350, 25, ("~keys' side (B, M, D)", "key W_k, heads"))
    drawing.column(575, 25 + STEP, ("value W_v, heads",))
    drawing.wire((425, 25), (575, 25), (575, 25 + STEP - HIGH / 2 - 1))
    for x, row, shape in ((350, 2, "K (B, H, M, K)"), (575, 5, "V (B, H, M, K)")):
        y = 25 + row * STEP
        drawing.wire((x, 25 + STEP + HIGH / 2), (x, y), (120 + WIDE / 2 + 1, y))
        drawing.text(x - 8, y - 10, shape, 'font-size="11" text-anchor="end"')
    return drawing


def draw_conformer() -> Drawing:
    """Draw the Conformer's layer with pre-norm, and its convolution."""
    drawing = Drawing(520, 685)
    half = Around(("norm", "feed-forward"), "times 1/2")
    drawing.column(
        140,
        50,
        (
            "~x (B, M, D)",
            half,
            Around(("norm", "self-attention")),
            Around(("norm", "convolution module")),
            half,
            "norm",
            "~x (B, M, D)",
        ),
    )
    drawing.column(
        400,
        50 + 4 * STEP,
        (
            "~(B, M, D)",
            "linear|(B, M, 2 D)",
            "GLU|(B, M, D)",
            "zeros where padded",
            "depthwise convolution",
            "norm",
            "swish",
            "linear",
            "~(B, M, D)",
        ),
    )
    for x, y, title in ((140, 18, "Conformer layer"), (400, 194, "convolution module")):
        drawing.text(x, y, title, 'text-anchor="middle" font-weight="bold"')
    return drawing


def draw_recurrent() -> Drawing:
    """Draw the recurrent encoder-decoder with attention."""
    drawing = Drawing(640, 400)
    drawing.column(
        130,
        25,
        (
            "~source (B, S, F)",
            "projection, stem|(B, M, D)",
            "recurrence, both ways",
            "norm",
            "~memory h (B, M, D)",
        ),
    )
    drawing.column(
        460,
        25,
        (
            "~tokens so far (B, T)",
            "embedding|(B, T, D)",
            "recurrence|s (B, T, D)",
            "score(s, h)|(B, T, M)",
            "softmax over what is real",
            "weights times h|c (B, T, D)",
            "tanh(W [c; s] + b)|(B, T, D)",
            "projection to V",
            "~logits (B, T, V)",
        ),
    )
    left, right, state, memory = 460 - WIDE / 2, 460 + WIDE / 2, 25 + 2 * STEP, 25 + 4 * STEP
    drawing.wire((130 + WIDE / 2, state), (left - 1, state))
    drawing.text(
        (225 + left) / 2,
        state - 10,
        "last state of each layer",
        'font-size="11" text-anchor="middle"',
    )
    drawing.wire((205, memory), (300, memory), tip=False)
    for y in (memory - STEP, memory + STEP):
        drawing.wire((300, memory), (300, y), (left - 1, y))
    drawing.wire(
        (right, state),
        (right + 20, state),
        (right + 20, state + 4 * STEP),
        (right + 1, state + 4 * STEP),
    )
    return drawing


def draw_one_sided() -> Drawing:
    """Draw the families that have an encoder only, or a decoder only."""
    drawing = Drawing(760, 335)
    drawing.column(
        130,
        50,
        (
            "~source (B, S, F)",
            "projection, stem, positions|(B, M, D)",
            "encoder layers",
            "norm",
            "projection to V|(B, M, V)",
            "CTC over all alignments",
            "~tokens, at most M",
        ),
    )
    drawing.column(390, 50, ("~source (B, S, F)", "projection, stem, positions|(B, M, D)"))
    drawing.column(
        625,
        50,
        (
            "~tokens so far (B, T)",
            "embedding, positions|(B, T, D)",
            "shared decoder layers|(B, T, D)",
            "norm",
            "projection to V",
            "~logits (B, T, V)",
        ),
    )
    shared = 50 + 2 * STEP
    drawing.wire((390, 50 + STEP + HIGH / 2), (390, shared), (625 - WIDE / 2 - 1, shared))
    drawing.text(455, shared + 14, "prefix", 'font-size="11"')
    for x, title in ((130, "encoder-only"), (510, "decoder-only")):
        drawing.text(x, 18, title, 'text-anchor="middle" font-weight="bold"')
    return drawing


def draw_positions_and_masks() -> Drawing:
    """Draw the sinusoids, and which keys the queries of small models see."""
    drawing = Drawing(760, 430)
    table = ((sinusoids(56, 24).T + 1) / 2 * (SHADES - 1)).round().int().tolist()
    for shade in range(SHADES):
        at = [
            (row, place)
            for row, line in enumerate(table)
            for place, value in enumerate(line)
            if value == shade
        ]
        part = shade / (SHADES - 1)
        colour = "#" + "".join(
            f"{round(a + (b - a) * part):02x}"
            for a, b in zip((29, 95, 209), (253, 241, 199), strict=True)
        )
        drawing.cells(20, 35, 8, at, colour)
    drawing.text(
        20, 18, "PE(p, i) of 56 positions p (across), 24 numbers i (down): -1 blue, 1 yellow", ""
    )
    plain, causal, prefix = look(), look(causal_encoder=True), look(family="decoder_only")
    source, cross, target = (prefix[part] for part in ("encoder", "cross", "decoder"))
    masks = {
        "encoder": plain["encoder"],
        "causal encoder": causal["encoder"],
        "cross-attention": plain["cross"],
        "decoder": plain["decoder"],
        "decoder-only": np.block([[source, np.zeros((7, 5))], [cross, target]]),
    }
    x = 20
    for name, weights in masks.items():
        x = draw_mask(drawing, x, name, weights)
    drawing.text(
        20,
        416,
        "rows: queries, columns: keys; blue: seen. Of 7 source positions the "
        "last 2 are padding; 5 tokens",
        "",
    )
    return drawing


def draw_mask(drawing: Drawing, x: int, name: str, weights: FloatArray) -> int:
    """Draw where attention (rows, columns) is not 0; return where the next one begins."""
    grid = (weights > 0).tolist()
    for is_seen, colour in ((False, "#e5e7eb"), (True, "#1d5fd1")):
        at = [
            (row, column)
            for row, line in enumerate(grid)
            for column, value in enumerate(line)
            if value == is_seen
        ]
        drawing.cells(x, 262, 11, at, colour)
    drawing.text(x, 250, name, "")
    return x + max(11 * len(grid[0]), 110) + 35


def look(*, family: Family = "transformer", causal_encoder: bool = False) -> dict[str, FloatArray]:
    """Return the first head's attention in a small model; 2 of 7 source positions are padding."""
    torch.manual_seed(1)
    options = replace(OPTIONS, family=family, causal_encoder=causal_encoder)
    model = build_model(options, input_width=4, vocab_size=9, ctc_labels=0)
    valid = torch.arange(7)[None] < 5
    with torch.no_grad():
        maps = model.eval().attention_maps(torch.randn(1, 7, 4), valid, torch.ones(1, 5).long())
    return {part: heads[0, 0] for part, heads in maps.of_clip(0).items()}


if __name__ == "__main__":
    run(main)
