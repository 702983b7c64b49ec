"""Text can be read in both themes: contrasts as WCAG 2.2 counts them."""

import re
from importlib.resources import files
from itertools import product

import pytest

from signloom.report import canvas as palette

STYLE = (files("signloom.report") / "style.css").read_text(encoding="utf-8")
THEMES = dict(zip(("light", "dark"), re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL), strict=True))
TEXT = ("ink", "muted", "blue", "orange", "green", "purple", "red")
TEXT_CONTRAST, DRAWING_CONTRAST = 4.5, 3.0  # WCAG 1.4.3 AA and 1.4.11


def read_colours(theme: str) -> dict[str, str]:
    return dict(re.findall(r"--(\w+): (#\w{6});", THEMES[theme]))


def luminance(colour: str) -> float:
    parts = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    linear = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return sum(weight * p for weight, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(foreground: str, background: str) -> float:
    low, high = sorted((luminance(foreground), luminance(background)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(("theme", "paper"), [*product(THEMES, ("page", "card"))])
def test_text_stands_out(theme: str, paper: str) -> None:
    colours = read_colours(theme)
    contrasts = {name: contrast(colours[name], colours[paper]) for name in TEXT}
    assert min(contrasts.values()) >= TEXT_CONTRAST, contrasts
    assert contrast(colours["grey"], colours[paper]) >= DRAWING_CONTRAST


@pytest.mark.parametrize(("theme", "mark"), [*product(THEMES, ("wrong", "missing"))])
def test_marked_words_stand_out(theme: str, mark: str) -> None:
    colours = read_colours(theme)
    assert contrast(colours["ink"], colours[mark]) >= TEXT_CONTRAST


def test_a_figure_as_a_file_has_the_colours_of_the_light_page() -> None:
    colours = read_colours("light")
    for name in ("INK", "MUTED", "GRID", "BLUE", "ORANGE", "GREEN", "PURPLE", "GREY", "RED"):
        assert getattr(palette, name) == colours[name.lower()]
