"""The record of a night: night.json and night.log.

A night that was cut is recognised by its night.json, which still says `running`.
"""

import contextlib
import logging
import os
import platform
import time
import uuid
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from signloom.config import read_json
from signloom.errors import UserError
from signloom.files import to_text, write_file
from signloom.paths import NIGHTS

FORMAT_VERSION = 1
NIGHT, LOG = "night.json", "night.log"

logger = logging.getLogger(__name__)


class Step:
    """One step of a night, while it runs."""

    def __init__(self, row: dict[str, Any]) -> None:
        self._row = row

    def say(self, text: str, **facts: Any) -> None:
        """Note what it did, in words and as plain values."""
        self._row |= {"text": text, **facts}

    def skip(self, text: str) -> None:
        """Note why nothing was to be done."""
        self._row |= {"result": "skipped", "text": text}


class Summary:
    """The record of one night."""

    def __init__(self, folder: Path = NIGHTS) -> None:
        """Begin it, and look whether the one before was cut."""
        self.folder = folder
        self._begun = time.monotonic()
        self.cut, key = _find_cut(folder / NIGHT)
        self.content: dict[str, Any] = {
            "format_version": FORMAT_VERSION,
            "key": key or uuid.uuid4().hex,  # where a night goes on, so does its MLflow run
            "outcome": "running",
            "exit_code": None,
            "verdict": "",
            "started": _now(),
            "ended": None,
            "seconds": None,
            "host": platform.node(),
            "pid": os.getpid(),
            "champion_before": None,
            "champion": None,
            "version": None,
            "batches": [],
            "reasons": [],
            "steps": [],
            "warnings": [],
        }
        self._log(f"night begins, process {os.getpid()} on {platform.node()}")
        if self.cut:
            self._log(self.cut)
        self._write()

    @property
    def path(self) -> Path:
        """Where night.json lies."""
        return self.folder / NIGHT

    def note(self, **facts: Any) -> None:
        """Set values of the night as a whole."""
        self.content |= facts
        self._write()

    def warn(self, text: str) -> None:
        """Keep what a person should look at, though the night goes on."""
        logger.warning("%s", text)
        self.content["warnings"].append(text)
        self._log(f"warning: {text}")
        self._write()

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Time a step, and keep its result whatever becomes of it."""
        begun = time.monotonic()
        row: dict[str, Any] = {
            "name": name, "started": _now(), "seconds": None, "result": "running", "text": "",
        }  # fmt: skip
        self.content["steps"].append(row)
        self._write()
        try:
            yield Step(row)
        except BaseException as error:
            text = str(error) or type(error).__name__
            row |= {"result": "failed", "text": row["text"] or text}
            raise
        finally:
            row["seconds"] = round(time.monotonic() - begun, 2)
            if row["result"] == "running":
                row["result"] = "done"
            self._log(f"{name}: {row['result']} in {row['seconds']:.1f} s: {row['text']}")
            logger.info("%s: %s", name, row["text"] or row["result"])
            self._write()

    def end(self, outcome: str, exit_code: int, verdict: str) -> None:
        """Close the record."""
        self.content |= {
            "outcome": outcome,
            "exit_code": exit_code,
            "verdict": verdict,
            "ended": _now(),
            "seconds": round(time.monotonic() - self._begun, 2),
        }
        self._log(f"night ends with exit code {exit_code} ({outcome}): {verdict}")
        self._write()

    def lasting(self, outcome: str) -> dict[str, Any]:
        """Return what the report shows of a night: nothing that differs if it is run again."""
        keys = ("verdict", "version", "champion_before", "champion", "batches", "reasons",
                "warnings")  # fmt: skip
        return {"outcome": outcome, **{key: self.content[key] for key in keys}}

    def _write(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        write_file(self.path, to_text(self.content))

    def _log(self, text: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / LOG).open("a", encoding="utf-8") as file:
            file.write(f"{_now()}  {' '.join(text.split())}\n")


def _find_cut(path: Path) -> tuple[str, str]:
    """Say in which step the last night was cut, and give its key; empty: it was not."""
    try:
        last = read_json(path, hint="")
        if last["outcome"] != "running":
            return "", ""
        steps = [row["name"] for row in last["steps"] if row["result"] == "running"]
        where = f" in step {steps[-1]}" if steps else ""
        return f"the night of {last['started']} was cut{where}", str(last["key"])
    except (UserError, KeyError, TypeError):
        return "", ""


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")
