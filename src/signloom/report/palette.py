"""The colours of the report, and how a figure follows the reader's light or dark theme."""

import re

INK, MUTED, GRID, PAPER = "#1f2937", "#5b6472", "#d3d8df", "#fffffe"
BLUE, ORANGE, GREEN, PURPLE, GREY = "#1d5fd1", "#b4470e", "#157347", "#7a3fd0", "#7d8694"
RED = "#b02a37"
SERIES = (BLUE, ORANGE, GREEN, PURPLE)

_VARIABLES = {
    INK: "--ink", MUTED: "--muted", GRID: "--grid", PAPER: "--card",
    BLUE: "--blue", ORANGE: "--orange", GREEN: "--green", PURPLE: "--purple", GREY: "--grey",
    RED: "--red",
}  # fmt: skip
_COLOUR = re.compile("|".join(_VARIABLES))
_REFERENCE = re.compile(r'(\bid="|url\(#|href="#)')
# Its rules are for `*`, which inside a page would be every element of the page.
_STYLESHEET = re.compile(r"<style.*?</style>", re.DOTALL)
_FONT = re.compile(r"font: ([\d.]+)px [^;\"]+")


def inline_svg(svg: str, name: str, label: str) -> str:
    """Turn a figure's file into one that can stand inside the page.

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
