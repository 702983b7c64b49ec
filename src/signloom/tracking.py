"""Params, metrics and files of a stage go in, an MLflow run that a person can find comes out.

The only module that knows MLflow. Without `MLFLOW_TRACKING_URI` runs go to `mlflow.db` and
`mlruns/` in the working directory, where a bare `mlflow ui` looks for them.
"""

import logging
import os
import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from signloom.config import UserError
from signloom.reproducibility import git_state

MAX_VALUE_CHARS = 500  # of a param or tag; the whole params.yaml is an artifact anyway
MAX_PARAMS_PER_CALL = 100  # MLflow's own limit
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackingOptions:
    """Whether and where runs are logged; the section `tracking` of params.yaml."""

    enabled: bool  # false: no run is logged and MLflow is never imported
    experiment: str  # MLflow experiment, e.g. the corpus's name; made when it does not exist

    def __post_init__(self) -> None:
        if not self.experiment.strip():
            raise ValueError("experiment: found an empty name, expected e.g. signloom-demo")


class Run:
    """One MLflow run; leaving its `with` block ends it as FINISHED, FAILED or KILLED.

    It holds its own client and run id and never touches MLflow's global active run, so that
    parents, children and threads cannot end each other's runs. Starting fails loudly; once
    started, a store that stops answering costs the record and a warning, never the training.
    """

    def __init__(
        self,
        client: Any,
        experiment_id: str,
        run_id: str,
        *,
        tags: Mapping[str, str] | None = None,
        stops: tuple[type[BaseException], ...] = (),
    ) -> None:
        """Use `start` and `child` instead; a client of None makes every method do nothing."""
        self._client = client
        self._experiment_id = experiment_id
        self._tags = dict(tags or {})
        self._stops = stops
        self.run_id = run_id

    @staticmethod
    def start(
        options: TrackingOptions,
        name: str,
        *,
        stage: str,
        data: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> "Run":
        """Open a run.

        Args:
            options: Whether to log, and the experiment.
            name: What differs from other runs of the stage; the run table shows it, cut short.
            stage: The DVC stage, e.g. `train`; put before the name.
            data: Name and hash of what the stage read; logged as tags `data.NAME`.
            tags: Further tags.

        Raises:
            UserError: If the store cannot be opened.
        """
        if not options.enabled:
            return Run(None, "", "")
        git = git_state()
        merged = {
            "stage": stage,
            **git,
            "mlflow.source.name": f"pipeline.{stage}",
            "mlflow.source.type": "LOCAL",
            "mlflow.source.git.commit": git["git_commit"],
            **{f"data.{key}": value for key, value in (data or {}).items()},
            **(tags or {}),
        }
        with _quiet():
            client, experiment_id, run = _open_run(options.experiment, f"{stage} {name}", merged)
        return Run(client, experiment_id, run.info.run_id, tags=merged)

    def child(
        self,
        name: str,
        *,
        tags: Mapping[str, str] | None = None,
        stops: tuple[type[BaseException], ...] = (),
    ) -> "Run":
        """Open a run below this one, such as a trial of a search.

        Args:
            name: What a person reads in the run table.
            tags: Further tags.
            stops: Exceptions that end the run as planned, such as a pruned trial: the run is
                then FINISHED, with the exception's name in the tag `stopped_by`.
        """
        if self._client is None:
            return Run(None, "", "")
        merged = {**self._tags, **(tags or {}), "mlflow.parentRunId": self.run_id}
        try:
            with _quiet():
                run = self._client.create_run(
                    self._experiment_id, run_name=name, tags=_texts(merged)
                )
        except Exception as error:  # as in `_send`: the result matters more
            logger.warning("MLflow did not take the run %r: %s", name, _first_line(error))
            return Run(None, "", "", stops=stops)
        return Run(self._client, self._experiment_id, run.info.run_id, tags=merged, stops=stops)

    def log_params(self, params: Mapping[str, object]) -> None:
        """Log options; nested maps become `outer.inner`, long values are cut."""
        values = {key: str(value) for key, value in flatten(params, separator=".")}
        self._send("params", _log_params, values)

    def log_metrics(self, metrics: Mapping[str, object], *, step: int = 0) -> None:
        """Log numbers of one step in one call; nested maps become `outer/inner`.

        MLflow's charts are grouped by what stands before the `/`. What is no number is left out.
        """
        values = {
            key: float(value)
            for key, value in flatten(metrics, separator="/")
            if isinstance(value, int | float) and not isinstance(value, bool)
        }
        self._send("metrics", _log_metrics, values, step)

    def set_tags(self, tags: Mapping[str, str]) -> None:
        """Add or replace tags."""
        self._send("tags", _set_tags, tags)

    def log_artifact(self, path: Path, *, folder: str | None = None) -> None:
        """Keep a copy of a file, or of all files below a folder.

        Args:
            path: File or folder.
            folder: Where below the run's artifacts; the top if not given.
        """
        self._send(str(path), _log_artifact, path, folder)

    def __enter__(self) -> "Run":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None or issubclass(kind, self._stops):
            status = "FINISHED"
        else:
            status = "KILLED" if issubclass(kind, KeyboardInterrupt) else "FAILED"
        if kind is not None:
            tag = "stopped_by" if status == "FINISHED" else "error"
            self.set_tags({tag: f"{kind.__name__}: {error}".removesuffix(": ")})
        self._send("the end", _end, status)

    def _send(self, what: str, send: Callable[..., None], *values: object) -> None:
        if self._client is None:
            return
        try:
            with _quiet():
                send(self._client, self.run_id, *values)
        except Exception as error:  # whatever the store throws: the result matters more
            logger.warning(
                "MLflow did not take %s of run %s: %s", what, self.run_id, _first_line(error)
            )


def flatten(values: Mapping[str, object], *, separator: str) -> Iterator[tuple[str, object]]:
    """Yield the leaves of nested maps with their keys joined by the separator."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            for inner, leaf in flatten(value, separator=separator):
                yield f"{key}{separator}{inner}", leaf
        else:
            yield str(key), value


def hide_password(text: str) -> str:
    """Mask the password of every URL in a text that a log will keep."""
    return re.sub(r"(://[^:/@\s]*):[^@/\s]*@", r"\1:***@", text)


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide what MLflow's own code deprecates: a user can do nothing about it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _open_run(experiment: str, name: str, tags: Mapping[str, str]) -> tuple[Any, str, Any]:
    """Open the store, the experiment and a run, with MLflow's telemetry and chatter off."""
    # Set before the import, which reads them; a person's own settings win.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("DO_NOT_TRACK", "true")
    # A server that is down is reported after seconds; MLflow's default is 7 retries (minutes).
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    # Here and not above: the import takes seconds.
    import mlflow

    for chatty in ("mlflow", "alembic"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    uri = hide_password(mlflow.get_tracking_uri())
    start_s = time.perf_counter()
    is_new = uri.startswith("sqlite:///") and not Path(uri.removeprefix("sqlite:///")).exists()
    if is_new:
        logger.info("making the MLflow database %s, once; this takes some seconds", uri)
    try:
        client = mlflow.MlflowClient()
        experiment_id = _experiment_id(client, experiment)
        run = client.create_run(experiment_id, run_name=name, tags=_texts(tags))
    except UserError:
        raise
    except Exception as error:  # SQLAlchemy, requests, MlflowException: many types, one mend
        raise UserError(
            f"MLflow cannot write to its store {uri}: {_first_line(error)}. Check "
            "MLFLOW_TRACKING_URI (unset: mlflow.db in the working directory), move a damaged "
            "mlflow.db away, or set `tracking.enabled: false` in params.yaml."
        ) from error
    if is_new:
        logger.info("the MLflow database was ready after %.1f s", time.perf_counter() - start_s)
    return client, experiment_id, run


def _experiment_id(client: Any, name: str) -> str:
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        try:
            return str(client.create_experiment(name))
        except Exception:
            # Another process may have made it in between; otherwise the error is real.
            experiment = client.get_experiment_by_name(name)
            if experiment is None:
                raise
    if experiment.lifecycle_stage != "active":
        raise UserError(
            f"the MLflow experiment {name!r} was deleted: restore it with `mlflow experiments "
            f"restore -x {experiment.experiment_id}` or set another `tracking.experiment` in "
            "params.yaml"
        )
    return str(experiment.experiment_id)


def _log_params(client: Any, run_id: str, values: Mapping[str, str]) -> None:
    from mlflow.entities import Param

    params = [Param(key, value) for key, value in _texts(values).items()]
    for start in range(0, len(params), MAX_PARAMS_PER_CALL):
        client.log_batch(run_id, params=params[start : start + MAX_PARAMS_PER_CALL])


def _log_metrics(client: Any, run_id: str, values: Mapping[str, float], step: int) -> None:
    from mlflow.entities import Metric

    now_ms = int(time.time() * 1000)
    metrics = [Metric(key, value, now_ms, step) for key, value in values.items()]
    client.log_batch(run_id, metrics=metrics)


def _set_tags(client: Any, run_id: str, tags: Mapping[str, str]) -> None:
    from mlflow.entities import RunTag

    client.log_batch(run_id, tags=[RunTag(key, value) for key, value in _texts(tags).items()])


def _log_artifact(client: Any, run_id: str, path: Path, folder: str | None) -> None:
    log = client.log_artifacts if path.is_dir() else client.log_artifact
    log(run_id, str(path), folder)


def _end(client: Any, run_id: str, status: str) -> None:
    client.set_terminated(run_id, status)


def _texts(values: Mapping[str, str]) -> dict[str, str]:
    def cut(text: str) -> str:
        return text if len(text) <= MAX_VALUE_CHARS else text[: MAX_VALUE_CHARS - 1] + "…"

    return {key: cut(str(value)) for key, value in values.items()}


def _first_line(error: Exception) -> str:
    first = (str(error).splitlines() or [""])[0].rstrip(".")
    return hide_password(first) or type(error).__name__
