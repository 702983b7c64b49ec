"""Nights as a timer starts them, in a project of drawn clips: real DVC, MediaPipe and training."""

import contextlib
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from signloom.config import parse_options
from signloom.paths import RETRAIN_LOCK
from signloom_demo.draw import DrawOptions, draw_corpus
from signloom_ops.nightly.store import ModelStore
from tests.attack.project import copy_project, hold_back_a_signer
from tests.tiny import ROOT

FOLDER = Path("data/raw/weekly")
NEW = 5  # clips of the delivery


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a founding stock of 20 clips by four signers; a fifth waits in `recorded`."""
    folder = tmp_path_factory.mktemp("project")
    copy_project(folder)
    params = yaml.safe_load((ROOT / "pipeline/smoke/params.yaml").read_text())
    params["corpus"]["folder"] = FOLDER.as_posix()
    params["train"] |= {"epochs": 20, "snapshot_s": 0.0}
    params["tracking"]["enabled"] = False
    (folder / "params.yaml").write_text(yaml.safe_dump(params))
    ops = yaml.safe_load((ROOT / "pipeline/smoke/ops.yaml").read_text())
    ops["ingest"]["min_side"] = 100
    (folder / "ops.yaml").write_text(yaml.safe_dump(ops))
    draw = yaml.safe_load((ROOT / "pipeline/smoke/draw.yaml").read_text())["draw"]
    more = {"out": str(folder / FOLDER), "train_signers": 3, "clips_per_signer": NEW}
    draw_corpus(parse_options({**draw, **more}, DrawOptions, where="draw"))
    hold_back_a_signer(folder / FOLDER, folder / "recorded")
    subprocess.run([sys.executable, "-m", "dvc", "init", "--no-scm", "-q"], cwd=folder, check=True)
    return folder


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from signloom_tools.cli.main import main; main()", *arguments]


def environment(project: Path) -> dict[str, str]:
    variables = {"PYTHONPATH": str(project / "src"), "SIGNLOOM_CACHE": "", "OMP_NUM_THREADS": "1"}
    return {**os.environ, **variables}


def retrain(project: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Run a night; return its exit code and summary."""
    process = subprocess.run(
        command("retrain", "--json", *arguments),
        cwd=project,
        env=environment(project),
        capture_output=True,
        text=True,
    )
    assert process.stdout, process.stderr[-3000:]
    return process.returncode, json.loads(process.stdout)


@contextlib.contextmanager
def started(project: Path) -> Iterator[psutil.Process]:
    """Start a night that is killed at the end, with everything below it, as by a power cut."""
    process = subprocess.Popen(
        command("retrain"),
        cwd=project,
        env=environment(project),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    root = psutil.Process(process.pid)
    try:
        yield root
    finally:
        root.suspend()  # or it could start others meanwhile
        for member in [root, *root.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
        process.wait()


def extracted(project: Path) -> int:
    """Return how many clips the cache of landmarks holds."""
    return sum(path.is_file() for path in (project / "data/cache/landmarks").rglob("*"))


def check_first_night(project: Path) -> None:
    code, night = retrain(project)
    assert code in (0, 4), night["verdict"]
    assert [step["name"] for step in night["steps"] if step["result"] == "failed"] == []
    assert night["version"] == 1
    page = (project / "reports/index.html").read_text(encoding="utf-8")
    assert "No search has been run" in page  # and the report is made all the same
    if code == 4:  # so little is learnt from so little: a person takes it all the same
        process = subprocess.run(
            command("champion", "promote", "1", "--force"), cwd=project, env=environment(project)
        )
        assert process.returncode == 0


def check_empty_night(project: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert retrain(project)[0] == 3
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert used_s < 10.0  # of the 20 that it may take on an idle machine


def check_power_cut(project: Path) -> None:
    """Kill a night in its training; start another meanwhile."""
    pointer = (project / "data/models/champion.json").read_bytes()
    with started(project):
        deadline = time.monotonic() + 900
        while not list(project.glob("data/.training/*/[0-9]*.safetensors")):
            assert time.monotonic() < deadline, "it did not come to train"
            time.sleep(0.05)
        code, second = retrain(project)
        assert (code, second["outcome"]) == (6, "busy")
    assert (project / "data/models/champion.json").read_bytes() == pointer
    assert json.loads((project / "reports/retrain/night.json").read_text())["outcome"] == "running"
    assert (project / RETRAIN_LOCK).read_text()


@pytest.mark.slow
@pytest.mark.mediapipe
def test_nights_with_and_without_news_and_with_a_power_cut(project: Path) -> None:
    params = (project / "params.yaml").read_text()
    check_first_night(project)
    check_empty_night(project)
    before = extracted(project)
    (project / "data/inbox").mkdir()
    (project / "recorded").rename(project / "data/inbox/ruth")
    for path in (project / "data/inbox/ruth").iterdir():
        os.utime(path, (time.time() - 60, time.time() - 60))
    planned = subprocess.run(
        command("retrain", "--dry-run"),
        cwd=project,
        env=environment(project),
        capture_output=True,
        text=True,
    )
    assert f"{NEW} clips would come to the {4 * NEW} of the corpus" in planned.stdout
    check_power_cut(project)
    code, night = retrain(project)
    assert code in (0, 4), night["verdict"]
    assert "left its lock behind" in night["warnings"][0]
    assert "was interrupted in step train" in (project / "reports/retrain/night.log").read_text()
    store = ModelStore(project / "data/models")
    assert store.versions() == [1, 2]
    assert store.champion() == (2 if code == 0 else 1)
    facts = store.facts(2)
    assert (facts["parent"], facts["batches"]) == (1, night["batches"])
    assert len(facts["clips"]["train"]) == 3 * NEW
    start = yaml.safe_load((project / "data/start.yaml").read_text())
    assert start == {"start_from": "data/models/0001/checkpoint"}
    assert (project / "params.yaml").read_text() == params  # a person's, which no night edits
    # The landmarks of the others came from the cache.
    assert extracted(project) == before + NEW
    assert retrain(project)[0] == 3
    assert store.versions() == [1, 2]
