"""Scores, breakdowns and verdicts of an evaluation."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from signloom.evaluation.compare import compare
from signloom.evaluation.metrics import (
    Score,
    ScoreOptions,
    Statistics,
    measure,
    score_statistics,
    split_words,
)
from signloom.evaluation.systems import ClipFacts, SplitResult
from signloom.features.targets import Target

LENGTHS = ((1, 3), (4, 6), (7, 9), (10, 14), (15, 20), (21, 10**9))  # words of a reference
HANDS = (0.0, 0.25, 0.5, 0.75, 0.9, 0.99)  # lower ends: share of the frames with a hand
RATES = (0.0, 12.0, 18.0, 24.0, 27.0, 45.0)  # lower ends: frames a second, the usual ones inside
KINDS = ("sentence", "words", "signer", "hands", "fps")
OF_LANDMARKS = ("hands", "fps")  # kinds without rows where the clips are glosses
COLUMNS = (
    "group", "clips", "bleu4", "chrf", "wer", "cer", "bleu4_low", "bleu4_high", "chrf_low",
    "chrf_high", "wer_low", "wer_high",
)  # fmt: skip

_GroupOf = Callable[[Target, ClipFacts], str]


def break_down(
    result: SplitResult,
    statistics: Statistics,
    train_texts: frozenset[str],
    options: ScoreOptions,
    *,
    digits: int,
) -> dict[str, list[dict[str, Any]]]:
    """Score the model on groups of clips.

    Args:
        result: The clips of a split.
        statistics: What was counted in the model's sentences.
        train_texts: Tells which sentences were seen in training.
        options: For the intervals.
        digits: Decimals kept.

    Returns:
        Each of `KINDS` to its rows. An interval of one or two clips says little, so every row has
        its number of clips.
    """
    group_of: dict[str, _GroupOf] = {
        "sentence": lambda target, _: "seen in train" if target.text in train_texts else "unseen",
        "words": lambda target, _: _length_name(len(split_words([target.text], options)[0])),
        "signer": lambda target, _: target.signer,
        "hands": lambda _, facts: _hands_name(facts),
        "fps": lambda _, facts: _rate_name(facts),
    }
    left_out = OF_LANDMARKS if result.unknown is not None else ()
    return {
        kind: _rows(result, statistics, group_of[kind], options, digits)
        if kind not in left_out
        else []
        for kind in KINDS
    }


def _rows(
    result: SplitResult,
    statistics: Statistics,
    group_of: _GroupOf,
    options: ScoreOptions,
    digits: int,
) -> list[dict[str, Any]]:
    groups: dict[str, list[int]] = {}
    for index, (target, facts) in enumerate(zip(result.targets, result.facts, strict=True)):
        groups.setdefault(group_of(target, facts), []).append(index)
    rows = []
    for group, indices in sorted(groups.items()):
        scores = score_statistics(statistics.select(np.array(indices)), options)
        row: dict[str, Any] = {"group": group, "clips": len(indices)}
        for name in ("bleu4", "chrf", "wer", "cer"):
            row[name] = round(scores[name].value, digits)
        for name in ("bleu4", "chrf", "wer"):
            row[f"{name}_low"] = round(scores[name].low, digits)
            row[f"{name}_high"] = round(scores[name].high, digits)
        rows.append(row)
    return rows


# Names sort as text.


def _length_name(words: int) -> str:
    low, high = next((low, high) for low, high in LENGTHS if words <= high)
    return f"{low:02}+" if high >= 10**9 else f"{low:02}-{high:02}"


def _hands_name(facts: ClipFacts) -> str:
    if facts.hands is None:
        return "no hands in the layout"
    low, high = _bounds(facts.hands, HANDS)
    return f"{100 * low:02.0f}-{100 * (1 if high is None else high):02.0f} %"


def _rate_name(facts: ClipFacts) -> str:
    low, high = _bounds(facts.fps or 0.0, RATES)
    return f"{low:02.0f}+" if high is None else f"{low:02.0f}-{high:02.0f}"


def _bounds(value: float, ends: Sequence[float]) -> tuple[float, float | None]:
    place = max(index for index, low in enumerate(ends) if value >= low)
    return ends[place], ends[place + 1] if place + 1 < len(ends) else None


DECIMALS = 4  # of every number written; scores are 0 to 100
# What a person compares first; reports/evaluation/scores.json has every score of every system.
HEADLINE = (
    "bleu4", "bleu1", "bleu2", "bleu3", "chrf", "chrfpp", "ter", "wer", "cer", "rouge_l", "exact",
)  # fmt: skip
WITH_INTERVAL = ("bleu4", "bleu1", "chrf", "wer", "cer")
FLOOR_NAMES = {
    "greedy": "greedy", "blind": "blind", "swapped": "swapped", "constant": "floor",
    "retrieval": "retrieval", "random": "random", "copy": "copy",
}  # fmt: skip
FLOOR_METRICS = ("bleu4", "chrf", "wer")
LOOKS_BY = "chrf"  # the metric of the hallucination check: it tells weak models apart too
# Split to system to what was counted in its sentences.
Counts = Mapping[str, Mapping[str, Statistics]]


def count(
    results: Sequence[SplitResult],
    options: ScoreOptions,
    given: Mapping[str, Mapping[tuple[str, str], Sequence[float]]],
    commands: Mapping[str, str],
) -> dict[str, dict[str, Statistics]]:
    """Count what the metrics need in every sentence of every system.

    Args:
        results: What was said.
        options: The tokenizer.
        given: Further metrics, as `run_commands` returns them.
        commands: Their command lines, which are their signatures.
    """
    counts: dict[str, dict[str, Statistics]] = {}
    for result in results:
        refs = [target.text for target in result.targets]
        counts[result.split] = {}
        for system, hyps in result.texts.items():
            statistics = measure(hyps, refs, options)
            for name, found in given.items():
                signature = f"nrefs:1|mean:sentences|command:{commands[name]}"
                statistics = statistics.extend(name, found[result.split, system], signature)
            counts[result.split][system] = statistics
    return counts


def summarise(
    results: Sequence[SplitResult],
    counts: Counts,
    train_texts: frozenset[str],
    options: ScoreOptions,
) -> dict[str, Any]:
    """Score every system and break the model's scores down.

    Returns:
        Split to `clips`, `missing` (ids), `constant_sentence`, `systems` (system to metric to
        value, low, high, signature), `hallucination` (see `check_hallucination`), `breakdowns`
        (kind to rows) and, for a model of glosses, `unknown_glosses` (how many train lacks).
    """
    splits = {}
    for result in results:
        counted = counts[result.split]
        splits[result.split] = {
            "clips": len(result.targets),
            "missing": result.missing,
            "constant_sentence": result.texts["constant"][0],
            "systems": {
                system: {
                    name: _score(score)
                    for name, score in score_statistics(statistics, options).items()
                }
                for system, statistics in counted.items()
            },
            "hallucination": check_hallucination(
                counted, options, "video" if result.unknown is None else "glosses"
            ),
            "breakdowns": break_down(
                result, counted["model"], train_texts, options, digits=DECIMALS
            ),
        }
        if result.unknown is not None:
            unknown = sum(map(len, result.unknown))
            splits[result.split]["unknown_glosses"] = unknown
    return splits


def check_hallucination(
    counts: Mapping[str, Statistics], options: ScoreOptions, source: str = "video"
) -> dict[str, Any] | None:
    """Say whether the score falls when the video, or its glosses, are replaced by another clip's.

    A model that writes fluent sentences whatever it sees scores the same either way: the 95 %
    interval of the fall (paired bootstrap) then reaches down to 0, and the model is said to
    ignore its input.

    Args:
        counts: Of `model` and, where there is another sentence, `swapped`.
        options: For the resamples.
        source: What was replaced, in a word.

    Returns:
        `metric`, `model`, `swapped`, `fall`, `low`, `high`, `p_value`, `ignores_input` and `text`;
        None where all clips have one sentence.
    """
    if "swapped" not in counts:
        return None
    found = compare(counts["swapped"], counts["model"], options)[LOOKS_BY]
    ignores = found.low <= 0
    verdict = "this model ignores its input" if ignores else "the model looks at its input"
    return {
        "metric": LOOKS_BY,
        "model": round(found.b, DECIMALS),
        "swapped": round(found.a, DECIMALS),
        "fall": round(found.difference, DECIMALS),
        "low": round(found.low, DECIMALS),
        "high": round(found.high, DECIMALS),
        "p_value": round(found.p_value, DECIMALS),
        "ignores_input": ignores,
        "text": f"Shown the {source} of another clip, chrF goes from {found.b:.1f} to "
        f"{found.a:.1f}, a fall of {found.difference:.1f} [{found.low:.1f}, {found.high:.1f}]: "
        f"{verdict}.",
    }


def headline(splits: Mapping[str, Any], seeds: Mapping[str, Any] | None) -> dict[str, Any]:
    """Pick what `dvc metrics show` prints.

    Args:
        splits: From `summarise`.
        seeds: From `summarise_seeds`.
    """
    metrics: dict[str, Any] = {}
    for split in sorted(splits, reverse=True):  # test first
        found = splits[split]
        model = found["systems"]["model"]
        extra = [name for name in model if name not in HEADLINE]
        values: dict[str, Any] = {name: model[name]["value"] for name in (*HEADLINE, *extra)}
        for name in WITH_INTERVAL:
            values |= {f"{name}_low": model[name]["low"], f"{name}_high": model[name]["high"]}
        for system, prefix in FLOOR_NAMES.items():
            scores = found["systems"].get(system, {})
            names = FLOOR_METRICS if scores else ()
            values |= {f"{prefix}_{name}": scores[name]["value"] for name in names}
        for row in found["breakdowns"]["sentence"]:
            key = row["group"].split()[0]  # seen or unseen
            values[key] = {name: row[name] for name in ("clips", "bleu4", "wer")}
        if seeds:
            values["seeds"] = {
                name: {key: spread[key] for key in ("mean", "std", "n")}
                for name, spread in seeds["splits"][split].items()
            }
        values |= {"clips": found["clips"], "missing": len(found["missing"])}
        if found["hallucination"]:
            values["ignores_input"] = int(found["hallucination"]["ignores_input"])
        if "unknown_glosses" in found:
            values["unknown_glosses"] = found["unknown_glosses"]
        values["signature"] = model["bleu4"]["signature"]
        metrics[split] = values
    return metrics


def _score(score: Score) -> dict[str, float | str]:
    return {
        "value": round(score.value, DECIMALS),
        "low": round(score.low, DECIMALS),
        "high": round(score.high, DECIMALS),
        "signature": score.signature,
    }
