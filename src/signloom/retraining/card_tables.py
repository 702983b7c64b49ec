"""Values come in, Markdown of a model card goes out."""

from collections.abc import Iterable, Iterator, Sequence


def escape(text: object) -> str:
    """Return text that stays text in Markdown, on one line and in one cell of a table."""
    line = " ".join(str(text).split())
    for sign in "\\`*_[]<>|":
        line = line.replace(sign, f"\\{sign}")
    return line


def table(header: Sequence[str], rows: Iterable[Iterable[object]]) -> Iterator[str]:
    """Yield the lines of a table; cells are Markdown already."""
    yield f"| {' | '.join(header)} |"
    yield f"|{'---|' * len(header)}"
    yield from (f"| {' | '.join(map(str, row))} |" for row in rows)
    yield ""


def bullets(items: Iterable[str]) -> Iterator[str]:
    """Yield a list of sentences."""
    yield from (f"- {item}" for item in items)
    yield ""
