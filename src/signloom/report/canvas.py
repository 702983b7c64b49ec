"""The style of figures: colours that follow the theme, SVG text, one look.

Figures are drawn without clock, random ids or screen, so that equal numbers give equal bytes.
"""

import io
import math
import re
import warnings
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:  # films with skeletons are drawn in these colours without Matplotlib
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, GRID, PAPER = "#1f2937", "#5b6472", "#d3d8df", "#fffffe"
BLUE, ORANGE, GREEN, PURPLE, GREY = "#1d5fd1", "#b4470e", "#157347", "#7a3fd0", "#7d8694"
RED = "#b02a37"

_VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--grid",
    PAPER: "--card",
    BLUE: "--blue",
    ORANGE: "--orange",
    GREEN: "--green",
    PURPLE: "--purple",
    GREY: "--grey",
    RED: "--red",
}
_COLOUR = re.compile("|".join(_VARIABLES))
_REFERENCE = re.compile(r'(\bid="|url\(#|href="#)')
# Its rules are for `*`, which inside a page would be every element of the page.
_STYLESHEET = re.compile(r"<style.*?</style>", re.DOTALL)
_FONT = re.compile(r"font: ([\d.]+)px [^;\"]+")


def inline_svg(svg: str, name: str, label: str) -> str:
    """Turn a figure's file into one that can be part of the page.

    Colours become the page's variables, the font the page's own, and ids get the figure's name in
    front, because they must be unique among all figures of the page.

    Args:
        svg: The file, with the colours of this module.
        name: Unique on the page; letters, digits and hyphens.
        label: What a person who cannot see the figure must know; escaped by the caller.
    """
    body = _STYLESHEET.sub("", svg[svg.index("<svg") :])
    body = _COLOUR.sub(lambda match: f"var({_VARIABLES[match[0]]})", body)
    body = _REFERENCE.sub(rf"\1{name}-", body)
    body = _FONT.sub(r"font: \1px var(--font)", body)
    return body.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)


# Of a figure, inches. A whole one fills the page and is wider than a phone; the others are side
# by side on a desk, three or two in a row, and one below the other on a phone.
WHOLE, HALF, THIRD = 9.6, 5.0, 4.0
MAX_NAME = 24  # characters of a label next to a panel

STYLE: dict[str, Any] = {
    "svg.fonttype": "none",  # text stays text: small, sharp, can be searched and read aloud
    "svg.hashsalt": "signloom",
    "font.size": 10.5,
    "text.color": INK,
    "text.parse_math": False,  # a signer or parameter may be called $x$
    "axes.edgecolor": GRID,
    "axes.facecolor": PAPER,
    "axes.labelcolor": MUTED,
    "axes.titlecolor": INK,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "figure.facecolor": PAPER,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "xtick.color": GRID,
    "xtick.labelcolor": MUTED,
    "ytick.color": GRID,
    "ytick.labelcolor": INK,
}


def style() -> AbstractContextManager[None]:
    """Return a context in which figures have the report's style."""
    import matplotlib

    return matplotlib.rc_context(STYLE)


def build_panels(
    columns: int, *, height: float, rows: int = 1, share_y: bool = False, width: float = WHOLE
) -> "tuple[Figure, list[Axes]]":
    """Make a figure with panels side by side; height of one row and width of all in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, sharey=share_y, squeeze=False)
    return figure, list(axes.flat)


def readable(name: str) -> str:
    """A name from a file as a person would write it: `01-03` becomes 1-3."""
    return re.sub(r"\b0+(?=\d)", "", name).replace("_", " ")


def shorten(name: str) -> str:
    """A name that leaves room for what it names."""
    return name if len(name) <= MAX_NAME else name[: MAX_NAME - 1] + "…"


def scale_log(panel: "Axes", name: Literal["x", "y"]) -> None:
    """Make an axis logarithmic, its ticks written as 1e-3: the style has no mathematics."""
    from matplotlib.ticker import NullFormatter

    axis = panel.xaxis if name == "x" else panel.yaxis
    panel.set(**{f"{name}scale": "log"})
    axis.set_major_formatter(lambda value, _: f"1e{math.log10(value):.0f}")
    axis.set_minor_formatter(NullFormatter())


def render_svg(figure: "Figure") -> str:
    """Return a figure as the text of an SVG file."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with warnings.catch_warnings():
        # Text stays text, so the reader's fonts draw it and not matplotlib's, which lack scripts.
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from font")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support")
        # Not savefig, which draws everything twice.
        FigureCanvasSVG(figure).print_svg(buffer, metadata=nothing)
    return buffer.getvalue()
