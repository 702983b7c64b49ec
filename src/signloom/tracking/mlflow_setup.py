"""MLflow, with its telemetry and chatter off, and the store that it speaks to."""

import contextlib
import logging
import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DEFAULT_STORE = "mlflow.db"  # in the working directory
ANSWER_S = 20  # that a server may take to answer a request
SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    # We try again ourselves; MLflow's defaults would hold a call for minutes.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": str(ANSWER_S),
}
logger = logging.getLogger(__name__)


def import_mlflow() -> Any:
    """Return the module `mlflow`; who uses no tracking never loads it."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)  # before the import reads them; a person's own win
    import mlflow  # here and not above: it takes seconds

    for chatty in ("mlflow", "alembic"):
        logging.getLogger(chatty).setLevel(logging.ERROR)
    return mlflow


def store_name(environment: Mapping[str, str] = os.environ) -> str:
    """Return where runs go, without a password: records go to no other store than theirs."""
    return hide_password(environment.get("MLFLOW_TRACKING_URI") or DEFAULT_STORE).rstrip("/")


def hide_password(text: str) -> str:
    """Mask the password of every URL in a text that a log will keep."""
    return re.sub(r"(://[^:/@\s]*):[^@/\s]*@", r"\1:***@", text)


def first_line(error: Exception) -> str:
    """Return the first line of an error's text that has the reason, without a password."""
    lines = (line for line in str(error).splitlines() if "autoflush" not in line)  # SQLAlchemy's
    return hide_password(next(lines, ""))


def answer_limit() -> str:
    """Return as text how long a server may be silent; nothing of a database."""
    if not store_name().startswith("http"):
        return ""
    seconds = os.environ.get("MLFLOW_HTTP_REQUEST_TIMEOUT", ANSWER_S)
    return f", which has {seconds} s for each answer"


def run_address(experiment: str, run: str) -> str:
    """Return as text where MLflow shows a run, by its id and that of its experiment."""
    where = "MLflow" if store_name().startswith("http") else "MLflow, after `mlflow ui`"
    return f"{where}: {page_address(f'experiments/{experiment}/runs/{run}')}"


def page_address(page: str) -> str:
    """Return the address of a page of MLflow, such as `experiments/1/runs`.

    Without its end MLflow 3 shows the pages of agents and prompts, where a training lies below
    "Evaluations".
    """
    shown = re.sub(r"://[^/@]*@", "://", store_name())  # with "***" as password: refused
    base = shown if shown.startswith("http") else "http://127.0.0.1:5000"
    sign = "&" if "?" in page else "?"
    return f"{base}/#/{page}{sign}workflowType=machine_learning"


def tell_waiting() -> None:
    """Say that a server is asked and may be silent for a while."""
    if limit := answer_limit():
        logger.info("asking %s%s", store_name(), limit)


def _database_file() -> Path | None:
    """Return the file of a database that MLflow opens itself; None of a server."""
    uri = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{DEFAULT_STORE}"
    path = uri.partition("?")[0].removeprefix("sqlite:///")
    return Path(path) if uri.startswith("sqlite:///") and not path.startswith("file:") else None


def prepare_database() -> None:
    """Make MLflow's database whole or not at all; one that a kill left half made is put aside.

    MLflow makes it table by table for some seconds, and never again where it was stopped.
    """
    path = _database_file()
    if path is None or (path.is_file() and not _is_half_made(path)):
        return
    mlflow = import_mlflow()
    if path.is_file():
        aside = path.with_name(f"{path.name}.half-made")
        path.replace(aside)
        logger.warning("%s was half made and holds no run: it is %s now", path, aside)
    path.parent.mkdir(parents=True, exist_ok=True)
    for leftover in path.parent.glob(f".{path.name}.*"):  # by a process that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        database = Path(folder, path.name)
        mlflow.MlflowClient(tracking_uri=f"sqlite:///{database}").search_experiments()
        if not path.exists():  # else another process has made it meanwhile
            database.replace(path)


def _is_half_made(path: Path) -> bool:
    """Return whether a database lacks what MLflow writes last: its first experiment."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            names = "SELECT name FROM sqlite_master WHERE type = 'table'"
            tables = {name for (name,) in database.execute(names)}
            if "experiments" not in tables:
                return tables <= {"alembic_version"}
            return database.execute("SELECT 1 FROM experiments").fetchone() is None
    except sqlite3.Error:  # of another kind, or locked: MLflow's error has the reason
        return False
