"""The record of a night: night.json and night.log, written before and after every step.

From night.json the next night finds where the last one was interrupted, and what is left of it.
"""

import logging
import os
import platform
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from signloom.config import check_shape, read_json
from signloom.errors import UserError, explain
from signloom.files import to_text, write_file
from signloom.paths import NIGHTS
from signloom_ops.nightly import schemas

FORMAT_VERSION = 2  # of night.json; in version 1 `rejects` were sentences
NIGHT, LOG = "night.json", "night.log"
_WHOLE = ("promoted", "nothing_new", "refused", "data_refused")  # outcomes that leave nothing
_BEFORE = ("pull", "finish_change", "consents", "plan")  # steps that leave nothing to track

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class StepResult:
    """What a step did, for the record; a step that hands more on extends it."""

    text: str
    """What it did, or why nothing was to be done; names of people are only in `facts`."""
    is_skipped: bool = False
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Plain values, for JSON."""
    warnings: tuple[str, ...] = ()
    """What a person should check, though the night goes on."""


P = ParamSpec("P")
Result = TypeVar("Result", bound=StepResult)


@dataclass(frozen=True, kw_only=True, slots=True)
class InterruptedNight:
    """A night that did not come to its end: it was killed, was stopped or failed."""

    key: str
    started: str
    version: int | None
    """The version that it had trained, if it came that far."""
    step: str
    """The step that it came to; empty: none."""
    was_killed: bool


class NightRecord:
    """The record of one night; only what runs the night writes to it."""

    def __init__(self, folder: Path = NIGHTS) -> None:
        """Begin it, and take over what the night before left if it did not come to its end."""
        self.folder = folder
        self.path = folder / NIGHT
        self._begun = time.monotonic()
        last = find_interrupted(self.path)
        self.has_untracked = last is not None and last.step not in ("", *_BEFORE)
        """Whether the night before may have left a corpus or models that DVC does not have."""
        self.content: dict[str, Any] = {
            "format_version": FORMAT_VERSION,
            # Where a night goes on, so does its MLflow run.
            "key": last.key if last and last.was_killed else uuid.uuid4().hex,
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
            "version": last.version if last else None,
            "batches": [],
            "reasons": [],
            "steps": [],
            "warnings": [],
        }
        self._log(f"night begins, process {os.getpid()} on {platform.node()}")
        if last and last.was_killed:
            where = f" in step {last.step}" if last.step else ""
            self._log(f"the night of {last.started} was interrupted{where}")
        if last and self.has_untracked:  # a further night needs this, until the step `track`
            self._begin(last.step, "failed", "interrupted")
        self._write()

    def note(self, **facts: Any) -> None:
        """Set values of the night as a whole."""
        self.content |= facts
        self._write()

    def warn(self, text: str) -> None:
        """Keep what a person should check, though the night goes on."""
        logger.warning("%s", text)
        self.content["warnings"].append(text)
        self._log(f"warning: {text}")
        self._write()

    def step(
        self, name: str, work: Callable[P, Result], *arguments: P.args, **named: P.kwargs
    ) -> Result:
        """Time a step, and keep its result or why it failed."""
        begun, row = time.monotonic(), self._begin(name)
        self._write()
        try:
            result = work(*arguments, **named)
            state = "skipped" if result.is_skipped else "done"
            row |= {"result": state, "text": result.text, **result.facts}
        except BaseException as error:
            text = explain(error) or str(error) or type(error).__name__
            row |= {"result": "failed", "text": text}
            raise
        finally:
            row["seconds"] = round(time.monotonic() - begun, 2)
            self._log(f"{name}: {row['result']} in {row['seconds']:.1f} s: {row['text']}")
            logger.info("%s: %s", name, row["text"] or row["result"])
            self._write()
        for text in result.warnings:
            self.warn(text)
        return result

    def attempt(
        self, name: str, work: Callable[P, StepResult], *arguments: P.args, **named: P.kwargs
    ) -> None:
        """Do a step whose failure is a warning."""
        try:
            self.step(name, work, *arguments, **named)
        except (UserError, OSError, subprocess.SubprocessError) as error:
            self.warn(f"{name}: {explain(error) or error}")

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

    def _begin(self, name: str, result: str = "running", text: str = "") -> dict[str, Any]:
        row = {"name": name, "started": _now(), "seconds": None, "result": result, "text": text}
        self.content["steps"].append(row)
        return row

    def _write(self) -> None:
        write_file(self.path, to_text(self.content))

    def _log(self, text: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / LOG).open("a", encoding="utf-8") as file:
            file.write(f"{_now()}  {' '.join(text.split())}\n")


def find_interrupted(path: Path = NIGHTS / NIGHT) -> InterruptedNight | None:
    """Return the last night if it did not come to its end; None: it did."""
    try:
        last = check_shape(read_json(path, hint=""), schemas.RECORD, where=path, hint="")
    except UserError:
        return None
    if last["outcome"] in _WHOLE:
        return None
    return InterruptedNight(
        key=last["key"],
        started=last["started"],
        version=last["version"],
        step=last["steps"][-1]["name"] if last["steps"] else "",
        was_killed=last["outcome"] == "running",
    )


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")
