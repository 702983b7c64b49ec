import contextlib
import json
import logging
import os
import resource
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import psutil  # type: ignore[import-untyped]
import pytest

import signloom
from signloom.errors import UserError
from signloom.log import StageLog
from signloom.paths import SPOOL
from signloom.provenance import git_state, project_folder
from signloom.tracking import run as run_module
from signloom.tracking.journal import Spool
from signloom.tracking.mlflow_setup import hide_password, prepare_database, store_name
from signloom.tracking.run import (
    Run,
    RunOf,
    TrackingOptions,
    name_run,
    read_tracking,
    scores_address,
)
from signloom.tracking.run_store import KEY, MAX_VALUE_CHARS, SCORES_VIEW, RunStore
from signloom.tracking.upload import Uploader, upload_until_done
from signloom.training.train import describe
from signloom_tools.cli.main import main
from tests import tiny
from tests.expect_error import expect_error
from tests.processes import call, fork, wait, wait_until

# MLflow's own code uses what its libraries deprecate.
pytestmark = pytest.mark.filterwarnings("ignore")
ON = TrackingOptions(enabled=True, experiment="drawn signers")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, mlflow_database: Path) -> Path:
    """A folder with an MLflow database, which all tests share."""
    folder = tmp_path_factory.mktemp("store")
    shutil.copy(mlflow_database, folder / "mlflow.db")
    return folder


@pytest.fixture(autouse=True)
def _in_store(store: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Work in that folder, and upload in this process instead of beside it."""
    monkeypatch.chdir(store)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{store / 'mlflow.db'}")
    monkeypatch.setattr(run_module, "_ensure_upload", lambda: None)
    monkeypatch.setattr(run_module, "MAX_WAIT_S", 0.0)
    yield
    leftover = here().boxes()
    for box in leftover:
        box.remove()
    assert not leftover, "a test left records behind"


def start(
    name: str,
    *,
    stage: str = "train",
    options: TrackingOptions = ON,
    data: Any = None,
    stops: Any = (),
    note: str = "",
    tags: Any = None,
    **of: str,
) -> Run:
    run = RunOf(stage=stage, name=name, **of)
    return Run.start(options, run, data=data, stops=stops, note=note, tags=tags)


def here() -> Spool:
    return Spool(SPOOL, store_name())


def upload(**options: Any) -> bool:
    return upload_until_done(here(), **options)


def read(run: Run) -> Any:
    """Deliver what was logged and return the run as MLflow has it."""
    assert upload()
    return find(run.key)


def find(key: str) -> Any:
    client = mlflow.MlflowClient()
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    (run,) = client.search_runs(experiments, f"tags.`{KEY}` = '{key}'")
    return client.get_run(run.info.run_id)


def problem() -> str:
    """What the store that we upload to does not take."""
    return here().status().problem


def parent(key: str) -> Any:
    """The run below which a run is listed."""
    return mlflow.MlflowClient().get_run(find(key).data.tags["mlflow.parentRunId"])


def kill(run: Run) -> None:
    """Leave a run as its process leaves it by being killed."""
    assert isinstance(run, run_module._TrackedRun)
    run._journal.close()


def points(key: str, metric: str) -> list[tuple[int, float]]:
    """Steps and values of a metric, in the order of their logging."""
    history = mlflow.MlflowClient().get_metric_history(find(key).info.run_id, metric)
    return [(point.step, point.value) for point in history]


def test_a_run_goes_to_mlflow_and_keeps_what_it_is_given(store: Path, tmp_path: Path) -> None:
    file, folder = tmp_path / "metrics.json", tmp_path / "figures"
    file.write_text("{}")
    folder.mkdir()
    (folder / "curves.svg").write_text("<svg/>")

    with start("d16", data={"tokens": "ab12" * 16}, note="why", tags={"x": "y"}) as run:
        run.log_params({"model": {"d_model": 16, "norm": "pre"}, "seed": 1})
        run.log_metrics({"dev": {"loss": 3.5, "note": "text"}}, step=1)
        run.log_metrics({"dev": {"loss": 2.5}}, step=2)
        run.log_artifact(file)
        run.log_artifact(folder, folder="report")
        file.write_text("changed since")

    stored_run = read(run)
    assert (stored_run.info.run_name, stored_run.info.status) == ("train d16", "FINISHED")
    assert stored_run.data.params == {"model.d_model": "16", "model.norm": "pre", "seed": "1"}
    assert points(run.key, "dev/loss") == [(1, 3.5), (2, 2.5)]
    tags = stored_run.data.tags
    assert (tags["stage"], tags["x"]) == ("train", "y")
    assert tags["data.tokens"] == "ab12" * 16
    assert tags["mlflow.note.content"] == "why"
    assert {"git_commit", "git_dirty", "host", "device"} <= tags.keys()
    (dataset,) = stored_run.inputs.dataset_inputs
    assert (dataset.dataset.name, dataset.dataset.digest) == ("tokens", ("ab12" * 16)[:36])
    artifacts = (
        store / "mlruns" / stored_run.info.experiment_id / stored_run.info.run_id / "artifacts"
    )
    assert (artifacts / "metrics.json").read_text() == "{}"
    assert (artifacts / "report" / "curves.svg").is_file()


def test_a_run_is_named_by_what_was_changed_and_two_trainings_never_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "model: {d_model: 128}\ntrain: {epochs: 100, rest_s: 1}\naugment: {rest_s: 1}\n"
    Path("params.yaml").write_text(text)
    changed = run_module.changed_params.__wrapped__  # a process asks once
    assert changed(tmp_path) == ()
    call("git", "init", "--quiet")
    call("git", "add", "params.yaml")
    call("git", "commit", "--quiet", "-m", "start")
    assert changed(tmp_path) == ()
    for old, new in (("128", "64"), ("100", "20"), ("rest_s: 1}\na", "rest_s: 0.5}\na")):
        text = text.replace(old, new)
    Path("params.yaml").write_text(f"{text}tracking: {{experiment: other}}\n")
    assert changed(tmp_path) == ("d_model 64", "epochs 20", "train.rest_s 0.5")
    name = name_run("d_model 64, epochs 20, transformer 2+2")
    assert name == "d_model 64, epochs 20, train.rest_s 0.5, transformer 2+2"
    with start("x", stage="tune") as run:
        pass
    assert run_module._describe_repro()["name"] == (
        f"d_model 64, epochs 20, train.rest_s 0.5, dvc repro of {git_state()['git_commit'][:7]}"
    )
    assert read(run).data.tags["changed"] == "d_model 64, epochs 20, train.rest_s 0.5"
    short, long = (describe(tiny.run_options(epochs=epochs)) for epochs in (20, 30))
    assert short != long


def test_a_checkpoint_that_a_run_has_logged_is_a_model_of_mlflow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint, clip = tiny.write_checkpoint(tmp_path / "checkpoint"), tiny.sequence(1)
    with start("m") as run:
        run.log_artifact(checkpoint, folder="checkpoint")
    address = f"runs:/{read(run).info.run_id}/checkpoint"
    expected = signloom.load(checkpoint).translate(clip).text
    served = mlflow.pyfunc.load_model(address)
    assert served.predict([clip])[0]["text"] == expected
    assert len(served.predict([clip], params={"n_best": 3})[0]["alternatives"]) == 2
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    assert signloom.load(address).translate(clip).text == expected
    assert [*(tmp_path / "temporary").iterdir()] == []
    with pytest.raises(UserError, match=r"models:/none/1: .*none not found"):
        signloom.load("models:/none/1")


def test_work_that_goes_on_later_took_the_time_of_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that is opened again: MLflow shows the end less the start."""
    now_ms = run_module._now_ms
    for hours in (0, 1, 3):
        monkeypatch.setattr(run_module, "_now_ms", lambda h=hours: now_ms() + h * 3_600_000)
        with start("search", stage="tune", key="opened again"):
            pass
        assert upload()
        info = find("opened again").info
        assert 0 <= info.end_time - info.start_time < 600_000


@pytest.mark.parametrize(
    ("error", "status", "tag"),
    [
        (ZeroDivisionError("oh"), "FAILED", "error"),
        (KeyboardInterrupt(), "KILLED", "error"),
        (StopAsyncIteration("pruned at 3"), "FINISHED", "stopped_by"),
    ],
)
def test_the_exception_decides_how_a_run_ends(error: BaseException, status: str, tag: str) -> None:
    run = start("trial 0", stage="tune", stops=(StopAsyncIteration,))
    with pytest.raises(type(error)), run:
        raise error
    stored_run = read(run)
    assert stored_run.info.status == status
    assert stored_run.data.tags[tag].startswith(type(error).__name__)


def test_the_stages_of_a_repro_are_grouped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DVC_EXP_NAME", "calm-weft")
    monkeypatch.setattr(run_module, "running_dvc", psutil.Process)
    with start("holistic", stage="extract") as extract:
        extract.log_metrics({"clips": 3})
    read(extract)
    assert parent(extract.key).info.status == "FINISHED"
    with start("d16") as train:
        with start("seed 1", parent=train.key) as seed:
            pass
        assert Uploader(here()).sync()
        assert parent(extract.key).info.status == "RUNNING"
    evaluate = start("w", stage="evaluate")
    with contextlib.suppress(UserError), evaluate:
        evaluate.log_metrics({"score": {"test": 12.5}, "test": {"bleu4": 12.5}})
        evaluate.set_tags({"headline": "bleu4"})
        raise UserError("no clip of test")
    read(evaluate)
    above = parent(extract.key)
    assert (above.info.run_name, above.info.status) == ("calm-weft", "FAILED")
    assert above.data.metrics == {"score/test": 12.5}
    experiment = mlflow.MlflowClient().get_experiment(above.info.experiment_id)
    view = json.loads(experiment.tags[f"mlflow.sharedViewState.{SCORES_VIEW}"])
    scored = mlflow.MlflowClient().search_runs([experiment.experiment_id], view["searchFilter"])
    assert {run.info.run_name for run in scored} == {"evaluate w", "calm-weft"}
    assert f"/experiments/{experiment.experiment_id}/runs?viewStateShareKey" in scores_address()
    assert (above.data.tags["headline"], above.data.tags["stage"]) == ("bleu4", "dvc repro")
    assert find(seed.key).info.run_name == "seed 1"
    assert parent(seed.key).info.run_id == find(train.key).info.run_id
    assert {parent(run.key).info.run_id for run in (train, evaluate)} == {above.info.run_id}


def test_a_resumed_training_is_listed_below_its_last_repro(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "running_dvc", lambda: psutil.Process(os.getppid()))
    kill(start("d16", key="moves"))
    assert upload()
    first = parent("moves")
    assert first.info.status == find("moves").info.status == "KILLED"
    monkeypatch.setattr(run_module, "running_dvc", psutil.Process)
    with start("d16", key="moves"):
        pass
    assert upload()
    assert parent("moves").info.run_id != first.info.run_id


def test_stages_of_a_night_lie_below_the_night(monkeypatch: pytest.MonkeyPatch) -> None:
    with start("night", stage="retrain", key="the night") as night:
        monkeypatch.setenv("SIGNLOOM_NIGHT", night.key)
        monkeypatch.setattr(run_module, "running_dvc", psutil.Process)
        with start("d16") as train:
            pass
    assert read(night).info.run_id == parent(train.key).info.run_id


@pytest.mark.slow
def test_one_process_uploads_for_all_stages_of_a_repro(store: Path) -> None:
    """It stays until the `dvc repro` ends, and those of later stages leave it to that one.

    Quick twin: test_each_point_is_there_once_when_two_processes_upload_in_turn.
    """
    repro = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    command = [sys.executable, "-m", "signloom.tracking.upload", str(repro.pid)]
    stays = subprocess.Popen(command)
    wait_until(lambda: here().status().pid == stays.pid)
    assert subprocess.run(command, check=False).returncode == 0
    assert (here().status().pid, here().status().until) == (stays.pid, [repro.pid])
    assert stays.poll() is None
    with start("late", stage="report", key="late"):
        pass
    repro.communicate(b"\n")
    assert stays.wait(timeout=300) == 0
    assert here().status().pid == 0
    assert find("late").info.status == "FINISHED"


def test_upload_runs_sends_while_the_process_beside_a_stage_pauses() -> None:
    with start("x", key="paused"):
        pass
    process = psutil.Process()
    with here().lock:
        here().note(pid=process.pid, started_s=process.create_time())
    assert upload()  # which leaves it to the process that uploads
    assert here().boxes()
    main(["upload-runs"])
    assert find("paused").info.status == "FINISHED"


def test_the_next_process_takes_over_from_one_that_was_killed() -> None:
    with start("x", key="taken over"):
        pass
    with here().lock:
        here().note(pid=os.getpid(), started_s=1.0)  # a later process has its number
    assert upload()
    assert find("taken over").info.status == "FINISHED"


def test_a_stage_finds_the_dvc_that_runs_it(tmp_path: Path) -> None:
    ask = (
        "from signloom.provenance import running_dvc as r; found = r(); print(found and found.pid)"
    )
    program = tmp_path / "dvc"
    program.write_text(
        "import os, subprocess, sys\n"
        "print(os.getpid(), flush=True)\n"
        f"subprocess.run(['/bin/sh', '-c', '{sys.executable} -c \"{ask}\"; true'])\n"
    )
    for variable, is_found in (("DVC_STAGE", True), ("OTHER", False)):
        environment = {**os.environ, variable: "train"}
        printed = subprocess.run(
            [sys.executable, str(program), "repro"], env=environment, capture_output=True, text=True
        ).stdout.split()
        assert printed == [printed[0], printed[0] if is_found else "None"]


def test_what_mlflow_refuses_does_not_hold_up_the_rest() -> None:
    with start("contradiction") as run:
        run.log_params({f"p{i:03}": i for i in range(230)} | {"long": "x" * 2000})
        run.log_params({"seed": 1})
        run.log_params({"seed": 2})  # a param never changes
        run.log_metrics({"loss": 1.0})
        run.log_metrics({"no\nname": 1.0})
        run.log_metrics({"later": 1.0})
    stored_run = read(run)
    assert stored_run.data.params["seed"] == "1"
    assert len(stored_run.data.params) == 232  # more than one call takes
    assert len(stored_run.data.params["long"]) == MAX_VALUE_CHARS
    assert (stored_run.data.metrics["loss"], stored_run.data.metrics["later"]) == (1.0, 1.0)
    assert stored_run.info.status == "FINISHED"


def test_a_dying_upload_loses_and_doubles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with start("unlucky", key="unlucky") as run:
        for step in range(3):
            run.log_metrics({"loss": float(step)}, step=step)
        run.log_params({"seed": 1})

    class PowerCutError(BaseException):
        pass

    # After each thing that was sent, before it could be noted.
    for method in ("open_run", "send", "send", "send"):
        with monkeypatch.context() as patch:
            original = getattr(RunStore, method)

            def cut(self: RunStore, *values: Any, original: Any = original) -> None:
                original(self, *values)
                raise PowerCutError

            patch.setattr(RunStore, method, cut)
            with pytest.raises(PowerCutError):
                upload()
        here().note(pid=0)  # the process is gone
    stored_run = read(run)  # which finds it once
    assert points("unlucky", "loss") == [(0, 0.0), (1, 1.0), (2, 2.0)]
    assert stored_run.info.status == "FINISHED"


def test_a_run_whose_process_is_killed_says_so(store: Path) -> None:
    code = (
        "import os, signal, signloom.tracking.run as r\n"
        "r._ensure_upload = lambda: None\n"
        "on = r.TrackingOptions(enabled=True, experiment='drawn signers')\n"
        "run = r.Run.start(on, r.RunOf(stage='train', name='k', key='killed'))\n"
        "run.log_metrics({'loss': 1.0}, step=1)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    (box,) = here().boxes()
    with (box.folder / "journal.jsonl").open("a") as file:
        file.write('{"kind": "metr')  # a record that was torn
    assert upload()
    stored_run = find("killed")
    assert stored_run.info.status == "KILLED"
    assert stored_run.data.tags["error"] == "its process died"
    assert stored_run.data.metrics["loss"] == 1.0


def test_records_that_version_0_2_left_are_uploaded() -> None:
    """As it wrote them for a stage of a `dvc repro`; both processes were killed."""
    tags = {
        "stage": "train",
        "git_commit": "unknown",
        "git_dirty": "unknown",
        "mlflow.source.type": "LOCAL",
        "mlflow.source.git.commit": "unknown",
        "host": "vm",
        "device": "cpu, 2 cores",
        "mlflow.source.name": "pipeline.train",
    }
    common = {
        "store": store_name(),
        "experiment": "drawn signers",
        "tags": tags,
        "time_ms": 1795527600949,
    }
    above: list[dict[str, Any]] = [
        {"kind": "start", "name": "dvc repro", "key": "repro-1-2-vm", "parent": None, **common},
        {"kind": "params", "values": {"lr": "1"}},
    ]
    records: list[dict[str, Any]] = [
        {"kind": "start", "name": "train k", "key": "0.2", "parent": "repro-1-2-vm", **common},
        {"kind": "inputs", "values": {"manifest": "abc"}},
        {"kind": "params", "values": {"lr": "1", "d": "x"}},
        {"kind": "metrics", "values": {"loss": 1.0}, "step": 1, "time_ms": 1795527600956},
        {"kind": "artifact", "copy": "files/0001", "folder": None},
    ]
    for name, journal in (
        ("1795527600946946628-76d4cc11", above),
        ("1795527600946946629-7", records),
    ):
        folder = SPOOL / name
        (folder / "files/0001").mkdir(parents=True)
        (folder / "files/0001/x.txt").write_text("hi")
        (folder / "owner").touch()
        (folder / "journal.jsonl").write_text(
            "".join(json.dumps(event) + "\n" for event in journal)
        )
    assert upload()
    stored_run = find("0.2")
    assert (stored_run.info.status, stored_run.data.metrics["loss"]) == ("KILLED", 1.0)
    assert stored_run.data.params == {"lr": "1", "d": "x"}
    assert parent("0.2").data.params == {"lr": "1"}
    assert [
        artifact.path for artifact in mlflow.MlflowClient().list_artifacts(stored_run.info.run_id)
    ] == ["x.txt"]


@pytest.mark.parametrize("time_ns", [time.time_ns, lambda: 1], ids=["", "the clock was set back"])
def test_a_killed_run_can_be_finished(time_ns: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was uploaded in between. Slow twin: tests/system/test_tracking_server.py."""
    key = f"resumed {time_ns() == 1}"
    kill(start("first", key=key))
    monkeypatch.setattr("time.time_ns", time_ns)
    kill(start("second", key=key))
    with start("third", key=key) as run:
        pass
    stored_run = read(run)
    assert (stored_run.info.run_name, stored_run.info.status) == ("train third", "FINISHED")
    assert "error" not in stored_run.data.tags


@pytest.mark.parametrize("is_uploaded", [True, False], ids=["a server is there", "it was down"])
def test_each_point_is_there_once_after_a_kill(is_uploaded: bool) -> None:
    key = f"doubled {is_uploaded}"
    run = start("first", key=key)
    for step in (1, 2, 3):
        run.log_metrics({"loss": 1 / step}, step=step)
    kill(run)
    if is_uploaded:
        assert upload()
        assert find(key).info.status == "KILLED"
    with start("second", key=key) as run:
        for step in (3, 4):  # the last snapshot was that of epoch 2
            run.log_metrics({"loss": 1 / step}, step=step)
    assert upload()
    assert points(key, "loss") == [(step, 1 / step) for step in (1, 2, 3, 4)]


def test_what_one_run_lacks_holds_up_no_other() -> None:
    with start("child", stage="tune", parent="nobody", key="orphan"):
        pass
    with start("other", key="other") as run:
        pass
    assert not upload(patience_s=0.0)
    assert find(run.key).info.status == "FINISHED"
    assert "the run above 'child' was deleted in MLflow" in problem()
    here().boxes()[0].remove()


def test_upload_runs_fails_and_names_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with start("here", key="left"):
        pass
    name = store_name()
    for uri in (f"sqlite:///{tmp_path / 'other.db'}", ""):
        with monkeypatch.context() as patch:
            patch.setenv("MLFLOW_TRACKING_URI", uri)
            with pytest.raises(SystemExit) as caught:
                main(["upload-runs"])
            assert upload()  # nothing waits for this store
        assert f"train here: made for {name} and not for {uri or 'mlflow.db'}" in str(caught.value)
        assert "set MLFLOW_TRACKING_URI" in str(caught.value)
        assert "uploaded" not in capsys.readouterr().out
        assert len(here().boxes()) == 1
    assert not (tmp_path / "other.db").exists()
    main(["upload-runs"])
    assert capsys.readouterr().out == f"uploading to {name}\ntrain here: uploaded\n"
    assert find("left").info.status == "FINISHED"
    main(["upload-runs"])
    assert capsys.readouterr().out == "nothing was waiting\n"


def test_upload_runs_asks_a_silent_server_once_and_says_how_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It takes the connection and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
        with start("x"):
            pass
        expect_error(f"train x: not taken by {uri}: .*timed out", ["upload-runs"])
        silent.setblocking(False)
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):  # it was asked once
            silent.accept()
    assert capsys.readouterr().out == f"uploading to {uri}, which has 1 s for each answer\n"
    here().boxes()[0].remove()


def test_upload_runs_waits_for_another_process_that_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signloom.tracking.upload.HOLDER_S", 0.0)
    with start("x") as run:
        pass
    with here().lock, pytest.raises(SystemExit, match="another process still sends there"):
        main(["upload-runs"])
    read(run)


def test_each_point_is_there_once_when_two_processes_upload_in_turn() -> None:
    key, uploader = "in turn", Uploader(here())
    first = start("first", key=key)
    first.log_metrics({"loss": 1.0}, step=1)
    assert uploader.sync()
    first.log_metrics({"loss": 0.5}, step=2)
    assert Uploader(here()).sync()  # as another process does
    kill(first)
    with start("second", key=key) as run:
        run.log_metrics({"loss": 0.5}, step=2)
    assert uploader.sync()
    assert points(key, "loss") == [(1, 1.0), (2, 0.5)]


def test_upload_runs_does_not_wait_for_a_stage_that_still_writes() -> None:
    run = start("x", key="writing")
    run.log_metrics({"loss": 1.0}, step=1)
    expect_error("train x: still written by a stage", ["upload-runs"])
    assert (find("writing").info.status, points("writing", "loss")) == ("RUNNING", [(1, 1.0)])
    with run:
        pass
    assert read(run).info.status == "FINISHED"


def test_a_question_makes_no_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for uri in ("", f"sqlite:///{tmp_path / 'runs.db'}", "sqlite:///runs.db"):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        main(["upload-runs"])
    assert not list(tmp_path.iterdir())


def test_the_log_of_a_stage_is_an_artifact_of_its_run(store: Path, tmp_path: Path) -> None:
    log, root = StageLog(tmp_path / "train.log", "this test"), logging.getLogger()
    root.addHandler(log)
    try:
        with start("x", key="above") as run:
            run.log_params({"lr": 0.001, "model": {"d_model": 16, "norm": "pre"}})
            logging.getLogger("a stage").warning("24 clips have no room")
            with start("y", parent="above") as below:
                below.log_params({"lr": 0.001})
                below.log_metrics({"epoch": 2, "dev_loss": 1.5, "speed": {"epoch_s": 3}}, step=2)
            run.log_metrics({"scores": {"test": {"bleu4": 93.29542}}})
    finally:
        root.removeHandler(log)
    stored_run, child = read(run), find(below.key)
    folder = store / "mlruns" / stored_run.info.experiment_id
    text = (folder / stored_run.info.run_id / "artifacts/train.log").read_text()
    assert "WARNING 24 clips have no room\n" in text
    for line in (
        "INFO model: d_model 16, norm pre\n",
        "INFO y: epoch 2, dev_loss 1.5, epoch_s 3\n",
        "INFO scores: test/bleu4 93.2954\n",
        "INFO train x: finished after",
    ):
        assert line in text
    assert not (folder / child.info.run_id / "artifacts").exists()


def test_a_spool_that_cannot_be_written_fails_no_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data").write_text("no folder")
    with start("x") as run:
        run.log_metrics({"loss": 1.0})
    assert "the run is not logged: " in caplog.text
    Path("data").unlink()

    with start("x") as run:
        run.log_artifact(tmp_path / "missing")
        run.log_metrics({"loss": 1.0})
    assert "missing is not logged: " in caplog.text
    (box,) = here().boxes()
    assert [record["kind"] for _, record in box.pending()][-1] == "end"
    box.remove()


def test_a_record_torn_by_a_full_disk_is_all_that_is_lost() -> None:
    def log() -> None:
        with start("x", key="torn") as run:
            run.log_metrics({"loss": 1.0}, step=1)
            (box,) = here().boxes()
            size = (box.folder / "journal.jsonl").stat().st_size
            limits = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, limits[1]))
            run.log_metrics({"loss": 2.0}, step=2)
            run.log_metrics({"loss": 3.0}, step=3)
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            run.log_metrics({"loss": 4.0}, step=4)

    assert wait(fork(log)) == 0
    assert upload()
    assert points("torn", "loss") == [(1, 1.0), (4, 4.0)]
    assert find("torn").info.status == "FINISHED"


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("sqlite:///damaged.db", "not a database"),
        # By SQLite's own mode, as root writes what it likes.
        ("sqlite:///file:whole.db?mode=ro&uri=true", "attempt to write a readonly database"),
    ],
)
def test_a_database_that_takes_nothing_costs_a_warning_and_the_records_stay(
    uri: str,
    reason: str,
    tmp_path: Path,
    mlflow_database: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("damaged.db").write_text("no database " * 100)
    shutil.copy(mlflow_database, "whole.db")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    with start("x") as run:
        run.log_metrics({"loss": 1.0})
    assert not upload(patience_s=0.0)
    run_module._wait(here().boxes()[0].folder, 0.0, run.key)  # as at the end of a stage
    assert "did not take the run yet" in caplog.text
    assert reason in problem()
    expect_error(reason, ["upload-runs"])
    here().boxes()[0].remove()


def test_a_database_that_a_kill_left_half_made_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "mlflow.db"
    with contextlib.closing(sqlite3.connect(path)) as database:
        for table in ("experiments", "runs", "alembic_version", "registered_models"):
            database.execute(f"CREATE TABLE {table} (name TEXT)")
        database.commit()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{path}")
    with start("night") as run:
        run.log_metrics({"loss": 1.0})
    assert read(run).data.metrics["loss"] == 1.0
    assert "half made and holds no run" in caplog.text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mlflow.db", "mlflow.db.half-made"]


@pytest.mark.slow
@pytest.mark.parametrize("delay_s", [0.1, 0.4, 1.0])
def test_a_kill_while_the_database_is_made_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, delay_s: float
) -> None:
    """Quick twin: the test above."""
    program = "from signloom.tracking.mlflow_setup import *; prepare_database()"
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "MLFLOW_TRACKING_URI": "sqlite:///mlflow.db"},
    )
    while not list(tmp_path.glob(".mlflow.db.*/mlflow.db")):
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(delay_s)
    process.kill()
    process.wait()
    # There is none, or on a quick machine a whole one: what is half made has another name.
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    prepare_database()
    assert [*tmp_path.rglob("mlflow.db*")] == [tmp_path / "mlflow.db"]
    with contextlib.closing(sqlite3.connect(tmp_path / "mlflow.db")) as database:
        assert database.execute("SELECT count(*) FROM registered_models").fetchone() == (0,)


def test_a_deleted_experiment_is_named_with_what_to_do() -> None:
    options = TrackingOptions(enabled=True, experiment="gone")
    with start("x", options=options) as run:
        pass
    experiment = read(run).info.experiment_id
    mlflow.MlflowClient().delete_experiment(experiment)
    with start("x", options=options) as run:
        pass
    assert not upload(patience_s=0.0)
    assert "'gone' was deleted: restore it" in problem()
    mlflow.MlflowClient().restore_experiment(experiment)
    assert read(run).info.status == "FINISHED"


def test_tracking_off_does_nothing(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from signloom.tracking.run import Run, RunOf, TrackingOptions\n"
        "off = TrackingOptions(enabled=False, experiment='x')\n"
        "with Run.start(off, RunOf(stage='train', name='a')) as run:\n"
        "    run.log_params({'a': 1}); run.log_metrics({'a': 1}); run.set_tags({'a': 'b'})\n"
        "    run.log_artifact(Path('missing'))\n"
        "assert 'mlflow' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
    assert not any(tmp_path.iterdir())


@pytest.mark.slow
def test_a_stage_never_imports_mlflow_and_its_upload_ends_in_silence(tmp_path: Path) -> None:
    """Quick twin: test_a_run_goes_to_mlflow_and_keeps_what_it_is_given."""
    code = (
        "import sys\n"
        "from signloom.tracking import run\n"
        "run.MAX_WAIT_S = 120.0\n"
        "on = run.TrackingOptions(enabled=True, experiment='x')\n"
        "with run.Run.start(on, run.RunOf(stage='train', name='a')) as found: pass\n"
        "assert 'mlflow' not in sys.modules\n"
        "assert run._uploaders[-1].wait(timeout=120) == 0\n"
        "from signloom.tracking.run_store import RunStore\n"
        "RunStore()\n"
        "from mlflow.telemetry.utils import is_telemetry_disabled\n"
        "assert is_telemetry_disabled()\n"
    )
    bare = {
        key: value
        for key, value in os.environ.items()
        if key not in ("MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK", "CI")
    }
    process = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=bare, capture_output=True, text=True
    )
    assert (process.returncode, process.stderr) == (0, ""), process.stderr
    names = {path.name.rpartition(".")[2] for path in (tmp_path / SPOOL).iterdir()}
    assert names <= {"log", "lock", "json"}
    assert (tmp_path / SPOOL / "upload.log").read_text() == ""


def test_a_run_in_a_copy_of_the_project_is_kept_in_the_project(
    tmp_path: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As DVC starts the stages of a queued experiment; see tests/system/test_dvc_experiments.py.
    monkeypatch.setenv("DVC_ROOT", str(store))
    monkeypatch.setenv("DVC_EXP_BASELINE_REV", "0123456789")
    monkeypatch.setenv("DVC_EXP_NAME", "brave-loom")
    monkeypatch.chdir(tmp_path)
    with start("a") as run:
        pass
    assert not list(tmp_path.iterdir())
    monkeypatch.chdir(store)
    tags = read(run).data.tags
    assert (tags["dvc_experiment"], tags["dvc_baseline"]) == ("brave-loom", "0123456789")
    monkeypatch.delenv("DVC_EXP_BASELINE_REV")  # within a `dvc repro`, perhaps elsewhere
    assert project_folder() == Path()


def test_passwords_of_a_store_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    message = hide_password("cannot reach postgresql://me:se-cret@db:5432/runs or sqlite:///a.db")
    assert message == "cannot reach postgresql://me:***@db:5432/runs or sqlite:///a.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://me:se-cret@nowhere.invalid")
    with start("x"):
        pass
    (box,) = here().boxes()
    (_, first), *_ = box.pending()
    assert "se-cret" not in json.dumps(first)
    box.remove()


@pytest.mark.parametrize(("said", "name"), [("", "weather"), ("mine", "mine")])
def test_experiments_are_named_after_the_corpus(said: str, name: str, tmp_path: Path) -> None:
    params = tmp_path / "params.yaml"
    corpus = {"folder": "data/raw/weather", "manifest": "manifest.tsv", "signer_disjoint": True}
    tracking = {"enabled": True, "experiment": said}
    params.write_text(json.dumps({"corpus": corpus, "tracking": tracking}))
    assert read_tracking(params).experiment == name
