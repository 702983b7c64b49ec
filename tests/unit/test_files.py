"""Folders that take each other's place."""

import shutil
from pathlib import Path

import pytest

from signloom.files import replace_folder


def make(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "file").write_text(text)
    return folder


def test_a_kill_while_the_old_folder_goes_leaves_the_new_one_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = make(tmp_path / "checkpoint", "old"), make(tmp_path / ".new", "new")
    seen = []

    def killed(path: Path) -> None:
        seen.append((old / "file").read_text())
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        replace_folder(new, old)
    assert seen == ["new"]
    assert (new / "file").read_text() == "old"


@pytest.mark.parametrize("is_there", [False, True])
def test_a_folder_takes_the_place_of_another(tmp_path: Path, is_there: bool) -> None:
    if is_there:
        make(tmp_path / "checkpoint", "old")
    replace_folder(make(tmp_path / ".new", "new"), tmp_path / "checkpoint")
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]
    assert (tmp_path / "checkpoint/file").read_text() == "new"
