"""Upload of records to MLflow, by a process next to a stage or by a person's command.

Both call `Uploader.sync`, one pass over the journals, while they hold the spool's lock.
"""

import itertools
import logging
import math
import sys
import time
import warnings
from collections.abc import Callable

import psutil  # type: ignore[import-untyped]
from filelock import Timeout

from signloom.errors import UserError
from signloom.grouping import group_pairs
from signloom.paths import SPOOL
from signloom.system import is_alive, lower_priority
from signloom.tracking.journal import Outbox, Spool
from signloom.tracking.mlflow_setup import (
    ANSWER_S,
    DEFAULT_STORE,
    answer_limit,
    first_line,
    store_name,
)
from signloom.tracking.run_store import RunStore, WaitError

MAX_ADDRESSES = 50  # that are kept
POLL_S, MAX_PAUSE_S = 0.5, 5.0
PATIENCE_S = 30.0  # with a store that is away, once all processes have let go of their journals
HOLDER_S = 3.0 * ANSWER_S  # that a person waits for another process that sends
HINT = "check MLFLOW_TRACKING_URI (unset: mlflow.db in the working directory)"
logger = logging.getLogger(__name__)


class Uploader:
    """Uploads what waits in a spool to its store."""

    def __init__(self, spool: Spool, report: Callable[[str], None] = lambda line: None) -> None:
        """Take the spool, and what is called with a line for each run that was uploaded."""
        self._spool, self._report = spool, report
        self._store: RunStore | None = None

    def sync(self) -> bool:
        """Send once what waits; return whether nothing went wrong, and note what did.

        The caller holds the spool's lock.
        """
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what MLflow's own code deprecates
                problem = self._send_all()
        except Exception as error:  # any error of a store: it is tried again
            problem = first_line(error).rstrip(".") or type(error).__name__
        if problem:
            logger.warning("%s: %s", self._spool.store, problem)
            problem = f"{self._spool.store}: {problem}; {HINT}"
        self._spool.note(problem=problem, problem_s=time.time() if problem else 0.0)
        return not problem

    def _send_all(self) -> str:
        """Send what there is; return what single runs lack.

        Journals of one run are sent in the order in which they were written: the next one waits
        until the one before has been sent to its end.
        """
        problem, unfinished = "", set()
        for box in self._spool.waiting():
            if box.start["key"] in unfinished:
                continue
            try:
                is_ended = self._send_one(box)
            except WaitError as error:
                problem, is_ended = str(error), False
            if is_ended:
                box.remove()
                self._report(f"{box.name}: uploaded")
            else:
                unfinished.add(box.start["key"])
        return problem

    def _send_one(self, box: Outbox) -> bool:
        """Send the records of a journal that were not sent; return whether its end was."""
        self._store = store = self._store or RunStore()
        is_abandoned = box.is_abandoned()  # before reading: what was written until then is seen
        if "run_id" not in box.sent:
            box.confirm(**store.open_run(box.start))
            runs, key = dict(self._spool.status().runs), box.start["key"]
            runs.pop(key, None)
            runs[key] = [box.sent["experiment"], box.sent["run_id"]]
            self._spool.note(runs=dict([*runs.items()][-MAX_ADDRESSES:]))
        is_ended = _send_pending(store, box)
        if is_abandoned and not is_ended:
            store.send(box, "tags", [{"values": {"error": "its process died"}}])
            store.send(box, "end", [{"status": "KILLED", "time_ms": box.death_ms()}])
        return is_abandoned or is_ended


def _send_pending(store: RunStore, box: Outbox) -> bool:
    """Send the records that were not sent; return whether the end was one of them."""
    for kind, group in itertools.groupby(box.pending(), lambda record: str(record[1]["kind"])):
        ends, records = zip(*group, strict=True)
        store.send(box, kind, records)
        if kind == "end":
            return True
        box.confirm(offset=ends[-1])
    return False


def upload_until_done(
    spool: Spool, *, until: int | None = None, patience_s: float = PATIENCE_S
) -> bool:
    """Send what waits until no process writes any more, unless another process does so already.

    Args:
        until: Number of a process, such as a `dvc repro`, until whose end more will come.
        patience_s: How long to try with a store that is away once no process writes any more.

    Returns:
        Whether everything was uploaded, or another process uploads it.
    """
    process = psutil.Process()
    claim = {"pid": process.pid, "started_s": process.create_time()}
    with spool.lock:
        status = spool.status()
        spool.note(until=[pid for pid in {*status.until, until or 0} if pid and is_alive(pid)])
        if status.has_uploader():
            return True
        spool.note(**claim)
    uploader, pause_s, failed_s = Uploader(spool), POLL_S, math.inf
    while True:
        with spool.lock:
            is_well, now_s = not spool.waiting() or uploader.sync(), time.monotonic()
            failed_s = math.inf if is_well else min(failed_s, now_s)
            boxes = spool.waiting()
            is_over = not boxes and not any(map(is_alive, spool.status().until))
            is_hopeless = now_s - failed_s >= patience_s and all(b.is_abandoned() for b in boxes)
            if is_over or is_hopeless:
                spool.note(pid=0)  # before looking again: a stage that finds none starts another
                if is_hopeless or not spool.waiting():
                    return is_over
                spool.note(**claim)
        pause_s = POLL_S if is_well else min(MAX_PAUSE_S, 2 * pause_s)
        time.sleep(pause_s)


def upload_once(spool: Spool, report: Callable[[str], None]) -> None:
    """Send once what waits, at a person's request.

    Args:
        spool: The records and their store; the folder may be missing.
        report: Called with a line about each thing that is done or waited for.

    Raises:
        UserError: If anything stays in the spool, with what and why.
    """
    if not spool.boxes():
        report("nothing was waiting")
        return
    if spool.waiting():
        report(f"uploading to {spool.store}{answer_limit()}")
        try:
            with spool.lock.acquire(timeout=HOLDER_S):
                if not spool.waiting():
                    report("another process uploaded it")
                Uploader(spool, report).sync()
        except Timeout:
            raise UserError(
                f"{spool.store}: another process still sends there, as one does beside each "
                f"stage; what it leaves stays in {spool.folder} for `signloom upload-runs`"
            ) from None
    _check_empty(spool)


def _check_empty(spool: Spool) -> None:
    """Name the runs that are still in the spool, and why.

    Raises:
        UserError: If there are any.
    """
    remaining = group_pairs(
        (box.start.get("store", spool.store), box.name) for box in spool.boxes() if box.start
    )
    problem, lines = spool.status().problem, []
    for store, names in remaining.items():
        if store != spool.store:
            reason = (
                f"made for {store} and not for {spool.store}: set MLFLOW_TRACKING_URI as it was "
                f"for them{' (not set)' * (store == DEFAULT_STORE)}, then `signloom upload-runs`"
            )
        elif problem:
            reason = f"not taken by {problem}"
        else:
            reason = "still written by a stage, which has a process that uploads them"
        lines.append(f"{', '.join(names)}: {reason}")
    if lines:
        raise UserError("\n".join([*lines, f"they are kept in {spool.folder}"]))


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    lower_priority()
    upload_until_done(Spool(SPOOL, store_name()), until=int(sys.argv[1]) if sys.argv[1:] else None)
