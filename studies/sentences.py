"""Scores of sentences that the runs of a study wrote, in all and by the words of the reference."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from signloom.config import load_section
from signloom.evaluation.evaluate import EvaluateOptions, GridOptions
from signloom.evaluation.metrics import ScoreOptions, score_corpus
from signloom.paths import PARAMS
from studies.charts import (
    Groups,
    Panel,
    Row,
    build_table,
    curves_figure,
    dots_figure,
    spread,
)
from studies.study_page import Figure, Section

BY_LENGTH = Mapping[str, Mapping[str, Row]]  # variant to words to scores
FOUR_GRAM = 4  # words; shorter sentences have BLEU-4 near 0 or near 100 by chance


def read_scoring(*, one_search: bool = False) -> EvaluateOptions:
    """Return how a study scores: as the project, nothing subtracted from the decoder, no stress.

    Args:
        one_search: Try no searches on dev.
    """
    scoring = load_section(PARAMS, "evaluate", EvaluateOptions)
    decoding = dataclasses.replace(scoring.decoding, internal_lm_weight=0.0)
    grid = GridOptions(beam_sizes=(), length_penalties=()) if one_search else scoring.grid
    return dataclasses.replace(scoring, decoding=decoding, grid=grid, stress=0)


def score_dots(groups: Groups) -> Figure:
    """Return the scores of test of every seed as a picture."""
    panels = {
        title: {
            name: [row["scores"]["test"][metric] for row in rows] for name, rows in groups.items()
        }
        for metric, title in (("bleu4", "test BLEU-4"), ("wer", "test WER, %"))
    }
    label = "Test BLEU-4 and word error rate of each variant; table below"
    return dots_figure("scores", panels, label=label)


def score_columns() -> dict[str, Callable[[Sequence[Row]], str]]:
    """Return columns of a table: parameters, and scores of both splits."""

    def show(split: str, metric: str, rows: Sequence[Row]) -> str:
        return spread(row["scores"][split][metric] for row in rows)

    return {
        "parameters": lambda rows: f"{rows[0]['parameters'] / 1e3:.0f} k",
        "test BLEU-4": partial(show, "test", "bleu4"),
        "test WER": partial(show, "test", "wer"),
        "dev BLEU-4": partial(show, "dev", "bleu4"),
        "dev WER": partial(show, "dev", "wer"),
    }


def name_lengths(most: Sequence[int]) -> dict[str, float]:
    """Name groups of lengths, such as 1-3, 4-5 and 6 or more, by their most words."""
    least = [1, *(words + 1 for words in most)]
    names = {f"{low}-{high}": float(high) for low, high in zip(least, most, strict=False)}
    return {**names, f"{least[-1]} or more": math.inf}


def score_by_length(
    runs: Sequence[Row], score: ScoreOptions, most: Sequence[int]
) -> dict[str, dict[str, Row]]:
    """Score each variant on the sentences of each length.

    All seeds and splits are taken together, because few sentences have one length.

    Args:
        runs: With `variant` and `sentences`: split, reference, hypothesis.
        score: How.
        most: Most words of each group but the last.

    Returns:
        Variant to words of the reference (see `name_lengths`) to `clips`, `bleu4`, `chrf` and
        `wer`.
    """
    lengths = name_lengths(most)
    pairs: dict[str, dict[str, list[tuple[str, str]]]] = {}
    for run in runs:
        groups = pairs.setdefault(run["variant"], {name: [] for name in lengths})
        for _, ref, hyp in run["sentences"]:
            words = len(ref.split())
            groups[next(name for name, high in lengths.items() if words <= high)].append((hyp, ref))
    by_variant: dict[str, dict[str, Row]] = {}
    for variant, groups in pairs.items():
        by_variant[variant] = {}
        for name, sentences in groups.items():
            if sentences:
                scores = score_corpus([h for h, _ in sentences], [r for _, r in sentences], score)
                values = {metric: scores[metric].value for metric in ("bleu4", "chrf", "wer")}
                by_variant[variant][name] = {"clips": len(sentences), **values}
    return by_variant


def lengths_section(by_length: BY_LENGTH, most: Sequence[int]) -> Section:
    """Return scores by length as a picture and a table."""
    short = {name for name, high in name_lengths(most).items() if high < FOUR_GRAM}
    bleu, wer = (
        {
            variant: {name: row[metric] for name, row in rows.items() if name not in hidden}
            for variant, rows in by_length.items()
        }
        for metric, hidden in (("bleu4", short), ("wer", set[str]()))
    )
    panels = [
        Panel(title=title, x_label="words of the reference", curves=curves, limits=(0, None))
        for title, curves in (("BLEU-4", bleu), ("WER, %", wer))
    ]
    columns = {
        f"{name} ({row['clips']})": lambda rows, name=name: (
            f"{'–' if name in short else format(rows[name]['bleu4'], '.0f')} / "
            f"{rows[name]['wer']:.0f}"
        )
        for name, row in next(iter(by_length.values())).items()
    }
    note = " A sentence of three words has no four-gram, so the shortest have a WER alone."
    return Section(
        title="By sentence length",
        text=[f"Dev and test of all seeds taken together.{note if short else ''}"],
        parts=[
            curves_figure(
                "lengths",
                panels,
                label="BLEU-4 and word error rate by words of the reference; table below",
            ),
            build_table(
                "BLEU-4 / WER by words of the reference (sentences in brackets)", by_length, columns
            ),
        ],
    )
