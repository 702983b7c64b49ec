"""Projects of an installed package, whose files are here those of the clone."""

import contextlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from signloom.errors import UserError
from signloom_tools.cli import project as projects
from signloom_tools.cli.project import (
    STATE,
    check_project,
    make_project,
    upgrade_project,
)
from tests.damage import damaged_texts
from tests.intake import tree
from tests.power_cut import PowerCutError, cut_before
from tests.tiny import ROOT

FILES = (
    "params.yaml",
    "ops.yaml",
    "dvc.yaml",
    "schemas/*.json",
    "presets/base.yaml",
    "pipeline/*.py",
    "data/demo/*.yaml",
)
MINE = Path("pipeline/train.py")
NEWER = ("presets/base.yaml", "pipeline/evaluate.py")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose files the package then changes, and one that somebody changed."""
    package, project = tmp_path / "package", tmp_path / "mine"
    for pattern in FILES:
        for path in ROOT.glob(pattern):
            target = package / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    monkeypatch.setattr(projects, "FILES", package)
    monkeypatch.setattr(projects, "_init_dvc", lambda *_: None)  # it takes two seconds
    make_project(project)
    (project / MINE).write_text("# mine\n")
    for name in NEWER:
        with (package / name).open("a") as file:
            file.write("# newer\n")
    return project


def test_an_upgrade_that_was_cut_is_finished_and_keeps_what_was_changed_by_hand(
    project: Path, tmp_path: Path
) -> None:
    before = shutil.copytree(project, tmp_path / "before")
    with cut_before(None, only=("replace",)) as count:
        upgrade_project(project)
    for number in (0, 1, 2, count[0] - 1):  # two files, the stamps, and last the state
        shutil.rmtree(project)
        shutil.copytree(before, project)
        with cut_before(number, only=("replace",)), pytest.raises(PowerCutError):
            upgrade_project(project)
        with pytest.raises(UserError, match="signloom project --upgrade"):
            check_project(project)
        upgrade_project(project)
        check_project(project)
        files = tree(project)
        assert files[MINE.as_posix()] == b"# mine\n"
        assert all(files[name].endswith(b"# newer\n") for name in NEWER)


def test_a_damaged_state_of_a_project_is_named(project: Path) -> None:
    content: dict[str, Any] = json.loads((project / STATE).read_text())
    content["files"] = dict(list(content["files"].items())[:2])
    for _, text in damaged_texts(content, seed=1, count=12):
        (project / STATE).write_text(text)
        with contextlib.suppress(UserError):
            upgrade_project(project)
    (project / STATE).write_text('{"format_version": 1, "version": "0.1.0", "files": []}')
    with pytest.raises(UserError, match=r"files(.|\n)*restore it from Git"):
        upgrade_project(project)


def test_a_project_of_a_later_version_is_refused(project: Path) -> None:
    before = tree(project)
    content = json.loads((project / STATE).read_text())
    (project / STATE).write_text(json.dumps(content | {"version": "0.10.0"}))
    for command in (upgrade_project, check_project):
        with pytest.raises(UserError, match=r"of Signloom 0\.10\.0, and .* is installed: pip inst"):
            command(project)
    assert {**tree(project), STATE.name: before[STATE.name]} == before
