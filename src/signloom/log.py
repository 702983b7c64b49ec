"""The log of a stage: lines on stderr and in a file, a fact once for all processes of the stage."""

import logging
import os
import sys
from datetime import datetime
from pathlib import Path

import psutil  # type: ignore[import-untyped]
from filelock import lock_descriptor

from signloom.paths import LOGS

ONCE = {"is_once": True}
"""`extra` of a warning about a fact, which each trial, seed and process would say again."""
GROUP = "SIGNLOOM_STAGE"  # tells a process that it belongs to a stage that was started before


def open_log(stage: str, *, level: int = logging.INFO) -> "StageLog":
    """Write what this process logs to stderr and to the file of a stage, `data/logs/STAGE.log`."""
    log = StageLog(LOGS / f"{stage}.log", os.environ.pop(GROUP, "") or group_name())
    logging.basicConfig(level=level, handlers=[log])
    return log


def log_path() -> Path | None:
    """Return the file that this process logs to, if it is part of a stage."""
    handlers = logging.getLogger().handlers
    return next((handler.path for handler in handlers if isinstance(handler, StageLog)), None)


def keep_in_log(text: str) -> None:
    """Put a line into the stage's log alone, if this process is part of a stage."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, StageLog):
            handler.keep("INFO", text)


def group_name() -> str:
    """Return what names a stage: its first process, or `torchrun`, which starts all of them."""
    pid = os.getppid() if "LOCAL_RANK" in os.environ else os.getpid()
    started = datetime.fromtimestamp(psutil.Process(pid).create_time()).astimezone()
    return f"process {pid}, started {started.isoformat(timespec='milliseconds')}"


class StageLog(logging.StreamHandler):  # type: ignore[type-arg]  # mypy and Python 3.11 disagree
    """Shows lines on stderr and keeps them in a file, which the next run of the stage replaces.

    The file is also how the processes of a stage know what another one has said.
    """

    def __init__(self, path: Path, group: str) -> None:
        """Take the file and the name of the stage's processes.

        Args:
            path: The file; it is made, or emptied if it is of another group.
            group: The same for all processes of a stage, and for no other run of it.
        """
        super().__init__(sys.stderr)
        self.setFormatter(logging.Formatter("%(message)s"))  # as `basicConfig` has its own
        self.path, self._head = path, f"# {group}\n"
        self._said: set[str] = set()  # by this process
        self.keep("INFO", "begins", is_once=True)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record and show it, unless it is a fact that was said."""
        text = self.format(record)
        is_once = getattr(record, "is_once", False)
        if is_once and text in self._said:
            return
        self._said.add(text)
        if self.keep(record.levelname, text, is_once=is_once):
            super().emit(record)

    def keep(self, level: str, text: str, *, is_once: bool = False) -> bool:
        """Append a line to the file alone; return False for a fact that is there."""
        entry = f" {level} {text.strip()}\n"
        line = datetime.now().isoformat(sep=" ", timespec="seconds") + entry
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a+", encoding="utf-8", errors="backslashreplace") as file:
                lock_descriptor(file.fileno())
                file.seek(0)
                if file.readline() != self._head:  # of an earlier run, or new
                    file.truncate(0)
                    file.write(self._head)
                elif is_once and entry in file.read():
                    return False
                file.write(line)
        except OSError:  # a full disk, say: stderr still has it
            pass
        return True
