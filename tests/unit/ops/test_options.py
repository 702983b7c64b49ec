"""The parameters of operations: ops.yaml, or params.yaml as it was before version 0.3."""

import logging
from pathlib import Path

import pytest

from signloom.errors import UserError
from signloom_ops.options import OpsOptions, load_ops
from tests.tiny import ROOT

PARAMS = Path("params.yaml")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    PARAMS.write_text("corpus: {folder: data/raw/weekly}\n")


@pytest.mark.parametrize("text", [None, "", "# all as it is\n", "inbox: data/inbox\n"])
def test_what_ops_yaml_does_not_name_has_a_default(text: str | None) -> None:
    if text is not None:
        Path("ops.yaml").write_text(text)
    assert load_ops(PARAMS) == OpsOptions()


def test_our_ops_yaml_names_defaults() -> None:
    assert load_ops(ROOT / "params.yaml") == OpsOptions()


def test_what_is_wrong_with_ops_yaml_is_said_in_one_message() -> None:
    Path("ops.yaml").write_text('inbx: a\nhook: "it\'s"\ngate: {seeds: 0}\ningest: {shares: 1}\n')
    with pytest.raises(UserError) as caught:
        load_ops(PARAMS)
    assert str(caught.value).splitlines() == [
        "ops.yaml: ingest.shares: found 1, expected a list",
        "ops.yaml: gate.seeds: found 0, expected at least 1",
        "ops.yaml: inbx is not an option; did you mean `inbox`?",
    ]
    Path("ops.yaml").write_text('hook: "it\'s"\n')
    with pytest.raises(UserError, match=r"^ops.yaml: hook: found \"it's\": No closing quotation"):
        load_ops(PARAMS)


def test_the_section_of_an_older_project_is_read_and_its_new_home_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    PARAMS.write_text("retrain: {inbox: films, gate: {seeds: 5}, drift: {old_clips: 9}}\n")
    with caplog.at_level(logging.WARNING):
        found = [load_ops(PARAMS), load_ops(PARAMS)]
    assert (found[0].inbox, found[0].gate.seeds, found[0].drift.old_clips) == (Path("films"), 5, 9)
    assert [record.getMessage() for record in caplog.records] == [
        "params.yaml: section `retrain` is still read, but belongs into ops.yaml: move its keys "
        "there, to the margin, and remove the section"
    ]
    PARAMS.write_text("retrain: {gate: {seeds: 0}}\n")
    with pytest.raises(UserError, match=r"^params.yaml: retrain.gate.seeds: found 0, expected at"):
        load_ops(PARAMS)


def test_two_homes_of_the_same_parameters_are_refused() -> None:
    PARAMS.write_text("retrain: {inbox: films}\n")
    Path("ops.yaml").write_text("inbox: data/inbox\n")
    with pytest.raises(UserError, match=r"^params.yaml: section `retrain` is not read beside ops"):
        load_ops(PARAMS)
