"""A tracked run: params, metrics, files and machine load of a stage.

Nothing here talks to MLflow, nor waits for it: records go to a journal on disk, and another process
(`signloom.tracking.deliver`) brings them to the store, now or when it answers again. Without
`MLFLOW_TRACKING_URI` that is `mlflow.db` and `mlruns/` in the project's folder, where a bare
`mlflow ui` looks; runs of an experiment that DVC makes in a copy of the project go there too.
"""

import logging
import os
import platform
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil  # type: ignore[import-untyped]

from signloom.config import checked_dataclass, load_section
from signloom.corpus.manifest import CorpusOptions
from signloom.files import hash_file
from signloom.log import ONCE, log_path
from signloom.paths import DVC_LOCK, SPOOL
from signloom.provenance import git_state, project_folder
from signloom.tracking.journal import PROBLEM, Journal, store_file
from signloom.tracking.mlflow_store import store_name

# Tags of runs that `dvc exp run` made: the name in `dvc exp show`, the commit it started from.
EXPERIMENT, BASELINE = "dvc_experiment", "dvc_baseline"
# The same tag on the runs of one `signloom retrain`: key of the run `retrain`.
NIGHT, NIGHT_KEY = "night", "SIGNLOOM_NIGHT"
INTERVAL_S = 10.0  # between two samples of the load
MAX_WAIT_S = 10.0  # at the end of a stage, for a store that answers
logger = logging.getLogger(__name__)
_deliverers: list["subprocess.Popen[bytes]"] = []  # of this process; the last one may be alive


@checked_dataclass
class TrackingOptions:
    """Whether and where runs are logged; the section `tracking` of params.yaml."""

    enabled: bool = True  # false: no run is logged and MLflow is never imported
    experiment: str  # MLflow experiment, made when it does not exist; "": the corpus's name


def read_tracking(params: Path) -> TrackingOptions:
    """Read the section `tracking`; an experiment without a name gets the corpus's.

    Raises:
        UserError: If it, or the section `corpus`, is missing or wrong.
    """
    options = load_section(params, "tracking", TrackingOptions)
    if options.experiment.strip():
        return options
    return replace(options, experiment=load_section(params, "corpus", CorpusOptions).name)


class Run:
    """One MLflow run; leaving its `with` block ends it as FINISHED, FAILED or KILLED.

    It knows its own key and never touches MLflow's global active run, so that parents, children
    and threads cannot end each other's runs.
    """

    def __init__(
        self, journal: Journal | None, key: str, *, is_child: bool, stops: tuple[type, ...]
    ) -> None:
        """Use `start` instead; without a journal every method does nothing."""
        self._journal = journal
        self._is_child = is_child
        self._stops = stops
        self._sampler = SystemSampler(self.log_metrics) if journal else None
        self._start_s = time.time()
        self.key = key

    @staticmethod
    def start(
        options: TrackingOptions,
        name: str,
        *,
        stage: str,
        data: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
        note: str = "",
        key: str | None = None,
        parent: str | None = None,
        stops: tuple[type[BaseException], ...] = (),
    ) -> "Run":
        """Open a run.

        Args:
            options: Whether to log, and the experiment.
            name: What differs from other runs of the stage; the run table shows its beginning.
            stage: The DVC stage, e.g. `train`; put before the name of a run without parent.
            data: Name and hash of what the stage read; logged as MLflow inputs and as tags.
            tags: Further tags.
            note: What a person reads at the top of the run's page, in Markdown.
            key: What makes it the same run when it is opened again, after its process died or
                was done; a run of its own if not given.
            parent: Key of the run that it is listed below, such as that of a search.
            stops: Exceptions that end the run as planned, such as a pruned trial: the run is
                then FINISHED, with the exception's name in the tag `stopped_by`.
        """
        if not options.enabled:
            return Run(None, key or "", is_child=False, stops=stops)
        hashes = dict(data or {})
        key = key or uuid.uuid4().hex
        try:
            journal = Journal(spool())
            journal.write(
                "start",
                store=store_name(),
                experiment=options.experiment,
                name=name if parent else f"{stage} {name}",
                key=key,
                parent=parent,
                time_ms=_now_ms(),
                tags=_texts(
                    {
                        "stage": stage,
                        **_surroundings(),
                        "mlflow.source.name": f"pipeline.{stage}",
                        **{f"data.{dataset}": digest for dataset, digest in hashes.items()},
                        **({"mlflow.note.content": note} if note else {}),
                        **(tags or {}),
                    }
                ),
            )
            if hashes:
                journal.write("inputs", values=hashes)
        except OSError as error:  # a full disk: the result matters more
            logger.warning("the run is not logged: %s", error, extra=ONCE)
            return Run(None, key, is_child=False, stops=stops)
        _ensure_delivery()
        return Run(journal, key, is_child=parent is not None, stops=stops)

    def log_params(self, params: Mapping[str, object]) -> None:
        """Log options; nested maps become `outer.inner`, long values are shortened."""
        self._write("params", values=_texts(dict(flatten(params, separator="."))))

    def log_metrics(self, metrics: Mapping[str, object], *, step: int = 0) -> None:
        """Log numbers of one step; nested maps become `outer/inner`.

        MLflow groups charts by what is before the `/`. Other values than numbers are left out.
        """
        values = {
            key: float(value)
            for key, value in flatten(metrics, separator="/")
            if isinstance(value, int | float) and not isinstance(value, bool)
        }
        self._write("metrics", values=values, step=step, time_ms=_now_ms())

    def set_tags(self, tags: Mapping[str, str]) -> None:
        """Add or replace tags."""
        self._write("tags", values=_texts(tags))

    def log_artifact(self, path: Path, *, folder: str | None = None) -> None:
        """Keep a copy of a file, or of all files below a folder.

        Args:
            path: File or folder.
            folder: Where below the run's artifacts; the top if not given.
        """
        if self._journal is None:
            return
        try:
            copy = self._journal.keep(path)
        except OSError as error:
            logger.warning("%s is not logged: %s", path, error)
        else:
            self._write("artifact", copy=copy, folder=folder)

    def __enter__(self) -> "Run":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._journal is None or self._sampler is None:
            return
        self._sampler.stop()
        if kind is None or issubclass(kind, self._stops):
            status = "FINISHED"
        else:
            status = "KILLED" if issubclass(kind, KeyboardInterrupt) else "FAILED"
        if kind is not None:
            tag = "stopped_by" if status == "FINISHED" else "error"
            self.set_tags({tag: f"{kind.__name__}: {error}".removesuffix(": ")})
        if not self._is_child and (log := log_path()) is not None and log.is_file():
            self.log_artifact(log)
        self._write("end", status=status, time_ms=_now_ms())
        self._journal.close()
        if not self._is_child:
            _wait(self._journal.folder, self._start_s)

    def _write(self, kind: str, **values: Any) -> None:
        if self._journal is None:
            return
        try:
            self._journal.write(kind, **values)
        except OSError as error:
            logger.warning("a record of the run could not be kept: %s", error, extra=ONCE)


class SystemSampler:
    """Logs the load of the machine every few seconds, and once at the end.

    The names begin with `system/`, which MLflow shows on a page of their own.
    """

    def __init__(self, log: Callable[..., None]) -> None:
        self._log, self._step = log, 0
        self._process = psutil.Process()
        self._process.cpu_percent()  # counts from here
        psutil.cpu_percent()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample_often, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Sample for the last time."""
        self._over.set()
        self._thread.join()
        self._sample()

    def _sample_often(self) -> None:
        while not self._over.wait(INTERVAL_S):
            self._sample()

    def _sample(self) -> None:
        memory = psutil.virtual_memory()
        found = {
            "process_cpu_percent": self._process.cpu_percent(),
            "process_memory_mb": self._process.memory_info().rss / 2**20,
            "cpu_utilization_percentage": psutil.cpu_percent(),
            "system_memory_usage_percentage": memory.percent,
            **_gpu(),
        }
        self._log({"system": found}, step=self._step)
        self._step += 1


def _gpu() -> dict[str, Any]:
    """Return what the GPU of this process holds, if torch was loaded and has used one."""
    torch = sys.modules.get("torch")
    # Another thread may be importing it at this moment: then parts of it are missing.
    is_used = getattr(getattr(torch, "cuda", None), "is_initialized", None)
    if torch is None or is_used is None or not is_used():
        return {}
    return {
        "gpu_memory_mb": torch.cuda.memory_allocated() / 2**20,
        "gpu_peak_memory_mb": torch.cuda.max_memory_allocated() / 2**20,
    }


def flatten(values: Mapping[str, object], *, separator: str) -> Iterator[tuple[str, object]]:
    """Yield the leaves of nested maps with their keys joined by the separator."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            for inner, leaf in flatten(value, separator=separator):
                yield f"{key}{separator}{inner}", leaf
        else:
            yield str(key), value


def _surroundings() -> dict[str, str]:
    """Return the tags that say where and from what a run was made."""
    git = git_state()
    found = {
        **git,
        "mlflow.source.type": "LOCAL",
        "mlflow.source.git.commit": git["git_commit"],
        "host": platform.node(),
        "device": _device(),
    }
    if DVC_LOCK.is_file():
        found["dvc_lock"] = hash_file(DVC_LOCK)
    # Set by `dvc exp run`, whether here or in a queue, and by `signloom retrain`.
    variables = {EXPERIMENT: "DVC_EXP_NAME", BASELINE: "DVC_EXP_BASELINE_REV", NIGHT: NIGHT_KEY}
    for tag, variable in variables.items():
        if value := os.environ.get(variable):
            found[tag] = value
    return found


def spool() -> Path:
    """Return where records wait; the copy in which DVC runs an experiment will be removed."""
    return project_folder() / SPOOL


def _device() -> str:
    """Return the GPU's name if torch, where it was loaded, sees one."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return str(torch.cuda.get_device_name())
    return f"cpu, {os.cpu_count()} cores"


def _ensure_delivery() -> None:
    """Start the process that delivers; it waits if another one does already, and ends by itself."""
    if _deliverers and _deliverers[-1].poll() is None:
        return
    _deliverers.clear()
    log = spool() / "deliver.log"
    command = [sys.executable, "-m", "signloom.tracking.deliver", str(SPOOL)]
    try:
        with log.open("wb" if log.is_file() and log.stat().st_size > 1_000_000 else "ab") as file:
            _deliverers.append(
                subprocess.Popen(
                    command,
                    cwd=project_folder(),
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                    start_new_session=True,  # Ctrl-C stops the stage, not the delivery of its end
                )
            )
    except OSError as error:
        logger.warning("nothing is sent to MLflow yet: %s", error, extra=ONCE)


def _wait(folder: Path, start_s: float) -> None:
    """Wait for a store that answers, and say so when it has not answered since the start."""
    end_s = time.monotonic() + MAX_WAIT_S
    problem = store_file(spool(), store_name(), PROBLEM)

    def is_away() -> bool:
        try:
            return problem.stat().st_mtime > start_s
        except FileNotFoundError:
            return False

    while folder.is_dir() and not is_away() and time.monotonic() < end_s:
        time.sleep(0.05)
    if not folder.is_dir():
        return
    if is_away():
        logger.warning(
            "MLflow did not take the run yet: %s. Its records are kept in %s and go there with the "
            "next stage or with `signloom deliver`",
            problem.read_text(encoding="utf-8").strip(),
            spool(),
        )
    else:  # it has not answered yet, or has much to take
        logger.info(
            "the run is still on its way to %s; `signloom deliver` says whether it is there",
            store_name(),
        )


def _now_ms() -> int:
    return int(time.time() * 1000)


def _texts(values: Mapping[str, object]) -> dict[str, str]:
    return {key: str(value) for key, value in values.items()}
