"""Nights that are started, watched and stopped from the page.

What a page shows is read from the night's own files, so that a night which a timer or a
terminal started looks the same, and one goes on when the app ends.
"""

import platform
import re
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]

from signloom.config import load_section, read_json
from signloom.corpus.manifest import CorpusOptions
from signloom.errors import UserError
from signloom.paths import NIGHTS, PARAMS
from signloom_ops.nightly.night import STAGES_LOG
from signloom_ops.nightly.plan import STEPS, read_settings
from signloom_ops.nightly.record import NIGHT
from signloom_ops.options import load_ops
from signloom_tools.dvc import refuse_drawn

OUTPUT = "now.log"  # in the folder of night.json: what a night of the page printed
_ORDER = ("plan", *STEPS["train"].split(", "))
_LINES, _READ = 40, 20_000  # of the logs: shown, and bytes that are read for them
_BAR = re.compile(r"(\d+)%\|")


@dataclass(frozen=True, slots=True, kw_only=True)
class NightState:
    """How a night goes."""

    running: bool
    step: str  # that runs; empty: none yet
    number: int  # of the step, from 1
    steps: int
    percent: int | None  # of the step, where it says so
    log: str  # the last lines
    failure: str  # why a night of this page could not begin, or broke; empty: it did not


class NightProcess:
    """The night that this page started, if any."""

    def __init__(self) -> None:
        self._starting = threading.Lock()  # two browsers may press together
        self._process: subprocess.Popen[bytes] | None = None
        self._began_s = 0.0

    def start(self) -> None:
        """Start a night in a session of its own; one that runs is left alone.

        Raises:
            UserError: If it cannot be started.
        """
        with self._starting:
            if self._is_ours() or _find_night() is not None:
                return
            _let_settle()
            NIGHTS.mkdir(parents=True, exist_ok=True)
            program = Path(sys.executable).with_name("signloom")
            self._began_s = time.time()
            with (NIGHTS / OUTPUT).open("wb") as out:
                self._process = subprocess.Popen(
                    [program, "retrain"],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )

    def stop(self) -> None:
        """Ask the night that runs to end; the next one goes on where it was.

        Raises:
            UserError: If none runs.
        """
        night = _find_night()
        if night is None and self._process is not None and self._is_ours():
            night = psutil.Process(self._process.pid)
        if night is None:
            raise UserError("no night is running")
        try:
            night.terminate()
        except psutil.AccessDenied:
            raise UserError("the night belongs to another user, who alone can stop it") from None
        except psutil.NoSuchProcess:
            raise UserError("no night is running") from None

    def state(self) -> NightState:
        """Return how the night goes, or how the last one of this page ended."""
        has_record = _find_night() is not None
        is_running = has_record or self._is_ours()
        content = _read_night() if has_record or not is_running else {}
        rows = content.get("steps", ()) if is_running else ()
        step = next((str(row["name"]) for row in rows if row["result"] == "running"), "")
        stages_log = _tail(NIGHTS / STAGES_LOG)
        now = stages_log.rpartition("\n--- ")[2]  # of the program that runs, not of those before
        bars = _BAR.findall(now) if step in ("extract", "train", "evaluate") else ()
        output = _tail(NIGHTS / OUTPUT)
        return NightState(
            running=is_running,
            step=step,
            number=len(rows),
            steps=max(len(rows), len(_ORDER)),
            percent=int(bars[-1]) if bars else None,
            log=f"{output}\n{stages_log}".strip() if is_running else output,
            failure="" if is_running else self._failure(content, output),
        )

    def _is_ours(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _failure(self, content: Mapping[str, Any], output: str) -> str:
        """Return why a night that this page started wrote no verdict."""
        if self._process is None or self._process.returncode == 0:
            return ""
        started = content.get("started", "")
        has_begun = started and datetime.fromisoformat(started).timestamp() >= self._began_s - 1
        if has_begun and content.get("outcome") != "running":
            return ""  # its record says it
        if output and not has_begun:
            return output.splitlines()[-1]
        return f"exit code {self._process.returncode}"  # killed, as where memory was short


def _read_night() -> dict[str, Any]:
    try:
        return dict(read_json(NIGHTS / NIGHT, hint=""))
    except (UserError, TypeError, ValueError):
        return {}


def _find_night() -> psutil.Process | None:
    """Return the process of the night that runs on this machine; None: none does."""
    night = _read_night()
    if night.get("outcome") != "running" or night.get("host") != platform.node():
        return None
    try:
        process = psutil.Process(night["pid"])
        began_s = datetime.fromisoformat(night["started"]).timestamp()
        # The system gives numbers of ended processes away again.
        is_it = process.create_time() < began_s + 1 and "retrain" in process.cmdline()
    except (psutil.Error, KeyError, ValueError):
        return None
    return process if is_it and process.status() != psutil.STATUS_ZOMBIE else None


def find_refusal() -> str:
    """Return why a night would take in nothing that is delivered; empty: it would."""
    try:
        refuse_drawn(load_section(PARAMS, "corpus", CorpusOptions).folder)
        read_settings(PARAMS)
    except UserError as error:
        return str(error)
    return ""


def _let_settle() -> None:
    """Wait until the last delivery counts as whole: a night leaves younger ones for the next."""
    ops = load_ops(PARAMS)
    times_s = [path.stat().st_mtime for path in ops.inbox.glob("app-*/table.tsv")]
    age_s = time.time() - max(times_s, default=0.0)
    time.sleep(min(max(0.0, ops.ingest.settle_s + 1 - age_s), 60.0))


def _tail(path: Path) -> str:
    """Return the last lines of a log, of a bar its last state."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _READ))
        text = file.read().decode(errors="replace")
    lines = [line.rsplit("\r", 1)[-1] for line in text.split("\n")]
    return "\n".join([line for line in lines if line.strip()][-_LINES:])
