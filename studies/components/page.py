"""The page of the study of a Transformer's parts."""

from collections.abc import Callable, Sequence
from functools import partial
from statistics import mean

from studies.charts import Row, build_table, dots_figure, group, spread
from studies.study_page import Section, StudyPage

COMMAND = "python -m studies.components.run"


def _cut(kind: str, rows: Sequence[Row]) -> str:
    return f"+{mean(row[kind] for row in rows):.3f}, +{mean(r[f'worst_{kind}'] for r in rows):.3f}"


def build_page(results: Row) -> StudyPage:
    """Say what was measured; every number comes from the results."""
    groups = group(results["trained"])
    base, *variants = groups
    loss = {name: mean(row["dev_loss"] for row in rows) for name, rows in groups.items()}
    exact = {name: spread(100 * row["exact"] for row in rows) for name, rows in groups.items()}
    columns: dict[str, Callable[[Sequence[Row]], str]] = {
        "exact match, %": lambda rows: spread(100 * row["exact"] for row in rows),
        "of train, %": lambda rows: spread(100 * row["train_exact"] for row in rows),
        "symbols right in any order, %": lambda rows: spread(100 * r["unordered"] for r in rows),
        "encoding moved by order": lambda rows: f"{mean(row['moved'] for row in rows):.2g}",
        "dev loss, nats": lambda rows: spread((row["dev_loss"] for row in rows), 3),
        "loss with a head cut, mean and worst": partial(_cut, "head"),
        "a hidden unit cut": partial(_cut, "unit"),
        "parameters": lambda rows: f"{rows[0]['parameters'] / 1e3:.0f} k",
        "CPU-s": lambda rows: f"{mean(row['cpu_s'] for row in rows):.0f}",
    }
    return StudyPage(
        title="The parts of a Transformer, one at a time",
        lead=[
            "Is order lost without positions, what are the feed-forward block, its width and its "
            "activation worth, how many heads does it take, and what does layer drop do?",
            f"Turned round without a mistake: {base} {exact[base]} %; "
            + "; ".join(f"{name} {exact[name]} %" for name in variants)
            + f". The lowest dev loss has {min(loss, key=loss.__getitem__)}.",
        ],
        sections=[
            Section(
                title="On the reversal lab",
                text=[
                    f"Every variant is {base} but for what its name says, trained alike. “Moved”: "
                    "by how much a symbol's encoding changes when the source is turned round, a "
                    "share of its length; 0 means that the encoder cannot know the order."
                ],
                parts=[
                    dots_figure(
                        "scores",
                        {
                            title: {
                                name: [scale * row[key] for row in rows]
                                for name, rows in groups.items()
                            }
                            for key, title, scale in (
                                ("exact", "exact match, %", 100),
                                ("unordered", "symbols right in any order, %", 100),
                            )
                        },
                        label="Exact match and symbols right of each variant; table below",
                    ),
                    build_table(f"Seeds: {len(groups[base])}", groups, columns),
                ],
            )
        ],
        command=COMMAND,
    )
