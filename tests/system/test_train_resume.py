"""The stage `train` is killed, stopped and starved for real; its output is as if nothing was."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from signloom.training.parallel import count_cores
from tests import tiny
from tests.processes import wait_until

TRAIN = [sys.executable, "-m", "pipeline.train"]
TORCHRUN = [
    sys.executable,
    "-m",
    "torch.distributed.run",
    "--standalone",
    "--nproc-per-node=2",
    "-m",
    "pipeline.train",
]
# On one core the seeds are trained one after another.
ALONE = """
import os, runpy
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
runpy.run_module("pipeline.train", run_name="__main__", alter_sys=True)
"""
EPOCHS = 40

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny project, trained without disturbance; a snapshot is due at every step."""
    folder = tmp_path_factory.mktemp("train")
    tiny.write_project(folder)
    shutil.copytree(tiny.ROOT / "pipeline", folder / "pipeline")
    change(folder, epochs=EPOCHS, patience=EPOCHS, max_frames=40, snapshot_s=0.0)
    with start(folder) as process:
        assert process.wait() == 0, errors(folder)
    assert [path.name for path in (folder / "data/.training").iterdir()] == ["lock"]
    (folder / "data/checkpoint").rename(folder / "expected")
    return folder


@pytest.fixture
def project(template: Path, tmp_path: Path) -> Path:
    """A copy of that project in which nothing was trained."""
    return Path(shutil.copytree(template, tmp_path / "project"))


def change(folder: Path, **options: object) -> None:
    path = folder / "params.yaml"  # JSON is YAML
    params = json.loads(path.read_text())
    params["model"] |= {"dropout": 0.1, "layer_drop": 0.1}
    params["train"] |= options
    path.write_text(json.dumps(params))


def start(folder: Path, command: list[str] = TRAIN) -> "subprocess.Popen[bytes]":
    with (folder / "errors.txt").open("w") as log:
        return subprocess.Popen(
            command,
            cwd=folder,
            stderr=log,
            stdout=log,
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )


def errors(folder: Path) -> str:
    return (folder / "errors.txt").read_text(encoding="utf-8")


def snapshots(folder: Path) -> list[str]:
    """Names of the snapshots, which tell epoch and step, oldest first."""
    return sorted(path.name for path in folder.glob("data/.training/*/[0-9]*.safetensors"))


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def interrupt(folder: Path, how: signal.Signals, *, steps: int) -> int:
    """Start the stage, let it take some steps, send a signal; return its exit code."""
    with start(folder) as process:
        for _ in range(steps):
            before = snapshots(folder)
            wait_until(lambda: snapshots(folder) != before or process.poll() is not None)  # noqa: B023
        process.send_signal(how)
        return process.wait()


def finish(folder: Path) -> None:
    with start(folder) as process:
        assert process.wait() == 0, errors(folder)
    assert contents(folder / "data/checkpoint") == contents(folder / "expected")


def test_kills_at_random_steps_change_no_byte(project: Path) -> None:
    dice, kills = random.Random(1), 0
    while kills < 6:
        kills += interrupt(project, signal.SIGKILL, steps=dice.randrange(1, 20)) == -signal.SIGKILL
    assert snapshots(project)
    finish(project)
    assert "training goes on at epoch" in errors(project)


def test_ctrl_c_ends_in_words_and_training_goes_on(project: Path) -> None:
    assert interrupt(project, signal.SIGINT, steps=5) == 1
    assert "Traceback" not in errors(project)
    assert "stopped" in errors(project)
    finish(project)


def test_full_disks_stop_no_training(project: Path, small_disk: Callable[[str, int], None]) -> None:
    small_disk("data/.training", 900)  # the first snapshots are small enough
    finish(project)
    assert "No space left on device" in errors(project)
    assert "training goes on and tries again later" in errors(project)
    assert interrupt(project, signal.SIGKILL, steps=1) == -signal.SIGKILL
    finish(project)


def test_a_full_disk_at_the_end_is_said_and_nothing_is_trained_twice(
    project: Path, small_disk: Callable[[str, int], None]
) -> None:
    (project / "data").rename(project / "inputs")
    small_disk("data", 100)
    for name in ("landmarks", "tokens"):
        shutil.copytree(project / "inputs" / name, project / "data" / name)
    (project / "kept").mkdir()
    (project / "data/.training").symlink_to(project / "kept")
    with start(project) as process:
        assert process.wait() == 1
    assert "the trained model could not be written to data/checkpoint" in errors(project)
    assert "Traceback" not in errors(project)
    assert snapshots(project)[-1].startswith(f"{EPOCHS + 1:06}-")
    subprocess.run(["mount", "-o", "remount,size=10m", str(project / "data")], check=True)
    finish(project)
    assert f"epoch {EPOCHS}" not in errors(project)


def test_torchrun_trains_on_two_processes_and_one_goes_on(project: Path, tmp_path: Path) -> None:
    """One process takes the same two parts of each batch in turn."""
    alone = Path(shutil.copytree(project, tmp_path / "alone"))
    change(alone, accumulate=2)
    with start(alone) as process:
        assert process.wait() == 0, errors(alone)
    with start(project, TORCHRUN) as process:
        wait_until(lambda: len(snapshots(project)) == 2 or process.poll() is not None)
        wait_until(lambda: snapshots(project)[-1] > "000005" or process.poll() is not None)
        process.terminate()  # it stops its workers, which are in groups of their own
    assert snapshots(project), errors(project)
    change(project, accumulate=2)
    with start(project) as process:
        assert process.wait() == 0, errors(project)
    assert "training goes on at epoch" in errors(project)
    metrics, expected = (
        json.loads((folder / "data/checkpoint/history.json").read_text())["epochs"][-1]
        for folder in (project, alone)
    )
    # Sums of gradients in another order, drifting apart over 160 steps.
    assert metrics["dev_loss"] == pytest.approx(expected["dev_loss"], rel=0.01)


def test_dvc_repro_goes_on_with_an_interrupted_stage(project: Path) -> None:
    command = f"{sys.executable} -m pipeline.train"
    stage = {
        "cmd": command,
        "deps": ["data/tokens"],
        "params": ["train"],
        "outs": ["data/checkpoint"],
    }
    (project / "dvc.yaml").write_text(json.dumps({"stages": {"train": stage}}))
    dvc = [sys.executable, "-m", "dvc"]
    subprocess.run([*dvc, "init", "--no-scm", "-q"], cwd=project, check=True)
    with start(project, [*dvc, "repro"]) as process:
        wait_until(lambda: len(snapshots(project)) == 2 or process.poll() is not None)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait() != 0
    assert snapshots(project), errors(project)
    assert not (project / "data/checkpoint").exists()
    with start(project, [*dvc, "repro"]) as process:
        assert process.wait() == 0, errors(project)
    assert "training goes on at epoch" in errors(project)
    assert contents(project / "data/checkpoint") == contents(project / "expected")


def test_seeds_at_a_time_give_the_bytes_of_one_by_one(project: Path, tmp_path: Path) -> None:
    """Quick twin: test_as_many_seeds_at_a_time_as_there_are_cores."""
    if count_cores() < 2:
        pytest.skip("one core trains one seed at a time")
    change(project, seeds=[3, 5], epochs=3, snapshot_s=60.0)
    alone = Path(shutil.copytree(project, tmp_path / "alone"))
    with start(alone, [sys.executable, "-c", ALONE]) as process:
        assert process.wait() == 0, errors(alone)
    most = 0
    with start(project) as process:
        stage = psutil.Process(process.pid)
        while process.poll() is None:
            most = max(most, len(seeds_of(stage)))
            time.sleep(0.05)
    assert process.returncode == 0, errors(project)
    assert most == 2
    assert contents(project / "data/checkpoint") == contents(alone / "data/checkpoint")
    assert {"seeds/5/model.safetensors"} <= contents(alone / "data/checkpoint").keys()


def seeds_of(process: psutil.Process) -> list[psutil.Process]:
    """Return the processes that each train a seed for a stage."""
    try:
        return [c for c in process.children() if "pipeline.train" in c.cmdline()]
    except psutil.NoSuchProcess:
        return []
