"""Plain numbers come in, figures go out as SVG text; the only module that knows matplotlib.

Every figure is drawn without clock, random ids or screen, so that equal numbers give equal bytes.
"""

import io
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from signloom.report.palette import BLUE, GREEN, GREY, GRID, INK, MUTED, ORANGE, PAPER

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
MAX_ROWS = 24  # of a chart with a row for each signer: the worst are shown


def systems_chart(splits: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """BLEU-4 with intervals of the model and its floors, one panel a split."""
    with matplotlib.rc_context(STYLE):
        figure, panels = _panels(len(splits), height=0.42 * len(names) + 1.1, share_y=True)
        for panel, (split, found) in zip(panels, splits.items(), strict=True):
            systems = found["systems"]
            rows = [
                (names[system], systems[system]["bleu4"], BLUE if system == "model" else GREY)
                for system in names
            ]
            _interval_rows(panel, rows)
            panel.set_title(f"{split}: {found['clips']} clips")
            panel.set_xlabel("BLEU-4")
        return _svg(figure)


def breakdown_chart(breakdowns: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """The model's chrF on parts of a split, one panel a kind of part.

    Not BLEU-4, which is 0 for references of three words, however good the translation.
    """
    titles = {"sentence": "by sentence", "words": "by reference length", "signer": "by signer"}
    with matplotlib.rc_context(STYLE):
        rows = max(min(len(rows), MAX_ROWS) for rows in breakdowns.values())
        figure, panels = _panels(len(breakdowns), height=0.36 * max(rows, 3) + 1.1)
        for panel, (kind, found) in zip(panels, breakdowns.items(), strict=True):
            worst = sorted(found, key=lambda row: float(row["chrf"]))[:MAX_ROWS]
            shown = [row for row in found if row in worst]
            _interval_rows(
                panel,
                [
                    (
                        f"{_readable(row['group']) + ' words' if kind == 'words' else row['group']}"
                        f" ({row['clips']})",
                        {"value": row["chrf"], "low": row["chrf_low"], "high": row["chrf_high"]},
                        BLUE,
                    )
                    for row in shown
                ],
            )
            panel.set_title(titles.get(kind, kind))
            panel.set_xlabel("chrF (clips in brackets)")
        return _svg(figure)


def curves_chart(epochs: Sequence[Mapping[str, Any]], best_epoch: int) -> str:
    """Losses and, if recorded, next-token accuracy and learning rate over epochs."""
    extra = [name for name in ("dev_accuracy", "lr") if name in epochs[0]]
    x = [epoch["epoch"] for epoch in epochs]
    with matplotlib.rc_context(STYLE):
        figure, panels = _panels(1 + len(extra), height=2.9)
        for name, colour, label in (
            ("train_loss", ORANGE, "train"),
            ("dev_loss", BLUE, "dev"),
        ):
            panels[0].plot(x, [epoch[name] for epoch in epochs], color=colour, label=label)
        panels[0].set_title("loss, nats a token")
        panels[0].legend(loc="upper right")
        for panel, name in zip(panels[1:], extra, strict=True):
            panel.plot(x, [epoch[name] for epoch in epochs], color=GREEN)
            panel.set_title(
                {"dev_accuracy": "dev next-token accuracy", "lr": "learning rate"}[name]
            )
        for panel in panels:
            panel.axvline(best_epoch, color=MUTED, linewidth=1, linestyle=(0, (3, 3)))
            panel.set_xlabel(f"epoch (dashed: the one kept, {best_epoch})")
            panel.set_ylim(bottom=0)
            panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        return _svg(figure)


def lengths_chart(words: Mapping[str, Sequence[int]]) -> str:
    """How long the sentences of each split are, as shares of the split."""
    with matplotlib.rc_context(STYLE):
        figure, (panel,) = _panels(1, height=2.6)
        longest = max((max(counts) for counts in words.values() if counts), default=1)
        step = max(1, math.ceil(longest / 24))
        edges = range(1, longest + 1, step)
        width = 0.8 * step / max(1, len(words))
        for number, (split, counts) in enumerate(words.items()):
            shares = [
                sum(edge <= count < edge + step for count in counts) / max(1, len(counts))
                for edge in edges
            ]
            offset = (number - (len(words) - 1) / 2) * width
            panel.bar(
                [edge + (step - 1) / 2 + offset for edge in edges],
                [100 * share for share in shares],
                width=0.92 * width,
                color=(GREY, ORANGE, BLUE)[number % 3],
                label=split,
            )
        panel.set_title("words of a sentence, % of the split")
        panel.grid(axis="x", visible=False)
        panel.set_xticks([edge + (step - 1) / 2 for edge in edges], [_span(e, step) for e in edges])
        panel.legend(loc="upper right")
        return _svg(figure)


def quality_chart(by_signer: Mapping[str, Mapping[str, float]], any_hand: Sequence[float]) -> str:
    """How often each group of landmarks is found, by signer, and the spread over clips."""
    colours = {"left_hand": ORANGE, "right_hand": BLUE, "any_hand": INK, "pose": GREEN}
    marks = {"left_hand": "<", "right_hand": ">", "any_hand": "o", "pose": "s"}
    with matplotlib.rc_context(STYLE):
        shown = sorted(by_signer, key=lambda signer: by_signer[signer]["any_hand"])[:MAX_ROWS]
        shown = sorted(shown, reverse=True)
        figure, (left, right) = _panels(2, height=0.32 * max(len(shown), 4) + 1.5)
        for name, colour in colours.items():
            left.plot(
                [100 * by_signer[signer][name] for signer in shown],
                range(len(shown)),
                marks[name],
                color=colour,
                label=name.replace("_", " "),
                markersize=6,
                alpha=0.85,
            )
        left.set_yticks(range(len(shown)), shown)
        left.set_ylim(-0.6, len(shown) - 0.4)
        lowest = min(by_signer[signer][name] for signer in shown for name in colours)
        left.set_xlim(100 * lowest - 1 - 5 * (1 - lowest), 100.5)
        left.set_title("frames in which it was found, %, by signer")
        left.legend(loc="upper center", bbox_to_anchor=(0.45, -0.1), ncols=4, columnspacing=1,
                    handletextpad=0.1)  # fmt: skip
        right.hist([100 * share for share in any_hand], bins=range(0, 101, 5), color=BLUE)
        right.set_title("clips by share of frames with a hand, %")
        right.set_ylabel("clips")
        right.yaxis.set_major_locator(MaxNLocator(integer=True))
        return _svg(figure)


def _panels(
    columns: int, *, height: float, rows: int = 1, share_y: bool = False
) -> tuple[Figure, list[Axes]]:
    """Make a figure as wide as the page, with panels side by side; height of one row in inches."""
    figure = Figure(figsize=(9.6, height * rows), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.subplots(rows, columns, sharey=share_y, squeeze=False)
    return figure, list(axes.flat)


def _interval_rows(panel: Axes, rows: Sequence[tuple[str, Mapping[str, Any], str]]) -> None:
    """Draw one named value with its interval in each row, the first on top."""
    for place, (_, score, colour) in enumerate(rows):
        panel.plot([score["low"], score["high"]], [place, place], color=colour, linewidth=3,
                   alpha=0.35, solid_capstyle="round")  # fmt: skip
        panel.plot([score["value"]], [place], "o", color=colour, markersize=7)
        right = score["high"] > 85  # keep the number inside the panel
        panel.annotate(
            f"{score['value']:.1f}", (score["low"] if right else score["high"], place),
            xytext=(-8 if right else 8, 0), textcoords="offset points",
            ha="right" if right else "left", va="center", color=INK, fontsize=9.5,
        )  # fmt: skip
    panel.set_yticks(range(len(rows)), [name for name, _, _ in rows])
    panel.set_ylim(len(rows) - 0.5, -0.5)
    panel.set_xlim(-2, 102)
    panel.grid(axis="y", visible=False)


def _readable(name: str) -> str:
    """A name from a file as a person would write it: `01-03` becomes 1-3."""
    return re.sub(r"\b0+(?=\d)", "", name).replace("_", " ")


def _span(first: int, step: int) -> str:
    return str(first) if step == 1 else f"{first}-{first + step - 1}"


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(buffer, format="svg", metadata=nothing)
    return buffer.getvalue()
