"""Tables of numbers as Markdown that GitHub and mail programs show."""

from collections.abc import Sequence

_LONGEST = 100  # characters of a text of others
_BAR = 40  # characters from one end of a scale to the other


def code(text: object) -> str:
    """Return a text as code: whoever wrote it, it cannot be a link, a mention or a table's end."""
    plain = " ".join(str(text).replace("`", "'").replace("|", "/").split())
    return f"`{plain[:_LONGEST]}`" if plain else ""


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; its first column is text, the others are numbers."""
    marks = [":--", *["--:"] * (len(header) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, marks, *rows])


def folded(title: str, text: str) -> str:
    """Return a part that is shown at a click."""
    return f"<details><summary>{title}</summary>\n\n{text}\n\n</details>"


def interval_bars(rows: Sequence[tuple[str, float, float, float]], most: float) -> str:
    """Draw values with their intervals on one scale from 0.

    Args:
        rows: Name, value, lower and upper end of the interval.
        most: The right end of the scale; what lies beyond is drawn there.
    """
    width = max(len(name) for name, *_ in rows)
    lines = [f"{name:<{width}} {_bar(row, most)} {row[0]:.1f}" for name, *row in rows]
    ends = f"{'':<{width}} 0{f'{most:.0f}':>{_BAR - 1}}"
    return "\n".join(["```text", *lines, ends, "```"])


def _bar(row: Sequence[float], most: float) -> str:
    value, low, high = (round(min(max(n, 0), most) / most * (_BAR - 1)) for n in row)
    marks = {**dict.fromkeys(range(low, high + 1), "━"), value: "●"}
    return "".join(marks.get(position, "·") for position in range(_BAR))


def line_chart(title: str, unit: str, lines: Sequence[tuple[str, Sequence[float]]]) -> str:
    """Draw series over the epochs 1, 2, ... as a Mermaid chart; a list below names them.

    Args:
        title: No text of others: it stands in the chart's source.
        unit: Of the values, likewise.
        lines: Name and values of each.
    """
    names = " and ".join(f"{name} ({len(values)} epochs)" for name, values in lines)
    longest = max(len(values) for _, values in lines)
    chart = [
        "```mermaid",
        "xychart-beta",
        f'    title "{title}"',
        f'    x-axis "epoch" 1 --> {max(longest, 2)}',
        f'    y-axis "{unit}"',
    ]
    for _, values in lines:
        chart.append(f"    line [{', '.join(f'{value:.4g}' for value in values)}]")
    return "\n".join([*chart, "```", f"Lines in this order: {names}."])
