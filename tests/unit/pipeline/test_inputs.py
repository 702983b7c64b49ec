"""What somebody edits while a stage runs is not noted for what the stage made."""

import json
import logging
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from pipeline import inputs as module
from pipeline.inputs import StageInputs, check_trained_as_noted
from pipeline.stage import run
from signloom.config import load_params
from signloom.errors import UserError
from signloom.files import to_text, write_file
from signloom.log import GROUP
from signloom.paths import removal_note
from tests.tiny import ROOT

PARAMS = """\
corpus: {folder: data/raw/own, manifest: manifest.tsv}
train: {learning_rate: 0.002, seeds: [1, 2]}
report: {clips: 4}
"""
PIPELINE = """\
stages:
  train:
    cmd: python -m pipeline.train
    deps:
      - pipeline/train.py
      - ${corpus.folder}
      - shards
      - data/code/signloom.training
    params:
      - corpus.folder
      - train
      - data/start.yaml: [start_from]
"""
MANIFEST, FILM = Path("data/raw/own/manifest.tsv"), Path("data/raw/own/films/a.mp4")
SHARDS = Path("shards")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stage with parameters in two files, code, a corpus and imported shards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "HASHED_BYTES", 100)
    package = tmp_path / "installed/signloom"
    monkeypatch.setattr(module, "signloom", SimpleNamespace(__file__=str(package / "__init__.py")))
    for path, text in {
        "params.yaml": PARAMS,
        "dvc.yaml": PIPELINE,
        "data/start.yaml": "start_from: null\n",
        "pipeline/train.py": "main()\n",
        str(MANIFEST): "clip_id\ttext\na\tdog\n",
        str(FILM): 200 * "x",
        "shards/0.parquet": 200 * "y",
        "data/code/signloom.training": "hash\n",
        str(package / "training/loop.py"): "loop()\n",
    }.items():
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(text)
    return tmp_path


def read() -> StageInputs:
    inputs = StageInputs.read("train")
    assert inputs is not None
    return inputs


def replace_text(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    write_file(path, text.replace(old, new))


EDITS: dict[str, tuple[Callable[[], object], str]] = {
    "a parameter": (
        lambda: replace_text(Path("params.yaml"), "0.002", "0.0001"),
        "params.yaml: train.learning_rate: 0.002 -> 0.0001",
    ),
    "a parameter that is new": (
        lambda: replace_text(Path("params.yaml"), "seeds:", "epochs: 3, seeds:"),
        "params.yaml: train.epochs: nothing -> 3",
    ),
    "where a night starts from": (
        lambda: Path("data/start.yaml").write_text("start_from: data/models/1\n"),
        "data/start.yaml: start_from: None -> data/models/1",
    ),
    "parameters that are being written": (
        lambda: Path("params.yaml").write_text("train: {"),
        "params.yaml is not valid YAML",
    ),
    "a text of the manifest": (
        lambda: replace_text(MANIFEST, "dog", "cat"),
        "data/raw/own: 1 changed (manifest.tsv)",
    ),
    "a film, by one of the same size": (
        lambda: write_file(FILM, 200 * "z"),
        "data/raw/own: 1 changed (films/a.mp4)",
    ),
    "the code": (
        lambda: Path("pipeline/train.py").write_text("other\n"),
        "pipeline/train.py: changed",
    ),
    "the installed code of a project": (
        lambda: Path("installed/signloom/training/loop.py").write_text("other\n"),
        "installed/signloom/training: 1 changed (loop.py)",
    ),
    "shards that came in": (
        lambda: [Path(f"shards/{number}.parquet").touch() for number in range(1, 8)],
        "shards: 7 added (1.parquet, 2.parquet, 3.parquet, 4.parquet, 5.parquet, ...)",
    ),
    "a shard that is gone": (
        lambda: Path("shards/0.parquet").unlink(),
        "shards: 1 missing (0.parquet)",
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_what_changed_while_a_stage_ran_is_named(edit: str) -> None:
    inputs = read()
    assert inputs.changes() == []
    act, expected = EDITS[edit]
    act()
    (found,) = inputs.changes()
    assert expected in found


def test_what_a_stage_does_not_read_may_be_edited_while_it_runs() -> None:
    inputs = read()
    replace_text(Path("params.yaml"), "clips: 4}", "clips: 5}  # of the report")
    for name in (".manifest.tsv.swp", "manifest.tsv~", "__pycache__/a.pyc", ".films.tmp/b.mp4"):
        path = MANIFEST.parent / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("half")
    write_file(MANIFEST, MANIFEST.read_text())  # the same content in a new file
    assert inputs.changes() == []


def test_a_large_file_that_was_written_anew_counts_as_changed() -> None:
    inputs = read()
    later_s = time.time() + 5
    os.utime(FILM, (later_s, later_s))
    assert inputs.changes() == ["data/raw/own: 1 changed (films/a.mp4)"]


def test_a_stage_works_with_the_parameters_that_it_compares() -> None:
    inputs = read()
    before = load_params(Path("params.yaml"))
    replace_text(Path("params.yaml"), "0.002", "0.0001")
    assert load_params(Path("params.yaml")) == before  # though the stage reads them only now
    assert inputs.changes() == ["params.yaml: train.learning_rate: 0.002 -> 0.0001"]
    assert load_params(Path("params.yaml"), is_anew=True) != before


def test_dvc_notes_what_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    pipelines = {"": Path("dvc.yaml"), "data/demo/dvc.yaml:": Path("data/demo/dvc.yaml")}
    for prefix, path in pipelines.items():
        lock = yaml.safe_load(path.with_suffix(".lock").read_text())["stages"]
        for name in yaml.safe_load(path.read_text())["stages"].keys() & lock.keys():
            inputs = StageInputs.read(f"{prefix}{name}")
            assert inputs is not None
            noted = [dependency["path"] for dependency in lock[name]["deps"]]
            assert sorted(map(str, inputs.dependencies)) == sorted(noted)
            assert {str(file): set(keys or ()) for file, keys in inputs.keys.items()} == {
                file: set(params) for file, params in lock[name].get("params", {}).items()
            }
    assert StageInputs.read("draw") is not None  # as DVC says when called in data/demo


def test_a_stage_that_no_file_has_runs_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert StageInputs.read("other") is None
    assert "no dvc.yaml here has the stage other" in caplog.text


def test_an_edit_is_told_while_the_stage_runs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "WATCH_S", 0.01)
    with read().watched("train"):
        replace_text(MANIFEST, "dog", "cat")
        replace_text(Path("params.yaml"), "0.002", "0.0001")
        deadline = time.monotonic() + 60
        while not caplog.messages:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(0.1)
    (message,) = caplog.messages  # once
    assert "changed while `train` runs: " in message
    assert re.search(r"learning_rate: 0.002 -> 0.0001|manifest.tsv", message)


@pytest.fixture
def as_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is stage `train` of DVC."""
    monkeypatch.setattr("sys.argv", ["pipeline/train.py"])
    monkeypatch.setenv("DVC_STAGE", "train")
    monkeypatch.delenv(GROUP, raising=False)
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)


def edit_and_finish(finished: list[str]) -> Callable[[], None]:
    replace_text(Path("params.yaml"), "0.002", "0.0001")
    return lambda: finished.append("snapshots are removed")


@pytest.mark.usefixtures("as_stage")
def test_a_stage_whose_inputs_changed_fails_and_keeps_what_it_has() -> None:
    finished: list[str] = []
    with pytest.raises(SystemExit) as stopped:
        run(lambda: edit_and_finish(finished), kept="The finished training is kept.")
    message = str(stopped.value)
    assert (
        "what stage `train` reads was changed while it ran:\n  params.yaml: train.lear" in message
    )
    assert message.endswith("The finished training is kept.")
    assert finished == []
    run(lambda: lambda: finished.append("snapshots are removed"))
    assert finished


@pytest.mark.usefixtures("as_stage")
@pytest.mark.parametrize(
    ("name", "value"), [("DVC_STAGE", None), (GROUP, "process 1"), ("RANK", "1")]
)
def test_who_notes_nothing_compares_nothing(
    name: str, value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # By hand, as a process of `train_apart`, as one of several of torchrun.
    if value is None:
        monkeypatch.delenv(name)
    else:
        monkeypatch.setenv(name, value)
    finished: list[str] = []
    run(lambda: edit_and_finish(finished))
    assert finished


@pytest.mark.usefixtures("as_stage")
def test_no_stage_starts_while_a_person_is_removed() -> None:
    note = removal_note(Path("data/raw/own"))
    write_file(note, to_text({"signer": "zoe"}))
    with pytest.raises(SystemExit, match="a person is being removed from the corpus"):
        run(lambda: pytest.fail("it ran"))
    assert not Path("data/logs").exists()  # of which the removal would think that it is back


NOTED = {"train": {"learning_rate": "1e-3", "device": "cuda", "epochs": 3, "seeds": [1, 2]}}
TRAINED = {
    "train": {
        "learning_rate": 0.001,
        "device": "cpu",
        "epochs": 3,
        "seeds": [1],
        "ema": 0.9,
        "start_from": "data/models/1",
    },
}


def lock_checkpoint(size_bytes: int = 4) -> None:
    write_file(Path("data/checkpoint/seeds/2/model.safetensors"), b"1234")
    params = {"params.yaml": NOTED, "data/start.yaml": {"start_from": "data/models/1"}}
    out = {"path": "data/checkpoint", "size": size_bytes}
    lock = {"stages": {"train": {"params": params, "outs": [out]}}}
    write_file(Path("dvc.lock"), json.dumps(lock))


def test_a_checkpoint_that_dvc_lock_notes_rightly_is_evaluated() -> None:
    check_trained_as_noted({"params": TRAINED})  # there is no dvc.lock
    lock_checkpoint()
    check_trained_as_noted({"params": TRAINED})
    check_trained_as_noted({})  # of a version that wrote no parameters


@pytest.mark.parametrize(
    ("name", "value"), [("learning_rate", 0.002), ("start_from", ""), ("epochs", 4)]
)
def test_a_checkpoint_of_other_parameters_than_dvc_lock_notes_is_refused(
    name: str, value: object
) -> None:
    lock_checkpoint()
    other = {"params": {"train": {**TRAINED["train"], name: value}}}
    with pytest.raises(UserError, match=rf"train\.{name}: noted .*, trained with {value}\n") as no:
        check_trained_as_noted(other)
    assert "dvc repro --force --single-item train" in str(no.value)
    lock_checkpoint(size_bytes=5)  # of another checkpoint, which this one has replaced
    check_trained_as_noted(other)
