"""The ready-made schedules: systemd's own check of the units, and the script for cron, run."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

SCHEDULE = Path(__file__).parents[3] / "pipeline" / "schedule"
UNITS = ("signloom-retrain.service", "signloom-retrain.timer")
PAGE = Path(__file__).parents[3] / "docs/ops/nights.md"
CRONTAB = (
    'if [ "$1" = -l ]; then cat "$HOME/table"; else new=$(cat); echo "$new" > "$HOME/table"; fi'
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose `signloom` notes how it was called and ends as the environment says."""
    root = tmp_path / "project"
    shutil.copytree(SCHEDULE, root / "pipeline" / "schedule")
    program = root / ".venv" / "bin" / "signloom"
    program.parent.mkdir(parents=True)
    program.write_text(
        '#!/bin/sh\necho "$PWD $* $KEY $(nice)" > called\necho words\nexit "$ENDS"\n'
    )
    program.chmod(0o755)
    return root


def run_block(number: int, project: Path, tmp_path: Path) -> None:
    """Run a block of the manual on timers, with programs that note how they are called."""
    section = PAGE.read_text(encoding="utf-8").partition("## Every night")[2]
    block = re.findall(r"```bash\n(.*?)```", section, re.DOTALL)[number]
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, code in (("systemctl", 'echo "$@" >> "$HOME/asked"'), ("crontab", CRONTAB)):
        (programs / name).write_text(f"#!/bin/sh\n{code}\n")
        (programs / name).chmod(0o755)
    path = f"{programs}:{project / '.venv/bin'}:/usr/bin:/bin"
    subprocess.run(
        ["bash", "-euc", block], cwd=project, check=True, env={"PATH": path, "HOME": str(tmp_path)}
    )


def test_the_manuals_timer_of_a_user_starts_a_night_of_this_project(
    project: Path, tmp_path: Path
) -> None:
    run_block(0, project, tmp_path)
    units = tmp_path / ".config/systemd/user"
    service = (units / UNITS[0]).read_text()
    assert f"WorkingDirectory={project}\n" in service
    assert f"ExecStart={project}/.venv/bin/signloom retrain\n" in service
    assert (tmp_path / "asked").read_text().splitlines()[-1].endswith(f"enable --now {UNITS[1]}")
    if shutil.which("systemd-analyze"):
        process = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", *(units / name for name in UNITS)],
            capture_output=True,
            text=True,
        )
        assert process.returncode == 0, process.stderr
        assert "signloom" not in process.stdout + process.stderr


def test_the_manuals_line_of_cron_starts_a_night_and_leaves_other_lines(
    project: Path, tmp_path: Path
) -> None:
    (tmp_path / "table").write_text("1 2 * * * other\n")
    run_block(1, project, tmp_path)
    other_line, line = (tmp_path / "table").read_text().splitlines()
    assert (other_line, line.split()[:5]) == ("1 2 * * * other", ["0", "3", "*", "*", "*"])
    command = line.split(maxsplit=5)[5]
    env = {"PATH": "/usr/bin:/bin", "ENDS": "3"}
    assert subprocess.run(["/bin/sh", "-c", command], cwd="/", env=env).returncode == 3
    assert (project / "called").read_text().split()[:2] == [str(project), "retrain"]
    assert (project / "reports/retrain/timer.log").read_text() == "words\n"


@pytest.mark.parametrize(
    ("ends", "loud"),
    [
        (0, False),
        (3, False),
        (4, False),
        (1, True),
        (5, True),
        (6, True),
    ],
)
def test_cron_mails_bad_nights_only(project: Path, tmp_path: Path, ends: int, loud: bool) -> None:
    line = (SCHEDULE / "crontab").read_text().splitlines()[-1]
    command = line.split(maxsplit=5)[5].replace("/srv/signloom", str(project))
    keys = tmp_path / "retrain.env"
    keys.write_text("KEY=of-the-remote\n")
    process = subprocess.run(  # with as little as cron gives
        ["/bin/sh", "-c", command],
        cwd="/",
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "ENDS": str(ends), "SIGNLOOM_ENV": str(keys)},
    )
    assert process.returncode == (ends if loud else 0), process.stderr
    assert bool(process.stdout) is loud
    if loud:
        assert f"exit code {ends}" in process.stdout
        assert "words" in process.stdout
    folder, word, key, nice = (project / "called").read_text().split()
    assert (folder, word, key) == (str(project), "retrain", "of-the-remote")
    assert int(nice) >= min(os.nice(0) + 10, 19)


def test_all_schedules_start_at_one_time_and_take_the_same_nights_for_good_ones() -> None:
    service, timer = ((SCHEDULE / name).read_text() for name in UNITS)
    minute, hour, *days = (SCHEDULE / "crontab").read_text().splitlines()[-1].split()[:5]
    assert days == ["*"] * 3
    assert f"OnCalendar=*-*-* {int(hour):02}:{int(minute):02}:00\n" in timer
    good = {0, *map(int, re.findall(r"\d", re.findall(r"SuccessExitStatus=(.*)", service)[0]))}
    script = (SCHEDULE / "night.sh").read_text()
    assert good == set(map(int, re.findall(r"\d", re.findall(r"  (.*)\) exit 0", script)[0])))
    assert good == {0, 3, 4}
