"""The scores of an evaluation on a terminal, as stage `report` and `signloom scores` print them."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from signloom.errors import count_of
from signloom.evaluation.metric_names import (
    LOOKUPS,
    TOO_FEW,
    Metric,
    System,
    are_few,
    describe_only,
    metric_heading,
    metric_label,
    shown_metrics,
)
from signloom.grouping import group_pairs
from signloom.paths import REPORT_PAGE
from signloom.progress import wrap
from signloom.report.stage_files import (
    MetricChange,
    list_changes,
    read_committed,
    why_not_comparable,
)
from signloom.tracking.run import scores_address

# What is shown next to a score: the floors, then the model without its input and with a wrong one.
BESIDE = (
    System.CONSTANT,
    System.RANDOM,
    System.RETRIEVAL,
    System.LINEAR,
    System.BLIND,
    System.SWAPPED,
    System.COPY,
)


def describe_scores(
    content: Mapping[str, Any], metrics: Mapping[str, Any], path: Path
) -> Iterator[str]:
    """Yield the scores of each split, what has changed in them, and where to look next.

    Args:
        content: Of scores.json.
        metrics: Of metrics.json.
        path: Of the latter.
    """
    for split in sorted(content["splits"], reverse=True):
        yield format_scores(split, content)
    steps = (evaluation.get("next_step") for evaluation in content["splits"].values())
    yield from (f"{wrap(step)}\n" for step in dict.fromkeys(filter(None, steps)))
    before = read_committed(path)
    if changes := list_changes(metrics, before):
        yield f"against the last commit:\n{format_changes(changes)}\n"
    for split in metrics.keys() & before.keys():
        if reason := why_not_comparable(metrics[split], before[split]):
            yield f"not compared with the scores of {split} of the last commit: {reason}\n"
    yield f"report:  open {REPORT_PAGE} in a browser"
    yield f"runs:    mlflow ui, then\n{scores_address()}"


def format_scores(split: str, content: Mapping[str, Any]) -> str:
    """Return a split's scores as a small table.

    Args:
        content: Of scores.json.
    """
    evaluation, headline = content["splits"][split], Metric(content.get("headline", Metric.BLEU4))
    systems = evaluation["systems"]
    model, floors = systems[System.MODEL], [system for system in BESIDE if system in systems]
    shown = dict.fromkeys((*shown_metrics(headline), Metric.CER))
    if headline == Metric.BLEU4:
        shown = dict.fromkeys((headline, Metric.BLEU1, *shown))

    rows = [[f"{split}: {count_of(evaluation['clips'], 'clip')}, 95 % intervals", *floors]]
    keys = [key for key in shown if key in model]
    name_width = max(len(metric_heading(key)) for key in keys)
    for key in keys:
        interval = f"[{model[key]['low']:.2f}, {model[key]['high']:.2f}]"
        label = f"  {metric_heading(key):<{name_width}} {model[key]['value']:>6.2f} {interval}"
        rows.append([label, *(f"{systems[floor][key]['value']:.2f}" for floor in floors)])
    first, *widths = (max(map(len, cells)) for cells in zip(*rows, strict=True))
    return "\n".join(
        [
            *(
                label.ljust(first + 1)
                + "".join(f" {cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
                for label, *cells in rows
            ),
            *map(wrap, _describe_scores(split, content, headline)),
            f"  {model[headline]['signature']}\n",
        ]
    )


def _describe_scores(split: str, content: Mapping[str, Any], headline: Metric) -> Iterator[str]:
    """Yield what no line of a metric shows: look-up, seeds, and what is wrong with the model."""
    evaluation = content["splits"][split]
    if are_few(evaluation["clips"]):
        yield f"{TOO_FEW}: these intervals are too narrow"
    if lookup := evaluation.get("lookup"):
        first, five = (
            f"{lookup[name]['value']:.2f} [{lookup[name]['low']:.2f}, {lookup[name]['high']:.2f}]"
            for name in LOOKUPS
        )
        yield f"look-up: {first} % nearest, {five} % among the five nearest signs"
    if (seeds := content["seeds"]) and headline in (spreads := seeds["splits"][split]):
        names = [name for name in shown_metrics(headline) if name in spreads]
        shown = (
            f"{metric_label(name)} {spreads[name]['mean']:.2f} ± {spreads[name]['std']:.2f}"
            for name in names
        )
        count = spreads[headline]["n"]
        is_joint = content["options"].get("together")
        above = "" if is_joint else " (means above)"
        yield f"mean and standard deviation of {count} seeds{above}: {', '.join(shown)}"
        if joint := seeds.get("together", {}).get(split):
            scores = (f"{metric_label(name)} {joint[name]['value']:.2f}" for name in names)
            above = ", as above" if is_joint else ""
            yield f"all seeds as one, their probabilities averaged{above}: {', '.join(scores)}"
    if "only_sentence" in evaluation:
        yield describe_only(evaluation["only_sentence"], evaluation["clips"])
    if (check := evaluation["input_check"]) and not check["uses_input"]:
        yield "THIS MODEL IGNORES ITS INPUT: another clip's video gets the same score"


def format_changes(changes: Iterable[MetricChange]) -> str:
    """Return a line a split; how sure the changes are is for `signloom compare` to say."""
    parts = group_pairs(
        (
            change.split,
            f"{metric_label(change.metric)} {change.before:.2f} -> {change.now:.2f} "
            f"({change.now - change.before:+.2f})",
        )
        for change in changes
    )
    return "\n".join(f"  {split}: {', '.join(changes)}" for split, changes in parts.items())
