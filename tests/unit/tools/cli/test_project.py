"""A second project beside the first: its own data and scores, one code."""

import configparser
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from signloom.corpus.manifest import Clip, write_manifest
from signloom_tools.cli.main import main
from signloom_tools.cli.project import COPIED, LINKED
from tests.processes import call, run_python
from tests.tiny import ROOT


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with this one's code."""
    folder = tmp_path / "first"
    folder.mkdir()
    for name in LINKED:
        (folder / name).symlink_to(ROOT / name)
    for name in COPIED:
        shutil.copyfile(ROOT / name, folder / name)
    monkeypatch.chdir(folder)
    return folder


def read_config(folder: Path) -> configparser.ConfigParser:
    config = configparser.ConfigParser()
    config.read(folder / ".dvc/config")
    return config


def test_a_project_has_its_own_beginning(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["project", "corpora/weather"])
    assert "cd corpora/weather" in capsys.readouterr().out
    weather = root / "corpora/weather"
    assert (weather / "src").resolve() == ROOT / "src"
    assert (weather / "params.yaml").read_text() == (root / "params.yaml").read_text()
    assert (weather / "reports/baseline.json").is_file()
    config = read_config(weather)
    assert (weather / ".dvc" / config["cache"]["dir"]).resolve() == root / ".dvc/cache"
    assert config.getboolean("core", "no_scm")  # DVC works where there is no Git
    assert (root / ".dvc/cache/shared_with.txt").read_text() == f"{weather}\n"  # for `dvc gc`


def test_a_project_begins_with_what_is_committed_and_is_made_again_after_a_kill(root: Path) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *command], check=True)
    committed = Path("params.yaml").read_text()
    Path("params.yaml").write_text(committed.replace("data/demo/corpus", "data/raw/other"))
    script = (
        "import os, signloom_tools.cli.project as p; p.begin_project = lambda *a, **k: os._exit(9);"
        "p.make_project(p.Path.cwd(), p.Path('weather'))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 9
    assert (root / "weather/src").exists()
    main(["project", "weather"])
    assert (root / "weather/params.yaml").read_text() == committed
    assert not (root / "weather/.unfinished").exists()


@pytest.mark.slow
def test_a_stage_runs_in_one_project_and_leaves_the_other_alone(root: Path) -> None:
    for command in (["git", "init", "-q"], [sys.executable, "-m", "dvc", "init", "-q"]):
        subprocess.run(command, cwd=root, check=True)
    main(["project", "corpora/weather"])
    weather = root / "corpora/weather"
    params = yaml.safe_load((weather / "params.yaml").read_text())
    params["corpus"] |= {"folder": "data/raw/weather", "signer_disjoint": False}
    (weather / "params.yaml").write_text(yaml.safe_dump(params))
    clips = [
        Clip(clip_id=split, video=None, text="oui", signer="anna", split=split, gloss="OUI")
        for split in ("train", "dev", "test")
    ]
    (weather / "data/raw/weather").mkdir(parents=True)
    write_manifest(weather / "data/raw/weather/manifest.tsv", clips)
    call("dvc", "repro", "check", cwd=weather)
    assert (weather / "data/checked.txt").is_file()
    assert "up to date" in call("dvc", "repro", "check", cwd=weather)
    assert not (root / "data").exists()
    assert not (root / "dvc.lock").exists()
    assert any((root / ".dvc/cache").rglob("*"))  # what the second one keeps lies in the first's
    assert call("dvc", "stage", "list", "--all", "--name-only", cwd=root).count("extract") == 1


def test_a_project_is_not_made_in_the_way(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "full").mkdir()
    (root / "full/mine.txt").touch()
    for folder, why in (("data/weather", "lie in data"), ("full", "no empty folder")):
        with pytest.raises(SystemExit, match=why):
            main(["project", folder])
    monkeypatch.chdir(root / "full")  # which is no project
    with pytest.raises(SystemExit, match="run this in the folder of a Signloom project"):
        main(["project", "weather"])
    assert not (root / "data/weather").exists()


def test_a_full_disk_leaves_no_project(root: Path) -> None:
    done = run_python(
        "-m", "signloom_tools.cli.main", "project", "Zeichen für alle", max_file_bytes=2000
    )
    assert "the disk is full: free some space and run the same again" in done.stderr
    assert not (root / "Zeichen für alle").exists()
