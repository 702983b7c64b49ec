"""The quality table of the landmarks comes in, its charts go out as SVG text."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from signloom.corpus.quality import ClipQuality
from signloom.report.canvas import HALF, THIRD, build_panels, render_svg, shorten, style
from signloom.report.charts import MAX_ROWS, Chart
from signloom.report.palette import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, RED

MARKS = {
    "left_hand": ("<", ORANGE), "right_hand": (">", BLUE), "any_hand": ("o", INK),
    "pose": ("s", GREEN), "lips": ("d", PURPLE), "face_outline": ("v", GREY),
}  # fmt: skip
OTHERS = {
    "any_hand_gap_s": "longest time without a hand, s",
    "left_hand_jitter": "jitter of the left hand, palms",
    "right_hand_jitter": "jitter of the right hand, palms",
    "side_swaps": "side swaps",
    "fps": "frames a second",
    "seconds": "duration, s",
}
BINS = 20
TICKS = MaxNLocator(nbins=6, steps=[1, 2, 5, 10])


def draw_distributions(rows: Sequence[ClipQuality], limits: Mapping[str, float]) -> list[Chart]:
    """Histograms of the clips, one panel a figure; a dashed line where warnings begin.

    Args:
        rows: The quality table.
        limits: Where warnings begin, by the name of the column; those of shares 0 to 1.
    """
    shares = {name: f"frames with {name.replace('_', ' ')}, %" for name in MARKS}
    charts = []
    for name, title in (shares | OTHERS).items():
        scale = 100 if name in shares else 1
        values = [float(scale * v) for row in rows if (v := getattr(row, name)) is not None]
        if not values:
            continue
        label = f"Clips by {title}: {min(values):.3g} to {max(values):.3g}, median "
        label += f"{median(values):.3g}"
        with style():
            figure, (panel,) = build_panels(1, height=1.6, width=THIRD)
            _histogram(panel, values, is_share=name in shares)
            if name in limits:
                limit = scale * limits[name]
                panel.axvline(limit, color=RED, linewidth=1.2, linestyle=(0, (3, 3)))
                label += f"; warnings begin at {limit:g}"
            panel.set_title(title)
            svg = render_svg(figure)
        charts.append(Chart(name=f"quality-{name.replace('_', '-')}", svg=svg, label=label))
    return charts


def draw_signers(by_signer: Sequence[Mapping[str, Any]]) -> Chart:
    """How often each group of landmarks is found, by signer; those with the least hands."""
    names = [name for name in MARKS if any(row[name] is not None for row in by_signer)]
    first = "any_hand" if "any_hand" in names else names[0]
    shown = sorted(by_signer, key=lambda row: (row[first] or 0.0, row["name"]))[:MAX_ROWS]
    shown = sorted(shown, key=lambda row: str(row["name"]), reverse=True)
    with style():
        figure, (panel,) = build_panels(1, height=0.27 * max(len(shown), 4) + 1.4, width=HALF)
        lowest = 1.0
        for name in names:
            mark, colour = MARKS[name]
            found = [(row[name], place) for place, row in enumerate(shown) if row[name] is not None]
            lowest = min([lowest, *(share for share, _ in found)])
            panel.plot([100 * share for share, _ in found], [place for _, place in found], mark,
                       color=colour, label=name.replace("_", " "), markersize=6,
                       alpha=0.85)  # fmt: skip
        panel.set_yticks(range(len(shown)), [shorten(str(row["name"])) for row in shown])
        panel.set_ylim(-0.6, len(shown) - 0.4)
        low = 100 * lowest - 1 - 5 * (1 - lowest)
        panel.set_xlim(low, 100 + 0.02 * (100 - low))  # a mark at 100 is whole
        panel.set_xticks([tick for tick in TICKS.tick_values(low, 100) if tick <= 100])
        panel.set_title("frames in which it was found, %, by signer")
        figure.legend(loc="outside lower center", ncols=3, columnspacing=1,
                      handletextpad=0.1)  # fmt: skip
        svg = render_svg(figure)
    label = "Share of frames in which hands and body were found, by signer; the table below has it"
    return Chart(name="signers", svg=svg, label=label)


def _histogram(panel: Axes, values: Sequence[float], *, is_share: bool) -> None:
    top = 100.0 if is_share else max([*values, 1e-9])
    low = 0.0 if is_share or min(values) < top / 2 else min(values)
    if top - low < 1e-6:  # one value: a bar of its own, not one as wide as the panel
        low, top = low - 0.5, top + 0.5
        panel.set_xticks([values[0]])
    else:
        panel.xaxis.set_major_locator(MaxNLocator(nbins=5))
    edges = [low + (top - low) * step / BINS for step in range(BINS + 1)]
    panel.hist(values, bins=edges, color=BLUE)
    panel.set_xlim(low, top)
    panel.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=4))
    panel.grid(axis="x", visible=False)
