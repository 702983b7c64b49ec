"""A project beside the clone: its own data and scores, one code."""

import subprocess
import sys
from pathlib import Path

import pytest

from signloom.config import load_params
from signloom.corpus.manifest import Clip, write_manifest
from signloom_tools.cli import project as projects
from signloom_tools.cli.main import main
from tests.processes import call, run_python
from tests.tiny import ROOT

FOLDER = "Zeichen für alle"


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_project_of_a_clone_begins_with_the_drawn_corpus_and_is_made_again_after_a_kill(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = (
        "import os, signloom_tools.cli.project as p; p.write_stamps = lambda *a: os._exit(9);"
        f"p.make_project(p.Path({FOLDER!r}))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 9
    clone = work / "clone"
    for name in (*projects.OWN, "pyproject.toml", "dvc.yaml", "data/demo/dvc.yaml"):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        text = (ROOT / name).read_text().replace("folder: data/demo/corpus", "folder: data/raw/my")
        (clone / name).write_text(text)
    git = ["git", "-C", str(clone), "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *command], check=True)
    (clone / "params.yaml").write_text("train: {epochs: 1}\n")  # for one corpus, and not committed
    monkeypatch.setattr(projects, "CLONE", clone)
    main(["project", FOLDER])
    assert f"cd {FOLDER}" in capsys.readouterr().out
    assert load_params(work / FOLDER / "params.yaml") == load_params(ROOT / "params.yaml")
    assert not (work / FOLDER / ".unfinished").exists()


@pytest.mark.slow
def test_a_stage_runs_in_a_project(work: Path) -> None:
    main(["project", "weather"])
    weather = work / "weather"
    params = (weather / "params.yaml").read_text().replace("data/demo/corpus", "data/raw/weather")
    (weather / "params.yaml").write_text(
        params.replace("\nextract:", "  signer_disjoint: false\n\nextract:", 1)
    )
    clips = [
        Clip(clip_id=split, video=None, text="oui", signer="anna", split=split, gloss="OUI")
        for split in ("train", "dev", "test")
    ]
    (weather / "data/raw/weather").mkdir(parents=True)
    write_manifest(weather / "data/raw/weather/manifest.tsv", clips)
    call("dvc", "repro", "check", cwd=weather)
    assert (weather / "data/checked.txt").is_file()
    assert "Stage 'check' didn't change" in call("dvc", "repro", "check", cwd=weather)


def test_a_project_is_not_made_where_something_lies(work: Path) -> None:
    (work / "full").mkdir()
    (work / "full/mine.txt").touch()
    with pytest.raises(SystemExit, match="no empty folder"):
        main(["project", "full"])


def test_a_full_disk_leaves_no_project(work: Path) -> None:
    process = run_python("-m", "signloom_tools.cli.main", "project", FOLDER, max_file_bytes=2000)
    assert "the disk is full: free some space and run the same again" in process.stderr
    assert not (work / FOLDER).exists()
