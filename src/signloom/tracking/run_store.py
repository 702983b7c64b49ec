"""Runs of MLflow, made and filled from records.

Everything may be sent twice without harm: a run is found again by its key before it is made, and
MLflow takes a number, tag, parameter or file that it has already for the same one.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from signloom.tracking.journal import Outbox
from signloom.tracking.mlflow_setup import import_mlflow, prepare_database

KEY = "signloom.key"  # tag by which a run is found again
SUMMARY = ("score", "headline")  # metrics and tags that the run of a `dvc repro` shows, too
MAX_VALUE_CHARS = 500  # of a param or tag; the whole params.yaml is an artifact anyway
MAX_PARAMS, MAX_METRICS = 100, 1000  # a call, MLflow's own limits
REFUSALS = ("INVALID_PARAMETER_VALUE", "BAD_REQUEST", "RESOURCE_ALREADY_EXISTS", "INVALID_STATE")
SCORES_VIEW = "scores"  # the name in the address of `VIEW`
VIEW = {  # of MLflow's table of runs, which shows no metric of itself
    "searchFilter": "metrics.`score/test` > -1000000000",
    "orderByKey": "metrics.`score/test`",
    "orderByAsc": False,
    "startTime": "ALL",
    "lifecycleFilter": "Active",
    "modelVersionFilter": "All Runs",
    "datasetsFilter": [],
    "selectedColumns": ["metrics.`score/test`", "metrics.`score/dev`", "tags.`changed`"],
}
VIEW_TAG = {f"mlflow.sharedViewState.{SCORES_VIEW}": json.dumps(VIEW)}
Records = Sequence[Mapping[str, Any]]
logger = logging.getLogger(__name__)


class WaitError(Exception):
    """The run's parent or experiment is not in MLflow; other runs can be sent."""


class RunStore:
    """The client of MLflow."""

    def __init__(self) -> None:
        prepare_database()
        self._client = import_mlflow().MlflowClient()
        self._seen: dict[tuple[Path, str], set[int]] = {}  # journal, metric: steps that are there

    def open_run(self, start: Mapping[str, Any]) -> dict[str, Any]:
        """Find the run of a journal, or make it, and the run above it.

        Args:
            start: The journal's first record.

        Returns:
            What `send` needs to know of it: `run_id`, `above` (the run of the `dvc repro`),
            `is_new`, `rest_ms` (between its last end and now); and its `experiment`.

        Raises:
            WaitError: If the experiment was deleted, or the run above is not there.
        """
        experiment, parent, tags = self._experiment(start["experiment"]), None, start["tags"]
        if repro := start.get("above"):
            parent, _ = self._open(experiment, start["parent"], {**start, **repro})
        elif start["parent"]:
            parent = self._find(experiment, start["parent"])
            if parent is None:
                raise WaitError(
                    f"the run above {start['name']!r} was deleted in MLflow, or not uploaded yet"
                )
        if parent:
            tags = {**tags, "mlflow.parentRunId": parent}
        run_id, rest_ms = self._open(experiment, start["key"], {**start, "tags": tags})
        is_new = rest_ms is None
        if parent and not is_new:  # it was killed in one `dvc repro` and goes on in another
            self._client.set_tag(run_id, "mlflow.parentRunId", parent)
        return {
            "run_id": run_id,
            "above": parent if repro else None,
            "experiment": experiment,
            "is_new": is_new,
            "rest_ms": rest_ms or 0,
        }

    def _open(self, experiment: str, key: str, start: Mapping[str, Any]) -> tuple[str, int | None]:
        """Return the id of the run with a key, which runs from now on, and how long it rested.

        That is milliseconds since its last end; None of a new run.
        """
        if (existing := self._find(experiment, key)) is None:
            run = self._client.create_run(
                experiment,
                start_time=start["time_ms"],
                run_name=start["name"],
                tags=_cut({**start["tags"], KEY: key}),
            )
            return str(run.info.run_id), None
        before = self._client.get_run(existing)
        self._client.update_run(existing, status="RUNNING", name=start["name"])
        if "error" in before.data.tags:  # of the process before
            self._client.delete_tag(existing, "error")
        return existing, max(0, start["time_ms"] - (before.info.end_time or start["time_ms"]))

    def _find(self, experiment: str, key: str) -> str | None:
        runs = self._client.search_runs([experiment], f"tags.`{KEY}` = '{key}'", max_results=1)
        return str(runs[0].info.run_id) if runs else None

    def _experiment(self, name: str) -> str:
        """Return the id of an experiment, which is made if need be."""
        existing = self._client.get_experiment_by_name(name)
        if existing is None:
            # If another process makes it in between, this fails and the next try finds it.
            return str(self._client.create_experiment(name, tags=VIEW_TAG))
        if existing.lifecycle_stage != "active":
            raise WaitError(
                f"the MLflow experiment {name!r} was deleted: restore it with `mlflow "
                f"experiments restore -x {existing.experiment_id}` or set another "
                "`tracking.experiment` in params.yaml"
            )
        for key in VIEW_TAG.keys() - existing.tags.keys():  # an earlier version made it
            self._client.set_experiment_tag(existing.experiment_id, key, VIEW_TAG[key])
        return str(existing.experiment_id)

    def send(self, box: Outbox, kind: str, records: Records) -> None:
        """Send records of one kind; what MLflow refuses for good is logged and left out."""
        from mlflow.exceptions import MlflowException

        try:
            _SENDERS[kind](self, box, records)
        except MlflowException as error:
            if error.error_code not in REFUSALS:
                raise
            if len(records) > 1:
                for record in records:
                    self.send(box, kind, [record])
            else:
                logger.warning("MLflow refused %s: %s", records[0], str(error).splitlines()[0])

    def _metrics(self, box: Outbox, records: Records) -> None:
        from mlflow.entities import Metric

        # Epochs that were trained again after a kill have the same values at other times.
        points: dict[tuple[str, int], Metric] = {}
        for record in records:
            step = record["step"]
            for key, value in record["values"].items():
                # A run that goes on has its last end's seconds, not its first one's.
                if key == "seconds" or step not in self._seen_steps(box, key):
                    points.setdefault((key, step), Metric(key, value, record["time_ms"], step))
        metrics = [*points.values()]
        for first in range(0, len(metrics), MAX_METRICS):
            self._client.log_batch(box.sent["run_id"], metrics=metrics[first : first + MAX_METRICS])
        shown = [metric for metric in metrics if metric.key.partition("/")[0] in SUMMARY]
        if shown and box.sent.get("above"):
            self._client.log_batch(box.sent["above"], metrics=shown)
        for key, step in points:
            self._seen_steps(box, key).add(step)

    def _seen_steps(self, box: Outbox, metric: str) -> set[int]:
        """Return the steps of which a run has a point of a metric."""
        if (box.folder, metric) not in self._seen:
            run_id, is_new = box.sent["run_id"], box.sent.get("is_new", False)
            history = [] if is_new else self._client.get_metric_history(run_id, metric)
            self._seen[box.folder, metric] = {point.step for point in history}
        return self._seen[box.folder, metric]

    def _params(self, box: Outbox, records: Records) -> None:
        from mlflow.entities import Param

        for record in records:
            params = [Param(*pair) for pair in _cut(record["values"]).items()]
            run_id = box.sent[record.get("of", "run_id")]
            for first in range(0, len(params), MAX_PARAMS):
                self._client.log_batch(run_id, params=params[first : first + MAX_PARAMS])

    def _tags(self, box: Outbox, records: Records) -> None:
        for key, value in (pair for record in records for pair in _cut(record["values"]).items()):
            self._client.set_tag(box.sent["run_id"], key, value)
            if key in SUMMARY and box.sent.get("above"):
                self._client.set_tag(box.sent["above"], key, value)

    def _inputs(self, box: Outbox, records: Records) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag

        inputs = [
            DatasetInput(
                Dataset(name, digest[:36], "local", f'{{"sha256": "{digest}"}}'),
                [InputTag("mlflow.data.context", "training")],
            )
            for record in records
            for name, digest in record["values"].items()
        ]
        self._client.log_inputs(box.sent["run_id"], datasets=inputs)

    def _artifact(self, box: Outbox, records: Records) -> None:
        for record in records:
            folder = str(box.folder / record["copy"])
            self._client.log_artifacts(box.sent["run_id"], folder, record["folder"])

    def _end(self, box: Outbox, records: Records) -> None:
        status, time_ms = records[-1]["status"], records[-1]["time_ms"]
        # MLflow's duration is that of the work: a search that goes on days later did not take days.
        worked_ms = time_ms - box.sent.get("rest_ms", 0)
        self._client.set_terminated(box.sent["run_id"], status, end_time=worked_ms)
        if above := box.sent.get("above"):
            self._client.set_terminated(above, status, end_time=time_ms)


_SENDERS = {
    "start": lambda store, box, records: None,
    "inputs": RunStore._inputs,
    "params": RunStore._params,
    "metrics": RunStore._metrics,
    "tags": RunStore._tags,
    "artifact": RunStore._artifact,
    "end": RunStore._end,
}


def _cut(values: Mapping[str, object]) -> dict[str, str]:
    """Shorten what is longer than MLflow takes."""
    limit, texts = MAX_VALUE_CHARS, {key: str(value) for key, value in values.items()}
    return {
        key: text if len(text) <= limit else f"{text[: limit - 1]}…" for key, text in texts.items()
    }
