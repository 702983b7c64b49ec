"""A study with numbered slots: each gets one finished trial, whoever dies.

Optuna numbers trials as they start, dead ones included. A search of N trials is N places here, and
a place is taken again until a trial of it has finished: none is lost and none counted twice.
"""

import contextlib
import datetime
import logging
import os
import platform
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna
import psutil  # type: ignore[import-untyped]
from optuna.trial import FrozenTrial, TrialState

from signloom.tune.storage import DEAD_AFTER, OUTAGE

Owner = dict[str, str | int | float]


def this_owner() -> Owner:
    """Return what identifies this process, also after its number was given to another."""
    return {
        "machine": _machine(),
        "pid": os.getpid(),
        "started_s": psutil.Process().create_time(),
    }


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


def cores_of(worker: int, workers: int) -> list[int]:
    """Return the cores of one of several workers: disjoint while there are enough."""
    cores = list(range(os.cpu_count() or 1))
    with contextlib.suppress(AttributeError):  # Linux only
        cores = sorted(os.sched_getaffinity(0))
    return cores[worker::workers] or [cores[worker % len(cores)]]


# User attributes of a trial.
PLACE, OWNER, DRAWN, REASON = "place", "owner", "drawn", "reason"
FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)
RETRIES = 3  # of a place whose process dies: then its values are taken to be what kills it
MAX_OUTAGE_S = 900  # for which the database may be away
logger = logging.getLogger(__name__)
Values = Mapping[str, Any]


class WithdrawnError(Exception):
    """This trial is one too many: its place is taken."""


class PlacedSampler(optuna.samplers.BaseSampler):  # type: ignore[misc]
    """TPE, seeded for each place, so that what a place draws depends on the history alone.

    A search that was interrupted and goes on ends like one that was not, and two processes that
    start together do not draw the same.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._tpe = optuna.samplers.TPESampler(seed=seed, multivariate=True)

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Seed for the trial's place."""
        seed = (self._seed + 1_000 * trial.user_attrs.get(PLACE, 0)) % 2**32
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


def finished(study: optuna.Study, count: int) -> dict[int, FrozenTrial]:
    """Return the finished trial of each place below a count, by place."""
    found: dict[int, FrozenTrial] = {}
    for trial in study.get_trials(deepcopy=False, states=FINISHED):
        place = trial.user_attrs.get(PLACE, count)
        if place < count:
            found.setdefault(place, trial)
    return dict(sorted(found.items()))


def fill(
    study: optuna.Study,
    count: int,
    objective: Callable[[optuna.Trial], Any],
    *,
    start: Callable[[int], Values],
    heartbeat_s: int,
    check: Callable[[], None],
) -> None:
    """Run trials until each place has one that finished; others may do the same elsewhere.

    Args:
        study: In a database, with a `PlacedSampler`.
        count: Places.
        objective: Runs a trial that has a place; see `claim`.
        start: From a place to the values that are not drawn.
        heartbeat_s: Seconds between the signs of life of a trial.
        check: Called between trials; raises to stop.
    """
    away_since: float | None = None
    while True:
        check()
        try:
            bury(study, DEAD_AFTER * heartbeat_s)
            if not _work(study, count, objective, start):
                return
            away_since = None
        except OUTAGE as error:
            away_since = away_since or time.monotonic()
            if time.monotonic() - away_since > MAX_OUTAGE_S:
                raise
            logger.warning("the search's database is away (%s); trying again", type(error).__name__)
            time.sleep(min(5.0, heartbeat_s))


def _work(
    study: optuna.Study,
    count: int,
    objective: Callable[[optuna.Trial], Any],
    start: Callable[[int], Values],
) -> bool:
    """Run one trial, or wait a little for those of others; return whether there is more to do."""
    trials = study.get_trials(deepcopy=False)
    held = {trial.user_attrs.get(PLACE) for trial in trials if trial.state != TrialState.FAIL}
    missing = [place for place in range(count) if place not in held]
    states = Counter(t.state for t in trials if t.user_attrs.get(PLACE, count) < count)
    if not missing and not states[TrialState.WAITING]:
        if states[TrialState.RUNNING]:
            time.sleep(0.5)  # a trial of another process, which may die
        return bool(states[TrialState.RUNNING])
    if not states[TrialState.WAITING]:
        place = missing[0]
        study.enqueue_trial(_values(trials, place, start), user_attrs={PLACE: place})
    try:
        study.optimize(objective, n_trials=1, catch=(WithdrawnError,))
    except ValueError as error:
        # Optuna's words when another process has declared our trial dead: it is run again.
        if not str(error).startswith("Cannot tell a"):
            raise
        logger.warning("a trial went unheard for too long and is run again")
    return True


def _values(
    trials: Sequence[FrozenTrial], place: int, start: Callable[[int], Values]
) -> dict[str, Any]:
    """Return what a place's trial does not draw: what its dead predecessor had drawn, or `start`.

    With the same history it would draw the same; in a parallel search the history has grown.
    """
    dead = [t for t in trials if t.user_attrs.get(PLACE) == place and DRAWN in t.user_attrs]
    return dict(dead[-1].user_attrs[DRAWN] if dead else start(place))


def claim(trial: optuna.Trial, count: int) -> int:
    """Return the place of a trial that has just started, and note whose it is.

    Raises:
        WithdrawnError: If its place is taken or is none of the wanted ones.
        optuna.TrialPruned: If too many processes have died in this place.
    """
    place = trial.user_attrs.get(PLACE, count)
    others = [
        other
        for other in trial.study.get_trials(deepcopy=False)
        if other.number < trial.number and other.user_attrs.get(PLACE) == place
    ]
    # A trial is stored together with its place, so all earlier ones of this place are seen here.
    if place >= count or any(other.state != TrialState.FAIL for other in others):
        trial.set_user_attr(REASON, "its place is taken")
        raise WithdrawnError
    deaths = [o for o in others if o.user_attrs.get(OWNER) and not o.user_attrs.get(REASON)]
    if len(deaths) > RETRIES:
        reason = f"its process died {len(deaths)} times with these values"
        trial.set_user_attr(REASON, reason)
        raise optuna.TrialPruned(reason)
    trial.set_user_attr(OWNER, this_owner())
    return int(place)


def bury(study: optuna.Study, silent_s: int) -> None:
    """Declare the trials dead whose process is gone or has been silent for too long."""
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
