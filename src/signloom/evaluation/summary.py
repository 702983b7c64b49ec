"""What the systems said comes in, scores, verdicts and breakdowns go out as maps for JSON."""

from collections.abc import Mapping, Sequence
from typing import Any

from signloom.evaluation.breakdowns import break_down
from signloom.evaluation.systems import SplitResult
from signloom.metrics import (
    Score,
    ScoreOptions,
    Statistics,
    compare,
    measure,
    score_statistics,
)

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
