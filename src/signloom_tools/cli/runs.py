"""The MLflow runs of a DVC experiment."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from signloom.errors import UserError
from signloom.tracking.mlflow_store import first_line, import_mlflow, is_there, store_name
from signloom.tracking.run import BASELINE, EXPERIMENT, REPRO, RETRAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRun:
    """One run of MLflow."""

    run_id: str
    name: str
    status: str
    start: datetime
    mlflow_experiment: str
    dvc_experiment: str  # "" for a run of a plain `dvc repro`
    baseline: str  # commit that the experiment started from, "" likewise


def find_runs(dvc_experiment: str | None) -> list[FoundRun]:
    """Return the runs of a DVC experiment, or of all of them, the oldest first.

    What lies below a stage's run (trials of a search) is left out.

    Args:
        dvc_experiment: As `dvc exp show` names it; None: the runs of every experiment.

    Raises:
        UserError: If the store does not answer.
    """
    if not is_there():
        return []
    mlflow = import_mlflow()
    if dvc_experiment is None:
        wanted = f"tags.{EXPERIMENT} != ''"
    else:
        wanted = f"tags.{EXPERIMENT} = '{dvc_experiment.replace(chr(39), '')}'"
    try:
        client = mlflow.MlflowClient()
        names = {one.experiment_id: one.name for one in client.search_experiments()}
        found = _search_all(client, list(names), wanted)
    except mlflow.exceptions.MlflowException as error:
        raise UserError(
            f"{store_name()} does not answer ({first_line(error)}); check MLFLOW_TRACKING_URI"
        ) from None
    groups = {run.info.run_id for run in found if run.data.tags.get("stage") in (REPRO, RETRAIN)}
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
        if run.data.tags.get("mlflow.parentRunId") in (None, *groups)
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
