"""The parameters of operations: ops.yaml."""

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


def test_a_section_retrain_of_params_yaml_is_not_passed_over() -> None:
    PARAMS.write_text("retrain: {inbox: data/elsewhere}\n")
    with pytest.raises(UserError, match=r"its section `retrain` is ops\.yaml now"):
        load_ops(PARAMS)


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
