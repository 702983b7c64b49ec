import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from signloom.corpus.manifest import Clip, write_manifest
from signloom.errors import UserError
from signloom.features.targets import read_targets
from signloom.files import hash_file, hash_folder
from signloom.paths import SHARDS, TARGETS
from signloom_ops.nightly.store import ModelStore
from signloom_tools.cli.main import main
from tests.damage import edit_json
from tests.expect_error import expect_error
from tests.unit.ops.nightly.versions import add_version, write_project

PARAMS = {
    "corpus": {"folder": "corpus", "manifest": "manifest.tsv", "signer_disjoint": True},
    "tracking": {"enabled": False, "experiment": "tiny"},
}

POINTER = {"format_version": 2, "champion": 1, "challenger": None, "history": []}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_project(tmp_path)
    (tmp_path / "params.yaml").write_text(json.dumps(PARAMS))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("USER", "anna")
    return tmp_path


def translate(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    capsys.readouterr()
    main(["translate", "data/landmarks", *options])
    return capsys.readouterr().out


def test_rolling_back_restores_the_former_translations_byte_for_byte(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_version(project, d_model=8, beam_size=2)
    main(["champion", "promote", "1", "--force"])
    before = translate(capsys, "--model", "champion")
    add_version(project, d_model=16)
    main(["champion", "promote", "2", "--force"])
    assert translate(capsys, "--model", "champion") != before
    assert translate(capsys, "--model", "1") == before
    main(["champion", "rollback"])
    assert "version 1 is the champion again" in capsys.readouterr().out
    assert translate(capsys, "--model", "champion") == before


def test_a_version_searches_as_it_was_judged_unless_an_option_changes_it(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_version(project, d_model=8)
    folder = str(ModelStore().checkpoint(1))
    options = ["--beam-size", "1", "--max-tokens", "6"]  # as in its evaluation
    output = translate(capsys, "--model", "1")
    assert output == translate(capsys, "--checkpoint", folder, *options)
    assert output != translate(capsys, "--checkpoint", folder)
    short = translate(capsys, "--model", "1", "--max-tokens", "2")
    assert short != output
    assert short == translate(capsys, "--checkpoint", folder, *options[:2], "--max-tokens", "2")


def test_only_force_promotes_what_the_gate_refused(project: Path) -> None:
    add_version(project, d_model=8)
    expect_error(r"has not judged version 1.*--force", ["champion", "promote", "1"])
    store = ModelStore()
    refused = {
        "version": 1,
        "champion": None,
        "promote": False,
        "test": ["test1"],
        "verdict": "version 1 does not become champion (floors)",
        "reasons": ["floors failed: chrF 3.1", "uses_input passed: it does"],
    }
    store.apply_decision(refused, by=None)
    expect_error(r"refused version 1: floors failed: chrF 3\.1\. To", ["champion", "promote", "1"])
    assert store.champion() is None
    main(["champion", "promote", "1", "--force"])
    assert store.champion() == 1
    assert store.pointer().history[0].by == "anna (forced)"
    store.apply_decision({**refused, "promote": True}, by=None)
    add_version(project, d_model=16)
    store.apply_decision({**refused, "version": 2, "champion": 1, "promote": True}, by=None)
    main(["champion", "promote", "2"])
    assert store.pointer().history[1].by == "anna"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("0001/decision.json", {"promote": True}, "verdict is missing"),
        ("0001/decision.json", [], "found [], expected a map"),
        ("0001/decision.json", {"slices": [None]}, "slices[0]: found None, expected a map"),
        ("0001/version.json", {"format_version": 1, "signers": 3}, "signers: found 3"),
        ("champion.json", {"format_version": 2, "champion": 1}, "history is missing"),
        ("champion.json", {**POINTER, "marks": {"0001": {"forgotten": 1}}}, "found 1"),
        ("champion.json", {**POINTER, "frozen_test": 3}, "frozen_test: found 3"),
    ],
)
def test_a_damaged_file_of_a_version_is_named(
    project: Path, name: str, content: Any, said: str
) -> None:
    add_version(project, d_model=8)
    main(["champion", "promote", "1", "--force"])
    path = ModelStore().root / name
    path.write_text(json.dumps(content))
    store = ModelStore()
    reads = {"decision": store.refusal, "version": store.facts, "champion": store.forgotten}
    with pytest.raises(UserError) as caught:
        reads[path.stem](1)
    assert said in str(caught.value)
    assert f"{path}:" in str(caught.value)
    assert "dvc checkout" in str(caught.value)
    if name.endswith("decision.json"):
        expect_error(r"decision\.json: ", ["champion", "show"])


def test_the_versions_are_listed_and_the_champion_is_explained(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expect_error("no champion yet", ["champion"])
    add_version(project, d_model=8)
    main(["champion", "promote", "1", "--force"])
    add_version(project, d_model=16)
    ModelStore().mark(1, "forgotten", [{"clips": 20}, {"clips": 4}])
    capsys.readouterr()
    main(["champion", "list"])
    assert capsys.readouterr().out.splitlines() == [
        "1\tchampion\tnot judged; learnt from 24 clips of people forgotten since",
        "2\tchallenger\tnot judged",
    ]
    Path("data/models/0001").rename("away")
    expect_error("has no version 1", ["champion", "list"])
    assert capsys.readouterr().out == "2\tchallenger\tnot judged\n"
    Path("away").rename("data/models/0001")
    main(["champion"])
    shown = capsys.readouterr().out
    assert "version 1, promote by anna (forced) at 2" in shown
    assert "learnt from 24 clips" in shown
    assert "challenger: version 2, the gate has not judged version 2" in shown


def test_a_trained_model_is_added_by_hand_with_who_is_in_it(project: Path) -> None:
    expect_error("run `dvc repro train` first", ["champion", "add"])
    targets = read_targets(TARGETS)
    clips = [
        Clip(clip_id=t.clip_id, video=None, text=t.text, signer=t.signer, split=t.split)
        for t in targets
    ]
    (project / "corpus/landmarks/shards").mkdir(parents=True)
    write_manifest(project / "corpus/manifest.tsv", clips)
    add_version(project, d_model=8)
    ModelStore().root.rename(project / "elsewhere")
    (project / "run8-1/checkpoint").rename(project / "data/checkpoint")
    (project / "run8-1/reports").rename(project / "reports")
    expect_error("trained on other landmarks", ["champion", "add"])
    assert ModelStore().versions() == []
    spec = project / "data/checkpoint/checkpoint.json"
    data = {"landmarks": hash_folder(SHARDS), "targets": hash_file(TARGETS)}
    edit_json(spec, provenance={"data": data})
    main(["champion", "add"])
    facts = ModelStore().facts(1)
    assert facts["signers"] == {"train": {"train": 4}, "dev": {"dev": 4}, "test": {"test": 8}}
    assert (facts["trigger"], facts["parent"]) == ("signloom champion add", None)


@pytest.mark.slow
def test_dvc_knows_what_a_person_chose(project: Path) -> None:
    """Else the next night's pull would meet a change that nobody recorded.

    Quick twin: test_rolling_back_restores_the_former_translations_byte_for_byte.
    """
    dvc = [sys.executable, "-m", "dvc"]
    add_version(project, d_model=8)
    subprocess.run([*dvc, "init", "--no-scm", "-q"], check=True)
    main(["champion", "promote", "1", "--force"])
    assert not Path("data/models.dvc").exists()  # it was not asked for
    add_version(project, d_model=16)
    subprocess.run([*dvc, "add", "-q", "data/models"], check=True)
    before = Path("data/models.dvc").read_text()
    main(["champion", "promote", "2", "--force"])
    assert Path("data/models.dvc").read_text() != before
    main(["champion", "rollback"])
    subprocess.run([*dvc, "checkout", "data/models.dvc"], check=True)
    assert ModelStore().champion() == 1


def test_a_registry_that_is_away_does_not_hold_up_a_rollback(
    project: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for width in (8, 16):
        main(["champion", "promote", str(add_version(project, d_model=width)), "--force"])
    (project / "params.yaml").write_text('{"tracking": {"enabled": true, "experiment": "tiny"}}')
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")  # nobody listens there
    main(["champion", "rollback"])
    assert ModelStore().champion() == 1
    assert "the registry was not updated" in caplog.text
    expect_error("signloom champion sync", ["champion", "sync"])
