"""The last night of `signloom retrain`: checks of the new data, and champion or challenger."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from signloom.config import check_shape, check_version, read_json
from signloom.evaluation.names import metric_heading
from signloom.report.pages import Section, render_page
from signloom.report.verdict import count
from signloom_ops.nightly import schemas

FORMAT_VERSION = 1  # of reports/retrain.json
_HINT = "`signloom retrain` writes it; put {} into it to leave the night out"
OUTCOMES = {
    "promoted": "a new champion", "refused": "the challenger was refused",
    "nothing_new": "nothing was new", "data_refused": "the new data were refused",
    "error": "an error",
}  # fmt: skip
LEVELS = {"stop": "stopped the night", "warn": "warned", "ok": "are fine"}  # the worst first

Content = Mapping[str, Any]  # of a JSON file


def night_section(path: Path, corpus: str) -> Section | None:
    """Return the report's section on the last night of a corpus; None before the first.

    Args:
        path: reports/retrain.json; it may be missing or {}.
        corpus: The corpus of the report; empty if it is not known.

    Raises:
        UserError: If the file is damaged.
    """
    if not path.is_file() or read_json(path, hint=_HINT) == {}:
        return None
    content = read_json(path, hint=_HINT)
    check_version(path, content, FORMAT_VERSION, hint=_HINT)
    check_shape(content, schemas.NIGHT, where=path, hint=_HINT)
    if content.get("corpus", corpus) != corpus:
        return None
    night, drift, decision = content["night"], content["drift"], content["decision"]
    html = render_page(
        "night.html",
        package="signloom_ops.nightly",
        night=night,
        outcome=OUTCOMES.get(night["outcome"], night["outcome"]),
        findings=sorted(drift["findings"], key=_rank) if drift else [],
        drift_note=_drift_note(drift) if drift else "",
        decision=decision,
        decision_note=_decision_note(decision) if decision else "",
        heading=metric_heading,
    )
    return Section("night", "Retraining", html)


def _rank(finding: Content) -> int:
    return list(LEVELS).index(finding["level"])


def _drift_note(drift: Content) -> str:
    """Return how many checks found what, as a sentence."""
    found = [one["level"] for one in drift["findings"]]
    counts = {level: found.count(level) for level in LEVELS}
    parts = ", ".join(f"{counts[level]} {verb}" for level, verb in LEVELS.items() if counts[level])
    clips = f"{count(drift['new'], 'new clip')} of batch {drift['batch']}"
    return f"{clips} against {drift['old']} old ones: of {len(found)} checks {parts}."


def _decision_note(decision: Content) -> str:
    """Return on which clips the decision was made."""
    clips = count(decision["clips"], "test clip")
    if decision["champion"] is None:
        return f"{clips}."
    return f"The same {clips} for both, paired bootstrap at {decision['level']:g}."
