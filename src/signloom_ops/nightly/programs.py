"""Programs that a night runs: DVC and git."""

import contextlib
import os
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import IO, Literal

import psutil  # type: ignore[import-untyped]

from signloom.errors import UserError
from signloom.system import interrupt
from signloom.tracking.run import NIGHT_KEY

_PATIENCE_S = 10.0  # after Ctrl-C, which the terminal also sends to the children
_STOP_S = 30.0  # after the signal to stop
_TAIL = 15  # lines of a failed program in the message


class Programs:
    """Runs programs in the project, without a shell."""

    def __init__(self, *, lock: int, log: Path, night: str) -> None:
        """Set them up.

        Args:
            lock: Handle of the night's lock. Children hold it too, so that a stage which
                outlives a killed night keeps others away.
            log: What they print is written there, unless a person watches; emptied first.
            night: Key of the night.
        """
        self._lock = lock
        self._mode: Literal["wb", "ab"] = "wb"
        self._log = log
        folder = str(Path(sys.executable).parent)  # cron activates no virtual environment
        path = os.pathsep.join([folder, os.environ.get("PATH", os.defpath)])
        variables = {"PATH": path, NIGHT_KEY: night, "DVC_NO_ANALYTICS": "true"}
        self._environment = {**os.environ, **variables, "GIT_TERMINAL_PROMPT": "0"}

    def dvc(self, *arguments: str) -> None:
        """Run DVC.

        Raises:
            UserError: If it fails, with the end of what it printed.
        """
        name = f"dvc {' '.join(arguments)}"
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open(self._mode) as log:
            self._mode = "ab"
            log.write(f"--- {name}\n".encode())
            log.flush()
            begin = log.tell()
            out: IO[bytes] | None = None if sys.stderr.isatty() else log
            process = subprocess.Popen(
                [sys.executable, "-m", "dvc", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out or sys.stderr,
                stderr=out,
                env=self._environment,
                pass_fds=() if sys.platform == "win32" else (self._lock,),
            )
            code = _wait(process)
        if code:
            output = _tail(self._log, begin) if out else "its output is above"
            raise UserError(f"{name} failed with exit code {code}:\n{output}")

    def git(self, *arguments: str) -> str:
        """Run git and return what it prints.

        Raises:
            UserError: If it fails.
        """
        process = subprocess.run(
            ["git", *arguments],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            env=self._environment,
        )
        if process.returncode:
            raise UserError(
                f"git {arguments[0]} failed: {(process.stderr or process.stdout).strip()}"
            )
        return process.stdout


def _wait(process: "subprocess.Popen[bytes]") -> int:
    """Wait for a program; however the wait ends, no process of it stays behind."""
    try:
        return process.wait()
    except BaseException as error:
        is_ctrl_c = type(error) is KeyboardInterrupt
        _stop(process.pid, patience_s=_PATIENCE_S if is_ctrl_c else 0.0)
        raise
    finally:
        process.poll()


def _stop(pid: int, *, patience_s: float) -> None:
    """End a process and all below it; asked first, a stage keeps what it has."""
    try:
        root = psutil.Process(pid)
        tree = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return
    _, alive = psutil.wait_procs(tree, timeout=patience_s)
    for end in interrupt, psutil.Process.kill:
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                end(process)
        _, alive = psutil.wait_procs(alive, timeout=_STOP_S)


def _tail(path: Path, begin: int) -> str:
    with path.open("rb") as file:
        file.seek(begin)
        lines = file.read().decode(errors="replace").replace("\r", "\n").splitlines()
    return "\n".join(deque((line for line in lines if line.strip()), maxlen=_TAIL))
