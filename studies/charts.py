"""What the pages of the studies share: curves over a number, and cells of tables."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean, stdev
from typing import Any, TypeVar

from signloom.grouping import group_pairs
from signloom.report import canvas
from signloom.report.canvas import BLUE, GREEN, GREY, INK, ORANGE, PURPLE
from studies.study_page import Figure, StudyTable

COLOURS = (ORANGE, PURPLE, GREEN, BLUE, GREY, INK)
MARKS = ("o", "s", "^", "v", "D", "P", "X")
DASHES = ("-", (0, (4, 3)), (0, (1, 2)))

T = TypeVar("T")
Row = Mapping[str, Any]  # what one training or measurement found
Groups = Mapping[str, Sequence[Row]]
Look = Mapping[str, Any]  # what matplotlib takes: colour, line style, marker
Curve = Mapping[Any, float]  # place on the x axis, a number or a name, to value


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Curves with one pair of axes."""

    title: str
    x_label: str
    curves: Mapping[str, Curve]
    log: str = ""  # the axes that are logarithmic, such as "xy"
    limits: tuple[float, float | None] | None = None  # of the y axis
    line_at: float | None = None  # on the x axis, dashed
    ticks: Sequence[float] = field(default_factory=tuple)  # of the x axis; none: chosen


def default_looks(names: Iterable[str]) -> dict[str, Look]:
    """Return a look for each name: colours in turn, then the next kind of dash."""
    return {
        name: {
            "color": COLOURS[number % len(COLOURS)],
            "linestyle": DASHES[number // len(COLOURS) % len(DASHES)],
            "marker": MARKS[number % len(MARKS)],
            "markersize": 4,
        }
        for number, name in enumerate(names)
    }


def draw_curves(
    panels: Sequence[Panel],
    *,
    height: float = 3.6,
    looks: Mapping[str, Look] | None = None,
    columns: int = 4,
) -> str:
    """Draw panels side by side, with one legend below all of them.

    Args:
        panels: Curves of one name have one look in all of them.
        height: Inches.
        looks: By name; the others are as `default_looks` has them.
        columns: Of the legend.
    """
    names = list(dict.fromkeys(name for panel in panels for name in panel.curves))
    chosen = {**default_looks(names), **(looks or {})}
    with canvas.style():
        figure, axes = canvas.build_panels(len(panels), height=height)
        shown: dict[str, Any] = {}
        for axis, panel in zip(axes, panels, strict=True):
            for name, curve in panel.curves.items():
                (shown[name],) = axis.plot(list(curve), list(curve.values()), **chosen[name])
            for letter in panel.log:
                canvas.scale_log(axis, "x" if letter == "x" else "y")
            if panel.line_at is not None:
                axis.axvline(panel.line_at, color=GREY, linewidth=1, linestyle=DASHES[1])
            if panel.limits is not None:
                axis.set_ylim(*panel.limits)
            if panel.ticks:
                axis.set_xticks(panel.ticks, [f"{tick:g}" for tick in panel.ticks])
            axis.set_title(panel.title)
            axis.set_xlabel(panel.x_label)
        figure.legend(shown.values(), shown, loc="outside lower center", ncols=columns)
        return canvas.render_svg(figure)


def curves_figure(
    name: str, panels: Sequence[Panel], *, label: str, caption: str = "", **options: Any
) -> Figure:
    """Return `draw_curves` as a part of a page; `options` are its own."""
    return Figure(name=name, svg=draw_curves(panels, **options), label=label, caption=caption)


def dots_figure(
    name: str, panels: Mapping[str, Mapping[str, Sequence[float]]], *, label: str
) -> Figure:
    """Return panels with a row for each variant, a dot in it for each seed.

    Args:
        name: Unique on the page.
        panels: Title to name of a variant to the value of each seed.
        label: What a person who cannot see it must know.
    """
    variants = list(next(iter(panels.values())))
    with canvas.style():
        height = 0.36 * len(variants) + 1.2
        figure, axes = canvas.build_panels(len(panels), height=height, share_y=True)
        for axis, (title, values) in zip(axes, panels.items(), strict=True):
            for place, numbers in enumerate(values.values()):
                axis.plot(
                    numbers, [place] * len(numbers), "o", color=BLUE, alpha=0.45, markersize=6
                )
                axis.plot([mean(numbers)], [place], "|", color=INK, markersize=15)
            axis.set_yticks(range(len(variants)), variants)
            axis.set_ylim(len(variants) - 0.5, -0.5)
            axis.set_xlim(left=0)
            axis.set_title(title)
        svg = canvas.render_svg(figure)
    caption = "A dot for each seed, a line at their mean."
    return Figure(name=name, svg=svg, label=label, caption=caption)


def by_variant(row: Row) -> str:
    """Return the name of the variant that a row is of."""
    return str(row["variant"])


def group(rows: Iterable[Row], name: Callable[[Row], str] = by_variant) -> dict[str, list[Row]]:
    """Put rows of one name together, in the order in which the names come."""
    return group_pairs((name(row), row) for row in rows)


def build_table(
    caption: str, groups: Mapping[Any, T], columns: Mapping[str, Callable[[T], str]]
) -> StudyTable:
    """Return a table with a row for each group, which begins with its name.

    Args:
        caption: Above it.
        groups: By name.
        columns: Title to what makes a cell of a group.
    """
    rows = [
        [str(name), *(cell(members) for cell in columns.values())]
        for name, members in groups.items()
    ]
    return StudyTable(caption=caption, header=["", *columns], rows=rows)


def spread(values: Iterable[float], digits: int = 1) -> str:
    """Return the mean, with the standard deviation where there are several."""
    numbers = list(values)
    deviation = f" ± {stdev(numbers):.{digits}f}" if len(numbers) > 1 else ""
    return f"{mean(numbers):.{digits}f}{deviation}"


def mean_curve(curves: Iterable[Mapping[str, float] | Sequence[float]]) -> dict[int, float]:
    """Return the mean of some curves, read from JSON, at each place that all have.

    The places of a list count from 1.
    """
    maps = [
        {int(place): value for place, value in curve.items()}
        if isinstance(curve, Mapping)
        else dict(enumerate(curve, 1))
        for curve in curves
    ]
    places = sorted(set.intersection(*map(set, maps)))
    return {place: mean(curve[place] for curve in maps) for place in places}
