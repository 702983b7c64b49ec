"""The tab Learn: the first corpus, nights, and what they decided."""

import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from starlette.routing import Route

from signloom.config import check_shape, load_section, read_json, shape
from signloom.corpus.manifest import CorpusOptions
from signloom.paths import NIGHTS, PARAMS, REPORT_PAGE
from signloom_ops.app import first_corpus
from signloom_ops.app.night_process import NightProcess, find_refusal
from signloom_ops.app.requests import AppRequest, route
from signloom_ops.app.takes import TakeError
from signloom_ops.intake.changes import read_rejects
from signloom_ops.nightly.record import NIGHT
from signloom_ops.nightly.store import ModelStore

_CAME_IN = ("consents", "ingest")  # steps of a night that change the corpus
_LEAVE = "remove it: the next night writes it again"
_STEP: Any = shape(name=str, text=(str, ""))
_NIGHT = shape(
    outcome=(str | None, None),
    verdict=(str | None, None),
    started=(str | None, None),
    version=(int | None, None),
    steps=(list[_STEP], []),
    warnings=(list[str], []),
)


class Nights:
    """Routes of the nights of a project."""

    def __init__(self) -> None:
        self._night = NightProcess()

    def routes(self) -> list[Route]:
        """Return them."""
        return [
            route("/api/nights", _describe),
            # A second request finds the corpus founded.
            route(
                "/api/found",
                lambda request: first_corpus.found(_splits_of(request)),
                "POST",
                status=201,
            ),
            route(
                "/api/propose", lambda request: first_corpus.propose(_splits_of(request)), "POST"
            ),
            route("/api/learn", lambda _: self._night.state()),
            route("/api/learn", lambda _: self._night.start(), "POST", status=202),
            route("/api/learn", lambda _: self._night.stop(), "DELETE", status=202),
            route("/api/rollback", _roll_back, "POST"),
        ]


def _describe(_: AppRequest) -> dict[str, Any]:
    store, is_founded = ModelStore(), first_corpus.is_founded()
    return {
        "founding": None if is_founded else asdict(first_corpus.propose()),
        "refused": find_refusal() if is_founded else "",
        "champion": store.champion(),
        "history": [asdict(change) for change in store.pointer().history],
        "night": _last_night(store),
        "again": _list_refused(),
        "report": REPORT_PAGE.is_file(),
        "free_gb": round(shutil.disk_usage(Path()).free / 1e9, 1),
    }


def _last_night(store: ModelStore) -> dict[str, Any] | None:
    """Return what the last night took in and decided; None: there was none."""
    path = NIGHTS / NIGHT
    if not path.is_file():
        return None
    night = check_shape(read_json(path, hint=_LEAVE), _NIGHT, where=path, hint=_LEAVE)
    decision = store.decision(night["version"]) if night.get("version") else None
    came_in = [step.get("text", "") for step in night.get("steps", ()) if step["name"] in _CAME_IN]
    facts = {key: night.get(key) for key in ("outcome", "verdict", "started")}
    messages = [*came_in, *night.get("warnings", ())]
    return {**facts, "messages": messages, "rules": (decision or {}).get("rules", ())}


def _list_refused() -> list[dict[str, str]]:
    """Return what was left out of the corpus and could be recorded again."""
    rows = read_rejects(load_section(PARAMS, "corpus", CorpusOptions))
    return [{"clip": row.where, "reason": row.reason, "hint": row.hint} for row in rows]


def _splits_of(request: AppRequest) -> dict[str, str]:
    splits = request.content.get("splits")
    if not isinstance(splits, dict) or not all(isinstance(split, str) for split in splits.values()):
        raise TakeError("splits: expected a split for each signer")
    return splits


def _roll_back(_: AppRequest) -> dict[str, Any]:
    """Go back as `signloom champion rollback` does, with DVC and the registry."""
    program = Path(sys.executable).with_name("signloom")
    process = subprocess.run(
        [str(program), "champion", "rollback"], capture_output=True, text=True, check=False
    )
    if process.returncode:
        raise TakeError(process.stderr.strip().splitlines()[-1], 409)
    return {"champion": ModelStore().champion()}
