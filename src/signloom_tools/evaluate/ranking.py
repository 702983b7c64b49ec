"""A ranking of many runs on the same clips, in clusters that differ significantly."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from signloom.config import check_shape
from signloom.evaluation.compare import PastRun, common_clips, count_sentences, p_value
from signloom.evaluation.metrics import FloatArray, score_statistics
from signloom.evaluation.names import (
    LEVEL,
    LOWER_IS_BETTER,
    TOO_FEW,
    Metric,
    System,
    are_few,
    metric_label,
    shown_metrics,
)
from signloom.evaluation.records import RANKED
from signloom.tables import align_columns

FLOORS = (System.CONSTANT, System.RETRIEVAL, System.BLIND)  # columns of the table, not all


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedRun:
    """A run and its place."""

    name: str
    cluster: int
    """From 1; every run of a cluster is significantly better than all runs of later ones."""
    best: int
    """First rank that it may have: 1 + the number of runs that are significantly better."""
    worst: int
    """Last one: the number of runs that it is not significantly better than, itself among them."""
    value: float
    low: float
    high: float
    metrics: dict[Metric, float]
    seeds: tuple[float, float, int] | None
    """Mean, standard deviation and number of its seeds' scores; None for one seed."""
    floors: dict[System, float]
    """As its own evaluation found them, on all of its clips."""
    parameters: int | None
    """Numbers in its weights; None if they do not lie beside the evaluation."""
    search: str
    """Beam size and precision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Runs on the clips of a split that all of them have translated, the best first."""

    split: str
    metric: Metric
    clips: int
    left_out: int
    """Clips that not all runs have."""
    resamples: int
    runs: list[RankedRun]


def rank_runs(runs: Sequence[PastRun], split: str, metric: Metric) -> Ranking:
    """Rank runs by a metric, each pair tested by the paired bootstrap, with the first's settings.

    No correction is made for the number of pairs, as WMT makes none.

    Args:
        runs: At least one.
        split: dev or test.
        metric: What they are ranked by.

    Raises:
        UserError: If they were scored differently, share no clip or differ in a reference.

    Source: Koehn (2012), Simulating human judgment in machine translation evaluation campaigns
    (ranges of ranks); Bojar et al. (2013), Findings of WMT13 (clusters).
    """
    clips, options = common_clips(runs, split), runs[0].options
    counts = [count_sentences(run.splits[split], clips, (), options) for run in runs]
    scores = [score_statistics(one, options) for one in counts]
    sign = -1 if metric in LOWER_IS_BETTER else 1
    order = sorted(range(len(runs)), key=lambda row: (-sign * scores[row][metric].value, row))
    drawn = [counts[row].resample(options)[metric] for row in order]
    values = [scores[row][metric].value for row in order]
    better, count = _find_better(drawn, values, len(clips)), len(runs)
    cluster, ranked = 1, []
    for position, row in enumerate(order):
        cluster += bool(position and better[:position, position:].all())
        found = scores[row]
        ranked.append(
            RankedRun(
                name=runs[row].name,
                cluster=cluster,
                best=1 + int(better[:, position].sum()),
                worst=count - int(better[position].sum()),
                value=found[metric].value,
                low=found[metric].low,
                high=found[metric].high,
                metrics={name: found[name].value for name in Metric},
                **_describe(runs[row], split, metric),
            )
        )
    everyone = {clip for run in runs for clip in run.splits.get(split, {})}
    return Ranking(
        split=split,
        metric=metric,
        clips=len(clips),
        left_out=len(everyone) - len(clips),
        resamples=options.resamples,
        runs=ranked,
    )


def _find_better(
    drawn: Sequence[FloatArray], values: Sequence[float], clips: int
) -> npt.NDArray[np.bool_]:
    """Return which row, of runs in their order, is significantly better than which column."""
    better = np.zeros((len(values), len(values)), dtype=bool)
    for one, other in combinations(range(len(values)), 2):
        p = p_value(drawn[one] - drawn[other], values[one] - values[other])
        better[one, other] = p <= LEVEL and not are_few(clips)
    return better


def _describe(run: PastRun, split: str, metric: Metric) -> dict[str, Any]:
    """Return what a run's own evaluation says of it."""
    content = run.content
    check_shape(content, RANKED, where=Path(run.name), hint="evaluate it again")
    systems = content.get("splits", {}).get(split, {}).get("systems", {})
    spread = (content.get("seeds") or {"splits": {}})["splits"].get(split, {}).get(metric)
    beam_size = content.get("decoding", {}).get("beam_size", "?")
    as_one = (
        f", {spread['n']} seeds as one" if spread and content["options"].get("together") else ""
    )
    return {
        "seeds": (spread["mean"], spread["std"], spread["n"]) if spread else None,
        "floors": {name: systems[name][metric]["value"] for name in FLOORS if name in systems},
        "parameters": run.parameters,
        "search": f"beam {beam_size}, {content['options'].get('precision', 'float32')}{as_one}",
    }


def _caption(ranking: Ranking) -> str:
    left_out = f", {ranking.left_out} that not all have left out" if ranking.left_out else ""
    if are_few(ranking.clips):
        return f"{ranking.split}: {ranking.clips} clips{left_out}, {TOO_FEW}."
    return (
        f"{ranking.split}: {ranking.clips} clips{left_out}. Every run of a cluster is better than "
        f"all of later ones on these clips (paired bootstrap, {ranking.resamples} resamples, p at "
        "most 0.05 for each pair, not corrected for their number); ranks: where it may stand."
    )


def _table(ranking: Ranking) -> list[list[str]]:
    """Return header and rows; the floors are those of each run's own evaluation."""
    others = [metric for metric in shown_metrics(ranking.metric) if metric != ranking.metric]
    rows = [["run", "cluster", "ranks", metric_label(ranking.metric), "95 % interval",
             *map(metric_label, others), "seeds", *FLOORS, "parameters", "search"]]  # fmt: skip
    for run in ranking.runs:
        ranks = f"{run.best}-{run.worst}" if run.best < run.worst else str(run.best)
        seeds = "{:.2f} ± {:.2f} of {}".format(*run.seeds) if run.seeds else "1"
        rows.append([
            run.name, str(run.cluster), ranks, f"{run.value:.2f}",
            f"[{run.low:.2f}, {run.high:.2f}]", *(f"{run.metrics[name]:.2f}" for name in others),
            seeds, *(f"{run.floors[name]:.2f}" if name in run.floors else "-" for name in FLOORS),
            f"{run.parameters:,}" if run.parameters is not None else "-", run.search,
        ])  # fmt: skip
    return rows


def format_ranking(ranking: Ranking) -> str:
    """Return a ranking as a table, with a line between clusters."""
    rows = _table(ranking)
    lines = [_caption(ranking), ""]
    for number, line in enumerate(table := align_columns(rows)):
        if number == 1 or (number > 1 and rows[number][1] != rows[number - 1][1]):
            lines.append("-" * max(map(len, table)))
        lines.append(line)
    return "\n".join(lines)


def _to_markdown(ranking: Ranking) -> str:
    header, *rows = [[cell.replace("|", "\\|") for cell in row] for row in _table(ranking)]
    lines = [header, ["---"] * len(header), *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{table}\n\n{_caption(ranking)}\n"


def _to_json(ranking: Ranking) -> str:
    return json.dumps({"format_version": 1, **asdict(ranking)}, ensure_ascii=False, indent=2)


def _to_page(ranking: Ranking) -> str:
    from signloom_tools.evaluate.study_page import Section, StudyPage, StudyTable, render_study

    header, *rows = _table(ranking)
    table = StudyTable(caption=_caption(ranking), header=header, rows=rows)
    section = Section(title=f"Ranked by {metric_label(ranking.metric)}", text=[], parts=[table])
    return render_study(
        StudyPage(title="Runs", lead=[], sections=[section], command="signloom compare --out")
    )


# By the ending of a file.
WRITERS: dict[str, Callable[[Ranking], str]] = {
    ".html": _to_page, ".md": _to_markdown, ".json": _to_json,
}  # fmt: skip
