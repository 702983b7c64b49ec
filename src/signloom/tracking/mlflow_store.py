"""MLflow, with its telemetry and chatter off, and the store that it speaks to."""

import logging
import os
import re
from collections.abc import Mapping
from typing import Any

SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    # We try again ourselves; MLflow's defaults would hold a call for minutes.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
}


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
    return hide_password(environment.get("MLFLOW_TRACKING_URI") or "mlflow.db")


def hide_password(text: str) -> str:
    """Mask the password of every URL in a text that a log will keep."""
    return re.sub(r"(://[^:/@\s]*):[^@/\s]*@", r"\1:***@", text)


def first_line(error: Exception) -> str:
    """Return the first line of an error's text, without a password."""
    return hide_password((str(error).splitlines() or [""])[0])
