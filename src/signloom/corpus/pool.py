"""A function and jobs come in, its results go out; the work is done by a process a core."""

import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from signloom.config import UserError
from signloom.corpus.supervision import (
    Crew,
    Died,
    Done,
    Event,
    Lost,
    Raised,
    Ready,
    Supervision,
    Worker,
)

WORKERS_VARIABLE = "SIGNLOOM_WORKERS"  # in the environment, not in params.yaml: no result changes

Job = TypeVar("Job")
Result = TypeVar("Result")

_MEND_DEATH = (
    f"if the memory ran out, use fewer processes ({WORKERS_VARIABLE}=1); otherwise convert the "
    "video to 640x480 .mp4"
)

# spawn: a forked copy of a process that ran MediaPipe can hang.
_SPAWN = multiprocessing.get_context("spawn")


def count_workers() -> int:
    """Return how many processes to use: SIGNLOOM_WORKERS, or the cores this process may use.

    Raises:
        UserError: If the variable is no whole number above 0.
    """
    if found := workers_wanted():
        return found
    # Not os.cpu_count(), which ignores taskset and Slurm. macOS has no affinity.
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def workers_wanted() -> int | None:
    """Return what SIGNLOOM_WORKERS says, None if it is not set.

    Raises:
        UserError: If the variable is no whole number above 0.
    """
    found = os.environ.get(WORKERS_VARIABLE, "")
    if not found:
        return None
    if not found.isdecimal() or int(found) < 1:
        raise UserError(f"{WORKERS_VARIABLE}: found {found!r}, expected a whole number above 0")
    return int(found)


def run_in_processes(
    function: Callable[[Job], Result],
    jobs: Sequence[Job],
    workers: int,
    limit_s: Callable[[Job], float] | None = None,
    jobs_per_worker: int | None = None,
) -> Iterator[tuple[int, Result | Lost]]:
    """Yield the number of each job with its result or its loss, as they come.

    A process that dies or takes too long is replaced; its job is `Lost`, the others go on. No
    process outlives this one, even if it is killed.

    Args:
        function: Importable by a new process, as its jobs and results are picklable.
        jobs: Independent of each other.
        workers: Most processes.
        limit_s: Seconds that a job may take.
        jobs_per_worker: A process that has done so many is replaced by a new one.

    Raises:
        UserError: If no process can be started.
        Exception: The first that a job raises.
    """
    # Read when a process starts: 390 instead of 470 MB each, as MediaPipe's threads share a heap.
    os.environ.setdefault("MALLOC_ARENA_MAX", "1")
    crew = _ProcessCrew(function)
    yield from Supervision(crew, jobs, limit_s, jobs_per_worker).run(workers)


def map_in_order(
    function: Callable[[Job], Result], jobs: Sequence[Job], workers: int
) -> Iterator[Result]:
    """Yield the results of independent jobs in the order of the jobs.

    Args:
        function: Importable by a new process, as its jobs and results are picklable.
        jobs: Independent of each other.
        workers: Most processes.

    Raises:
        RuntimeError: If a process dies.
        Exception: The first that a job raises.
    """
    early: dict[int, Result] = {}
    turn = 0
    for number, outcome in run_in_processes(function, jobs, workers):
        if isinstance(outcome, Lost):
            raise RuntimeError(f"job {number} of {len(jobs)}: {outcome.reason}")
        early[number] = outcome
        while turn in early:
            yield early.pop(turn)
            turn += 1


class _ProcessWorker(Worker):
    """A spawned process, and a thread that listens to it.

    A thread, because a process that is stopped half-way through a result would block whoever
    reads it, also beyond the time limit.
    """

    def __init__(self, crew: "_ProcessCrew") -> None:
        self._crew = crew
        self._pipe, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_work, args=(crew.function, theirs), daemon=True)
        _start_deaf(self._process)
        theirs.close()  # now the pipe ends when the process does
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def start(self, job: object) -> None:
        try:
            self._pipe.send(job)
        except OSError:
            return  # it has just died, as the listener will say

    def end(self) -> Lost:
        self._process.kill()
        self._process.join()
        self._listener.join()
        end = _explain_exit(self._process.exitcode)
        self._crew.workers.discard(self)
        self._process.close()  # its handles; a long run has many workers
        return end

    def _listen(self) -> None:
        with self._pipe:
            try:
                while True:
                    self._crew.events.put((self, self._pipe.recv()))
            except (EOFError, OSError):
                self._process.join()  # the pipe closes a moment before the exit code is there
                self._crew.events.put((self, Died()))


class _ProcessCrew(Crew):
    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function
        self.workers: set[_ProcessWorker] = set()  # all that live
        self.events: queue.SimpleQueue[tuple[Worker, Event]] = queue.SimpleQueue()

    def hire(self) -> Worker:
        worker = _ProcessWorker(self)
        self.workers.add(worker)
        return worker

    def wait(self, timeout_s: float | None) -> tuple[Worker, Event] | None:
        try:
            return self.events.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def dismiss(self) -> None:
        for worker in list(self.workers):
            worker.end()


def _explain_exit(code: int | None) -> Lost:
    if code is not None and code < 0:
        memory = " (out of memory?)" if -code == signal.SIGKILL else ""
        return Lost(f"its process was killed by signal {-code}{memory}", _MEND_DEATH)
    return Lost(f"its process ended with exit code {code}", _MEND_DEATH)


def _start_deaf(process: Any) -> None:
    """Start a process that does not hear Ctrl-C: its parent does, and kills it without noise."""
    if threading.current_thread() is not threading.main_thread():
        process.start()  # only the main thread may set what a signal does
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # inherited
    try:
        process.start()
    finally:
        signal.signal(signal.SIGINT, before)


def _work(function: Callable[[Any], Any], pipe: Connection) -> None:
    """Do jobs until killed; the whole life of a process."""
    threading.Thread(target=_exit_after_parent, daemon=True).start()
    pipe.send(Ready())
    while True:
        job = pipe.recv()
        try:
            event: Event = Done(function(job))
        except Exception as error:
            event = Raised(error)
        pipe.send(event)


def _exit_after_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()  # a parent that is killed cannot tell its workers, which would stay for ever
        os._exit(1)
