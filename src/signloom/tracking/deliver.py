"""Delivery of journals to MLflow.

Runs as a process of its own beside a stage. Everything it sends may be sent twice without harm: a
run is found again by its key before it is made, and MLflow takes a number, tag, parameter or file
that it has already for the same one.
"""

import contextlib
import json
import logging
import math
import sys
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from filelock import lock_descriptor

from signloom.errors import UserError
from signloom.files import write_file
from signloom.paths import SPOOL
from signloom.system import is_alive, lower_priority
from signloom.tracking.journal import (
    ADDRESSES,
    BESIDE,
    LOCK,
    PROBLEM,
    SENDING,
    Outbox,
    outboxes,
    store_file,
)
from signloom.tracking.mlflow_store import (
    ANSWER_S,
    DEFAULT_STORE,
    answer_limit,
    first_line,
    import_mlflow,
    prepare_database,
    store_name,
)

KEY = "signloom.key"  # tag by which a run is found again
MAX_VALUE_CHARS = 500  # of a param or tag; the whole params.yaml is an artifact anyway
MAX_PARAMS, MAX_METRICS = 100, 1000  # a call, MLflow's own limits
MAX_ADDRESSES = 50  # that are kept
POLL_S, MAX_PAUSE_S = 0.5, 5.0
PATIENCE_S = 30.0  # with a store that is away, once nobody writes any more
HOLDER_S = 3.0 * ANSWER_S  # that a person waits for another process that sends
MACHINE_PREFIX = "system/"  # metrics of the machine, whose steps count samples
REFUSALS = ("INVALID_PARAMETER_VALUE", "BAD_REQUEST", "RESOURCE_ALREADY_EXISTS", "INVALID_STATE")
logger = logging.getLogger(__name__)


class WaitError(Exception):
    """What this run needs is not there; others can be delivered."""


def deliver(spool: Path, *, patience_s: float = PATIENCE_S, beside: int | None = None) -> bool:
    """Bring the records of a spool to the store, until no process writes there any more.

    Args:
        spool: Folder of journals.
        beside: Number of a process, such as a `dvc repro`, until whose end more will come.
        patience_s: How long to try with a store that is away once nobody writes any more.

    Returns:
        Whether everything was delivered.
    """
    spool.mkdir(parents=True, exist_ok=True)
    if beside is not None:
        is_alive(beside)  # before any waiting: whose number it is now
    with (_own(spool, LOCK)).open("w") as lock:
        if not lock_descriptor(lock.fileno(), blocking=False):
            if beside is not None and _read(_own(spool, BESIDE)) == str(beside):
                return True  # who delivers stays as long as we would
            lock_descriptor(lock.fileno())  # one delivers, others wait to take over
        if beside is not None:
            write_file(_own(spool, BESIDE), str(beside))
        sender = _Sender(spool)
        pause_s, failed_since = POLL_S, None
        while (boxes := sender.waiting()) or (beside is not None and is_alive(beside)):
            if not boxes or sender.send():
                pause_s, failed_since = POLL_S, None
            else:
                now = time.monotonic()
                failed_since = failed_since or now
                is_over = all(box.is_abandoned() for box in sender.waiting())
                if is_over and now - failed_since >= patience_s:
                    return False
                pause_s = min(MAX_PAUSE_S, 2 * pause_s)
            time.sleep(pause_s)
        _own(spool, PROBLEM).unlink(missing_ok=True)
    return True


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def deliver_now(spool: Path, tell: Callable[[str], None]) -> None:
    """Bring what waits in a spool to the store at a person's request: once, and with words.

    Args:
        spool: Folder of journals; it may be missing.
        tell: Called with a line about each thing that is done or waited for.

    Raises:
        UserError: If anything stays in the spool, with what and why.
    """
    waiting, here = outboxes(spool), store_name()
    if not waiting:
        tell("nothing was waiting")
        return
    sender = _Sender(spool, tell)
    if sender.waiting():
        tell(f"delivering to {here}{answer_limit()}")
        sender.send(wait_s=HOLDER_S)
        for box in waiting:
            if box.folder not in sender.delivered and not box.folder.is_dir():
                tell(f"{_name(box)}: delivered by the process beside a stage")
    _check_empty(spool, here)


def _check_empty(spool: Path, here: str) -> None:
    """Say which runs are still in the spool, and why.

    Raises:
        UserError: If there are any.
    """
    left: dict[str, list[str]] = {}
    for box in outboxes(spool):
        if box.start:
            left.setdefault(box.start.get("store", here), []).append(_name(box))
    problems, path = [], _own(spool, PROBLEM)
    for store, names in left.items():
        if store == here and path.is_file():
            reason = f"not taken by {path.read_text(encoding='utf-8').strip()}"
        elif store == here:
            reason = "still written by a stage, which has a process that delivers them"
        else:
            reason = (
                f"made for {store} and not for {here}: set MLFLOW_TRACKING_URI as it was for them"
                f"{' (it was not set)' if store == DEFAULT_STORE else ''}, then `signloom deliver`"
            )
        problems.append(f"{', '.join(names)}: {reason}")
    if problems:
        problems.append(f"they are kept in {spool}")
        raise UserError("\n".join(problems))


def _own(spool: Path, name: str) -> Path:
    """Return a file of the spool that concerns the store that we deliver to."""
    return store_file(spool, store_name(), name)


def _name(box: Outbox) -> str:
    return str(box.start["name"]) if box.start else box.folder.name


class _Sender:
    """Sends what lies in a spool for one store."""

    def __init__(self, spool: Path, tell: Callable[[str], None] = lambda line: None) -> None:
        """Take the spool, and whom to tell of each run that was delivered."""
        self._spool, self._tell = spool, tell
        self._here, self._name = store_name(), uuid.uuid4().hex
        self._store: Store | None = None
        self.delivered: set[Path] = set()

    def waiting(self) -> list[Outbox]:
        """Return the journals for our store, the oldest first; those for others are left alone."""
        boxes = []
        for box in outboxes(self._spool):
            if box.start is None:
                if box.is_abandoned():  # died before its first record
                    box.remove()
            elif box.start.get("store", self._here) == self._here:
                boxes.append(box)
        return boxes

    def send(self, *, wait_s: float = math.inf) -> bool:
        """Send what there is; return whether nothing went wrong, and note what did.

        Args:
            wait_s: How long to wait for another process that sends to the same store.

        Raises:
            UserError: If it sends for longer.
        """
        with self._hold(wait_s):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # what MLflow's own code deprecates
                    problem = self._send_all()
            except Exception as error:  # whatever a store throws: it is tried again
                problem = first_line(error).rstrip(".") or type(error).__name__
            path = _own(self._spool, PROBLEM)
            if problem:
                logger.warning("%s: %s", self._here, problem)
                hint = "check MLFLOW_TRACKING_URI (unset: mlflow.db in the working directory)"
                write_file(path, f"{self._here}: {problem}; {hint}")
            else:
                path.unlink(missing_ok=True)
        return not problem

    def _send_all(self) -> str:
        """Send what there is; return what single runs lack.

        Journals of one run are sent in the order in which they were written: the next one waits
        until the one before has been sent to its end.
        """
        problem, unfinished = "", set()
        if self._store is None:
            prepare_database()
            self._store = Store()
        for box in self.waiting():
            assert box.start is not None
            if box.start["key"] in unfinished:
                continue
            try:
                _deliver_one(self._store, box, _own(self._spool, ADDRESSES))
            except WaitError as error:
                problem = str(error)
            if box.folder.is_dir():
                unfinished.add(box.start["key"])
            else:
                self.delivered.add(box.folder)
                self._tell(f"{_name(box)}: delivered")
        return problem

    @contextlib.contextmanager
    def _hold(self, wait_s: float) -> Iterator[None]:
        """Be the only process that sends to the store."""
        end_s, is_told = time.monotonic() + wait_s, False
        with _own(self._spool, SENDING).open("a+") as file:
            while not lock_descriptor(file.fileno(), blocking=False):
                if not is_told:
                    self._tell("another process sends there already; waiting for it")
                is_told = True
                if time.monotonic() > end_s:
                    raise UserError(
                        f"{self._here}: another process still sends there, as one does beside each "
                        f"stage; what it leaves stays in {self._spool} for `signloom deliver`"
                    )
                time.sleep(0.1 * POLL_S)
            file.seek(0)
            if file.read() != self._name:
                self._store = None  # another process has sent since: what it knows is old
                file.truncate(0)
                file.write(self._name)
                file.flush()
            yield


def _deliver_one(store: "Store", box: Outbox, addresses: Path) -> None:
    """Send what a journal has to say; remove it after its end."""
    assert box.start is not None
    is_abandoned = box.is_abandoned()  # before reading: what was written until then is seen
    if "run_id" not in box.sent:
        run_id, load_step = store.open_run(box.start)
        box.confirm(run_id=run_id, load_step=load_step)
        _keep_address(
            addresses, box.start["key"], store.experiment(box.start["experiment"]), run_id
        )
    if _send_pending(store, box):
        return
    if is_abandoned:
        box.close_for("KILLED", "its process died")
        _send_pending(store, box)


def _keep_address(path: Path, key: str, experiment: str, run_id: str) -> None:
    """Note where a run is, for the stage that logs it; one process does so at a time."""
    try:
        known = json.loads(path.read_text())
    except (OSError, ValueError):
        known = {}
    known.pop(key, None)
    known[key] = [experiment, run_id]
    write_file(path, json.dumps(dict([*known.items()][-MAX_ADDRESSES:])))


def _send_pending(store: "Store", box: Outbox) -> bool:
    """Send the records that were not sent; return whether the end was one of them."""
    for end, batch in _batches(box.pending()):
        store.send(box, batch)
        if batch[-1]["kind"] == "end":
            box.remove()
            return True
        box.confirm(offset=end)
    return False


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
        self._made: set[str] = set()  # runs that had nothing before
        self._points: dict[tuple[str, str], set[int]] = {}  # run, key: steps that are there

    def open_run(self, start: dict[str, Any]) -> tuple[str, int]:
        """Find the run of a key, or make it.

        Returns:
            Its id, and the step at which the load of its machine goes on.
        """
        experiment = self.experiment(start["experiment"])
        tags = {**start["tags"], KEY: start["key"]}
        if start["parent"]:
            parent = self._find(experiment, start["parent"])
            if parent is None:
                raise WaitError(
                    f"the run above {start['name']!r} was deleted in MLflow, or not delivered yet"
                )
            tags["mlflow.parentRunId"] = parent
        found = self._find(experiment, start["key"])
        if found is None:
            run = self._client.create_run(
                experiment, start_time=start["time_ms"], run_name=start["name"], tags=_cut(tags)
            )
            made = str(run.info.run_id)
            self._made.add(made)
            return made, 0
        self._client.update_run(found, status="RUNNING", name=start["name"])
        if start["parent"]:  # it was killed in one `dvc repro` and goes on in another
            self._client.set_tag(found, "mlflow.parentRunId", tags["mlflow.parentRunId"])
        if "error" in self._client.get_run(found).data.tags:  # of the process before
            self._client.delete_tag(found, "error")
        return found, 1 + max(self._steps(found, f"{MACHINE_PREFIX}process_memory_mb"), default=-1)

    def _steps(self, run_id: str, key: str) -> set[int]:
        """Return the steps of which a run has a point of a metric."""
        if (run_id, key) not in self._points:
            is_new = run_id in self._made
            history = [] if is_new else self._client.get_metric_history(run_id, key)
            self._points[run_id, key] = {point.step for point in history}
        return self._points[run_id, key]

    def _find(self, experiment: str, key: str) -> str | None:
        runs = self._client.search_runs([experiment], f"tags.`{KEY}` = '{key}'", max_results=1)
        return str(runs[0].info.run_id) if runs else None

    def experiment(self, name: str) -> str:
        """Return the id of an experiment, which is made if need be."""
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
            # Epochs that were trained again after a kill have the same values at other times.
            points: dict[tuple[str, int], Metric] = {}
            for record in batch:
                for key, value in record["values"].items() if record["kind"] == "metrics" else ():
                    step = record["step"] + box.sent.get("load_step", 0) * key.startswith(
                        MACHINE_PREFIX
                    )
                    # A run that goes on has its last end's seconds, not its first one's.
                    if key == "seconds" or step not in self._steps(run_id, key):
                        points.setdefault((key, step), Metric(key, value, record["time_ms"], step))
            texts = {
                kind: [pair for record in batch if record["kind"] == kind
                       for pair in _cut(record["values"]).items()]
                for kind in ("params", "tags")
            }  # fmt: skip
            params = [Param(key, value) for key, value in texts["params"]]
            tags = [RunTag(key, value) for key, value in texts["tags"]]
            for i in range(0, max(1, len(params)), MAX_PARAMS):
                self._client.log_batch(run_id, params=params[i : i + MAX_PARAMS])
            self._client.log_batch(run_id, metrics=[*points.values()], tags=tags)
            for key, step in points:
                self._steps(run_id, key).add(step)

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


def _main(spool: str = str(SPOOL), beside: str = "") -> None:
    if not beside:
        deliver(Path(spool))
        return
    Path(spool).mkdir(parents=True, exist_ok=True)
    with _own(Path(spool), f"{beside}.{BESIDE}").open("w") as one:
        # Else another one delivers for this `dvc repro`, or waits to take over.
        if lock_descriptor(one.fileno(), blocking=False):
            deliver(Path(spool), beside=int(beside))
            with contextlib.suppress(OSError):
                Path(one.name).unlink()


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    lower_priority()
    _main(*sys.argv[1:])
