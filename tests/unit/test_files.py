"""Folders that take each other's place."""

import contextlib
import os
import shutil
from pathlib import Path

import pytest

from signloom.files import replace_folder, whole_folder


def make(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "file").write_text(text)
    return folder


def test_a_kill_while_the_old_folder_goes_leaves_the_new_one_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = make(tmp_path / "checkpoint", "old"), make(tmp_path / ".new", "new")
    contents = []

    def killed(path: Path) -> None:
        contents.append((old / "file").read_text())
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        replace_folder(new, old)
    assert contents == ["new"]
    assert (new / "file").read_text() == "old"


@pytest.mark.parametrize("is_there", [False, True])
def test_a_folder_takes_the_place_of_another(tmp_path: Path, is_there: bool) -> None:
    if is_there:
        make(tmp_path / "checkpoint", "old")
    replace_folder(make(tmp_path / ".new", "new"), tmp_path / "checkpoint")
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]
    assert (tmp_path / "checkpoint/file").read_text() == "new"


def test_a_folder_is_whole_or_not_there_and_no_kill_leaves_one(tmp_path: Path) -> None:
    folder, at_work = tmp_path / "checkpoint", tmp_path / f".checkpoint.{os.getppid()}.tmp"
    make(tmp_path / ".checkpoint.999999999.tmp", "of a process that was killed")
    make(at_work, "of another that writes now")
    make(reused := tmp_path / f".checkpoint.{os.getpid()}.tmp", "of one before the machine started")
    os.utime(reused, (0, 0))
    with contextlib.suppress(RuntimeError), whole_folder(folder) as new:
        (new / "file").write_text("half")
        raise RuntimeError
    assert [path.name for path in tmp_path.iterdir()] == [at_work.name]
    with whole_folder(folder) as new:
        (new / "deep").mkdir()
        (new / "deep/file").write_text("new")
        assert not folder.exists()
    assert (folder / "deep/file").read_text() == "new"
    assert {path.name for path in tmp_path.iterdir()} == {at_work.name, "checkpoint"}
