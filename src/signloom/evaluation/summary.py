"""What the systems said comes in, scores and their breakdowns go out as plain maps for JSON."""

from collections.abc import Callable, Sequence
from typing import Any

from signloom.corpus.targets import Target
from signloom.evaluation.systems import SplitResult
from signloom.metrics import Score, ScoreOptions, score_corpus

DECIMALS = 4  # of every number written; scores are 0 to 100
LENGTHS = ((1, 3), (4, 6), (7, 9), (10, 14), (15, 20), (21, 10**9))  # words of a reference
# What a person compares first; reports/evaluation/scores.json has every score of every system.
HEADLINE = ("bleu4", "bleu1", "bleu2", "bleu3", "chrf", "wer", "cer")
WITH_INTERVAL = ("bleu4", "bleu1", "chrf", "wer", "cer")
FLOOR_NAMES = {
    "greedy": "greedy", "blind": "blind", "constant": "floor",
    "retrieval": "retrieval", "random": "random",
}  # fmt: skip
FLOOR_METRICS = ("bleu4", "chrf", "wer")


def summarise(
    results: Sequence[SplitResult], train_texts: Sequence[str], options: ScoreOptions
) -> dict[str, Any]:
    """Score every system and break the model's scores down.

    Returns:
        Split to `clips`, `missing` (ids), `constant_sentence`, `systems` (system to metric to
        value, low, high, signature) and `breakdowns` (kind to rows; no intervals below two
        clips would be honest, so every row says its number of clips).
    """
    seen = set(train_texts)
    splits = {}
    for result in results:
        refs = [target.text for target in result.targets]
        splits[result.split] = {
            "clips": len(refs),
            "missing": result.missing,
            "constant_sentence": result.texts["constant"][0],
            "systems": {
                system: {
                    name: _score(score) for name, score in score_corpus(hyps, refs, options).items()
                }
                for system, hyps in result.texts.items()
            },
            "breakdowns": {
                "sentence": _breakdown(
                    result, options, lambda t: "seen in train" if t.text in seen else "unseen"
                ),
                "words": _breakdown(result, options, _length_name),
                "signer": _breakdown(result, options, lambda target: target.signer),
            },
        }
    return splits


def headline(splits: dict[str, Any]) -> dict[str, Any]:
    """Pick what `dvc metrics show` prints from the result of `summarise`."""
    metrics: dict[str, Any] = {}
    for split in sorted(splits, reverse=True):  # test first
        found = splits[split]
        model = found["systems"]["model"]
        values: dict[str, Any] = {name: model[name]["value"] for name in HEADLINE}
        for name in WITH_INTERVAL:
            values |= {f"{name}_low": model[name]["low"], f"{name}_high": model[name]["high"]}
        for system, prefix in FLOOR_NAMES.items():
            scores = found["systems"][system]
            values |= {f"{prefix}_{name}": scores[name]["value"] for name in FLOOR_METRICS}
        for row in found["breakdowns"]["sentence"]:
            key = row["group"].split()[0]  # seen or unseen
            values[key] = {name: row[name] for name in ("clips", "bleu4", "wer")}
        values |= {"clips": found["clips"], "missing": len(found["missing"])}
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


def _length_name(target: Target) -> str:
    words = len(target.text.split())
    low, high = next((low, high) for low, high in LENGTHS if words <= high)
    return f"{low:02}+" if high >= 10**9 else f"{low:02}-{high:02}"  # sorts as text


def _breakdown(
    result: SplitResult, options: ScoreOptions, group_of: Callable[[Target], str]
) -> list[dict[str, Any]]:
    """Score the model on each group of clips by itself."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for target, hyp in zip(result.targets, result.texts["model"], strict=True):
        groups.setdefault(group_of(target), []).append((hyp, target.text))
    rows = []
    for group, pairs in sorted(groups.items()):
        scores = score_corpus([hyp for hyp, _ in pairs], [ref for _, ref in pairs], options)
        row: dict[str, Any] = {"group": group, "clips": len(pairs)}
        for name in ("bleu4", "chrf", "wer", "cer"):
            row[name] = round(scores[name].value, DECIMALS)
        for name in ("bleu4", "chrf", "wer"):
            row[f"{name}_low"] = round(scores[name].low, DECIMALS)
            row[f"{name}_high"] = round(scores[name].high, DECIMALS)
        rows.append(row)
    return rows
