"""What a stage says: in its file, and a fact once for all of its processes."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from signloom.log import GROUP, ONCE, StageLog, group_name
from tests.processes import fork, wait


def logger_of(path: Path, group: str) -> logging.Logger:
    """A process of a stage."""
    logger = logging.Logger("of a stage")
    logger.addHandler(StageLog(path, group))
    return logger


def said(text: str) -> list[str]:
    """The lines of a log without head and times."""
    return [line.split(" ", 2)[-1] for line in text.splitlines()[1:]]


def test_a_fact_is_logged_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "train.log"

    def train() -> None:
        logger = logger_of(path, "one stage")
        for trial in range(3):
            logger.warning("%d clips have no room", 24, extra=ONCE)
            logger.warning("%d clips are dark", 3, extra=ONCE)
            logger.info("trial %d", trial)

    assert [wait(pid) for pid in [fork(train) for _ in range(4)]] == [0] * 4
    lines = said(path.read_text())
    assert lines.count("WARNING 24 clips have no room") == 1
    assert lines.count("WARNING 3 clips are dark") == 1
    assert lines.count("INFO trial 2") == 4  # no fact: each process has its own
    assert capfd.readouterr().err.count("no room") == 1


def test_the_next_run_of_a_stage_replaces_its_log_and_says_everything_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "logs/train.log"
    for group in ("first", "second"):
        logger_of(path, group).warning("no room", extra=ONCE)
    assert path.read_text().startswith("# second\n")
    assert said(path.read_text()) == ["INFO begins", "WARNING no room"]
    assert capfd.readouterr().err.count("no room") == 2


def test_an_unwritable_log_hides_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    logger = logger_of(tmp_path / "file" / "train.log", "x")
    for _ in range(2):
        logger.warning("no room", extra=ONCE)
        logger.warning("worker died")
    assert capfd.readouterr().err == "no room\nworker died\nworker died\n"


def test_processes_that_torchrun_started_are_one_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = group_name()
    assert str(os.getpid()) in alone
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert str(os.getppid()) in group_name()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("raise UserError('no such corpus')", "ERROR no such corpus"),
        ("raise KeyboardInterrupt", "ERROR stopped"),
        ("1 / 0", "ZeroDivisionError"),
    ],
)
def test_the_log_of_a_stage_ends_with_what_ended_it(tmp_path: Path, body: str, words: str) -> None:
    script = tmp_path / "pipeline" / "train.py"
    script.parent.mkdir()
    script.write_text(
        "from pipeline.stage import run\n"
        "from signloom.errors import UserError\n"
        "import logging\n"
        f"def main():\n    logging.getLogger('a').warning('no room')\n    {body}\n"
        "run(main)\n"
    )
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, f"{root}/src"])}
    environment.pop(GROUP, None)
    process = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert process.returncode == 1
    text = (tmp_path / "data/logs/train.log").read_text()
    assert said(text)[:2] == ["INFO begins", "WARNING no room"]
    assert words in text
    assert process.stderr.startswith("no room\n")
