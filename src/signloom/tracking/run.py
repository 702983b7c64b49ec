"""A tracked run: params, metrics, files and machine load of a stage.

Nothing here talks to MLflow, nor waits for it: records go to a journal on disk, and another process
(`signloom.tracking.deliver`) brings them to the store, now or when it answers again. Without
`MLFLOW_TRACKING_URI` that is `mlflow.db` and `mlruns/` in the project's folder, where a bare
`mlflow ui` looks; runs of an experiment that DVC makes in a copy of the project go there too.
"""

import contextlib
import json
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

from signloom.config import checked_dataclass, load_params, load_section
from signloom.corpus.manifest import CorpusOptions
from signloom.errors import UserError
from signloom.files import hash_file
from signloom.log import ONCE, keep_in_log, log_path
from signloom.paths import DVC_LOCK, PARAMS, SPOOL
from signloom.provenance import git_state, project_folder, running_dvc
from signloom.tracking.journal import ADDRESSES, PROBLEM, Journal, store_file
from signloom.tracking.mlflow_store import run_address, store_name

# Tags of runs that `dvc exp run` made: the name in `dvc exp show`, the commit it started from.
EXPERIMENT, BASELINE = "dvc_experiment", "dvc_baseline"
# The same tag on the runs of one `signloom retrain`: key of the run `retrain`.
NIGHT, NIGHT_KEY = "night", "SIGNLOOM_NIGHT"
REPRO, RETRAIN = "dvc repro", "retrain"  # "stages" of the runs below which those of stages lie
STAGE_KEY = "SIGNLOOM_STAGE_RUN"  # key of the run of a stage, for the processes of its trainings
SUMMARY = ("score", "headline")  # metrics and tags that the run above a stage's shows, too
INTERVAL_S = 10.0  # between two samples of the load
MAX_WAIT_S = 10.0  # seconds that a stage waits at its end for a store that answers
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
    and threads cannot end each other's runs. The log of the stage has what it is given, too, also
    where nothing is tracked.
    """

    def __init__(
        self,
        journal: Journal | None,
        key: str,
        *,
        name: str = "",
        is_child: bool = False,
        above: "Run | None" = None,
        stops: tuple[type, ...] = (),
    ) -> None:
        """Use `start` instead; no journal: nothing goes to MLflow; no name: nor to the log."""
        self._journal, self._above = journal, above
        self._is_child = is_child
        self._stops = stops
        self._name = name
        self._prefix = f"{name}: " if is_child else ""  # of its lines in the log
        self._sampler = SystemSampler(self.log_metrics) if journal and name else None
        self._start_s = time.time()
        self.key = key
        if name:
            keep_in_log(f"{name}: begins")

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
        """Open a run, below that of the `dvc repro` or the night to which its stage belongs.

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
        is_child, key = parent is not None, key or uuid.uuid4().hex
        name = name if is_child else f"{stage} {name}"
        if not options.enabled:
            return Run(None, key, name=name, is_child=is_child, stops=stops)
        above = None
        if not is_child and (above_key := _key_above(key)):
            parent = above_key
            if os.environ.get(NIGHT_KEY) != parent:  # else the night holds it itself
                above = _open_above(options, parent)
                if above is None:  # below what is not there it would never be delivered
                    parent = None
        hashes = dict(data or {})
        try:
            journal = _open_journal(
                options, name, key, parent,
                {
                    "stage": stage,
                    **_surroundings(),
                    "mlflow.source.name": f"pipeline.{stage}",
                    **{f"data.{dataset}": digest for dataset, digest in hashes.items()},
                    **({"mlflow.note.content": note} if note else {}),
                    **(tags or {}),
                },
            )  # fmt: skip
            if hashes:
                journal.write("inputs", values=hashes)
        except OSError as error:  # a full disk: the result matters more
            logger.warning("the run is not logged: %s", error, extra=ONCE)
            return Run(None, key, name=name, is_child=is_child, above=above, stops=stops)
        _ensure_delivery()
        return Run(journal, key, name=name, is_child=is_child, above=above, stops=stops)

    def log_params(self, params: Mapping[str, object]) -> None:
        """Log options; nested maps become `outer.inner`, long values are shortened."""
        self._write("params", values=_texts(dict(flatten(params, separator="."))))
        if not self._is_child:  # whose name, or tags, say how it differs
            self._say(params, separator=".")

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
        if "system" not in metrics:
            self._say(metrics, separator="/", step=step)
        if self._above is not None and (shown := _summary(metrics)):
            self._above.log_metrics(shown, step=step)

    def set_tags(self, tags: Mapping[str, str]) -> None:
        """Add or replace tags."""
        self._write("tags", values=_texts(tags))
        self._say(tags, separator=".")
        if self._above is not None:
            self._above.set_tags(_summary(tags))

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
        if kind is None or issubclass(kind, self._stops):
            status = "FINISHED"
        else:
            status = "KILLED" if issubclass(kind, KeyboardInterrupt) else "FAILED"
        seconds = time.time() - self._start_s
        if not self._is_child:
            self._write("metrics", values={"seconds": seconds}, step=0, time_ms=_now_ms())
        keep_in_log(f"{self._name}: {status.lower()} after {seconds:.1f} s")
        if kind is not None:
            tag = "stopped_by" if status == "FINISHED" else "error"
            self.set_tags({tag: f"{kind.__name__}: {error}".removesuffix(": ")})
        if not self._is_child and (log := log_path()) is not None and log.is_file():
            self.log_artifact(log)
        self._close(status)
        if self._above is not None:
            self._above._close(status)
        if not self._is_child and self._journal is not None:
            _wait(self._journal.folder, self._start_s, self.key)

    def _close(self, status: str) -> None:
        """Write the end."""
        if self._journal is None:
            return
        if self._sampler is not None:
            self._sampler.stop()
        self._write("end", status=status, time_ms=_now_ms())
        self._journal.close()

    def _say(self, values: Mapping[str, object], *, separator: str, step: int = 0) -> None:
        """Put values into the log of the stage; without a step, a line for each map of them."""
        if not self._name:
            return
        when = self._prefix + f"step {step}: " * (step > 0 and "epoch" not in values)
        plain = {key: value for key, value in values.items() if not isinstance(value, Mapping)}
        maps = {key: value for key, value in values.items() if isinstance(value, Mapping)}
        for some in maps.values() if step else ():
            plain |= some
        if step:
            maps = {}
        for head, some in [("", plain), *((f"{key}: ", some) for key, some in maps.items())]:
            if some:
                leaves = flatten(some, separator=separator)
                keep_in_log(when + head + ", ".join(f"{key} {_short(one)}" for key, one in leaves))

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


def _summary(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the run above a stage's shows, too."""
    return {key: value for key, value in values.items() if key in SUMMARY}


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _key_above(key: str) -> str:
    """Return the key of the night or the `dvc repro` that started this stage; empty without one."""
    night = os.environ.get(NIGHT_KEY, "")
    if night:
        return night if night != key else ""
    dvc = running_dvc()
    return f"repro-{dvc.pid}-{dvc.create_time():.2f}-{platform.node()}" if dvc else ""


def _open_above(options: TrackingOptions, key: str) -> Run | None:
    """Open the run of this `dvc repro`, for as long as a stage runs; the next stage does again."""
    experiment, commit = os.environ.get("DVC_EXP_NAME"), git_state()["git_commit"]
    name = experiment or (f"of {commit[:7]}" if commit != "unknown" else "")
    tags = {"stage": REPRO, **_surroundings(), "mlflow.source.name": "dvc.yaml",
            "mlflow.note.content": "The stages of one `dvc repro` lie below."}  # fmt: skip
    try:
        journal = _open_journal(options, f"{REPRO} {name}".strip(), key, None, tags)
        with contextlib.suppress(UserError):  # the stage says what is wrong
            params = _texts(dict(flatten(load_params(PARAMS), separator=".")))
            journal.write("params", values=params)
    except OSError:  # the stage's own run says it
        return None
    return Run(journal, key)


def _open_journal(
    options: TrackingOptions, name: str, key: str, parent: str | None, tags: Mapping[str, str]
) -> Journal:
    journal = Journal(spool())
    journal.write(
        "start", store=store_name(), experiment=options.experiment, name=name, key=key,
        parent=parent, time_ms=_now_ms(), tags=_texts(tags),
    )  # fmt: skip
    return journal


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
    if dvc := running_dvc():
        command.append(str(dvc.pid))  # one for all stages: MLflow takes seconds to begin
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


def _wait(folder: Path, start_s: float, key: str) -> None:
    """Wait for a store that answers; say where the run is, or that it has not answered."""
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
        if address := _address(key):
            logger.info("%s", address)
    elif is_away():
        try:
            reason = problem.read_text(encoding="utf-8").strip()
        except OSError:  # the store answers again at this moment
            reason = "it did not answer"
        logger.warning(
            "MLflow did not take the run yet: %s. Its records are kept in %s and go there with the "
            "next stage or with `signloom deliver`",
            reason,
            spool(),
        )
    else:  # it has not answered yet, or has much to take
        logger.info(
            "the run is still on its way to %s; `signloom deliver` says whether it is there",
            store_name(),
        )


def _address(key: str) -> str:
    """Return as text where a run that was delivered is to be seen; empty if that is not known."""
    try:
        known = json.loads(store_file(spool(), store_name(), ADDRESSES).read_text())
    except (OSError, ValueError):
        return ""
    return run_address(*known[key]) if key in known else ""


def _now_ms() -> int:
    return int(time.time() * 1000)


def _texts(values: Mapping[str, object]) -> dict[str, str]:
    return {key: str(value) for key, value in values.items()}
