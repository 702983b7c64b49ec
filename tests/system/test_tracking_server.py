"""Real MLflow stores that go away while a stage is killed, and what they have in the end."""

import json
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from signloom.paths import SPOOL
from tests import tiny
from tests.processes import wait_until
from tests.system.mlflow_server import MlflowServer

EPOCHS = 40
STAGE = f"""
import json, time
from signloom.tracking.run import Run, RunOf, TrackingOptions
options = TrackingOptions(enabled=True, experiment="outage")
longest = 0.0
child = RunOf(stage="tune", name="trial", key="child", parent="parent")
with Run.start(options, RunOf(stage="tune", name="parent", key="parent")):
    with Run.start(options, child) as run:
        for epoch in range({EPOCHS}):
            start = time.monotonic()
            run.log_metrics({{"loss": 1 / (1 + epoch)}}, step=epoch)
            longest = max(longest, time.monotonic() - start)
            print(epoch, flush=True)
            time.sleep(0.25)
        run.log_params({{"seed": 1}})
print(json.dumps(longest), flush=True)
"""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # what MLflow's own code deprecates
def test_a_server_that_dies_and_comes_back_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    server = MlflowServer(tmp_path)
    server.start()
    uri = f"http://127.0.0.1:{server.port}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    stage = subprocess.Popen([sys.executable, "-c", STAGE], stdout=subprocess.PIPE, text=True)
    assert stage.stdout
    lines: list[str] = []
    for line in stage.stdout:
        lines.append(line)
        if line.strip() == "12":
            server.kill()
        if line.strip() == "24":
            server.start()  # the stage goes on meanwhile
        if line.strip() == "30":
            server.kill()
    assert stage.wait() == 0
    stage.stdout.close()
    assert len(lines) == EPOCHS + 1
    assert json.loads(lines[-1]) < 2.0, "a record waited for the server"
    assert any(path.is_dir() for path in (tmp_path / SPOOL).iterdir()), "nothing was left to send"

    server.start()
    code = "from signloom_tools.cli.main import main; main(['upload-runs'])"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=240)
    runs = read_runs(uri)
    server.kill()
    assert sorted(runs) == ["trial", "tune parent"]
    trial, history = runs["trial"]
    assert [(point.step, point.value) for point in history] == [
        (epoch, 1 / (1 + epoch)) for epoch in range(EPOCHS)
    ]
    assert (trial.info.status, trial.data.params) == ("FINISHED", {"seed": "1"})
    assert trial.data.tags["mlflow.parentRunId"] == runs["tune parent"][0].info.run_id


def read_runs(uri: str) -> dict[str, tuple[Any, list[Any]]]:
    import mlflow

    client = mlflow.MlflowClient(uri)
    experiment = client.get_experiment_by_name("outage")
    runs = client.search_runs([experiment.experiment_id])
    assert len(runs) == 2, "a run is there twice"
    return {
        run.info.run_name: (
            run,
            sorted(client.get_metric_history(run.info.run_id, "loss"), key=lambda p: p.step),
        )
        for run in runs
    }


TRAIN = [sys.executable, "-m", "pipeline.train"]
UPLOAD = [sys.executable, "-c", "from signloom_tools.cli.main import main; main(['upload-runs'])"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny project that logs its runs, with a snapshot every few steps."""
    folder = tmp_path / "project"
    folder.mkdir()
    tiny.write_project(folder)
    shutil.copytree(tiny.ROOT / "pipeline", folder / "pipeline")
    path = folder / "params.yaml"  # JSON is YAML
    params = json.loads(path.read_text())
    params["train"] |= {"epochs": EPOCHS, "patience": EPOCHS, "max_frames": 40, "snapshot_s": 0.0}
    params["tracking"] = {"enabled": True, "experiment": "outage"}
    path.write_text(json.dumps(params))
    monkeypatch.chdir(folder)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return folder


def call(command: list[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def kill_training(project: Path, snapshots: int) -> None:
    """Start the stage, and kill it when it has written some more snapshots."""
    process = subprocess.Popen(TRAIN, stderr=subprocess.DEVNULL)
    for _ in range(snapshots):
        before = {*project.glob("data/.training/*/[0-9]*.safetensors")}
        wait_until(lambda: {*project.glob("data/.training/*/[0-9]*.safetensors")} != before)  # noqa: B023
    process.kill()
    assert process.wait() == -signal.SIGKILL


def check_finished(uri: str) -> None:
    """The run of the training is there once, FINISHED, with each point once."""
    import mlflow

    client = mlflow.MlflowClient(uri)
    experiment = client.get_experiment_by_name("outage")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED"
    assert "error" not in run.data.tags
    losses = client.get_metric_history(run.info.run_id, "dev_loss")
    assert sorted(point.step for point in losses) == list(range(1, EPOCHS + 1))
    for key in run.data.metrics:
        steps = Counter(point.step for point in client.get_metric_history(run.info.run_id, key))
        assert set(steps.values()) == {1}, (key, steps)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # what MLflow's own code deprecates
def test_a_finished_run_is_finished_and_each_point_is_there_once(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quick twins: the tests of the same promises in tests/unit/tracking/test_tracking.py."""
    server = MlflowServer(tmp_path)
    server.start()
    uri = f"http://127.0.0.1:{server.port}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    kill_training(project, 3)  # some of it was uploaded
    server.kill()
    kill_training(project, 3)  # nothing of it was
    process = call(TRAIN)
    assert process.returncode == 0, process.stderr
    assert "not take the run yet" in process.stderr or "still on its way" in process.stderr
    refused = call(UPLOAD)
    assert refused.returncode == 1
    assert f"not taken by {uri}: " in refused.stderr
    assert "they are kept in data/.tracking" in refused.stderr
    assert "Traceback" not in refused.stderr

    server.start()
    uploaded = call(UPLOAD)
    assert (uploaded.returncode, uploaded.stderr) == (0, "")
    assert "uploaded" in uploaded.stdout
    check_finished(uri)
    server.kill()
