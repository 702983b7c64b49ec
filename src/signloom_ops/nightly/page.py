"""The last night of `signloom retrain`: checks of the new data, and champion or challenger."""

from collections.abc import Mapping
from dataclasses import dataclass
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
LEVELS = ("stop", "warn", "ok")  # the worst first
MAX_NAMED = 5  # clips named beside a finding
NOTHING = "–"  # for a missing value

Content = Mapping[str, Any]  # of a JSON file


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRow:
    """One check of the new data."""

    check: str
    level: str
    what: str
    hint: str
    value: str
    limits: str  # where it warns and where it stops
    named: list[str]  # clips, some of them
    more: bool  # whether there are further clips


@dataclass(frozen=True, slots=True)
class DriftView:
    """The checks of a delivery, the worst first."""

    note: str
    rows: list[FindingRow]
    fine: int  # how many are


@dataclass(frozen=True, slots=True, kw_only=True)
class DuelRow:
    """A score of champion and challenger, as text."""

    name: str
    before: str
    now: str
    difference: str
    interval: str
    clips: int = 0
    result: str = ""  # of a protected group


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionView:
    """What the gate decided, and why."""

    verdict: str
    champion: str
    challenger: str
    note: str
    interval: str
    rules: list[Content]
    scores: list[DuelRow]
    slices: list[DuelRow]
    notes: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NightView:
    """What the page tells of a night."""

    outcome: str
    verdict: str
    batches: list[str]
    drift: DriftView | None
    decision: DecisionView | None


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
    html = render_page("night.html", package="signloom_ops.nightly", night=show_night(content))
    return Section("night", "Retraining", html)


def show_night(content: Content) -> NightView:
    """Prepare reports/retrain.json for the page.

    Args:
        content: `night`, and `drift` and `decision`, each of which may be None.
    """
    night, drift, decision = content["night"], content["drift"], content["decision"]
    return NightView(
        outcome=OUTCOMES.get(night["outcome"], night["outcome"]),
        verdict=night["verdict"],
        batches=night["batches"],
        drift=show_drift(drift) if drift else None,
        decision=show_decision(decision) if decision else None,
    )


def show_drift(drift: Content) -> DriftView:
    """Sort the findings, the worst first, and say in a sentence how many there are."""
    findings = sorted(drift["findings"], key=lambda found: LEVELS.index(found["level"]))
    counts = {level: sum(found["level"] == level for found in findings) for level in LEVELS}
    parts = ", ".join(
        f"{counts[level]} {verb}"
        for level, verb in (("stop", "stopped the night"), ("warn", "warned"), ("ok", "are fine"))
        if counts[level]
    )
    clips = f"{count(drift['new'], 'new clip')} of batch {drift['batch']}"
    note = f"{clips} against {drift['old']} old ones: of {len(findings)} checks {parts}."
    return DriftView(note, [_finding_row(found) for found in findings], counts["ok"])


def show_decision(decision: Content) -> DecisionView:
    """Put rules, scores and protected groups of the gate into tables."""
    rival, level = decision["champion"], decision["level"]
    clips = count(decision["clips"], "test clip")
    both = f"The same {clips} for both, paired bootstrap at {level:g}."
    return DecisionView(
        verdict=decision["verdict"],
        champion="none" if rival is None else f"version {rival}",
        challenger=f"version {decision['version']}",
        note=f"{clips}." if rival is None else both,
        interval=f"{100 * (1 - level):g} % interval",
        rules=decision["rules"],
        scores=[
            _duel_row(metric_heading(name), row) for name, row in decision["scores"].items()
        ],
        slices=[
            _duel_row(f"{row['kind']} {row['group']}", row, clips=row["clips"],
                      result=row["result"])
            for row in decision["slices"]
        ],
        notes=decision.get("notes", []),
    )  # fmt: skip


def _finding_row(found: Content) -> FindingRow:
    return FindingRow(
        check=found["check"],
        level=found["level"],
        what=f"{found['what']} ({signer})" if (signer := found.get("signer")) else found["what"],
        hint=found.get("hint", ""),
        value=_number(found["statistic"]),
        limits=" / ".join(_number(found[name]) for name in ("warn", "stop")),
        named=found["clips"][:MAX_NAMED],
        more=len(found["clips"]) > MAX_NAMED,
    )


def _duel_row(name: str, row: Content, **further: Any) -> DuelRow:
    """Write both scores and their difference; dashes where there is nothing to compare."""
    is_compared = all(row.get(name) is not None for name in ("difference", "low", "high"))
    return DuelRow(
        name=name,
        before=_score(row.get("champion")),
        now=_score(row.get("challenger")),
        difference=f"{row['difference']:+.2f}" if is_compared else NOTHING,
        interval=f"{row['low']:+.2f} to {row['high']:+.2f}" if is_compared else NOTHING,
        **further,
    )


def _score(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}"


def _number(value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"
