"""The page of a study, in the look of the report."""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from jinja2 import DictLoader, Environment, StrictUndefined

from signloom.report.canvas import inline_svg


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of text; the first column names the row."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A picture."""

    name: str  # unique on the page; letters, digits and hyphens
    svg: str  # a whole SVG file in the colours of `palette`
    label: str  # what a person who cannot see it must know
    caption: str  # above it; may be empty


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the page."""

    title: str
    text: Sequence[str]  # paragraphs
    parts: Sequence[Table | Figure]


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyPage:
    """What a study has to say."""

    title: str
    lead: Sequence[str]  # the question and the answer, a paragraph each
    sections: Sequence[Section]
    command: str  # that makes the page


def render_study(page: StudyPage) -> str:
    """Fill the template; every text is escaped there."""
    folder = files("signloom.report")
    environment = Environment(
        loader=DictLoader({"study.html": (folder / "study.html").read_text(encoding="utf-8")}),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
    )
    return environment.get_template("study.html").render(
        page=page,
        style=(folder / "style.css").read_text(encoding="utf-8"),
        figures={
            part.name: inline_svg(part.svg, part.name, html.escape(part.label))
            for section in page.sections
            for part in section.parts
            if isinstance(part, Figure)
        },
    )
