"""The page of the study of gradients."""

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any

from signloom.report.canvas import BLUE, GREEN, GREY, ORANGE
from studies.charts import Panel, Row, build_table, curves_figure, group, spread
from studies.gradients.study import INITIALIZATIONS, NO_WARMUP, PRINTED
from studies.study_page import Section, StudyPage

Rows = Sequence[Row]
NORMS = {"post": "post-norm", "pre": "pre-norm", "none": "no norm"}
WIRINGS = {"residual": "residual", "plain": "no residual"}
COLOURS = {"post": BLUE, "pre": GREEN, "none": ORANGE}
STYLES = {"residual": "-", "plain": (0, (4, 3))}
DRAWN = {"torch": "PyTorch's initialisation", "xavier_each": "Xavier initialisation"}
COMMAND = "python -m studies.gradients.run"
LEARNT = 0.9  # exact match from which a stack counts as one that learns
NOTHING = 1e-16  # what is as good as nothing in double precision


def build_page(results: Mapping[str, Any]) -> StudyPage:
    """Say what was measured; every number comes from the results."""
    flows, trained, deep = results["flows"], results["trained"], results["deep"]
    stacks = group(trained, _kind)
    return StudyPage(
        title="Gradient flow through stacks of encoder layers",
        lead=[
            "How much of the loss's gradient at the top of the encoder is left at its bottom, "
            "with and without residual connections, with layer norm after each block, before it "
            "or nowhere, and which of these stacks learn?",
            *(_verdict(flows, drawn) for drawn in INITIALIZATIONS),
            f"Trained on the reversal lab: {_learnt(stacks)}",
        ],
        sections=[
            _shares_section(flows),
            _trained_section(
                "What is learnt",
                "The same stacks as the encoder of a model that turns symbol sequences round, "
                "trained alike; exact match on sequences that were not in training, mean and "
                "standard deviation over the seeds.",
                stacks,
            ),
            _trained_section(
                "Deep stacks, with and without warm-up",
                "PyTorch's initialisation, residual connections.",
                group(
                    deep,
                    lambda row: (
                        f"{row['depth']} layers, {NORMS[row['norm']]}, "
                        f"{'no' if row['warmup_steps'] == NO_WARMUP else 'with'} warm-up"
                    ),
                ),
            ),
        ],
        command=COMMAND,
    )


def _name(row: Row) -> str:
    return f"{NORMS[row['norm']]}, {WIRINGS[row['wiring']]}"


def _of(flows: Rows, drawn: str) -> Rows:
    return [flow for flow in flows if flow["initialization"] == drawn]


def _deepest(flows: Rows) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Norm and wiring to what was measured with most layers."""
    most = max(flow["depth"] for flow in flows)
    return {(flow["norm"], flow["wiring"]): flow for flow in flows if flow["depth"] == most}


def _verdict(flows: Rows, drawn: str) -> str:
    deep = _deepest(_of(flows, drawn))
    layers = deep["post", "plain"]["depth"]
    printed = {wiring: PRINTED[wiring].get(layers, 0) for wiring in WIRINGS}

    def shares(wiring: str) -> str:
        return ", ".join(
            f"{_percent(deep[norm, wiring]['share'])} ({name})" for norm, name in NORMS.items()
        )

    return (
        f"{DRAWN[drawn]}, {layers} layers: {shares('plain')} without residuals, where document 000 "
        f"prints {printed['plain']:g} %; {shares('residual')} with them, where it prints "
        f"{printed['residual']:g} %. At the top the frames of a clip differ by "
        f"{deep['post', 'residual']['spread'][-1]:.2g} of their size (post-norm), "
        f"{deep['pre', 'residual']['spread'][-1]:.2g} (pre-norm) and "
        f"{deep['none', 'residual']['spread'][-1]:.2g} (no norm); without residuals by "
        f"{deep['post', 'plain']['spread'][-1]:.0e} or less: attention averages over frames, and "
        "nothing brings back what it averaged away."
    )


def _learnt(groups: Mapping[str, Rows]) -> str:
    names: dict[bool, list[str]] = {True: [], False: []}
    for name, rows in groups.items():
        names[mean(row["exact"] for row in rows) >= LEARNT].append(name)
    learn, do_not = ("; ".join(names[key]) or "none" for key in (True, False))
    return f"These learn: {learn}. These do not: {do_not}."


def _kind(row: Row) -> str:
    return f"{_name(row)} ({row['initialization']}, {row['depth']} layers)"


def _look(norm: str, wiring: str) -> dict[str, Any]:
    return {"color": COLOURS[norm], "linestyle": STYLES[wiring], "marker": "o", "markersize": 3}


LOOKS = {
    **{
        _name({"norm": norm, "wiring": wiring}): _look(norm, wiring)
        for norm in NORMS
        for wiring in WIRINGS
    },
    **{
        f"printed, {name}": {"color": GREY, "linestyle": STYLES[wiring], "marker": "x"}
        for wiring, name in WIRINGS.items()
    },
}


def _shares_section(flows: Rows) -> Section:
    depths = sorted({flow["depth"] for flow in flows})
    printed = {f"printed, {name}": PRINTED[wiring] for wiring, name in WIRINGS.items()}
    panels, tables = [], []
    for drawn in INITIALIZATIONS:
        names = group(_of(flows, drawn), _name)
        measured = {
            name: {row["depth"]: row["share"] for row in rows} for name, rows in names.items()
        }
        shares = {**printed, **measured}
        curves = {
            name: {depth: max(share, NOTHING) for depth, share in curve.items()}
            for name, curve in shares.items()
        }
        panels.append(
            Panel(title=DRAWN[drawn], x_label="layers", curves=curves, log="y", ticks=depths)
        )
        tables += [
            build_table(
                f"Gradient at the bottom, % of the top; {DRAWN[drawn]}",
                shares,
                {f"{n} layers": lambda curve, n=n: _percent(curve.get(n)) for n in depths},  # type: ignore[misc]
            ),
            build_table(
                f"Difference of frames at the top; {DRAWN[drawn]}",
                {
                    name: {row["depth"]: row["spread"][-1] for row in rows}
                    for name, rows in names.items()
                },
                {f"{n} layers": lambda curve, n=n: f"{curve[n]:.2g}" for n in depths},  # type: ignore[misc]
            ),
        ]
    return Section(
        title="From top to bottom",
        text=[
            "Length of the gradient of the cross entropy with respect to what enters the first "
            "layer, in % of that with respect to what leaves the last one, at the start of "
            "training. 100 % means that it passes unchanged."
        ],
        parts=[
            curves_figure(
                "shares",
                panels,
                looks=LOOKS,
                label="Share of the gradient left at the bottom, over the depth; tables below",
                caption="Gradient at the first layer's input, % of that at the last one's output; "
                "geometric means over the seeds.",
            ),
            *tables,
        ],
    )


def _exact(rows: Rows) -> str:
    return f"{spread(100 * row['exact'] for row in rows)} %"


def _loss(rows: Rows) -> str:
    losses = [row["dev_loss"] for row in rows if row["dev_loss"] is not None]
    diverged = f" ({len(rows) - len(losses)} diverged)" if len(losses) < len(rows) else ""
    return (spread(losses, 3) if losses else "–") + diverged


def _trained_section(title: str, text: str, groups: Mapping[str, Rows]) -> Section:
    columns = {"exact match": _exact, "dev loss, nats a symbol": _loss}
    seeds = max(len(rows) for rows in groups.values())
    return Section(
        title=title,
        text=[text, _learnt(groups)],
        parts=[build_table(f"Reversal lab; seeds: {seeds}", groups, columns)],
    )


def _percent(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f} %" if 10 <= value < 100_000 else f"{value:.2g} %"
