"""Nights started from the page; tests/system/test_app_circle.py watches whole ones."""

import json
import os
import platform
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import pytest

from signloom.paths import NIGHTS
from signloom_ops.app.night_process import OUTPUT
from tests.unit.ops.app.serving import Asker


def wait_for_end(asker: Asker) -> dict[str, object]:
    for _ in range(300):
        state: dict[str, object] = json.loads(asker.ask("GET", "/api/learn")[2])
        if not state["running"]:
            return state
        time.sleep(0.1)
    raise AssertionError(state)


@pytest.mark.slow
def test_two_presses_begin_one_night_and_the_page_hears_why_it_could_not_begin(
    asker: Asker,
) -> None:
    """Quick twin: test_a_night_that_was_killed_is_told_as_broken_off."""
    with ThreadPoolExecutor(2) as two:
        answers = list(two.map(lambda _: asker.change("POST", "/api/learn", {}), range(2)))
    assert [status for status, _ in answers] == [202, 202]
    state = wait_for_end(asker)
    assert "train.seeds has 1 of the 3 seeds" in str(state["failure"])
    assert (NIGHTS / OUTPUT).read_text(encoding="utf-8").count("train.seeds has") == 1


def test_only_the_night_itself_is_stopped_and_never_who_got_its_number(asker: Asker) -> None:
    night = {"outcome": "running", "host": platform.node(), "pid": os.getpid(), "steps": []}
    night["started"] = datetime.now().astimezone().isoformat()
    NIGHTS.mkdir(parents=True)
    (NIGHTS / "night.json").write_text(json.dumps(night))  # of a night that was killed
    status, answer = asker.change("DELETE", "/api/learn")
    assert (status, answer["error"]) == (422, "no night is running")

    wait = "import time; time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", wait, "retrain"]) as process:
        rows = [
            {"name": "plan", "result": "done", "started": night["started"]},
            {"name": "train", "result": "running", "started": night["started"]},
        ]
        started = datetime.now().astimezone().isoformat()
        night |= {"pid": process.pid, "started": started, "steps": rows}
        (NIGHTS / "night.json").write_text(json.dumps(night))
        before = "--- dvc repro extract\nextract 100%|####|\n--- dvc repro train\n"
        (NIGHTS / "stages.log").write_text(before + "looking for devices\n")
        assert json.loads(asker.ask("GET", "/api/learn")[2])["percent"] is None
        (NIGHTS / "stages.log").write_text(before + "train  41%|####      | 00:10<00:14\n")
        state = json.loads(asker.ask("GET", "/api/learn")[2])
        assert [state[key] for key in ("running", "step", "number", "percent")] == [
            True,
            "train",
            2,
            41,
        ]
        assert asker.change("DELETE", "/api/learn")[0] == 202
        assert process.wait(20) != 0
    assert not wait_for_end(asker)["running"]


def test_a_night_that_was_killed_is_told_as_broken_off(
    asker: Asker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A stand-in for `signloom retrain`, which writes its record and ends as by kill -9."""
    night = {"outcome": "running", "host": platform.node(), "steps": []}
    program = tmp_path / "python" / "signloom"
    program.parent.mkdir()
    program.write_text(
        f"#!{sys.executable}\nimport json, os, datetime\nfrom pathlib import Path\n"
        f"night = {night!r}\nnight['pid'] = os.getpid()\n"
        "night['started'] = datetime.datetime.now().astimezone().isoformat()\n"
        f"Path({str(NIGHTS / 'night.json')!r}).write_text(json.dumps(night))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program.with_name("python3")))
    assert asker.change("POST", "/api/learn", {})[0] == 202
    assert wait_for_end(asker)["failure"] == "exit code -9"
