import importlib.metadata
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

import signloom
from signloom import provenance
from signloom.files import hash_folder, write_file
from signloom.provenance import git_state, library_versions
from tests.tiny import ROOT


def test_a_folder_is_hashed_by_names_and_bytes(tmp_path: Path) -> None:
    def folder(name: str, files: dict[str, str]) -> str:
        for path, text in files.items():
            target = tmp_path / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        return hash_folder(tmp_path / name)

    first = folder("one", {"a": "1", "b/c": "2"})
    assert folder("two", {"b/c": "2", "a": "1"}) == first
    assert folder("renamed", {"a": "1", "b/d": "2"}) != first
    assert folder("changed", {"a": "1", "b/c": "3"}) != first
    with pytest.raises(FileNotFoundError):
        hash_folder(tmp_path / "absent")


def test_files_are_whole_or_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "new" / "a.txt"
    write_file(path, "é\n")
    assert path.read_bytes() == "é\n".encode()

    def full(self: Path, content: bytes) -> int:
        with self.open("wb") as file:
            file.write(content[:1])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        write_file(path, "other")
    assert path.read_text() == "é\n"
    assert [file.name for file in path.parent.iterdir()] == ["a.txt"]


def test_the_commit_is_the_repository_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if head.returncode:
        pytest.skip("not a git checkout")
    monkeypatch.chdir(tmp_path)  # a process may ask in several folders
    assert git_state()["git_commit"] == "unknown"
    monkeypatch.chdir(ROOT)
    assert git_state()["git_commit"] == head.stdout.strip()


def test_a_code_hash_changes_with_the_code_it_is_of_and_with_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(provenance.PACKAGE, tmp_path / "signloom")
    monkeypatch.setattr(provenance, "PACKAGE", tmp_path / "signloom")
    named = ("models", "training/loop.py")
    before = provenance.code_hash(*named)
    for name, is_same in (
        ("report/charts.py", True),
        ("translation/search.py", True),
        ("training/loss.py", True),
        ("models/layers.py", False),
        ("training/loop.py", False),
    ):
        path = tmp_path / "signloom" / name
        text = path.read_text()
        path.write_text(text + "\n# changed\n")
        assert (provenance.code_hash(*named) == before) == is_same, name
        path.write_text(text)


def test_versions_that_change_no_number_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = library_versions()
    installed = importlib.metadata.version
    monkeypatch.setattr(platform, "python_version_tuple", lambda: ("3", "11", "99"))
    monkeypatch.setattr(
        "importlib.metadata.version", lambda name: installed(name).partition("+")[0] + "+cu130"
    )
    expected = {**versions, "python": "3.11"}
    assert library_versions() == expected
    assert versions["signloom"] == signloom.__version__
