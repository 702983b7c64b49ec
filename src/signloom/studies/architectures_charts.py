"""What the study of architectures measured comes in, its charts go out as SVG text."""

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from signloom.report import canvas
from signloom.report.palette import BLUE, GREEN, GREY, INK, ORANGE, PURPLE

Row = Mapping[str, Any]
COLOURS = (ORANGE, PURPLE, GREEN, BLUE, GREY, INK)
MARKS = ("o", "s", "^", "v", "D", "P", "X")


def scores_chart(runs: Sequence[Row], variants: Sequence[str]) -> str:
    """BLEU-4 and WER of every variant, a dot for each seed."""
    with canvas.style():
        figure, panels = canvas.build_panels(2, height=0.36 * len(variants) + 1.2, share_y=True)
        for panel, name, title in zip(
            panels, ("bleu4", "wer"), ("test BLEU-4", "test WER, %"), strict=True
        ):
            for place, variant in enumerate(variants):
                values = [r["scores"]["test"][name] for r in runs if r["variant"] == variant]
                panel.plot(values, [place] * len(values), "o", color=BLUE, alpha=0.45, markersize=6)
                panel.plot([mean(values)], [place], "|", color=INK, markersize=15)
            panel.set_yticks(range(len(variants)), variants)
            panel.set_ylim(len(variants) - 0.5, -0.5)
            panel.set_xlim(left=0)
            panel.set_title(title)
        return canvas.render_svg(figure)


def lengths_chart(by_length: Mapping[str, Mapping[str, Row]], *, without_bleu: str) -> str:
    """BLEU-4, but of one group of lengths, and WER over the words of the reference."""
    with canvas.style():
        figure, panels = canvas.build_panels(2, height=3.6)
        for number, (variant, found) in enumerate(by_length.items()):
            look: dict[str, Any] = {
                "color": COLOURS[number % len(COLOURS)],
                "marker": MARKS[number % len(MARKS)],
                "markersize": 5,
                "label": variant,
            }
            long = {name: row for name, row in found.items() if name != without_bleu}
            panels[0].plot(list(long), [row["bleu4"] for row in long.values()], **look)
            panels[1].plot(list(found), [row["wer"] for row in found.values()], **look)
        panels[0].set_title("BLEU-4")
        panels[1].set_title("WER, %")
        for panel in panels:
            panel.set_xlabel("words of the reference")
            panel.set_ylim(bottom=0)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)
        return canvas.render_svg(figure)


def reversal_chart(shares: Mapping[str, Mapping[int, float]]) -> str:
    """Exact match over the symbols of the sequence."""
    with canvas.style():
        figure, (panel,) = canvas.build_panels(1, height=3.4)
        for number, (variant, found) in enumerate(shares.items()):
            panel.plot(
                list(found),
                [100 * share for share in found.values()],
                color=COLOURS[number % len(COLOURS)],
                marker=MARKS[number % len(MARKS)],
                markersize=4,
                label=variant,
            )
        panel.set_title("sequences turned round without a mistake, %")
        panel.set_xlabel("symbols of the sequence")
        panel.set_ylim(-3, 103)
        panel.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        return canvas.render_svg(figure)
