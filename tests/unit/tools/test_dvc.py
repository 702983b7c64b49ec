"""A version is kept though another DVC is at work, or that one is named."""

import contextlib
import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from signloom.errors import UserError
from signloom.paths import CHECKPOINT
from signloom_ops.intake.changes import is_unfinished
from signloom_tools import dvc
from signloom_tools.dvc import stages_at_work
from signloom_tools.versions import NamedModel
from tests.intake import deliver, found_corpus, take

BUSY = "ERROR: 'corpus' is busy, it is being blocked by:\n  (PID 17): dvc repro"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in what looks like a repository of DVC."""
    monkeypatch.chdir(tmp_path)
    for name in (".dvc", "corpus"):
        (tmp_path / name).mkdir()
    return Path("corpus")


def pretend(monkeypatch: pytest.MonkeyPatch, *answers: str) -> None:
    """Have `python -m dvc` fail with these answers, one a call, before it succeeds."""
    for number, answer in enumerate(answers):
        Path(f"answer{number}").write_text(answer)
    Path("dvc.py").write_text(
        "import pathlib, sys\n"
        "left = sorted(pathlib.Path().glob('answer*'))\n"
        "if left: text = left[0].read_text(); left[0].unlink(); sys.exit(text)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    monkeypatch.setattr(dvc, "_PAUSE_S", 0.0)


def test_a_version_is_kept_after_another_dvc_has_ended(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pretend(monkeypatch, BUSY, BUSY)
    with caplog.at_level(logging.WARNING):
        assert "corpus.dvc names the version" in dvc.track_version(folder)
    (message,) = caplog.messages
    assert "(PID 17): dvc repro" in message


def test_another_failure_of_dvc_is_not_waited_for_and_a_name_that_is_not_utf8_not_asked(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, "100% |####|\rhint\nERROR: no\n space", "not asked")
    assert "`dvc add corpus` failed (no space)" in dvc.track_version(folder)
    (folder / os.fsdecode(b"caf\xe9.mp4")).touch()
    assert r"corpus/caf\xe9.mp4: its name is not UTF-8" in dvc.track_version(folder)
    assert Path("answer1").exists()


def test_a_failure_of_dvc_is_not_taken_for_an_empty_answer(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pretend(monkeypatch, BUSY)
    with caplog.at_level(logging.WARNING):
        assert not dvc.ask_dvc("remote", "list")
        assert not dvc.ask_dvc("remote", "list")  # there is none
    (message,) = caplog.messages
    assert message.startswith("`dvc remote list` failed ('corpus' is busy, it is being blocked by")


@pytest.mark.parametrize("stages", ["x", "{a: x}", "{a: {outs: 5}}", "{a: {outs: [{}, null]}}"])
def test_a_damaged_dvc_yaml_names_no_output(folder: Path, stages: str) -> None:
    Path("dvc.yaml").write_text(f"stages: {stages}\n")
    dvc.refuse_drawn(folder)


@pytest.mark.slow
def test_an_ingest_beside_dvc_repro_leaves_a_version_or_is_finished_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(dvc, "_WAIT_S", -1.0)
    corpus = found_corpus(Path())
    subprocess.run([sys.executable, "-m", "dvc", "init", "-q", "--no-scm"], check=True)
    lock = Path(".dvc/tmp/rwlock")
    lock.parent.mkdir(exist_ok=True)
    readers = [{"pid": os.getpid(), "cmd": "dvc repro"}]
    lock.write_text(json.dumps({"read": {str(corpus.folder.resolve()): readers}}))
    deliver(Path("in/ada"), "new", frames=20)
    with pytest.raises(UserError, match=rf"no version .*\(PID {os.getpid()}\): dvc repro"):
        take(corpus, "in")
    assert is_unfinished(corpus)
    lock.unlink()
    later = take(corpus, "in")
    assert (later.clips, later.known) == ([], 1)
    assert Path("data/raw/weekly.dvc").is_file()


@pytest.mark.parametrize(
    ("folder", "words", "is_at_work"),
    [
        (".", ("dvc", "repro", "train"), True),
        ("reports", ("dvc", "exp", "run"), True),
        (".dvc/tmp/exps/temp", ("dvc", "exp", "exec-run"), True),
        (".", ("-X", "dev", "dvc", "repro"), True),
        (".", ("-m", "pipeline.extract", "--share", "1/8"), True),
        (".", ("-c", "input()", "commit", "dvc.lock"), False),  # as of Git
        (".", ("dvc", "exp", "show"), False),  # as an editor asks now and then
        ("corpora/other", ("dvc", "repro"), False),  # a project of its own
    ],
)
def test_who_runs_stages_in_the_project_is_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    folder: str,
    words: tuple[str, ...],
    is_at_work: bool,
) -> None:
    for name in (".dvc", ".dvc/tmp/exps/temp/.dvc", "corpora/other/.dvc", "reports", folder):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / folder / "dvc").write_text("input()")
    (tmp_path / folder / "pipeline").mkdir()
    (tmp_path / folder / "pipeline/extract.py").write_text("input()")
    assert stages_at_work() == []
    process = subprocess.Popen(
        [sys.executable, *words], cwd=folder, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        found = stages_at_work()
        assert len(found) == is_at_work
        refused = pytest.raises(UserError, match=rf"is being made: .*process {process.pid}")
        with refused if is_at_work else contextlib.nullcontext():
            NamedModel(CHECKPOINT)
        assert all(f"{' '.join(words)}` (process {process.pid}, since" in text for text in found)
    finally:
        process.communicate(b"\n")
    assert stages_at_work() == []
