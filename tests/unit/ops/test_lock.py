"""Two nights never overlap, and a dead one holds nobody up."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from signloom_ops.lock import BusyError, hold_lock, holder
from tests.processes import fork, wait


def hold_and_die(path: Path) -> None:
    """Take the lock in another process, which is killed while it has it."""

    def action() -> None:
        with hold_lock(path):
            os.kill(os.getpid(), signal.SIGKILL)

    assert wait(fork(action)) == -signal.SIGKILL


def test_the_second_is_refused_with_the_holder(tmp_path: Path) -> None:
    path = tmp_path / "data/lock"
    assert holder(path) == ""
    with hold_lock(path) as held:
        assert held.left == ""
        expected = rf"another command is at work: `\S+.*`, process {os.getpid()} on "
        with pytest.raises(BusyError, match=expected), hold_lock(path):
            pass
        assert re.match(expected, holder(path))
    assert holder(path) == ""
    assert path.read_text() == ""


def test_a_dead_process_is_named_and_it_and_a_torn_file_hold_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    hold_and_die(path)
    dead = json.loads(path.read_text())["pid"]
    assert holder(path) == ""
    with hold_lock(path) as held:
        assert f"process {dead} on " in held.left
    path.write_text('{"pid": 12')
    with hold_lock(path) as held:  # that one ended by itself, whatever a cut left of its name
        assert held.left == ""


def test_a_child_that_outlives_a_killed_night_keeps_the_next_away(tmp_path: Path) -> None:
    path, child = tmp_path / "lock", tmp_path / "child"

    def action() -> None:
        with hold_lock(path) as held:
            code = "import sys; print(flush=True); sys.stdin.read()"
            stdin = os.open(tmp_path / "until", os.O_RDONLY)
            process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=stdin,
                stdout=subprocess.PIPE,
                pass_fds=(held.handle,),
            )
            assert process.stdout
            process.stdout.readline()
            child.write_text(str(process.pid))
            os.kill(os.getpid(), signal.SIGKILL)

    os.mkfifo(tmp_path / "until")
    pid = fork(action)
    until = (tmp_path / "until").open("w")
    assert wait(pid) == -signal.SIGKILL
    with (
        pytest.raises(BusyError, match="gone, but a stage that it started still runs"),
        hold_lock(path),
    ):
        pass
    until.close()
    while Path(f"/proc/{child.read_text()}").exists():
        pass
    with hold_lock(path) as held:
        assert held.left
