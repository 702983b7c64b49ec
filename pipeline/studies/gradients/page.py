"""The page of the study of gradients."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.studies.gradients.study import PRINTED
from signloom.report import canvas
from signloom.report.canvas import BLUE, GREEN, GREY, ORANGE
from signloom.report.study import Figure, Section, StudyPage, Table

Rows = Sequence[Mapping[str, Any]]
Kind = tuple[str, str]  # norm and wiring
COLOURS = {"post": BLUE, "pre": GREEN, "none": ORANGE}
STYLES = {"residual": "-", "plain": (0, (4, 3))}
COMMAND = "dvc repro pipeline/studies/gradients/dvc.yaml"
LEARNT = 0.9  # exact match from which a stack counts as one that learns


def build_page(results: Mapping[str, Any]) -> StudyPage:
    """Say what was measured; every number comes from the results."""
    flows, trained = results["flows"], results["trained"]
    deepest = max(flow["depth"] for flow in flows)
    return StudyPage(
        title="Gradient flow through stacks of encoder layers",
        lead=[
            "How much of the loss's gradient at the top of the encoder is left at its bottom, "
            "with and without residual connections, with layer norm after each block, before it "
            "or nowhere?",
            *_verdict(flows, trained, deepest),
        ],
        sections=[_shares_section(flows), _layers_section(flows, deepest), _trained(trained)],
        command=COMMAND,
    )


def _name(row: Mapping[str, Any]) -> str:
    norm = {"post": "post-norm", "pre": "pre-norm", "none": "no norm"}[row["norm"]]
    return f"{norm}, {'residual' if row['wiring'] == 'residual' else 'no residual'}"


def _verdict(flows: Rows, trained: Rows, deepest: int) -> list[str]:
    deep = {(flow["norm"], flow["wiring"]): flow for flow in flows if flow["depth"] == deepest}
    said = [
        f"At {deepest} layers document 000 prints {PRINTED['plain'].get(deepest, 0):g} % without "
        f"and {PRINTED['residual'].get(deepest, 0):g} % with residuals: 0.7 to the power of the "
        "number of layers, and 0.7 times it. Measured without residuals: "
        + ", ".join(
            f"{_percent(deep[norm, 'plain']['share'])} ({label})"
            for norm, label in (("post", "post-norm"), ("pre", "pre-norm"), ("none", "no norm"))
        )
        + ". With them: "
        + ", ".join(
            f"{_percent(deep[norm, 'residual']['share'])} ({label})"
            for norm, label in (("post", "post-norm"), ("pre", "pre-norm"), ("none", "no norm"))
        )
        + "."
    ]
    if deep["post", "plain"]["share"] > 10 and deep["pre", "plain"]["share"] > 10:
        said.append(
            "Where there are layer norms the gradient does not vanish without residuals: a norm "
            "divides by the size of what passes, forwards and backwards. What is lost is the "
            f"signal itself. Without residuals all {deepest} layers up the frames of a clip differ "
            f"by {deep['post', 'plain']['spread'][-1]:.0e} of their size (with them "
            f"{deep['post', 'residual']['spread'][-1]:.1g} with post-norm and "
            f"{deep['pre', 'residual']['spread'][-1]:.1g} with pre-norm): "
            "attention averages over frames, and nothing brings back what it averaged away."
        )
    if trained:
        learnt = [_name(row) for row in trained if row["exact"] >= LEARNT]
        failed = [_name(row) for row in trained if row["exact"] < LEARNT]
        said.append(
            f"Trained on the reversal lab with {trained[0]['depth']} layers, these learn: "
            f"{'; '.join(learnt) or 'none'}. These do not: {'; '.join(failed) or 'none'}."
        )
    return said


def _shares_section(flows: Rows) -> Section:
    depths = sorted({flow["depth"] for flow in flows})
    kinds = list(dict.fromkeys((flow["norm"], flow["wiring"]) for flow in flows))
    share = {(f["depth"], f["norm"], f["wiring"]): f["share"] for f in flows}
    rows = [
        [f"printed, {'with' if wiring == 'residual' else 'without'} residuals"]
        + [f"{printed[d]:g} %" if d in printed else "" for d in depths]
        for wiring, printed in PRINTED.items()
    ]
    rows += [
        [_name({"norm": norm, "wiring": wiring})]
        + [_percent(share[depth, norm, wiring]) for depth in depths]
        for norm, wiring in kinds
    ]
    svg = _shares_chart(depths, kinds, share)
    label = "Share of the gradient left at the bottom of the stack, over its depth; table below"
    return Section(
        title="From top to bottom",
        text=[
            "Length of the gradient of the cross entropy with respect to what enters the first "
            "layer, in % of that with respect to what leaves the last one, at the start of "
            "training. 100 % means that it passes unchanged."
        ],
        parts=[
            Figure(name="shares", svg=svg, label=label, caption="Geometric means over the seeds."),
            Table(
                caption="Gradient at the bottom in % of that at the top",
                header=["", *(f"{depth} layers" for depth in depths)],
                rows=rows,
            ),
        ],
    )


def _shares_chart(
    depths: Sequence[int], kinds: Sequence[Kind], share: Mapping[tuple[int, str, str], float]
) -> str:
    """The share over the depth, beside the printed ones."""
    with canvas.style():
        figure, (panel,) = canvas.build_panels(1, height=3.4)
        for norm, wiring in kinds:
            panel.plot(
                depths,
                [share[depth, norm, wiring] for depth in depths],
                marker="o",
                markersize=4,
                color=COLOURS[norm],
                linestyle=STYLES[wiring],
                label=_name({"norm": norm, "wiring": wiring}),
            )
        for wiring, printed in PRINTED.items():
            shown = [depth for depth in depths if depth in printed]
            panel.plot(shown, [printed[d] for d in shown], "x", color=GREY,
                       linestyle=STYLES[wiring], label=f"printed, {wiring}")  # fmt: skip
        canvas.scale_log(panel, "y")
        panel.set_xticks(depths)
        panel.set_xlabel("encoder layers")
        panel.set_title("gradient at the first layer's input, % of that at the last one's output")
        panel.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        return canvas.render_svg(figure)


def _layers_section(flows: Rows, deepest: int) -> Section:
    svg = _layers_chart([flow for flow in flows if flow["depth"] == deepest], deepest)
    return Section(
        title=f"Layer by layer, {deepest} layers",
        text=[
            "Left: the gradient that arrives at the output of each layer (0: the stack's input). "
            "Middle: the gradient of each layer's own weights. Right: how much the frames of one "
            "clip still differ, as a share of the size of the states; at 1e-16 they are equal to "
            "the last digit, and no decoder can tell one moment from another."
        ],
        parts=[
            Figure(
                name="layers",
                svg=svg,
                label="Gradients of states and of weights, and spread of frames, by layer",
                caption="Logarithmic axes; geometric means over the seeds.",
            )
        ],
    )


def _layers_chart(shown: Rows, deepest: int) -> str:
    """Gradients and spread by layer, a panel each."""
    with canvas.style():
        figure, panels = canvas.build_panels(3, height=3.3)
        for flow in shown:
            look: dict[str, Any] = {
                "color": COLOURS[flow["norm"]],
                "linestyle": STYLES[flow["wiring"]],
                "label": _name(flow),
            }
            places = range(deepest + 1)
            top = flow["arriving"][-1]
            panels[0].plot(places, [value / top for value in flow["arriving"]], **look)
            panels[1].plot(range(1, deepest + 1), flow["weights"], **look)
            panels[2].plot(places, [max(value, 1e-16) for value in flow["spread"]], **look)
        for panel, title in zip(
            panels,
            ("gradient of states, top = 1", "gradient of weights", "difference between frames"),
            strict=True,
        ):
            canvas.scale_log(panel, "y")
            panel.set_title(title)
            panel.set_xlabel("layer")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
        return canvas.render_svg(figure)


def _trained(trained: Rows) -> Section:
    rows = [
        [
            _name(row),
            str(row["depth"]),
            f"{100 * row['exact']:.1f} %",
            "diverged" if row["dev_loss"] is None else f"{row['dev_loss']:.3f}",
        ]
        for row in trained
    ]
    return Section(
        title="What is learnt",
        text=[
            "The same stacks as the encoder of a model that turns symbol sequences round, trained "
            "alike; exact match on sequences that were not in training."
        ],
        parts=[
            Table(
                caption="Reversal lab",
                header=["encoder", "layers", "exact match", "dev loss, nats a symbol"],
                rows=rows,
            )
        ],
    )


def _percent(value: float) -> str:
    return f"{value:.0f} %" if 10 <= value < 100_000 else f"{value:.2g} %"
