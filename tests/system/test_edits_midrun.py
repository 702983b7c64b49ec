"""Edits while `dvc repro` runs a stage: real DVC, MediaPipe and training on a few drawn clips."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from signloom.config import parse_options
from signloom.corpus.manifest import read_manifest, write_manifest
from signloom.corpus.shards import read_clip_frames
from signloom.files import hash_file
from signloom.paths import PARAMS, SHARDS, removal_note
from signloom_demo.draw import DrawOptions, draw_corpus
from tests.attack.project import DRAW, SIGNLOOM, copy_project, hold_back_a_signer
from tests.tiny import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.mediapipe]

CORPUS, DELIVERED = Path("data/raw/weekly"), Path("data/inbox/ruth")
MANIFEST = CORPUS / "manifest.tsv"
WAIT_S = 300.0


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose corpus was checked and tokenised; clips of a fifth signer wait outside."""
    folder = tmp_path_factory.mktemp("template") / "project"
    copy_project(folder)
    params = yaml.safe_load((ROOT / "pipeline/smoke/params.yaml").read_text())
    params["corpus"]["folder"] = CORPUS.as_posix()
    params["model"] |= {"d_model": 16, "d_ff": 16, "heads": 2}
    params["train"] |= {
        "epochs": 12,
        "patience": 12,
        "seeds": [1],
        "snapshot_s": 0.0,
        "learning_rate": 0.002,
    }
    params["tracking"]["enabled"] = False
    (folder / PARAMS).write_text(yaml.safe_dump(params))
    (folder / "ops.yaml").write_text("{ingest: {min_side: 100, settle_s: 0}, gate: {seeds: 1}}\n")
    draw = {**DRAW, "out": str(folder / CORPUS)}
    draw_corpus(parse_options(draw, DrawOptions, where="draw"))
    (folder / "data/inbox").mkdir()
    hold_back_a_signer(folder / CORPUS, folder / DELIVERED)
    dvc(folder, "init", "--no-scm", "--quiet")
    dvc(folder, "config", "core.analytics", "false")
    dvc(folder, "repro", "tokenize_targets")
    return folder


@pytest.fixture
def project(tmp_path: Path, template: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = Path(shutil.copytree(template, tmp_path / "project"))
    monkeypatch.chdir(folder)
    return folder


def environment(project: Path) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    more = {"PATH": path, "PYTHONPATH": str(project / "src"), "SIGNLOOM_CACHE": ""}
    return {**os.environ, **more, "OMP_NUM_THREADS": "1", "SIGNLOOM_WORKERS": "1"}


def call(project: Path, *command: str, codes: tuple[int, ...] = (0,)) -> str:
    """Run a program; return what it printed."""
    done = subprocess.run(
        command, cwd=project, env=environment(project), capture_output=True, text=True
    )
    output = done.stdout + done.stderr
    assert done.returncode in codes, output[-3000:]
    return output


def dvc(project: Path, *arguments: str, codes: tuple[int, ...] = (0,)) -> str:
    return call(project, sys.executable, "-m", "dvc", *arguments, codes=codes)


@contextlib.contextmanager
def reproducing(stage: str, until: Callable[[], object]) -> Iterator["subprocess.Popen[str]"]:
    """Run a stage alone with DVC; its work has begun when the block does."""
    process = subprocess.Popen(
        [sys.executable, "-m", "dvc", "repro", "--single-item", stage],
        env=environment(Path.cwd()),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        deadline = time.monotonic() + WAIT_S
        while not until():
            assert process.poll() is None, process.communicate()[0][-3000:]
            assert time.monotonic() < deadline, f"{stage} did not begin"
            time.sleep(0.02)
        yield process
    finally:
        if process.poll() is None:
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
            process.kill()
            process.communicate()


def has_snapshot() -> bool:
    return any(Path("data/.training").glob("*/[0-9]*.safetensors"))


def has_landmarks() -> bool:
    return any(Path("data/cache/landmarks").rglob("*.clip"))


def edit_params(learning_rate: float) -> None:
    params = yaml.safe_load(PARAMS.read_text())
    params["train"]["learning_rate"] = learning_rate
    PARAMS.write_text(yaml.safe_dump(params))


def noted(stage: str) -> Any:
    """Return what dvc.lock has of a stage; None: nothing."""
    return yaml.safe_load(Path("dvc.lock").read_text())["stages"].get(stage)


def learning_rates() -> tuple[float, float]:
    """Return what dvc.lock notes, and what the weights were trained with."""
    checkpoint = json.loads(Path("data/checkpoint/checkpoint.json").read_text())
    trained = checkpoint["provenance"]["params"]["train"]["learning_rate"]
    return noted("train")["params"]["params.yaml"]["train"]["learning_rate"], trained


def test_the_learning_rate_of_the_next_experiment_is_not_noted_for_this_one(project: Path) -> None:
    dvc(project, "repro", "--single-item", "extract")
    with reproducing("train", has_snapshot) as process:
        edit_params(0.0001)
        output, _ = process.communicate(timeout=WAIT_S)
    assert process.returncode != 0
    assert "params.yaml: train.learning_rate: 0.002 -> 0.0001" in output
    assert noted("train") is None
    assert not any("pipeline.train" in path.read_text() for path in run_cache())
    weights = hash_file(Path("data/checkpoint/model.safetensors"))
    # With the old value the finished training is taken.
    edit_params(0.002)
    assert has_snapshot()
    dvc(project, "repro", "--single-item", "train")
    assert hash_file(Path("data/checkpoint/model.safetensors")) == weights
    assert learning_rates() == (0.002, 0.002)
    assert not has_snapshot()
    # With the new one the next run trains.
    edit_params(0.0001)
    dvc(project, "repro", "--single-item", "train")
    assert learning_rates() == (0.0001, 0.0001)
    assert hash_file(Path("data/checkpoint/model.safetensors")) != weights
    # A process for one of several seeds that starts after an edit trains nothing.
    refused = call(project, sys.executable, "-m", "pipeline.train", "0", "other-1", codes=(1,))
    assert "was edited since the training of the first seed began" in refused


def run_cache() -> list[Path]:
    return [path for path in Path(".dvc/cache/runs").rglob("*") if path.is_file()]


def test_times_that_are_corrected_during_extraction_are_those_of_the_landmarks(
    project: Path,
) -> None:
    first, *others = read_manifest(MANIFEST)
    with reproducing("extract", has_landmarks) as process:
        write_manifest(MANIFEST, [replace(first, start_s=0.0, end_s=0.3), *others])
        output, _ = process.communicate(timeout=WAIT_S)
    assert process.returncode != 0
    assert "data/raw/weekly: 1 changed (manifest.tsv)" in output
    assert noted("extract") is None
    dvc(project, "repro", "--single-item", "extract")
    frames = read_clip_frames(SHARDS)
    assert frames[first.clip_id] == 3
    assert frames.keys() == {clip.clip_id for clip in [first, *others]}


def test_clips_that_come_in_during_extraction_are_extracted_and_stay_in_the_next_night(
    project: Path,
) -> None:
    founders = {clip.clip_id for clip in read_manifest(MANIFEST)}
    with reproducing("extract", has_landmarks) as process:
        came = call(project, *SIGNLOOM, "ingest", "--signer", "ruth", str(DELIVERED))
        output, _ = process.communicate(timeout=WAIT_S)
    assert "4 clips came in" in came
    assert process.returncode != 0
    assert "data/raw/weekly: 1 changed (manifest.tsv)" in output
    night = call(project, *SIGNLOOM, "retrain", codes=(0, 4))
    clips = {clip.clip_id for clip in read_manifest(MANIFEST)}
    assert len(clips - founders) == 4, night
    assert read_clip_frames(SHARDS).keys() == clips
    assert not Path("data/withdrawn").exists()


def test_a_person_is_not_forgotten_while_a_stage_finds_their_landmarks(project: Path) -> None:
    clips = read_manifest(MANIFEST)
    signer = next(clip.signer for clip in clips if clip.split == "train")
    theirs = {clip.clip_id for clip in clips if clip.signer == signer}
    with reproducing("extract", has_landmarks) as process:
        refused = call(project, *SIGNLOOM, "forget", signer, "--yes", codes=(1,))
        assert f"(process {process.pid}, since " in refused
        assert read_manifest(MANIFEST) == clips
        output, _ = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0, output
    assert read_clip_frames(SHARDS).keys() >= theirs
    call(project, *SIGNLOOM, "forget", signer, "--yes")
    assert not removal_note(CORPUS).exists()
    dvc(project, "repro", "--single-item", "extract")
    assert not read_clip_frames(SHARDS).keys() & theirs
