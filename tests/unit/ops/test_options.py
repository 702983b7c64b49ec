"""The parameters of operations: ops.yaml."""

from pathlib import Path

import pytest

from signloom.errors import UserError
from signloom_ops.options import DriftLimit, DriftOptions, OpsOptions, load_ops
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


def test_a_section_retrain_of_params_yaml_is_not_passed_over() -> None:
    PARAMS.write_text("retrain: {inbox: data/elsewhere}\n")
    with pytest.raises(UserError, match=r"its section `retrain` is ops\.yaml now"):
        load_ops(PARAMS)


def test_our_ops_yaml_names_defaults() -> None:
    assert load_ops(ROOT / "params.yaml") == OpsOptions()


@pytest.mark.parametrize(
    ("drift", "gone"),
    [
        ("{alpha: 0.01, colour: {warn: 0.05, stop: 0.2}, pace: {stop: 5}}", ""),
        ("{alpha: 0.05}", "drift.alpha is no option any more"),
        ("{pixels: {warn: 2.0, stop: null}}", "drift.pixels is no option any more"),
        ("{pace: {warn: 1.6, stop: 3.0}}", "drift.pace.warn is no option any more"),
    ],
)
def test_a_removed_option_is_read_with_its_default_and_named_otherwise(
    drift: str, gone: str
) -> None:
    Path("ops.yaml").write_text(f"drift: {drift}\n")
    if not gone:
        assert load_ops(PARAMS).drift == DriftOptions(pace=DriftLimit(stop=5.0))
        return
    with pytest.raises(UserError, match=gone):
        load_ops(PARAMS)


def test_what_is_wrong_with_ops_yaml_is_named_in_one_message() -> None:
    Path("ops.yaml").write_text("inbx: a\nhook: tell\ngate: {seeds: 0}\ningest: {shares: 1}\n")
    with pytest.raises(UserError) as caught:
        load_ops(PARAMS)
    assert str(caught.value).splitlines() == [
        "ops.yaml: ingest.shares: found 1, expected a list",
        "ops.yaml: gate.seeds: found 0, expected at least 1",
        "ops.yaml: inbx is not an option; did you mean `inbox`?",
        "ops.yaml: hook is no option any more; let what starts the night run it "
        "(docs/ops/nights.md)",
    ]
