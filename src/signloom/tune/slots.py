"""A study with numbered slots: each gets one finished trial, whatever processes die.

Optuna numbers trials as they start, dead ones included. A search of N trials is N slots here, and
a slot is tried again until a trial in it has finished: none is lost and none counted twice.
"""

import contextlib
import datetime
import logging
import os
import platform
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import optuna
import psutil  # type: ignore[import-untyped]
from optuna.trial import FrozenTrial, TrialState

from signloom.tune.storage import DEAD_AFTER, OUTAGE

# User attributes of a trial.
SLOT, OWNER, DRAWN, REASON = "slot", "owner", "drawn", "reason"
FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)
RETRIES = 3  # of a slot whose process dies: then its values are taken to be what kills it
MAX_OUTAGE_S = 900  # for which the database may be away
Owner = dict[str, str | int | float]
Values = Mapping[str, Any]
logger = logging.getLogger(__name__)


class SlotTakenError(Exception):
    """This trial is one too many."""


def fill_slots(
    study: optuna.Study,
    slots: int,
    objective: Callable[[optuna.Trial], Any],
    *,
    fixed_values: Callable[[int], Values],
    heartbeat_s: int,
    check: Callable[[], None],
) -> None:
    """Run trials until each slot has one that finished; others may do the same elsewhere.

    Args:
        study: In a database, with a `SlotSampler`.
        slots: How many.
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
    fixed_values: Callable[[int], Values],
) -> bool:
    """Run one trial, or wait a little for those of others; return whether there is more to do."""
    trials = study.get_trials(deepcopy=False)
    held = {trial.user_attrs.get(SLOT) for trial in trials if trial.state != TrialState.FAIL}
    missing = [slot for slot in range(slots) if slot not in held]
    states = Counter(t.state for t in trials if t.user_attrs.get(SLOT, slots) < slots)
    if not missing and not states[TrialState.WAITING]:
        if states[TrialState.RUNNING]:
            time.sleep(0.5)  # a trial of another process, which may die
        return bool(states[TrialState.RUNNING])
    if not states[TrialState.WAITING]:
        slot = missing[0]
        # What a dead trial had drawn is not drawn again: in a parallel search the history, from
        # which it follows, has grown.
        dead = [t for t in trials if t.user_attrs.get(SLOT) == slot and DRAWN in t.user_attrs]
        values = dict(dead[-1].user_attrs[DRAWN] if dead else fixed_values(slot))
        study.enqueue_trial(values, user_attrs={SLOT: slot})
    try:
        study.optimize(objective, n_trials=1, catch=(SlotTakenError,))
    except ValueError as error:
        # Optuna's words when another process has declared our trial dead: it is run again.
        if not str(error).startswith("Cannot tell a"):
            raise
        logger.warning("a trial went unheard for too long and is run again")
    return True


def claim_slot(trial: optuna.Trial, slots: int) -> int:
    """Return the slot of a trial that has just started, and note whose it is.

    Raises:
        SlotTakenError: If its slot is taken or is none of the wanted ones.
        optuna.TrialPruned: If too many processes have died in this slot.
    """
    slot = trial.user_attrs.get(SLOT, slots)
    others = [
        other
        for other in trial.study.get_trials(deepcopy=False)
        if other.number < trial.number and other.user_attrs.get(SLOT) == slot
    ]
    # A trial is stored together with its slot, so all earlier ones of this slot are seen here.
    if slot >= slots or any(other.state != TrialState.FAIL for other in others):
        trial.set_user_attr(REASON, "its slot is taken")
        raise SlotTakenError
    deaths = [o for o in others if o.user_attrs.get(OWNER) and not o.user_attrs.get(REASON)]
    if len(deaths) > RETRIES:
        reason = f"its process died {len(deaths)} times with these values"
        trial.set_user_attr(REASON, reason)
        raise optuna.TrialPruned(reason)
    trial.set_user_attr(OWNER, this_owner())
    return int(slot)


def finished(study: optuna.Study, slots: int) -> dict[int, FrozenTrial]:
    """Return the finished trial of each of so many slots that has one, by slot."""
    found: dict[int, FrozenTrial] = {}
    for trial in study.get_trials(deepcopy=False, states=FINISHED):
        slot = trial.user_attrs.get(SLOT, slots)
        if slot < slots:
            found.setdefault(slot, trial)
    return dict(sorted(found.items()))


def fail_dead_trials(study: optuna.Study, silent_s: int) -> None:
    """Declare the trials failed whose process is gone or has been silent for too long."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        optuna.storages.fail_stale_trials(study)
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        owner = trial.user_attrs.get(OWNER)
        if owner is None:
            # Died between its start and its first heartbeat, for which Optuna waits for ever.
            age = datetime.datetime.now() - (trial.datetime_start or datetime.datetime.now())
            dead = age.total_seconds() > silent_s
        else:
            dead = is_dead(owner)
        if dead:
            with contextlib.suppress(ValueError):  # another process was faster
                study.tell(trial.number, state=TrialState.FAIL)


def this_owner() -> Owner:
    """Return what identifies this process, also after its number was given to another."""
    return {"machine": _machine(), "pid": os.getpid(), "started_s": psutil.Process().create_time()}


def is_dead(owner: Owner) -> bool:
    """Return whether a process is known to be gone; False for one on another machine."""
    if owner["machine"] != _machine():
        return False
    try:
        process = psutil.Process(int(owner["pid"]))
        return (
            abs(process.create_time() - float(owner["started_s"])) > 1
            or process.status() == psutil.STATUS_ZOMBIE
        )
    except psutil.NoSuchProcess:
        return True


def _machine() -> str:
    """Return a name for the space in which process numbers mean something."""
    parts = [platform.node()]
    with contextlib.suppress(OSError):  # Linux only; containers have one host name at times
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8])
        parts.append(str(Path("/proc/self/ns/pid").stat().st_ino))
    return "/".join(parts)


class SlotSampler(optuna.samplers.BaseSampler):  # type: ignore[misc]
    """TPE, seeded for each slot, so that what a slot draws depends on the history alone.

    A search that was interrupted and goes on ends like one that was not, and two processes that
    start together do not draw the same.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._tpe = optuna.samplers.TPESampler(seed=seed, multivariate=True)

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Seed for the trial's slot."""
        seed = (self._seed + 1_000 * trial.user_attrs.get(SLOT, 0)) % 2**32
        self._tpe = optuna.samplers.TPESampler(seed=seed, multivariate=True)

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> Any:
        """See `TPESampler`."""
        return self._tpe.infer_relative_search_space(study, trial)

    def sample_relative(self, study: optuna.Study, trial: FrozenTrial, search_space: Any) -> Any:
        """See `TPESampler`."""
        return self._tpe.sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: Any
    ) -> Any:
        """See `TPESampler`."""
        return self._tpe.sample_independent(study, trial, param_name, param_distribution)
