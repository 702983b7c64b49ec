"""Chart and sentences of a search."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.ticker import MaxNLocator

from signloom.report.canvas import (
    BLUE,
    GREY,
    ORANGE,
    build_panels,
    readable,
    render_svg,
    style,
)
from signloom.report.charts import Chart

LABEL = "Objective of each trial and the best so far"
Trial = Mapping[str, Any]


def draw_search(search: Mapping[str, Any]) -> list[Chart]:
    """Draw what is known of a search."""
    trials, objective = search["trials"], search["objective"]
    higher_is_better = search["objectives"][objective] == "maximize"
    svg = search_chart(trials, objective, higher_is_better=higher_is_better)
    return [Chart(name="search", svg=svg, label=LABEL)]


def search_note(search: Mapping[str, Any]) -> str:
    """Say how many trials there were and what the best of them reached."""
    trials, best = search["trials"], search["best"]
    complete = sum(trial["state"] == "COMPLETE" for trial in trials)
    objective = readable(search["objective"])
    best_word = "highest" if search["objectives"][search["objective"]] == "maximize" else "lowest"
    note = (
        f"{len(trials)} trials, of which {complete} ran to their end and "
        f"{len(trials) - complete} were stopped early; trial 0 has the values of params.yaml. "
    )
    note += "".join(f"{note_line}. " for note_line in search.get("notes", []))
    confirmed = best["confirmed"]
    if confirmed:
        rows = [
            f"trial {row['number']} {row['mean']:.4f} "
            f"({min(row['values']):.4f} to {max(row['values']):.4f})"
            for row in confirmed
        ]
        seeds = len(confirmed[0]["values"])
        return note + (
            f"The best were trained again with {seeds} other seeds each, so that no lucky one "
            f"wins; mean {objective} and its range: {', '.join(rows)}. "
            f"The winner is trial {best['number']}."
        )
    return f"{note}The {best_word} {objective} is {best['value']:.4f}, of trial {best['number']}."


def search_chart(trials: Sequence[Trial], objective: str, *, higher_is_better: bool) -> str:
    """What each trial reached, and the best so far."""
    with style():
        figure, (panel,) = build_panels(1, height=2.7)
        complete = [trial for trial in trials if trial["state"] == "COMPLETE"]
        better = max if higher_is_better else min
        line: list[float] = []
        for trial in complete:
            line.append(better([*line[-1:], trial["value"]]))
        numbers = [trial["number"] for trial in complete]
        panel.step(numbers, line, where="post", color=GREY, label="best so far")
        panel.plot(numbers, [t["value"] for t in complete], "o", color=BLUE, label="finished trial")
        stopped = [t for t in trials if t["state"] != "COMPLETE" and t["value"] is not None]
        panel.plot(
            [trial["number"] for trial in stopped],
            [trial["value"] for trial in stopped],
            "x",
            color=ORANGE,
            label="pruned, at its last epoch",
        )
        panel.set_title(readable(objective))
        panel.set_xlabel("trial")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.legend()
        return render_svg(figure)
