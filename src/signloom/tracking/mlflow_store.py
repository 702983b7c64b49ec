"""MLflow, with its telemetry and chatter off, and the store that it speaks to."""

import logging
import os
import re
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
    """Return the first line of an error's text that says what is wrong, without a password."""
    lines = (line for line in str(error).splitlines() if "autoflush" not in line)  # SQLAlchemy's
    return hide_password(next(lines, ""))


def answer_limit() -> str:
    """Return in words how long a server may be silent; nothing of a database."""
    if not store_name().startswith("http"):
        return ""
    seconds = os.environ.get("MLFLOW_HTTP_REQUEST_TIMEOUT", ANSWER_S)
    return f", which has {seconds} s for each answer"


def tell_waiting() -> None:
    """Say that a server is asked and may be silent for a while."""
    if limit := answer_limit():
        logger.info("asking %s%s", store_name(), limit)


def is_there() -> bool:
    """Return whether there can be runs: a database that is missing would be made by asking it."""
    uri = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{DEFAULT_STORE}"
    path = uri.partition("?")[0].removeprefix("sqlite:///")
    return not uri.startswith("sqlite:///") or path.startswith("file:") or Path(path).is_file()
