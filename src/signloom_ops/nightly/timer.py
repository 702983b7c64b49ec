"""A night every night at three: switched on and off with what the system starts things by.

systemd's user timers, cron, macOS's launchd or the Task Scheduler of Windows; what is written is
named after the project's folder, so each project has its own.
"""

import contextlib
import hashlib
import os
import plistlib
import shlex
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

import psutil  # type: ignore[import-untyped]

from signloom.errors import UserError
from signloom.paths import NIGHTS

HOUR = 3
OUTPUT = NIGHTS / "timer.log"  # what the last night of the timer printed
_PATIENCE_S = 30.0  # with a program of the system


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerState:
    """Whether a night begins by itself, and by what."""

    by: str  # systemd, cron, launchd or tasks; empty: by nothing here
    is_on: bool
    where: str  # the file, line or task that was written; empty: it is off
    why_not: str  # why none can be installed here; empty: one can


class Timer(ABC):
    """One of the system's ways to start a program every night."""

    by: str

    def __init__(self, project: Path) -> None:
        """Take the folder of the project."""
        self.project = project.resolve()
        if not str(self.project).isprintable():
            raise UserError(f"{self.project!r}: no timer can name a folder with such characters")
        self.name = "signloom-" + hashlib.sha256(str(self.project).encode()).hexdigest()[:10]
        self.program = str(Path(sys.executable).with_name("signloom"))

    @abstractmethod
    def where(self) -> str:
        """Return what is installed; empty: nothing."""

    @abstractmethod
    def install(self) -> None:
        """Install it; UserError says why that cannot be."""

    @abstractmethod
    def remove(self) -> None:
        """Take it back; without one nothing happens."""


class Systemd(Timer):
    """A user timer; a night that was missed is made up for."""

    by = "systemd"

    def _path(self, ending: str) -> Path:
        home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
        return Path(home, "systemd", "user", f"{self.name}.{ending}")

    def where(self) -> str:
        """Return the timer's file."""
        path = self._path("timer")
        return str(path) if path.is_file() else ""

    def install(self) -> None:
        """Write service and timer and start the timer."""
        folder, output = str(self.project), str(self.project / OUTPUT)
        (self.project / OUTPUT).parent.mkdir(parents=True, exist_ok=True)  # systemd makes none
        _write(
            self._path("service"),
            "[Unit]\nDescription=A night of Signloom\n\n[Service]\nType=oneshot\n"
            f"WorkingDirectory={folder.replace('%', '%%')}\n"
            # By env, since in the program's own name no $ can be written.
            f"ExecStart=/usr/bin/env {_quote_unit(self.program)} retrain\n"
            f"StandardOutput=truncate:{output.replace('%', '%%')}\nStandardError=inherit\n"
            "SuccessExitStatus=3 4\nKillMode=mixed\nNice=10\n",
        )
        _write(
            self._path("timer"),
            f"[Unit]\nDescription=Every night at {HOUR}\n\n[Timer]\n"
            f"OnCalendar=*-*-* {HOUR:02}:00:00\nPersistent=true\n\n"
            "[Install]\nWantedBy=timers.target\n",
        )
        try:
            _call("systemctl", "--user", "daemon-reload")
            _call("systemctl", "--user", "enable", "--now", f"{self.name}.timer")
        except UserError:
            self.remove()
            raise

    def remove(self) -> None:
        """Stop the timer and remove both files."""
        with contextlib.suppress(UserError):  # without a session nothing runs that could be stopped
            _call("systemctl", "--user", "disable", "--now", f"{self.name}.timer")
        for ending in ("timer", "service"):
            self._path(ending).unlink(missing_ok=True)
        wanted = self._path("timer").parent / "timers.target.wants" / f"{self.name}.timer"
        wanted.unlink(missing_ok=True)  # a link, which stays where systemctl reached nobody
        with contextlib.suppress(UserError):
            _call("systemctl", "--user", "daemon-reload")


class Cron(Timer):
    """A line in the user's table."""

    by = "cron"

    def line(self) -> str:
        """Return the line; cron ends a command at a % that has no backslash."""
        folder, output = shlex.quote(str(self.project)), shlex.quote(OUTPUT.as_posix())
        command = f"cd {folder} && {shlex.quote(self.program)} retrain > {output} 2>&1"
        return f"0 {HOUR} * * * {command} # {self.name}".replace("%", "\\%")

    def where(self) -> str:
        """Return the line that is in the table."""
        return next((one for one in self._table() if self._is_ours(one)), "")

    def install(self) -> None:
        """Put the line at the end of the table."""
        (self.project / OUTPUT).parent.mkdir(parents=True, exist_ok=True)
        _call("crontab", "-", given=[*self._others(), self.line()])

    def remove(self) -> None:
        """Take the line out; all others stay as they are."""
        if self.where():
            _call("crontab", "-", given=self._others())

    def _is_ours(self, line: str) -> bool:
        return line.endswith(f"# {self.name}")

    def _others(self) -> list[str]:
        return [one for one in self._table() if not self._is_ours(one)]

    def _table(self) -> list[str]:
        try:
            return _call("crontab", "-l").splitlines()
        except UserError as error:
            if "no crontab" in str(error):
                return []
            raise


class Launchd(Timer):
    """An agent of macOS."""

    by = "launchd"

    @property
    def _path(self) -> Path:
        return Path.home() / "Library/LaunchAgents" / f"{self.name}.plist"

    def where(self) -> str:
        """Return the agent's file."""
        return str(self._path) if self._path.is_file() else ""

    def install(self) -> None:
        """Write the agent and load it; launchd refuses one that it has already."""
        if self.where():
            return
        output = str(self.project / OUTPUT)
        agent = {
            "Label": self.name, "ProgramArguments": [self.program, "retrain"],
            "WorkingDirectory": str(self.project), "StandardOutPath": output,
            "StandardErrorPath": output, "LowPriorityIO": True,
            "StartCalendarInterval": {"Hour": HOUR, "Minute": 0},
        }  # fmt: skip
        (self.project / OUTPUT).parent.mkdir(parents=True, exist_ok=True)
        _write(self._path, plistlib.dumps(agent).decode())
        try:
            _call("launchctl", "bootstrap", _domain(), str(self._path))
        except UserError:
            self.remove()
            raise

    def remove(self) -> None:
        """Unload the agent and remove its file."""
        with contextlib.suppress(UserError):
            _call("launchctl", "bootout", f"{_domain()}/{self.name}")
        self._path.unlink(missing_ok=True)


class Tasks(Timer):
    """A task of Windows' Task Scheduler."""

    by = "tasks"

    def where(self) -> str:
        """Return the task's name."""
        try:
            _call("schtasks", "/Query", "/TN", self.name)
        except UserError:
            return ""
        return self.name

    def xml(self) -> str:
        """Return the task."""
        return (
            '<?xml version="1.0" encoding="UTF-16"?>\n<Task version="1.2" '
            'xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task"><Triggers>'
            f"<CalendarTrigger><StartBoundary>2026-01-01T{HOUR:02}:00:00</StartBoundary>"
            "<ScheduleByDay><DaysInterval>1</DaysInterval></ScheduleByDay></CalendarTrigger>"
            "</Triggers><Settings><StartWhenAvailable>true</StartWhenAvailable>"
            "<ExecutionTimeLimit>PT20H</ExecutionTimeLimit></Settings><Actions><Exec>"
            f"<Command>{escape(self.program)}</Command><Arguments>retrain</Arguments>"
            f"<WorkingDirectory>{escape(str(self.project))}</WorkingDirectory>"
            "</Exec></Actions></Task>\n"
        )

    def install(self) -> None:
        """Create the task, or replace it."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "task.xml")
            path.write_text(self.xml(), encoding="utf-16")
            _call("schtasks", "/Create", "/TN", self.name, "/XML", str(path), "/F")

    def remove(self) -> None:
        """Delete the task."""
        if self.where():
            _call("schtasks", "/Delete", "/TN", self.name, "/F")


def timer_state(project: Path) -> TimerState:
    """Return whether nights begin by themselves in a project, and by what they could."""
    try:
        timer = _choose(project)
        where = timer.where()
    except UserError as error:
        return TimerState(by="", is_on=False, where="", why_not=str(error))
    return TimerState(by=timer.by, is_on=bool(where), where=where, why_not="")


def switch_timer(project: Path, *, on: bool) -> None:
    """Let a night begin every night at three, or no longer.

    Raises:
        UserError: If the system lets nobody install one, or fails; nothing is left behind then.
    """
    timer = _choose(project)
    try:
        if on:
            timer.install()
        else:
            timer.remove()
    except OSError as error:
        raise UserError(f"{error.filename} cannot be written ({error.strerror})") from None


def _choose(project: Path) -> Timer:
    """Return the system's timer.

    Raises:
        UserError: If there is none that works.
    """
    if sys.platform == "win32":
        return Tasks(project)
    if sys.platform == "darwin":
        return Launchd(project)
    for kind in (Systemd, Cron):  # what is installed, whatever works at this moment
        with contextlib.suppress(UserError):
            if (installed := kind(project)).where():
                return installed
    try:
        _call("systemctl", "--user", "show-environment")
    except UserError as error:
        runs = any(one.info["name"] in ("cron", "crond") for one in psutil.process_iter(["name"]))
        if runs:
            return Cron(project)
        raise UserError(
            f"no timer can be installed here: neither systemd's for users works ({error}), nor "
            'does cron run; press "Learn now" instead, or ask who looks after this machine'
        ) from None
    return Systemd(project)


def _domain() -> str:
    if sys.platform == "win32":
        return ""
    return f"gui/{os.getuid()}"


def _quote_unit(text: str) -> str:
    """Return an argument as a unit of systemd has it."""
    doubled = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{doubled}"'


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _call(*command: str, given: Sequence[str] = ()) -> str:
    """Run a program of the system and return what it printed.

    Raises:
        UserError: If it is not there, fails or does not answer.
    """
    text = "".join(f"{line}\n" for line in given)
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except FileNotFoundError:
        raise UserError(f"{command[0]} is not there") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"{command[0]}: {error}") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise UserError(f"{command[0]}: {said[-1] if said else f'exit code {done.returncode}'}")
    return done.stdout
