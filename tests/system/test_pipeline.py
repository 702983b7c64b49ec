"""The project's own dvc.yaml on a handful of drawn clips, as a person runs it."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from pipeline.stage import run as run_stage
from tests.tiny import ROOT


def environment() -> dict[str, str]:
    """Return the environment of a person who has activated the project's own .venv."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path}


def run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, env=environment(), capture_output=True, text=True)


def smoke(folder: Path) -> Path:
    process = run("bash", str(ROOT / "pipeline/smoke/run.sh"), str(folder), cwd=ROOT)
    assert process.returncode == 0, process.stdout[-3000:] + process.stderr[-3000:]
    return folder


def outputs(folder: Path) -> dict[str, str]:
    """Return the content hash of every output that DVC recorded."""
    lock = yaml.safe_load((folder / "dvc.lock").read_text())
    return {out["path"]: out["md5"] for stage in lock["stages"].values() for out in stage["outs"]}


def changed_stages(folder: Path) -> set[str]:
    status = run("dvc", "status", "--json", cwd=folder)
    assert status.returncode == 0, status.stderr
    names = yaml.safe_load(status.stdout)
    # Studies are run on their own, and never were here.
    return {name.split(":")[-1] for name in names if not name.startswith("studies/")}


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


@pytest.mark.slow
@pytest.mark.mediapipe
def test_two_runs_from_empty_caches_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = smoke(tmp_path / "first"), smoke(tmp_path / "second")
    assert outputs(first) == outputs(second)
    assert {"data/landmarks", "data/tokens", "data/checkpoint", "reports/metrics.json"} <= set(
        outputs(first)
    )
    # A change runs again what it concerns and nothing before.
    params = first / "params.yaml"
    original = params.read_text()
    for old, new, expected in (
        ("warmup_steps: 20", "warmup_steps: 21", {"train", "tune"}),
        ("beam_size: 2", "beam_size: 3", {"evaluate"}),
        ("stretch: 0\n", "stretch: 0.1\n", {"train", "tune"}),
        ("trials: 2", "trials: 3", {"tune"}),
        ("max_tokens: 64", "max_tokens: 65", {"tokenize_targets"}),
        ("time_limit_s: 60.0", "time_limit_s: 61.0", {"extract"}),
        ("experiment: smoke", "experiment: other", set()),
    ):
        edit(params, old, new)
        # Stage check reads every section, and writes the same.
        assert changed_stages(first) - {"check"} == expected, new
        params.write_text(original)


@pytest.mark.parametrize(
    ("stage", "old", "new", "message"),
    [
        ("train", "  d_model: 128", "  d_modle: 128", "model.d_modle is not an option; did you"),
        ("train", "  d_model: 128", "  d_model: 126", "d_model: 126 is not divisible by heads (4)"),
        ("extract", "corpus:", "corpus:", "make demo"),  # no corpus
        ("tokenize_targets", "vocabulary: pruned", "vocabulary: prune", "expected 'pruned'"),
        ("check", "  beam_size: 4 ", "  beam_size: 0 ", "evaluate.decoding.beam_size: found 0"),
        ("check", "  trials: 6 ", "  trails: 6 ", "tune.trails is not an option; did you mean"),
    ],
)
def test_a_mistake_ends_in_words_and_not_in_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str, old: str, new: str, message: str
) -> None:
    text = (ROOT / "params.yaml").read_text()
    assert old in text
    (tmp_path / "params.yaml").write_text(text.replace(old, new, 1))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["stage"])  # pytest has options of its own
    with pytest.raises(SystemExit) as stopped:
        run_stage(importlib.import_module(f"pipeline.{stage}").main)
    assert message in str(stopped.value)
