"""Delivery of journals to MLflow.

Runs as a process of its own beside a stage. Everything it sends may be sent twice without harm: a
run is found again by its key before it is made, and MLflow takes a number, tag, parameter or file
that it has already for the same one.
"""

import logging
import os
import sys
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from filelock import lock_descriptor

from signloom.files import write_file
from signloom.paths import SPOOL
from signloom.tracking.journal import LOCK, PROBLEM, Outbox, outboxes
from signloom.tracking.mlflow_store import first_line, import_mlflow, store_name

KEY = "signloom.key"  # tag by which a run is found again
MAX_VALUE_CHARS = 500  # of a param or tag; the whole params.yaml is an artifact anyway
MAX_PARAMS, MAX_METRICS = 100, 1000  # a call, MLflow's own limits
POLL_S, MAX_PAUSE_S = 0.5, 5.0
PATIENCE_S = 30.0  # with a store that is away, once nobody writes any more
REFUSALS = ("INVALID_PARAMETER_VALUE", "BAD_REQUEST", "RESOURCE_ALREADY_EXISTS", "INVALID_STATE")
logger = logging.getLogger(__name__)


class WaitError(Exception):
    """What this record needs is not there yet."""


def deliver(spool: Path, *, patience_s: float = PATIENCE_S) -> bool:
    """Bring the records of a spool to the store, until no process writes there any more.

    Args:
        spool: Folder of journals.
        patience_s: How long to try with a store that is away once nobody writes any more.

    Returns:
        Whether everything was delivered.
    """
    spool.mkdir(parents=True, exist_ok=True)
    with (spool / LOCK).open("w") as lock, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what MLflow's own code deprecates
        lock_descriptor(lock.fileno())  # one delivers, others wait to take over
        store: Store | None = None
        pause_s, failed_since = POLL_S, None
        while boxes := _ours(spool):
            try:
                store = store or Store()
                for box in boxes:
                    _deliver_one(store, box)
            except Exception as error:  # whatever a store throws: it is tried again
                now = time.monotonic()
                failed_since = failed_since or now
                _note(spool, error)
                is_over = all(box.is_abandoned() for box in _ours(spool))
                if is_over and now - failed_since > patience_s:
                    return False
                pause_s = min(MAX_PAUSE_S, 2 * pause_s)
            else:
                (spool / PROBLEM).unlink(missing_ok=True)
                pause_s, failed_since = POLL_S, None
            time.sleep(pause_s)
        (spool / PROBLEM).unlink(missing_ok=True)
    return True


def _ours(spool: Path) -> list[Outbox]:
    """Return the journals for the store that we deliver to; those for others are left alone."""
    here = store_name()
    return [box for box in outboxes(spool) if _start_of(box).get("store", here) == here]


def _start_of(box: Outbox) -> dict[str, Any]:
    if "start" not in box.sent:
        for _, record in box.pending():
            box.confirm(start=record)
            break
        else:
            if box.is_abandoned():  # died before its first record
                box.remove()
    found: dict[str, Any] = box.sent.get("start", {})
    return found


def _note(spool: Path, error: Exception) -> None:
    text = first_line(error).rstrip(".") or type(error).__name__
    logger.warning("%s: %s", store_name(), text)
    hint = "check MLFLOW_TRACKING_URI (unset: mlflow.db in the working directory)"
    write_file(spool / PROBLEM, f"{store_name()}: {text}; {hint}")


def _deliver_one(store: "Store", box: Outbox) -> None:
    """Send what a journal has to say; remove it after its end."""
    if not box.folder.is_dir() or "start" not in box.sent:
        return
    is_abandoned = box.is_abandoned()  # before reading: what was written until then is seen
    if "run_id" not in box.sent:
        run_id = store.open_run(box.sent["start"])
        box.confirm(run_id=run_id)
    for end, batch in _batches(box.pending()):
        for record in batch:
            if record["kind"] == "end":
                store.send(box, [record])
                box.remove()
                return
        store.send(box, batch)
        box.confirm(offset=end)
    if is_abandoned and not any(True for _ in box.pending()):
        box.close_for("KILLED", "its process died")


def _batches(
    records: Iterable[tuple[int, dict[str, Any]]],
) -> Iterable[tuple[int, list[dict[str, Any]]]]:
    """Join neighbouring records that fit into one call."""
    batch: list[dict[str, Any]] = []
    sizes = {"metrics": 0, "params": 0, "tags": 0}
    last = 0
    for end, record in records:
        kind = record["kind"]
        size = len(record.get("values", ()))
        limit = MAX_METRICS if kind == "metrics" else MAX_PARAMS
        fits = kind in sizes and sizes[kind] + size <= limit
        if batch and not (fits and batch[-1]["kind"] in sizes):
            yield last, batch
            batch, sizes = [], dict.fromkeys(sizes, 0)
        batch.append(record)
        if kind in sizes:
            sizes[kind] += size
        last = end
    if batch:
        yield last, batch


class Store:
    """Runs of MLflow, made and filled from records."""

    def __init__(self) -> None:
        self._client = import_mlflow().MlflowClient()
        self._experiments: dict[str, str] = {}

    def open_run(self, start: dict[str, Any]) -> str:
        """Find the run of a key, or make it; return its id."""
        experiment = self._experiment(start["experiment"])
        tags = {**start["tags"], KEY: start["key"]}
        if start["parent"]:
            parent = self._find(experiment, start["parent"])
            if parent is None:
                raise WaitError(f"the run above {start['name']!r} was not delivered yet")
            tags["mlflow.parentRunId"] = parent
        found = self._find(experiment, start["key"])
        if found is None:
            run = self._client.create_run(
                experiment, start_time=start["time_ms"], run_name=start["name"], tags=_cut(tags)
            )
            return str(run.info.run_id)
        self._client.update_run(found, status="RUNNING", name=start["name"])
        return found

    def _find(self, experiment: str, key: str) -> str | None:
        runs = self._client.search_runs([experiment], f"tags.`{KEY}` = '{key}'", max_results=1)
        return str(runs[0].info.run_id) if runs else None

    def _experiment(self, name: str) -> str:
        if name not in self._experiments:
            found = self._client.get_experiment_by_name(name)
            if found is not None and found.lifecycle_stage != "active":
                raise WaitError(
                    f"the MLflow experiment {name!r} was deleted: restore it with `mlflow "
                    f"experiments restore -x {found.experiment_id}` or set another "
                    "`tracking.experiment` in params.yaml"
                )
            # If another process makes it in between, this fails and the next try finds it.
            made = found.experiment_id if found else self._client.create_experiment(name)
            self._experiments[name] = str(made)
        return self._experiments[name]

    def send(self, box: Outbox, batch: list[dict[str, Any]]) -> None:
        """Send records of a run; what MLflow refuses for good is said and left out."""
        from mlflow.exceptions import MlflowException

        try:
            self._send(box, batch)
        except MlflowException as error:
            if error.error_code not in REFUSALS:
                raise
            if len(batch) > 1:
                for record in batch:
                    self.send(box, [record])
            else:
                logger.warning("MLflow refused %s: %s", batch[0], str(error).splitlines()[0])

    def _send(self, box: Outbox, batch: list[dict[str, Any]]) -> None:
        from mlflow.entities import Metric, Param, RunTag

        run_id, first = box.sent["run_id"], batch[0]
        if first["kind"] == "inputs":
            self._log_inputs(run_id, first["values"])
        elif first["kind"] == "artifact":
            self._client.log_artifacts(run_id, str(box.folder / first["copy"]), first["folder"])
        elif first["kind"] == "end":
            self._client.set_terminated(run_id, first["status"], end_time=first["time_ms"])
        elif first["kind"] != "start":
            metrics = [
                Metric(key, value, record["time_ms"], record["step"])
                for record in batch if record["kind"] == "metrics"
                for key, value in record["values"].items()
            ]  # fmt: skip
            texts = {
                kind: [pair for record in batch if record["kind"] == kind
                       for pair in _cut(record["values"]).items()]
                for kind in ("params", "tags")
            }  # fmt: skip
            params = [Param(key, value) for key, value in texts["params"]]
            tags = [RunTag(key, value) for key, value in texts["tags"]]
            for i in range(0, max(1, len(params)), MAX_PARAMS):
                self._client.log_batch(run_id, params=params[i : i + MAX_PARAMS])
            self._client.log_batch(run_id, metrics=metrics, tags=tags)

    def _log_inputs(self, run_id: str, hashes: dict[str, str]) -> None:
        from mlflow.entities import Dataset, DatasetInput, InputTag

        inputs = [
            DatasetInput(
                Dataset(name, digest[:36], "local", f'{{"sha256": "{digest}"}}'),
                [InputTag("mlflow.data.context", "training")],
            )
            for name, digest in hashes.items()
        ]
        self._client.log_inputs(run_id, datasets=inputs)


def _cut(values: dict[str, str]) -> dict[str, str]:
    def cut(text: str) -> str:
        return text if len(text) <= MAX_VALUE_CHARS else text[: MAX_VALUE_CHARS - 1] + "…"

    return {key: cut(str(value)) for key, value in values.items()}


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    os.nice(10)
    deliver(Path(sys.argv[1]) if len(sys.argv) > 1 else SPOOL)
