"""The page of the study of architectures."""

import math
from collections.abc import Mapping, Sequence
from statistics import mean, stdev
from typing import Any

from signloom.evaluation.metrics import ScoreOptions, score_corpus
from signloom.report import canvas
from signloom.report.canvas import BLUE, GREEN, GREY, INK, ORANGE, PURPLE
from signloom.report.study import Figure, Section, StudyPage, Table

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


COMMAND = "dvc repro pipeline/studies/architectures/dvc.yaml"
LENGTHS = {"1-3": 3, "4-5": 5, "6-7": 7, "8 or more": math.inf}  # words up to this
TOO_SHORT = "1-3"  # for BLEU-4: without a four-gram it is near 0 or near 100 by chance


def build_page(results: Mapping[str, Any], score: ScoreOptions) -> StudyPage:
    """Say what was measured; every number comes from the results."""
    runs, reversal = results["corpus"], results["reversal"]
    by_length = score_by_length(runs, score)
    seeds = len({run["seed"] for run in runs})
    return StudyPage(
        title="Architectures, trained alike",
        lead=[
            "What do the architectures reach with the same data, recipe and number of epochs, what "
            "do they cost, and does a decoder that gets only the encoder's last state fail on long "
            "sentences?",
            *_verdict(runs, by_length, reversal),
        ],
        sections=[
            _scores_section(runs, seeds),
            _lengths_section(by_length),
            *([_reversal_section(reversal)] if reversal else []),
        ],
        command=COMMAND,
    )


def score_by_length(runs: Sequence[Row], score: ScoreOptions) -> dict[str, dict[str, Row]]:
    """Score each variant on the sentences of each length.

    All seeds and both splits are taken together, because few sentences have one length.

    Returns:
        Variant to words of the reference (see `LENGTHS`) to `clips`, `bleu4`, `chrf` and `wer`.
    """
    pairs: dict[str, dict[str, list[tuple[str, str]]]] = {}
    for run in runs:
        groups = pairs.setdefault(run["variant"], {name: [] for name in LENGTHS})
        for _, ref, hyp in run["sentences"]:
            words = len(ref.split())
            groups[next(name for name, most in LENGTHS.items() if words <= most)].append((hyp, ref))
    found: dict[str, dict[str, Row]] = {}
    for variant, groups in pairs.items():
        found[variant] = {}
        for name, said in groups.items():
            if said:
                scores = score_corpus([h for h, _ in said], [r for _, r in said], score)
                values = {metric: scores[metric].value for metric in ("bleu4", "chrf", "wer")}
                found[variant][name] = {"clips": len(said), **values}
    return found


def _verdict(
    runs: Sequence[Row], by_length: Mapping[str, Mapping[str, Row]], reversal: Sequence[Row]
) -> list[str]:
    variants = list(dict.fromkeys(run["variant"] for run in runs))
    bleu = {v: mean(_scores(runs, v, "test", "bleu4")) for v in variants}
    best, worst = max(variants, key=bleu.__getitem__), min(variants, key=bleu.__getitem__)
    said = [
        f"On the corpus {best} comes first with a test BLEU-4 of {bleu[best]:.1f}, {worst} last "
        f"with {bleu[worst]:.1f}."
    ]
    if reversal:
        shares = {
            variant: _reversal_by_length(reversal, variant)
            for variant in dict.fromkeys(row["variant"] for row in reversal)
        }
        first, last = (pick(next(iter(shares.values()))) for pick in (min, max))
        falls = "; ".join(
            f"{variant} {100 * found[first]:.0f} and {100 * found[last]:.0f} %"
            for variant, found in shares.items()
        )
        said.append(
            f"Turning symbol sequences round, exactly right at {first} and at {last} symbols: "
            f"{falls}."
        )
    return said


def _scores(runs: Sequence[Row], variant: str, split: str, name: str) -> list[float]:
    return [run["scores"][split][name] for run in runs if run["variant"] == variant]


def _scores_section(runs: Sequence[Row], seeds: int) -> Section:
    variants = list(dict.fromkeys(run["variant"] for run in runs))
    rows = []
    for variant in variants:
        own = [run for run in runs if run["variant"] == variant]
        rows.append(
            [
                variant,
                str(len(own)),
                f"{own[0]['parameters'] / 1e3:.0f} k",
                *(
                    _spread(_scores(runs, variant, split, name))
                    for split in ("test", "dev")
                    for name in ("bleu4", "wer")
                ),
                f"{mean(run['best_epoch'] for run in own):.0f}",
                f"{mean(run['cpu_s'] for run in own):.0f}",
                f"{mean(run['memory_mb'] for run in own):.0f}",
                f"{mean(_scores(runs, variant, 'test', 'translate_ms')):.0f}",
            ]
        )
    epochs = max(run["epochs"] for run in runs)
    return Section(
        title="On the corpus",
        text=[
            f"The budget that is equal for all: {epochs} epochs of the same clips with the same "
            f"augmentation, batches, optimiser and losses, seeds: {seeds}; beam search as "
            "configured. Each run has a process of its own with one thread. Time is processor "
            "time of training, memory the growth of the process while it trains."
        ],
        parts=[
            Figure(
                name="scores",
                svg=scores_chart(runs, variants),
                label="Test BLEU-4 and word error rate of each variant; table below",
                caption="A dot for each seed, a line at their mean.",
            ),
            Table(
                caption="Means over the seeds, with standard deviations. BLEU: "
                f"{runs[0]['scores']['test']['signature']}",
                header=["", "seeds", "parameters", "test BLEU-4", "test WER", "dev BLEU-4",
                        "dev WER", "best epoch", "CPU-s", "MB", "ms a clip"],
                rows=rows,
            ),
        ],
    )  # fmt: skip


def _lengths_section(by_length: Mapping[str, Mapping[str, Row]]) -> Section:
    first = next(iter(by_length.values()))
    rows = [
        [
            variant,
            *(
                f"{'–' if name == TOO_SHORT else format(row['bleu4'], '.0f')} / {row['wer']:.0f}"
                for name, row in found.items()
            ),
        ]
        for variant, found in by_length.items()
    ]
    return Section(
        title="By sentence length",
        text=[
            "Dev and test of all seeds taken together. A sentence of three words has no four-gram, "
            "so the shortest ones have a WER alone."
        ],
        parts=[
            Figure(
                name="lengths",
                svg=lengths_chart(by_length, without_bleu=TOO_SHORT),
                label="BLEU-4 and word error rate by words of the reference; table below",
                caption="",
            ),
            Table(
                caption="BLEU-4 / WER by words of the reference (sentences in brackets)",
                header=["", *(f"{name} ({row['clips']})" for name, row in first.items())],
                rows=rows,
            ),
        ],
    )


def _reversal_by_length(rows: Sequence[Row], variant: str) -> dict[int, float]:
    """Exact match by symbols, mean over the seeds."""
    own = [row["by_length"] for row in rows if row["variant"] == variant]
    return {int(length): mean(found[length] for found in own) for length in own[0]}


def _reversal_section(rows: Sequence[Row]) -> Section:
    variants = list(dict.fromkeys(row["variant"] for row in rows))
    seeds = len({row["seed"] for row in rows})
    table = []
    for variant in variants:
        own = [row for row in rows if row["variant"] == variant]
        table.append(
            [
                variant,
                _spread([100 * row["exact"] for row in own]),
                f"{mean(row['dev_loss'] for row in own):.3f}",
                f"{mean(row['cpu_s'] for row in own):.0f}",
            ]
        )
    return Section(
        title="On sequences of known length",
        text=[
            "The sentences of a corpus differ in more than length, so the same variants also turn "
            "symbol sequences round (the reversal lab), where a long one is as hard as a short "
            "one but for its length."
        ],
        parts=[
            Figure(
                name="reversal",
                svg=reversal_chart({v: _reversal_by_length(rows, v) for v in variants}),
                label="Exact match by sequence length of each variant",
                caption="",
            ),
            Table(
                caption=f"Held-out sequences of all lengths; seeds: {seeds}",
                header=["", "exact match, %", "dev loss, nats a symbol", "CPU-s"],
                rows=table,
            ),
        ],
    )


def _spread(values: Sequence[float]) -> str:
    """Mean with standard deviation where there are several."""
    return f"{mean(values):.1f}" + (f" ± {stdev(values):.1f}" if len(values) > 1 else "")
