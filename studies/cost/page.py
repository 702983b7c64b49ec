"""The page of the study of cost."""

import math

from studies.charts import Panel, Row, build_table, curves_figure, group
from studies.study_page import Section, StudyPage, StudyTable

COMMAND = "python -m studies.cost.run"
MEASURES = {"ms": "ms a step", "memory_mb": "memory of a step, MiB"}


def build_page(results: Row) -> StudyPage:
    """Say what was measured; every number comes from the results."""
    groups = group(results["steps"])
    curves = {
        measure: {
            name: {row["length"]: row[measure] for row in rows} for name, rows in groups.items()
        }
        for measure in MEASURES
    }
    lengths = list(next(iter(curves["ms"].values())))
    first, longest = lengths[0], lengths[-1]
    grown = {
        measure: "; ".join(
            f"{name} {math.log2(curve[longest] / curve[lengths[-2]]):.1f}"
            for name, curve in by_name.items()
        )
        for measure, by_name in curves.items()
    }
    times = "; ".join(
        f"{name} {curve[first]:.3g} and {curve[longest]:.3g} ms"
        for name, curve in curves["ms"].items()
    )

    def table(measure: str) -> StudyTable:
        columns = {
            str(length): lambda curve, length=length: f"{curve[length]:,.3g}" for length in lengths
        }
        return build_table(f"{MEASURES[measure]}, by source frames", curves[measure], columns)

    return StudyPage(
        title="Time and memory of a training step by length",
        lead=[
            "Does a model that reads all frames at once train faster than one that reads them one "
            "after the other, and from which length on does attention's square show?",
            f"On {results['device']}, {first} and {longest} frames: {times}. From {lengths[-2]} to "
            f"{longest} frames time grows with the power {grown['ms']}, memory with "
            f"{grown['memory_mb']}.",
        ],
        sections=[
            Section(
                title="A step",
                text=[
                    f"Forward, backward and AdamW, {results['clips']} clips of one length, the "
                    "target always the same; medians. Memory is what the step adds to the model."
                ],
                parts=[
                    curves_figure(
                        "steps",
                        [
                            Panel(
                                title=title,
                                x_label="source frames",
                                curves=curves[measure],
                                log="yx",
                                ticks=lengths,
                            )
                            for measure, title in MEASURES.items()
                        ],
                        label="Time and memory of a step over the source's length; tables below",
                    ),
                    *(table(measure) for measure in MEASURES),
                ],
            )
        ],
        command=COMMAND,
    )
