"""Charts of scores and curves.

A page sets panels side by side on a desk and one below the other on a phone, where a figure with
several of them could not be read.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from signloom.evaluation.metric_names import Metric, System, metric_heading
from signloom.report.canvas import (
    BLUE,
    GREY,
    HALF,
    INK,
    MUTED,
    ORANGE,
    THIRD,
    build_panels,
    readable,
    render_svg,
    shorten,
    style,
)

MAX_ROWS = 24  # of a chart with a row for each signer: the worst are shown
KINDS = {
    "sentence": "sentence",
    "novelty": "what is new in the sentence",
    "new_signer": "signer seen in train",
    "words": "words of the reference",
    "signer": "signer",
    "language": "language of the text",
    "corpus": "corpus",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A panel of the page and a file in reports/figures/."""

    name: str  # of the file; unique, letters, digits and hyphens
    svg: str
    label: str  # what a person who cannot see it must know


def draw_systems(splits: Mapping[str, Any], names: Iterable[str], headline: Metric) -> list[Chart]:
    """The headline metric with intervals of the model and its floors, one panel a split."""
    charts, label = [], metric_heading(headline)
    for split, evaluation in splits.items():
        systems = evaluation["systems"]
        rows = [
            (name, systems[name][headline], BLUE if name == System.MODEL else GREY)
            for name in names
            if name in systems
        ]
        best = ", ".join(f"{name} {score['value']:.1f}" for name, score, _ in rows)
        charts.append(
            Chart(
                name=f"scores-{split}",
                svg=_draw_intervals(
                    rows, f"{label}, clips of {split}: {evaluation['clips']}", HALF
                ),
                label=f"{label} with 95 % intervals on {split}: {best}",
            )
        )
    return charts


def draw_breakdowns(breakdowns: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Chart]:
    """The model's chrF on parts of a split, one panel a kind of part.

    Not BLEU-4, which is 0 for references of three words, however good the translation.
    """
    charts = []
    for kind, groups in breakdowns.items():
        if len(groups) < 2:  # all clips are alike: the score above says it
            continue
        worst = sorted(groups, key=lambda row: float(row["chrf"]))[:MAX_ROWS]
        rows = [
            (
                f"{shorten(readable(row['group']))} ({row['clips']})",
                {"value": row["chrf"], "low": row["chrf_low"], "high": row["chrf_high"]},
                BLUE,
            )
            for row in groups
            if row in worst
        ]
        title = f"chrF by {KINDS.get(kind, kind)} (clips)"
        best = ", ".join(f"{name} {score['value']:.1f}" for name, score, _ in rows)
        charts.append(
            Chart(
                name=f"breakdown-{kind}",
                svg=_draw_intervals(rows, title, THIRD),
                label=f"{title}, with 95 % intervals: {best}",
            )
        )
    return charts


def draw_curves(epochs: Sequence[Mapping[str, Any]], best_epoch: int) -> list[Chart]:
    """Losses over epochs."""
    title, x = "loss, nats a token", [epoch["epoch"] for epoch in epochs]
    lines = {"train": (ORANGE, "train_loss"), "dev": (BLUE, "dev_loss")}
    with style():
        figure, (panel,) = build_panels(1, height=2.6, width=THIRD)
        for name, (colour, column) in lines.items():
            panel.plot(x, [epoch[column] for epoch in epochs], color=colour, label=name)
        panel.legend(loc="upper right")
        panel.set_title(title)
        panel.axvline(best_epoch, color=MUTED, linewidth=1, linestyle=(0, (3, 3)))
        panel.set_xlabel(f"epoch (dashed: the one kept, {best_epoch})")
        panel.set_ylim(bottom=0)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        svg = render_svg(figure)
    ends = ", ".join(
        f"{name} from {epochs[0][column]:.3g} to {epochs[-1][column]:.3g}"
        for name, (_, column) in lines.items()
    )
    label = f"{title}, over {len(epochs)} epochs: {ends}"
    return [Chart(name="curves-loss", svg=svg, label=label)]


def _draw_intervals(
    rows: Sequence[tuple[str, Mapping[str, Any], str]], title: str, width: float
) -> str:
    """Draw one named value with its interval in each row, the first on top."""
    with style():
        figure, (panel,) = build_panels(1, height=0.31 * max(len(rows), 3) + 0.75, width=width)
        for y, (_, score, colour) in enumerate(rows):
            panel.plot(
                [score["low"], score["high"]],
                [y, y],
                color=colour,
                linewidth=3,
                alpha=0.35,
                solid_capstyle="round",
            )
            panel.plot([score["value"]], [y], "o", color=colour, markersize=7)
            _annotate(panel, score, y)
        panel.set_yticks(range(len(rows)), [name for name, _, _ in rows])
        panel.set_ylim(len(rows) - 0.5, -0.5)
        panel.set_xlim(-2, 102)
        panel.grid(axis="y", visible=False)
        figure.suptitle(title, x=0.02, ha="left", fontsize=11)
        return render_svg(figure)


def _annotate(panel: Axes, score: Mapping[str, Any], y: int) -> None:
    """Write the value where the panel has room: right of the interval, left of it, or above it."""
    if score["high"] <= 80:
        x, offset, align = score["high"], (7, 0), ("left", "center")
    elif score["low"] >= 20:
        x, offset, align = score["low"], (-7, 0), ("right", "center")
    else:
        x, offset, align = 50, (0, 2), ("center", "bottom")
    panel.annotate(
        f"{score['value']:.1f}",
        (x, y),
        xytext=offset,
        textcoords="offset points",
        ha=align[0],
        va=align[1],
        color=INK,
        fontsize=9.5,
    )
