"""A function and jobs come in, its results go out in the order of the jobs, a process a core."""

import itertools
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from signloom.config import UserError

WORKERS_VARIABLE = "SIGNLOOM_WORKERS"  # in the environment, not in params.yaml: no result changes
_JOBS_AHEAD = 32  # a worker: enough to even out long and short jobs, few enough for the memory

Job = TypeVar("Job")
Result = TypeVar("Result")


def count_workers() -> int:
    """Return how many processes to use: SIGNLOOM_WORKERS, or the cores this process may use.

    Raises:
        UserError: If the variable is no whole number above 0.
    """
    found = os.environ.get(WORKERS_VARIABLE, "")
    if not found:
        # Not os.cpu_count(), which ignores taskset and Slurm. macOS has no affinity.
        affinity = getattr(os, "sched_getaffinity", None)
        return len(affinity(0)) if affinity else os.cpu_count() or 1
    if not found.isdecimal() or int(found) < 1:
        raise UserError(f"{WORKERS_VARIABLE}: found {found!r}, expected a whole number above 0")
    return int(found)


class WorkerDiedError(RuntimeError):
    """A process ended without a result: killed, for its memory or by hand, or crashed.

    Attributes:
        suspects: The jobs that were running, one of which it was busy with.
    """

    def __init__(self, suspects: Sequence[object]) -> None:
        super().__init__(f"a worker process died during one of {len(suspects)} jobs")
        self.suspects = suspects


def map_in_order(
    function: Callable[[Job], Result], jobs: Iterable[Job], workers: int
) -> Iterator[Result]:
    """Yield the results of independent jobs in the order of the jobs.

    Results that wait for their turn are kept in memory, at most `_JOBS_AHEAD` a worker.

    Args:
        function: Importable by a new process, as its jobs and results are picklable.
        jobs: Read as they are needed.
        workers: Processes.

    Raises:
        WorkerDiedError: If a process dies.
    """
    # Read when a process starts: 390 instead of 470 MB each, as MediaPipe's threads share a heap.
    os.environ.setdefault("MALLOC_ARENA_MAX", "1")
    # spawn: a forked copy of a process that ran MediaPipe can hang.
    executor = ProcessPoolExecutor(
        workers, multiprocessing.get_context("spawn"), initializer=_prepare_worker
    )
    waiting: deque[tuple[Job, Future[Result]]] = deque()
    todo = iter(jobs)
    try:
        while True:
            for job in itertools.islice(todo, workers * _JOBS_AHEAD - len(waiting)):
                waiting.append((job, executor.submit(function, job)))
            if not waiting:
                return
            result = waiting[0][1].result()
            waiting.popleft()
            yield result
    except BrokenProcessPool as error:
        # Jobs start in order, so the first ones without a result of their own were running.
        lost = [job for job, future in waiting if not _has_result(future)]
        raise WorkerDiedError(lost[:workers]) from error
    finally:
        executor.shutdown(cancel_futures=True)


def _has_result(future: Future[Result]) -> bool:
    return future.done() and not isinstance(future.exception(), BrokenProcessPool)


def _prepare_worker() -> None:
    """Make this process end with its parent, and at Ctrl-C at once and without a traceback."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    threading.Thread(target=_exit_after_parent, daemon=True).start()


def _exit_after_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()  # a parent that is killed cannot tell its workers, which would stay for ever
        os._exit(1)
