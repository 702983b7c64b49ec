"""The MLflow runs of a DVC experiment."""

import os
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from signloom.errors import UserError
from signloom.tracking.journal import store_name
from signloom.tracking.run import BASELINE, EXPERIMENT


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRun:
    """One run, as a person looks for it."""

    run_id: str
    name: str
    status: str
    start: datetime
    mlflow_experiment: str
    dvc_experiment: str  # "" for a run of a plain `dvc repro`
    baseline: str  # commit that the experiment started from, "" likewise


def find_runs(dvc_experiment: str | None) -> list[FoundRun]:
    """Return the runs of a DVC experiment, or of all of them, the oldest first.

    Children (trials of a search) are left out: they stand below their parent.

    Args:
        dvc_experiment: As `dvc exp show` names it; None: the runs of every experiment.

    Raises:
        UserError: If the store does not answer.
    """
    # Set before the import, which reads them.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    import mlflow
    from mlflow.exceptions import MlflowException

    if dvc_experiment is None:
        wanted = f"tags.{EXPERIMENT} != ''"
    else:
        wanted = f"tags.{EXPERIMENT} = '{dvc_experiment.replace(chr(39), '')}'"
    client = mlflow.MlflowClient()
    try:
        names = {one.experiment_id: one.name for one in client.search_experiments()}
        found = _search_all(client, list(names), wanted)
    except MlflowException as error:
        raise UserError(
            f"{store_name(os.environ)} does not answer ({str(error).splitlines()[0]}); check "
            "MLFLOW_TRACKING_URI"
        ) from None
    return [
        FoundRun(
            run_id=run.info.run_id,
            name=run.info.run_name,
            status=run.info.status,
            start=datetime.fromtimestamp(run.info.start_time / 1000).astimezone(),
            mlflow_experiment=names[run.info.experiment_id],
            dvc_experiment=run.data.tags.get(EXPERIMENT, ""),
            baseline=run.data.tags.get(BASELINE, ""),
        )
        for run in found
        if "mlflow.parentRunId" not in run.data.tags
    ]


def _search_all(client: Any, experiments: list[str], wanted: str) -> list[Any]:
    """Return what a search finds, page after page, the oldest first."""
    found: list[Any] = []
    token = None
    while True:
        page = client.search_runs(
            experiments, wanted, order_by=["attributes.start_time ASC"], page_token=token
        )
        found += page
        token = page.token
        if not token:
            return found
