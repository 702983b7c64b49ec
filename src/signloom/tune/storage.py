"""The database of a search: which study in it is ours, and its trials, each run to an end.

Optuna numbers trials as they start, dead ones included. A search of N trials is N numbered slots
here, and a slot is tried again until a trial in it has finished.
"""

import hashlib
import json
import logging
import os
import platform
import sqlite3
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import optuna
import sqlalchemy.exc
from optuna.storages import RetryHeartbeatStaleTrialCallback
from optuna.trial import FrozenTrial, TrialState

from signloom.errors import UserError
from signloom.provenance import code_hash, library_versions, project_folder
from signloom.training.train import RunOptions
from signloom.tune.space import DECODED, TuneOptions

PREFIX = "signloom-"
PARTS = "parts"  # user attribute of a study: the hash of each thing that decides its numbers
# User attributes of a trial: slot, process, values, and why it was stopped.
SLOT, OWNER, DRAWN, REASON = "slot", "owner", "drawn", "reason"
FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)
DEAD_AFTER = 3  # missing heartbeats
RETRIES = 3  # of a trial whose process dies: then its values are taken to be what kills it
MAX_OUTAGE_S = 900  # for which the database may be away
# Code and libraries that decide what a trial is worth, and those that do where an objective decodes
# dev. What landmarks and tokens were made with is in their hashes.
PACKAGES = (
    "corpus",
    "features",
    "models",
    "training",
    "tune/objective.py",
    "tune/search.py",
    "tune/space.py",
    "tune/storage.py",
)
DECODING_PACKAGES = ("translation", "evaluation/metrics.py")
LIBRARIES, DECODING_LIBRARIES = ("torch", "numpy", "python"), ("tokenizers", "sacrebleu", "jiwer")
UNDECIDING = ("cache_mb", "snapshot_s")  # of the section train: they change no number
OUTAGE = (optuna.exceptions.StorageInternalError, sqlalchemy.exc.DBAPIError)
logger = logging.getLogger(__name__)


@contextmanager
def quiet() -> Iterator[None]:
    """Hide Optuna's own notices of experimental parts and of every trial."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield


def identify(base: RunOptions, options: TuneOptions, data: Mapping[str, str]) -> dict[str, str]:
    """Hash everything that decides a trial's numbers, part by part.

    How many trials there are, how many processes run them and where they are kept is not among it:
    a search may be extended, moved to more workers, and goes on. How dev is decoded is among it
    only where an objective needs its sentences.
    """
    decodes = options.objective in DECODED
    scoring: list[str] = [options.tokenizer] if decodes else []
    versions = library_versions()
    libraries = (*LIBRARIES, *(DECODING_LIBRARIES if decodes else ()))
    sections = asdict(base)
    for name in UNDECIDING:
        del sections["train"][name]
    parts = {
        "the space": [options.space, options.first],
        "the objective": [
            options.objectives,
            asdict(options.limits),
            options.epochs,
            *scoring,
        ],
        "the seed": options.seed,
        "the other parameters": sections,
        "the data": dict(data),
        "the code": code_hash(*PACKAGES, *(DECODING_PACKAGES if decodes else ())),
        "the libraries": [{name: versions.get(name) for name in libraries}, optuna.__version__],
    }
    return {name: _digest(content) for name, content in parts.items()}


def study_name(parts: Mapping[str, str]) -> str:
    """Return the name of the study with this identity."""
    return PREFIX + _digest(dict(parts))


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


def open_storage(url: str, heartbeat_s: int) -> optuna.storages.RDBStorage:
    """Open the database, which is made if it is a file that does not exist.

    Raises:
        UserError: If it cannot be reached.
    """
    if url.startswith("sqlite:///"):
        path = project_folder() / url.removeprefix("sqlite:///")
        _prepare_sqlite(path)
        url = f"sqlite:///{path}"
        engine: dict[str, Any] = {"connect_args": {"timeout": 60}}
    else:
        # The driver that we install; its password comes from PGPASSWORD or ~/.pgpass.
        url = "postgresql+psycopg://" + url.split("://", 1)[1]
        engine = {"pool_pre_ping": True, "connect_args": {"connect_timeout": 10}}
    try:
        return optuna.storages.RDBStorage(
            url,
            engine_kwargs=engine,
            heartbeat_interval=heartbeat_s,
            grace_period=DEAD_AFTER * heartbeat_s,
            heartbeat_stale_trial_callback=_retry,
        )
    except ImportError as error:
        raise UserError(
            f"tune.storage is a PostgreSQL address, but its driver is missing ({error}); "
            'install it with `pip install "signloom[postgres]"`'
        ) from None
    except (sqlalchemy.exc.SQLAlchemyError, RuntimeError) as error:
        shown = url.split("@")[-1]
        raise UserError(
            f"tune.storage: the database {shown} cannot be used: {str(error).splitlines()[0]}; "
            "check the address and that the server runs, or move a damaged file away"
        ) from error


def _prepare_sqlite(path: Path) -> None:
    """Let readers and a writer work side by side; the setting stays in the file."""
    try:
        with closing(sqlite3.connect(path, timeout=60)) as database:
            database.execute("PRAGMA journal_mode=WAL")
    except sqlite3.Error as error:
        raise UserError(
            f"tune.storage: {path} cannot be used: {error}; move the file away or name another"
        ) from None


def open_study(
    storage: optuna.storages.RDBStorage,
    name: str,
    parts: Mapping[str, str],
    options: TuneOptions,
    *,
    may_create: bool,
) -> optuna.Study:
    """Open the study of exactly this search, and log it when it is not the last one.

    Args:
        parts: What decides its numbers, hashed.
        options: Objective and epochs.
        may_create: Whether to start it; a worker that joins must not.

    Raises:
        UserError: If there is none and it may not be created, with what is different here.
    """
    names = {study.study_name: study for study in optuna.get_all_study_summaries(storage)}
    if name not in names:
        difference = _difference(list(names.values()), parts)
        if not may_create:
            raise UserError(
                f"the storage has no study of these parameters, data and code. {difference}"
                "Bring this machine to the same state, or start the search with `dvc repro tune`"
            )
        if difference:
            logger.info("a new search. %sThe old trials are kept and not mixed in.", difference)
    study = optuna.create_study(
        study_name=name,
        storage=storage,
        direction=options.direction,
        load_if_exists=True,
        pruner=optuna.pruners.MedianPruner(
            n_startup_trials=3, n_warmup_steps=max(1, options.epochs // 3)
        ),
    )
    study.set_user_attr(PARTS, dict(parts))
    return study


def _difference(studies: list[Any], parts: Mapping[str, str]) -> str:
    """Say in what the newest search in the storage differs from this one."""
    ours = [study for study in studies if PARTS in study.user_attrs]
    if not ours:
        return ""
    last = max(ours, key=lambda study: study._study_id)
    before = last.user_attrs[PARTS]
    changed = [name for name in parts if before.get(name) != parts[name]]
    return f"Changed since {last.study_name} ({last.n_trials} trials): {', '.join(changed)}. "


# --- Trials ---


class SlotTakenError(Exception):
    """Another trial already has this slot."""


def run_trials(
    study: optuna.Study,
    slots: int,
    objective: Callable[[optuna.Trial], Any],
    *,
    fixed_values: Callable[[int], Mapping[str, Any]] = lambda slot: {},
    heartbeat_s: int,
    check: Callable[[], None],
) -> None:
    """Run trials until each slot has one that finished; others may do the same elsewhere.

    Args:
        study: In a database, with a `SlotSampler`.
        objective: Runs a trial that has a slot; see `claim_slot`.
        fixed_values: From a slot to the values that are not drawn.
        heartbeat_s: Seconds between the signs of life of a trial.
        check: Called between trials; raises to stop.
    """
    away_since: float | None = None
    while True:
        check()
        try:
            fail_dead_trials(study, DEAD_AFTER * heartbeat_s)
            if not _run_next(study, slots, objective, fixed_values):
                return
            away_since = None
        except OUTAGE as error:
            away_since = away_since or time.monotonic()
            if time.monotonic() - away_since > MAX_OUTAGE_S:
                raise
            logger.warning("the search's database is away (%s); trying again", type(error).__name__)
            time.sleep(min(5.0, heartbeat_s))


def _run_next(
    study: optuna.Study,
    slots: int,
    objective: Callable[[optuna.Trial], Any],
    fixed_values: Callable[[int], Mapping[str, Any]],
) -> bool:
    """Run one trial, or wait a little for those of others; return whether there is more to do."""
    ours = [t for t in study.get_trials(deepcopy=False) if t.user_attrs.get(SLOT, slots) < slots]
    held = {trial.user_attrs[SLOT] for trial in ours if trial.state != TrialState.FAIL}
    states = {trial.state for trial in ours}
    if TrialState.WAITING not in states:
        missing = next((slot for slot in range(slots) if slot not in held), None)
        if missing is None:
            is_running = TrialState.RUNNING in states  # in another process, which may die
            time.sleep(0.5 * is_running)
            return is_running
        study.enqueue_trial(dict(fixed_values(missing)), user_attrs={SLOT: missing})
    try:
        study.optimize(objective, n_trials=1, catch=(SlotTakenError,))
    except ValueError as error:
        # Optuna's words when another process has ended our trial: it declared it dead, or SQLite
        # gave it the same waiting trial. Which slots are missing is read anew.
        if not str(error).startswith("Cannot tell a"):
            raise
    return True


def claim_slot(trial: optuna.Trial, slots: int) -> int:
    """Return the slot of a trial that has just started, and note whose it is.

    Raises:
        SlotTakenError: If its slot is taken or is none of the wanted ones.
    """
    slot = trial.user_attrs.get(SLOT, slots)
    # A trial is stored together with its slot, so all earlier ones of this slot are seen here.
    is_taken = any(
        earlier.user_attrs.get(SLOT) == slot and earlier.state != TrialState.FAIL
        for earlier in trial.study.get_trials(deepcopy=False)
        if earlier.number < trial.number
    )
    if slot >= slots or is_taken:
        trial.set_user_attr(REASON, "its slot is taken")
        raise SlotTakenError
    trial.storage.record_heartbeat(trial._trial_id)  # so that a trial with an owner has one
    trial.set_user_attr(OWNER, {"machine": platform.node(), "pid": os.getpid()})
    return int(slot)


def finished(study: optuna.Study, slots: int) -> dict[int, FrozenTrial]:
    """Return the finished trial of each slot that has one, by slot."""
    trials: dict[int, FrozenTrial] = {}
    for trial in study.get_trials(deepcopy=False, states=FINISHED):
        slot = trial.user_attrs.get(SLOT, slots)
        if slot < slots:
            trials.setdefault(slot, trial)
    return dict(sorted(trials.items()))


def fail_dead_trials(study: optuna.Study, silent_s: int) -> None:
    """Declare trials failed that gave no sign of life for some time, and queue them again."""
    with quiet():
        optuna.storages.fail_stale_trials(study)
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        # Killed before its first heartbeat, for which Optuna waits for ever.
        age = datetime.now() - (trial.datetime_start or datetime.now())
        if OWNER not in trial.user_attrs and age.total_seconds() > silent_s:
            with suppress(ValueError):  # another process was faster
                study.tell(trial.number, state=TrialState.FAIL)


def wait_for_dead_trials(study: optuna.Study, silent_s: int) -> None:
    """Wait until the trials of killed processes are declared failed.

    Else a search of one process would go on with the next slot, and end otherwise than one that
    was not interrupted.
    """
    # The database counts whole seconds, so a trial is dead up to one later.
    end_s, states = time.monotonic() + silent_s + 1, (TrialState.RUNNING,)
    if running := study.get_trials(deepcopy=False, states=states):
        logger.info("%d running trials: up to %d s for a sign of life", len(running), silent_s)
    while study.get_trials(deepcopy=False, states=states):
        is_last = time.monotonic() > end_s  # a slow machine looks then as well
        fail_dead_trials(study, silent_s)
        if is_last:
            return  # those that are left run in other processes
        time.sleep(0.2)


def _retry(study: optuna.Study, trial: FrozenTrial) -> None:
    """Queue a trial whose process died again, with the same values, or count it as pruned."""
    deaths = 1 + len(RetryHeartbeatStaleTrialCallback.retry_history(trial))
    trial.user_attrs.pop(OWNER, None)
    if deaths <= RETRIES:
        logger.warning("trial %d gave no sign of life and is run again", trial.number)
        RetryHeartbeatStaleTrialCallback()(study, trial)
        return
    reason = f"its process died {deaths} times with these values"
    pruned = optuna.create_trial(
        state=TrialState.PRUNED,
        params=trial.params,
        distributions=trial.distributions,
        user_attrs={**trial.user_attrs, REASON: reason},
    )
    study.add_trial(pruned)


class SlotSampler(optuna.samplers.TPESampler):  # type: ignore[misc]
    """TPE, seeded for each slot, so that what a slot draws depends on the history alone.

    A search that was interrupted and goes on ends like one that was not, and two processes that
    start together do not draw the same.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed=seed, multivariate=True)
        self._seed = seed

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Seed for the trial's slot."""
        seed = (self._seed + 1_000 * trial.user_attrs.get(SLOT, 0)) % 2**32
        super().__init__(seed=seed, multivariate=True)
        super().before_trial(study, trial)
