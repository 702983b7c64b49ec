"""A tracked run: params, metrics and files of a stage.

Nothing here talks to MLflow, nor waits for it: records go to a journal on disk, and another process
(`signloom.tracking.upload`) brings them to the store, now or when it answers again. Without
`MLFLOW_TRACKING_URI` that is `mlflow.db` and `mlruns/` in the project's folder, where a bare
`mlflow ui` finds them; runs of an experiment that DVC makes in a copy of the project go there too.
"""

import functools
import logging
import os
import platform
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from ruamel.yaml.error import YAMLError

from signloom.config import checked_dataclass, flatten, load_params, load_section, read_yaml
from signloom.corpus.manifest import CorpusOptions
from signloom.errors import UserError
from signloom.files import hash_file
from signloom.log import ONCE, keep_in_log, log_path
from signloom.paths import DVC_LOCK, PARAMS, SPOOL
from signloom.provenance import committed, git_state, project_folder, running_dvc
from signloom.tracking.journal import Journal, Spool
from signloom.tracking.mlflow_setup import page_address, run_address, store_name
from signloom.tracking.run_store import SCORES_VIEW

# Tags of runs that `dvc exp run` made: the name in `dvc exp show`, the commit it started from.
EXPERIMENT, BASELINE = "dvc_experiment", "dvc_baseline"
# The same tag on the runs of one `signloom retrain`: key of the run `retrain`.
NIGHT, NIGHT_KEY = "night", "SIGNLOOM_NIGHT"
REPRO = "dvc repro"  # "stage" of the run below which those of stages lie
MAX_WAIT_S = 10.0  # seconds that a stage waits at its end for a store that answers
# Beside a checkpoint, so that `mlflow.pyfunc.load_model` loads it where Signloom is installed.
MLMODEL = (
    "flavors:\n  python_function:\n    loader_module: signloom_tools.translate.model\n"
    f"    python_version: {platform.python_version()}\nsignature:\n  params: "  # of `predict`
    """'[{"name": "n_best", "type": "long", "default": 1, "shape": null}]'\n"""
)
logger = logging.getLogger(__name__)
_uploaders: list["subprocess.Popen[bytes]"] = []  # that this process started


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


def name_run(description: str) -> str:
    """Return a run's name: what was changed in params.yaml, then what describes it in any case.

    Args:
        description: Parts with commas between them, such as `d_model 64, epochs 20, seed 1`.
    """
    return ", ".join(dict.fromkeys([*changed_params(Path.cwd()), *description.split(", ")]))


@functools.cache
def changed_params(folder: Path) -> tuple[str, ...]:
    """Return what a folder's params.yaml has otherwise than the last commit, as `d_model 64`.

    A name that several sections have is given with its section. Nothing of `tracking`, which
    changes no result; nothing where there is no commit.
    """
    try:
        before, now = (
            dict(flatten(params, separator="."))
            for params in (read_yaml(committed(folder / PARAMS)), load_params(folder / PARAMS))
        )
    except (OSError, subprocess.CalledProcessError, UserError, YAMLError, AttributeError):
        return ()
    names = Counter(key.rpartition(".")[2] for key in now)
    shown = {key: name if names[name := key.rpartition(".")[2]] == 1 else key for key in now}
    return tuple(
        f"{shown[key]} {_short(value)}"
        for key, value in now.items()
        if value != before.get(key) and not key.startswith("tracking.")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOf:
    """Which run it is."""

    stage: str  # the DVC stage, e.g. `train`
    name: str  # what differs from other runs of the stage, see `name_run`
    key: str = field(default_factory=lambda: uuid.uuid4().hex)
    """What makes it the same run when it is opened again, after its process died or was done."""
    parent: str | None = None  # key of the run that it is listed below, such as that of a search

    @property
    def title(self) -> str:
        """The name in MLflow and in the log."""
        return f"{self.stage} {self.name}" if self.parent is None else self.name


class Run:
    """A run that is kept in the stage's log alone; leaving its `with` block ends it.

    Where tracking is on, `Run.start` gives one that goes to MLflow, too.
    """

    def __init__(self, of: RunOf, stops: tuple[type[BaseException], ...] = ()) -> None:
        self._of, self._stops = of, stops
        self._is_child = of.parent is not None
        self._prefix = f"{of.title}: " if self._is_child else ""  # of its lines in the log
        self._start_s = time.time()
        keep_in_log(f"{of.title}: begins")

    @staticmethod
    def start(
        options: TrackingOptions,
        of: RunOf,
        *,
        data: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
        note: str = "",
        stops: tuple[type[BaseException], ...] = (),
    ) -> "Run":
        """Open a run, below that of the `dvc repro` or the night to which its stage belongs.

        Args:
            options: Whether to log, and the experiment.
            data: Name and hash of what the stage read; logged as MLflow inputs and as tags.
            note: What a person reads at the top of the run's page, in Markdown.
            stops: Exceptions that end the run as planned, such as a pruned trial: the run is
                then FINISHED, with the exception's name in the tag `stopped_by`.
        """
        if not options.enabled:
            return Run(of, stops)
        more = {f"data.{name}": digest for name, digest in (data or {}).items()} | dict(tags or {})
        if note:
            more["mlflow.note.content"] = note
        try:
            journal = _open_journal(options, of, more)
            if data:
                journal.write("inputs", values=dict(data))
        except OSError as error:  # a full disk: the result matters more
            logger.warning("the run is not logged: %s", error, extra=ONCE)
            return Run(of, stops)
        _ensure_upload()
        return _TrackedRun(of, stops, journal)

    @property
    def key(self) -> str:
        """What finds the run again."""
        return self._of.key

    def log_params(self, params: Mapping[str, object]) -> None:
        """Log options; nested maps become `outer.inner`, long values are shortened."""
        self._write("params", values=_texts(params))
        if not self._is_child:  # whose name, or tags, have what differs
            self._log_locally(params, separator=".")

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
        self._log_locally(metrics, separator="/", step=step)

    def set_tags(self, tags: Mapping[str, str]) -> None:
        """Add or replace tags."""
        self._write("tags", values=_texts(tags))
        self._log_locally(tags, separator=".")

    def log_artifact(self, path: Path, *, folder: str | None = None) -> None:
        """Keep a copy of a file, or of all files below a folder.

        Args:
            path: File or folder.
            folder: Where below the run's artifacts; the top if not given.
        """

    def _write(self, kind: str, **values: Any) -> None:
        """Keep a record."""

    def _end(self, status: str, seconds: float) -> None:
        """Keep what is left at the end."""

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
        keep_in_log(f"{self._of.title}: {status.lower()} after {seconds:.1f} s")
        if kind is not None:
            tag = "stopped_by" if status == "FINISHED" else "error"
            self.set_tags({tag: f"{kind.__name__}: {error}".removesuffix(": ")})
        self._end(status, seconds)

    def _log_locally(self, values: Mapping[str, object], *, separator: str, step: int = 0) -> None:
        """Put values into the log of the stage; without a step, a line for each map of them."""
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
                keep_in_log(
                    when + head + ", ".join(f"{key} {_short(value)}" for key, value in leaves)
                )


class _TrackedRun(Run):
    """A run whose records go to MLflow.

    It has its own key and never touches MLflow's global active run, so that parents, children
    and threads cannot end each other's runs.
    """

    def __init__(self, of: RunOf, stops: tuple[type[BaseException], ...], journal: Journal) -> None:
        super().__init__(of, stops)
        self._journal = journal

    def log_artifact(self, path: Path, *, folder: str | None = None) -> None:
        try:
            copy = self._journal.keep(path)
            if (path / "checkpoint.json").is_file():
                (self._journal.folder / copy / "MLmodel").write_text(MLMODEL, encoding="utf-8")
        except OSError as error:
            logger.warning("%s is not logged: %s", path, error)
        else:
            self._write("artifact", copy=copy, folder=folder)

    def _write(self, kind: str, **values: Any) -> None:
        try:
            self._journal.write(kind, **values)
        except OSError as error:
            logger.warning("a record of the run could not be kept: %s", error, extra=ONCE)

    def _end(self, status: str, seconds: float) -> None:
        if not self._is_child:
            self._write("metrics", values={"seconds": seconds}, step=0, time_ms=_now_ms())
            if (log := log_path()) is not None and log.is_file():
                self.log_artifact(log)
        self._write("end", status=status, time_ms=_now_ms())
        self._journal.close()
        if not self._is_child:
            _wait(self._journal.folder, self._start_s, self.key)


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _open_journal(options: TrackingOptions, of: RunOf, tags: Mapping[str, str]) -> Journal:
    """Begin the records of a run, which name the run above it."""
    parent = of.parent or _key_above(of.key)
    start = {
        "experiment": options.experiment,
        "name": of.title,
        "key": of.key,
        "parent": parent,
        "tags": _tags(of.stage, f"pipeline.{of.stage}") | dict(tags),
    }
    is_repro = parent is not None and parent != of.parent and parent != os.environ.get(NIGHT_KEY)
    if is_repro:
        start["above"] = _describe_repro()
    journal = Journal(_spool().folder)
    journal.write("start", store=store_name(), time_ms=_now_ms(), **start)
    if is_repro:
        with suppress(UserError):  # the stage reports it
            journal.write("params", of="above", values=_texts(load_params(PARAMS)))
    return journal


def _key_above(key: str) -> str | None:
    """Return the key of the night or the `dvc repro` that started this stage."""
    if night := os.environ.get(NIGHT_KEY):
        return night if night != key else None
    dvc = running_dvc()
    return f"repro-{dvc.pid}-{dvc.create_time():.2f}-{platform.node()}" if dvc else None


def _describe_repro() -> dict[str, Any]:
    """Return what the run of this `dvc repro` shows; each of its stages opens it again."""
    changes, commit = ", ".join(changed_params(Path.cwd())), git_state()["git_commit"]
    # MLflow's table cuts a name after some twenty letters: what differs stands first.
    if experiment := os.environ.get("DVC_EXP_NAME"):
        name = ": ".join(filter(None, (experiment, changes)))
    else:
        of_commit = REPRO if commit == "unknown" else f"{REPRO} of {commit[:7]}"
        name = ", ".join(filter(None, (changes, of_commit)))
    note = {"mlflow.note.content": "The stages of one `dvc repro` lie below."}
    return {"name": name, "tags": _tags(REPRO, "dvc.yaml") | note}


def _tags(stage: str, source: str) -> dict[str, str]:
    """Return the tags with where and from what a run was made."""
    git = git_state()
    tags = {
        "stage": stage,
        "mlflow.source.name": source,
        **git,
        "mlflow.source.type": "LOCAL",
        "mlflow.source.git.commit": git["git_commit"],
        "host": platform.node(),
        "python": platform.python_version(),
        "device": _device(),
    }
    if changed := changed_params(Path.cwd()):
        tags["changed"] = ", ".join(changed)
    if DVC_LOCK.is_file():
        tags["dvc_lock"] = hash_file(DVC_LOCK)
    # Set by `dvc exp run`, whether here or in a queue, and by `signloom retrain`.
    variables = {EXPERIMENT: "DVC_EXP_NAME", BASELINE: "DVC_EXP_BASELINE_REV", NIGHT: NIGHT_KEY}
    for tag, variable in variables.items():
        if value := os.environ.get(variable):
            tags[tag] = value
    return tags


def _spool() -> Spool:
    """Return where records wait; the copy in which DVC runs an experiment will be removed."""
    return Spool(project_folder() / SPOOL, store_name())


def _device() -> str:
    """Return the GPU's name if torch, where it was loaded, sees one."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return str(torch.cuda.get_device_name())
    return f"cpu, {os.cpu_count()} cores"


def _ensure_upload() -> None:
    """Start the process that uploads, unless one does; it ends by itself."""
    spool, dvc = _spool(), running_dvc()
    status = spool.status()
    if status.has_uploader() and (dvc is None or dvc.pid in status.until):
        return
    command = [sys.executable, "-m", "signloom.tracking.upload"]
    if dvc:
        command.append(str(dvc.pid))  # one for all stages: MLflow takes seconds to begin
    log = spool.folder / "upload.log"
    try:
        with log.open("wb" if log.is_file() and log.stat().st_size > 1_000_000 else "ab") as file:
            _uploaders[:] = [
                *(uploader for uploader in _uploaders if uploader.poll() is None),
                subprocess.Popen(
                    command,
                    cwd=project_folder(),
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                    start_new_session=True,  # Ctrl-C stops the stage, not the upload of its end
                ),
            ]
    except OSError as error:
        logger.warning("nothing is sent to MLflow yet: %s", error, extra=ONCE)


def last_address() -> str:
    """Return where MLflow shows the run that came there last; empty: none is known."""
    runs = [*_spool().status().runs.values()]
    return run_address(*runs[-1]).rpartition(" ")[2] if runs else ""


def scores_address() -> str:
    """Return where MLflow shows the scored runs, the best first; its start if none is known."""
    runs = [*_spool().status().runs.values()]
    page = f"experiments/{runs[-1][0]}/runs?viewStateShareKey={SCORES_VIEW}" if runs else ""
    return page_address(page or "experiments")


def _wait(folder: Path, start_s: float, key: str) -> None:
    """Wait for a store that answers; log where the run is, or that it has not answered."""
    spool, end_s = _spool(), time.monotonic() + MAX_WAIT_S
    while True:
        status = spool.status()
        is_away = status.problem_s > start_s
        if not folder.is_dir() or is_away or time.monotonic() >= end_s:
            break
        time.sleep(0.05)
    if not folder.is_dir():
        if key in status.runs:
            logger.info("%s", run_address(*status.runs[key]))
    elif is_away:
        logger.warning(
            "MLflow did not take the run yet: %s. Its records are kept in %s and go there with the "
            "next stage or with `signloom upload-runs`",
            status.problem,
            spool.folder,
        )
    else:  # it has not answered yet, or has much to take
        logger.info(
            "the run is still on its way to %s; `signloom upload-runs` shows whether it is there",
            spool.store,
        )


def _now_ms() -> int:
    return int(time.time() * 1000)


def _texts(values: Mapping[str, object]) -> dict[str, str]:
    return {key: str(value) for key, value in flatten(values, separator=".")}
