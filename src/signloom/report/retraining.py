"""What the last night of `signloom retrain` did comes in; what the page says of it goes out."""

from collections.abc import Mapping, Sequence
from typing import Any

from signloom.report.verdict import count

OUTCOMES = {
    "promoted": "a new champion", "refused": "the challenger was refused",
    "nothing_new": "nothing was new", "data_refused": "the new data were refused",
    "error": "an error",
}  # fmt: skip
LEVELS = ("stop", "warn", "ok")  # the worst first
METRICS = {"chrf": "chrF", "bleu4": "BLEU-4", "wer": "WER, %"}
MAX_NAMED = 5  # clips named beside a finding

Values = Mapping[str, Any]


def tell_night(content: Values) -> dict[str, Any] | None:
    """Prepare reports/retrain.json for the page; None before the first night.

    Args:
        content: `night`, and `drift` and `decision`, each of which may be None.
    """
    if not content:
        return None
    night = content["night"]
    drift, decision = content["drift"], content["decision"]
    return {
        "outcome": OUTCOMES.get(night["outcome"], night["outcome"]),
        "verdict": night["verdict"],
        "batches": night["batches"],
        "drift": tell_drift(drift) if drift else None,
        "decision": tell_decision(decision) if decision else None,
    }


def tell_drift(drift: Values) -> dict[str, Any]:
    """Sort the findings, the worst first, and say in a sentence how many there are."""
    findings = sorted(drift["findings"], key=lambda found: LEVELS.index(found["level"]))
    counts = {level: sum(found["level"] == level for found in findings) for level in LEVELS}
    said = [
        f"{counts[level]} {verb}"
        for level, verb in (("stop", "stopped the night"), ("warn", "warned"), ("ok", "are fine"))
        if counts[level]
    ]
    clips = f"{count(drift['new'], 'new clip')} of batch {drift['batch']}"
    return {
        "note": f"{clips} against {drift['old']} old ones: of {len(findings)} checks "
        f"{', '.join(said)}.",
        "rows": [_finding_row(found) for found in findings],
        "fine": counts["ok"],
    }


def tell_decision(decision: Values) -> dict[str, Any]:
    """Put rules, scores and slices of the gate into tables."""
    rival, level = decision["champion"], decision["level"]
    clips = count(decision["clips"], "test clip")
    both = f"The same {clips} for both, paired bootstrap at {level:g}."
    return {
        "verdict": decision["verdict"],
        "champion": "none" if rival is None else f"version {rival}",
        "challenger": f"version {decision['version']}",
        "note": f"{clips}." if rival is None else both,
        "interval": f"{100 * (1 - level):g} % interval",
        "rules": decision["rules"],
        "scores": [
            {"name": METRICS.get(name, name), **_difference(row)}
            for name, row in decision["scores"].items()
        ],
        "slices": [
            {
                "name": f"{row['kind']} {row['group']}",
                "clips": row["clips"],
                "result": row["result"],
                **_difference(row),
            }
            for row in decision["slices"]
        ],
        "notes": decision.get("notes", []),
    }


def _finding_row(found: Values) -> dict[str, Any]:
    clips: Sequence[str] = found["clips"]
    return {
        **found,
        "value": _number(found["statistic"]),
        "limits": " / ".join(_number(found[name]) for name in ("warn", "stop")),
        "named": list(clips[:MAX_NAMED]),
        "more": len(clips) > MAX_NAMED,
    }


def _difference(row: Values) -> dict[str, str]:
    """Scores of both and their difference as text; dashes where there is nothing to compare."""
    found = {"difference": "–", "interval": "–"}
    if row.get("difference") is not None:
        found["difference"] = f"{row['difference']:+.2f}"
        found["interval"] = f"{row['low']:+.2f} to {row['high']:+.2f}"
    return {"before": _score(row.get("champion")), "now": _score(row.get("challenger")), **found}


def _score(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"
