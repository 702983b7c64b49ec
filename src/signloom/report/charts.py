"""Plain numbers come in, the charts of the report go out as SVG text."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from signloom.report.canvas import build_panels, render_svg, style
from signloom.report.palette import BLUE, GREEN, GREY, INK, MUTED, ORANGE

MAX_ROWS = 24  # of a chart with a row for each signer: the worst are shown


def systems_chart(splits: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """BLEU-4 with intervals of the model and its floors, one panel a split."""
    with style():
        figure, panels = build_panels(len(splits), height=0.42 * len(names) + 1.1, share_y=True)
        for panel, (split, found) in zip(panels, splits.items(), strict=True):
            systems = found["systems"]
            rows = [
                (names[system], systems[system]["bleu4"], BLUE if system == "model" else GREY)
                for system in names
            ]
            _interval_rows(panel, rows)
            panel.set_title(f"{split}: {found['clips']} clips")
            panel.set_xlabel("BLEU-4")
        return render_svg(figure)


def breakdown_chart(breakdowns: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """The model's chrF on parts of a split, one panel a kind of part.

    Not BLEU-4, which is 0 for references of three words, however good the translation.
    """
    titles = {"sentence": "by sentence", "words": "by reference length", "signer": "by signer"}
    with style():
        rows = max(min(len(rows), MAX_ROWS) for rows in breakdowns.values())
        figure, panels = build_panels(len(breakdowns), height=0.36 * max(rows, 3) + 1.1)
        for panel, (kind, found) in zip(panels, breakdowns.items(), strict=True):
            worst = sorted(found, key=lambda row: float(row["chrf"]))[:MAX_ROWS]
            shown = [row for row in found if row in worst]
            _interval_rows(
                panel,
                [
                    (
                        f"{readable(row['group']) + ' words' if kind == 'words' else row['group']}"
                        f" ({row['clips']})",
                        {"value": row["chrf"], "low": row["chrf_low"], "high": row["chrf_high"]},
                        BLUE,
                    )
                    for row in shown
                ],
            )
            panel.set_title(titles.get(kind, kind))
            panel.set_xlabel("chrF (clips in brackets)")
        return render_svg(figure)


def curves_chart(epochs: Sequence[Mapping[str, Any]], best_epoch: int) -> str:
    """Losses and, if recorded, next-token accuracy and learning rate over epochs."""
    extra = [name for name in ("dev_accuracy", "lr") if name in epochs[0]]
    x = [epoch["epoch"] for epoch in epochs]
    with style():
        figure, panels = build_panels(1 + len(extra), height=2.9)
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
        return render_svg(figure)


def lengths_chart(words: Mapping[str, Sequence[int]]) -> str:
    """How long the sentences of each split are, as shares of the split."""
    with style():
        figure, (panel,) = build_panels(1, height=2.6)
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
        return render_svg(figure)


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


def readable(name: str) -> str:
    """A name from a file as a person would write it: `01-03` becomes 1-3."""
    return re.sub(r"\b0+(?=\d)", "", name).replace("_", " ")


def _span(first: int, step: int) -> str:
    return str(first) if step == 1 else f"{first}-{first + step - 1}"
