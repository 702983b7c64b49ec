"""A night on the page of the report, from reports of real checks and decisions of the real gate."""

import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from signloom.errors import UserError
from signloom.report.build import build_report
from signloom.report.tuning import LABELS
from signloom_ops.intake.drift.findings import DriftReport, Measured, judge
from signloom_ops.nightly.gate import Decision
from signloom_ops.nightly.page import night_section
from tests.damage import damaged_texts
from tests.report_project import EVIL, OPTIONS, write_project
from tests.unit.ops.nightly.systems import decided, gate_clips, system, targets

CLIPS = targets(40)
judge_share = partial(judge, warn=0.1, stop=0.5)
DRIFT = DriftReport(
    batch="2026-11-21", new=8, old=232,
    findings=(
        judge_share("new_words", Measured(0.0, "0 % of the words are new", signer="ada")),
        judge_share("colour", Measured(0.125, "in 1 of 8 clips the skin is bluer than red",
                    clips=["b", "a"]), hint="write them again"),
        judge_share("unread", Measured(0.75, f"6 of 8 {EVIL}",
                    clips=[f"c{number}" for number in range(6)]), hint="see rejects.tsv"),
        judge_share("tokens", Measured(None, "too few clips")),
    ),
)  # fmt: skip


def night(decision: Decision | None, drift: DriftReport | None = DRIFT) -> dict[str, Any]:
    content = {
        "format_version": 1,
        "night": {
            "outcome": "refused" if decision else "data_refused",
            "verdict": "version 1 stays champion", "version": 2, "champion_before": 1,
            "champion": 1, "batches": ["2026-11-21"], "reasons": [], "warnings": [],
        },
        "drift": drift.to_map() if drift else None,
        "decision": decision.to_map() if decision else None,
    }  # fmt: skip
    loaded: dict[str, Any] = json.loads(json.dumps(content))  # as it comes out of the file
    return loaded


def show(content: object, folder: Path) -> str:
    """Return the section of a night."""
    path = folder / "retrain.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    section = night_section(path, "")
    assert section
    return section.html


def rows_of(html: str) -> list[list[str]]:
    """Return the cells of all rows that begin with a name."""
    rows = re.findall(r'<tr>(<th scope="row">.*?)</tr>', html)
    return [[re.sub("<.*?>", "", cell) for cell in re.split(r"</t[hd]>", row)] for row in rows]


def test_the_worst_findings_come_first_and_name_their_clips(tmp_path: Path) -> None:
    html = show(night(None), tmp_path)
    rows = rows_of(html)
    assert [row[0] for row in rows] == ["unread", "colour", "new_words", "tokens"]
    assert [row[3:5] for row in rows] == [
        ["0.75", "0.1 / 0.5"], ["0.125", "0.1 / 0.5"], ["0", "0.1 / 0.5"], ["–", "0.1 / 0.5"],
    ]  # fmt: skip
    assert rows[0][2].endswith("see rejects.tsv: c0, c1, c2, c3, c4, …")
    assert EVIL not in html
    assert rows[2][2] == "0 % of the words are new (ada)"
    assert "of 4 checks 1 stopped the night, 1 warned, 2 are fine." in html
    assert "Champion or challenger?" not in html


def test_a_decision_shows_both_models_side_by_side(tmp_path: Path) -> None:
    decision = decided(system(CLIPS, 0.1, version=1), system(CLIPS, 0.6), gate_clips(CLIPS))
    content = night(decision, None)
    html, scores = show(content, tmp_path), content["decision"]["scores"]["chrf"]
    assert "champion (version 1)</th>" in html
    assert "challenger (version 2)</th>" in html
    assert "The same 40 test clips for both, paired bootstrap at 0.05." in html
    (row,) = (row for row in rows_of(html) if row[0] == "chrF")
    assert row[1:4] == [
        f"{scores['champion']:.2f}", f"{scores['challenger']:.2f}", f"{scores['difference']:+.2f}"
    ]  # fmt: skip
    assert {row[0] for row in rows_of(html)} >= {"signer anna", "signer bela"}
    assert "95 % interval" in html


def test_a_first_champion_is_compared_with_no_model(tmp_path: Path) -> None:
    decision = decided(None, system(CLIPS, 0.1, version=1), gate_clips(CLIPS))
    html = show(night(decision, drift=None), tmp_path)
    assert "champion (none)" in html
    assert "40 test clips." in html
    assert "for both" not in html
    assert "New data against the old" not in html


def test_the_page_of_the_report_has_the_night(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("scores", "breakdown", "curves", "lengths", "quality", "signers", *LABELS)
    charts: dict[str, list[object]] = {name: [] for name in names}  # they take seconds
    monkeypatch.setattr("signloom.report.build.draw_charts", lambda *_: charts)
    path = tmp_path / "retrain.json"
    path.write_text(json.dumps(night(None)), encoding="utf-8")
    (tmp_path / "project").mkdir()
    project = write_project(tmp_path / "project")
    build_report(project, tmp_path, OPTIONS, [partial(night_section, path)])
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert '<a href="#night">' in text
    assert EVIL not in text


def test_only_a_night_of_this_corpus_and_version_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "retrain.json"
    assert night_section(path, "weather") is None
    path.write_text("{}", encoding="utf-8")  # before the first night
    assert night_section(path, "weather") is None
    path.write_text(json.dumps(night(None) | {"corpus": "demo"}), encoding="utf-8")
    assert night_section(path, "demo") is not None
    assert night_section(path, "weather") is None
    path.write_text('{"format_version": 2}', encoding="utf-8")
    with pytest.raises(UserError, match=r"retrain.json: found format version 2.*signloom retrain"):
        night_section(path, "")


def test_a_damaged_night_ends_in_no_traceback(tmp_path: Path) -> None:
    path, refused = tmp_path / "retrain.json", 0
    decision = decided(None, system(CLIPS[:3], 0.1, version=1), gate_clips(CLIPS[:3]))
    for done, text in damaged_texts(night(decision), seed=1, count=60):
        path.write_text(text, encoding="latin-1")
        try:
            night_section(path, "")
        except UserError as error:
            said = str(error)
        else:
            said = ""
        assert not said or path.name in said, done
        refused += bool(said)
    assert refused > 12
