"""The page of a study, in the look of the report."""

import html
from collections.abc import Sequence
from dataclasses import dataclass

from signloom.report.canvas import inline_svg
from signloom.report.pages import render_page


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyTable:
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
    parts: Sequence[StudyTable | Figure]


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyPage:
    """What a study has to say."""

    title: str
    lead: Sequence[str]  # the question and the answer, a paragraph each
    sections: Sequence[Section]
    command: str  # that makes the page


def render_study(page: StudyPage) -> str:
    """Return the page as HTML."""
    figures = {
        part.name: inline_svg(part.svg, part.name, html.escape(part.label))
        for section in page.sections
        for part in section.parts
        if isinstance(part, Figure)
    }
    return render_page(
        "study.html", package="studies", trim_blocks=True, page=page, figures=figures
    )
