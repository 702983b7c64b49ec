"""`dvc repro` trains again when the weights to start from are others, and says where they are."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from signloom.files import hash_folder
from tests import tiny

pytestmark = pytest.mark.slow

STAGE = {
    "cmd": f"{sys.executable} -m pipeline.train",
    "deps": ["data/tokens"],
    "params": ["train"],
    "outs": ["data/checkpoint"],
}


def dvc(folder: Path, *arguments: str) -> str:
    result = subprocess.run(
        [sys.executable, "-m", "dvc", *arguments],
        cwd=folder,
        check=False,
        text=True,
        capture_output=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


def start_from(folder: Path, value: str) -> None:
    path = folder / "params.yaml"  # JSON is YAML
    params = json.loads(path.read_text())
    params["train"]["start_from"] = value
    path.write_text(json.dumps(params))


def test_dvc_repro_trains_again_from_the_weights_that_are_named(tmp_path: Path) -> None:
    tiny.write_project(tmp_path)
    shutil.copytree(tiny.ROOT / "pipeline", tmp_path / "pipeline")
    (tmp_path / "dvc.yaml").write_text(json.dumps({"stages": {"train": STAGE}}))
    dvc(tmp_path, "init", "--no-scm", "-q")
    checkpoint, version = tmp_path / "data/checkpoint", "data/models/0001/checkpoint"

    def repro() -> tuple[dict[str, Any], str]:
        output = dvc(tmp_path, "repro")
        spec = json.loads((checkpoint / "checkpoint.json").read_text())
        return spec["provenance"], output

    provenance, output = repro()
    assert "start" not in provenance
    shutil.copytree(checkpoint, tmp_path / version)
    start_from(tmp_path, version)
    provenance, output = repro()
    assert f"training starts from the weights of {version}" in output
    assert provenance["start"] == {"folder": version, "sha256": hash_folder(tmp_path / version)}
    losses = [
        json.loads((folder / "history.json").read_text())["epochs"][0]["dev_loss"]
        for folder in (tmp_path / version, checkpoint)
    ]
    assert losses[1] < losses[0]
    assert "training" not in repro()[1]  # nothing has changed
    start_from(tmp_path, "data/checkpoint")  # which DVC removes before the stage begins
    result = subprocess.run(
        [sys.executable, "-m", "dvc", "repro"],
        cwd=tmp_path,
        check=False,
        text=True,
        capture_output=True,
    )
    assert result.returncode != 0
    assert "DVC removes it before it trains" in result.stdout + result.stderr
