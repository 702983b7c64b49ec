"""A version is kept though another DVC is at work, or it is said who that is."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from signloom.errors import UserError
from signloom_ops.intake.changes import is_unfinished
from signloom_tools import dvc
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
        assert dvc.track_version(folder) == "corpus.dvc names the version; commit it with Git"
    (said,) = caplog.messages
    assert said.endswith("is busy, it is being blocked by: (PID 17): dvc repro")


def test_a_failure_of_dvc_is_not_taken_for_an_empty_answer(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pretend(monkeypatch, BUSY)
    with caplog.at_level(logging.WARNING):
        assert not dvc.ask_dvc("remote", "list")
        assert not dvc.ask_dvc("remote", "list")  # there is none
    (said,) = caplog.messages
    assert said.startswith("`dvc remote list` failed ('corpus' is busy, it is being blocked by")


def test_who_is_at_work_is_said_when_waiting_has_an_end(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, *[BUSY] * 2)
    monkeypatch.setattr(dvc, "_WAIT_S", -1.0)
    with pytest.raises(UserError, match=r"no version of corpus is kept yet .*\(PID 17\): dvc re"):
        dvc.track_version(folder)


def test_another_failure_of_dvc_is_said_and_not_waited_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, "100% |####|\rhint\nERROR: no\n space", "not asked")
    said = dvc.track_version(folder)
    assert said == "`dvc add corpus` failed (no space): no version is kept"


def test_a_file_whose_name_is_not_utf8_is_named_before_dvc_is_asked(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, "not asked")
    (folder / os.fsdecode(b"caf\xe9.mp4")).touch()
    said = dvc.track_version(folder)
    assert said == (
        r"no version of corpus is kept: corpus/caf\xe9.mp4: its name is not UTF-8; rename it"
    )
    assert Path("answer0").exists()


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
