"""The switch of "every night at three": what is written is read as the system reads it."""

import os
import plistlib
import shutil
import stat
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from signloom.errors import UserError
from signloom_ops.nightly import timer
from signloom_ops.nightly.timer import Cron, Launchd, Systemd, Tasks, switch_timer, timer_state

FOLDER = "signs of mine, ä 100 % $HOME 'so' & <b>"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose path has all that needs quotes, and a home and a bin of its own."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    (tmp_path / "bin").mkdir()
    folder = tmp_path / FOLDER
    folder.mkdir()
    return folder


def program(project: Path, name: str, text: str) -> Path:
    """Put a program in the place of one of the system's."""
    path = project.parent / "bin" / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_crons_line_runs_in_its_folder_and_goes_without_others(project: Path) -> None:
    table = project.parent / "table"
    table.write_text("5 5 * * * others\n")
    program(project, "crontab", f'if [ "$1" = -l ]; then cat "{table}"; else cat > "{table}"; fi')
    cron = Cron(project)
    cron.program = str(program(project, "sign loom", 'pwd; echo "$1"'))
    cron.install()
    cron.install()  # once more changes nothing
    other, line = table.read_text().splitlines()
    assert other == "5 5 * * * others"
    assert cron.where() == line
    command = line.removeprefix("0 3 * * * ").replace("\\%", "%")  # as cron reads it
    subprocess.run(["/bin/sh", "-c", command], check=True, cwd="/")
    said = (project / timer.OUTPUT).read_text(encoding="utf-8")
    assert said.splitlines() == [str(project), "retrain"]
    cron.remove()
    assert table.read_text() == "5 5 * * * others\n"
    assert cron.where() == ""


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd on this machine")
def test_systemd_reads_the_units_as_they_are_meant(project: Path) -> None:
    program(project, "systemctl", "exit 0")
    found = Systemd(project)
    found.program = str(program(project, "$sign 100%loom", ""))
    switch = [found.install, found.remove]
    switch[0]()
    assert (project / timer.OUTPUT).parent.is_dir()  # where the service writes
    path = Path(found.where())
    units = [str(path), str(path.with_suffix(".service"))]
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", "--man=no", *units],
        capture_output=True, text=True, check=False,
        env={**os.environ, "XDG_RUNTIME_DIR": str(project.parent)},
    )  # fmt: skip
    assert str(path.parent / found.name) not in done.stderr, done.stderr
    assert found.name not in done.stderr, done.stderr
    switch[1]()
    assert not list(path.parent.iterdir())


def test_a_timer_that_cannot_be_installed_is_refused_in_words_and_leaves_nothing(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse = 'case "$*" in *enable*) echo "Access denied" >&2; exit 1;; esac'
    program(project, "systemctl", refuse)
    with pytest.raises(UserError, match="systemctl: Access denied"):
        switch_timer(project, on=True)
    assert not timer_state(project).is_on
    program(project, "systemctl", 'echo "Failed to connect to bus" >&2; exit 1')
    monkeypatch.setattr(timer.psutil, "process_iter", lambda _: [])
    state = timer_state(project)
    assert not state.by
    assert "Failed to connect to bus" in state.why_not
    with pytest.raises(UserError, match="nor does cron run"):
        switch_timer(project, on=True)


def test_the_agent_of_macos_and_the_task_of_windows_name_the_folder(project: Path) -> None:
    log = project.parent / "called"
    for name in ("launchctl", "schtasks"):
        program(project, name, f'echo "$@" >> "{log}"; [ "$2" = gone ] && exit 1; exit 0')
    agent = Launchd(project)
    agent.install()
    assert plistlib.loads(Path(agent.where()).read_bytes())["WorkingDirectory"] == str(project)
    agent.remove()
    assert agent.where() == ""
    task = Tasks(project)
    text = task.xml().partition("\n")[2]
    folder = ElementTree.fromstring(text).find(".//{*}WorkingDirectory")
    assert folder is not None
    assert folder.text == str(project)
    task.install()
    called = log.read_text().splitlines()
    assert [line.split()[0] for line in called] == ["bootstrap", "bootout", "/Create"]
