"""Worker pools: a function over jobs, in a process a core, whatever happens to the processes.

`Pool` has the rules that hold wherever the work is done: how long a job may take, and what
follows when a worker dies. The workers here are processes of this machine; `ray_pool` has others.
"""

import math
import multiprocessing
import os
import queue
import signal
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any, Generic, TypeVar

from signloom.errors import ClipError, Problem, UserError, shorten
from signloom.system import KILLED, usable_cores
from signloom.terminal import SILENT, printable

WORKERS_VARIABLE = "SIGNLOOM_WORKERS"  # in the environment, not in params.yaml: no result changes

_MAX_FALSE_STARTS = 5  # workers that die before their first job, one after another
_MOST_BYTES = 2 * 10**9  # that a guarded process may ask for
_MAX_WAIT_S = 3600.0  # queues refuse to wait for centuries, which a time limit may be

_HINT_DEATH = (
    f"if the memory ran out, use fewer processes ({WORKERS_VARIABLE}=1); otherwise convert the "
    "video to 640x480 .mp4"
)

# spawn: a forked copy of a process that ran MediaPipe can hang.
_SPAWN = multiprocessing.get_context("spawn")

Job = TypeVar("Job")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Ready:
    """Event: the worker has started."""


@dataclass(frozen=True, slots=True)
class Done:
    """Event: the worker's job has this result, which may be a `Problem` of its own making."""

    result: Any


@dataclass(frozen=True, slots=True)
class Raised:
    """Event: the worker's job ended in an exception."""

    error: Exception


@dataclass(frozen=True, slots=True)
class Died:
    """Event: the worker is no more."""


Event = Ready | Done | Raised | Died


class Worker(ABC):
    """A process that does one job at a time."""

    jobs_given = 0

    @abstractmethod
    def start(self, job: object) -> None:
        """Begin a job; the pool's `wait` tells what becomes of it."""

    @abstractmethod
    def end(self) -> Problem:
        """Kill the process if it lives; return how it ended."""


class Pool(ABC, Generic[Job]):
    """One pass over some jobs, and the workers that live for it.

    Args:
        function: What a worker does with a job.
        jobs: Done in any order, begun in this one.
        limit_s: Seconds that a job may take; None: as long as it likes.
        jobs_per_worker: A worker that has done so many is replaced by a new one; None: never.
    """

    def __init__(
        self,
        function: Callable[[Job], Any],
        jobs: Sequence[Job],
        limit_s: Callable[[Job], float] | None,
        jobs_per_worker: int | None,
    ) -> None:
        self.function = function
        self._jobs = jobs
        self._limit_s = limit_s
        self._jobs_per_worker = jobs_per_worker
        self._waiting = deque(range(len(jobs)))
        # All that live: their job and its deadline; None while they start.
        self._workers: dict[Worker, tuple[int, float] | None] = {}
        self._false_starts = 0

    @abstractmethod
    def start_worker(self) -> Worker:
        """Start a process; its first event is `Ready` or `Died`."""

    @abstractmethod
    def wait(self, timeout_s: float | None) -> tuple[Worker, Event] | None:
        """Return the next event, or None after `timeout_s` seconds without any."""

    def run(self, workers: int) -> Iterator[tuple[int, Any]]:
        """Yield the number of each job with its result or `Problem`, as they come.

        Raises:
            UserError: If no worker can be started.
            Exception: The first that a job raises.
        """
        try:
            for _ in range(min(workers, len(self._jobs))):
                self._add_worker()
            while self._waiting or any(self._workers.values()):
                found = self.wait(self._wait_s())
                yield from self._overdue() if found is None else self._handle(*found)
        finally:
            for worker in list(self._workers):
                self._end(worker)

    def _add_worker(self) -> None:
        starting = sum(job is None for job in self._workers.values())
        if starting < len(self._waiting):  # or it would find nothing to do
            self._workers[self.start_worker()] = None

    def _end(self, worker: Worker) -> Problem:
        end = worker.end()
        del self._workers[worker]
        return end

    def _handle(self, worker: Worker, event: Event) -> Iterator[tuple[int, Any]]:
        if worker not in self._workers:
            return  # it was ended meanwhile
        if isinstance(event, Raised):
            raise event.error
        begun = self._workers[worker]
        if isinstance(event, Died):
            end = self._end(worker)
            if begun is None:
                self._count_false_start(end)
            self._add_worker()
            if begun is not None:
                yield begun[0], end
            return
        if isinstance(event, Ready):
            self._false_starts = 0
        # Before the yield, so that the worker is busy while the caller keeps the result.
        self._give_job(worker)
        if isinstance(event, Done) and begun is not None:
            yield begun[0], event.result

    def _give_job(self, worker: Worker) -> None:
        if not self._waiting or worker.jobs_given == self._jobs_per_worker:
            self._end(worker)  # its memory is free for those who still work
            self._add_worker()
            return
        worker.jobs_given += 1
        job = self._waiting.popleft()
        limit_s = self._limit_s(self._jobs[job]) if self._limit_s else float("inf")
        self._workers[worker] = job, time.monotonic() + limit_s
        worker.start(self._jobs[job])

    def _overdue(self) -> Iterator[tuple[int, Problem]]:
        now = time.monotonic()
        for worker, begun in list(self._workers.items()):
            if begun is not None and begun[1] <= now and self._limit_s:
                self._end(worker)
                self._add_worker()
                limit_s = self._limit_s(self._jobs[begun[0]])
                hint = "play the video to see whether it hangs, or raise extract.time_limit_s"
                yield begun[0], Problem(f"no result within {limit_s:.0f} s", hint)

    def _wait_s(self) -> float | None:
        deadline = min((begun[1] for begun in self._workers.values() if begun), default=math.inf)
        if deadline == math.inf:
            return None
        return min(max(0.0, deadline - time.monotonic()), _MAX_WAIT_S)

    def _count_false_start(self, end: Problem) -> None:
        self._false_starts += 1
        if self._false_starts > _MAX_FALSE_STARTS:
            raise UserError(
                f"no worker process can be started: {end.reason}, {self._false_starts} times "
                f"running; {end.hint}"
            )


def run_with_retry(
    run: Callable[[Sequence[Sequence[Job]], int], Iterator[tuple[int, Any]]],
    parts: Sequence[Sequence[Job]],
    workers: int,
) -> Generator[tuple[Job, Any], None, None]:
    """Run parts of jobs; try those that get lost once more, each alone and after all the others.

    Alone: so that it has the machine's memory to itself, and takes nobody with it.

    Args:
        run: Makes one pass over some parts with some workers, as `Pool.run`; the result of a part
            is a result, or a `Problem`, for each of its jobs.
        parts: All jobs; those of a part are done one after another.
        workers: Processes of the first pass.

    Yields:
        Each job with its result, or with the `Problem` of its second try.
    """
    lost = []
    for number, outcome in run(parts, workers):
        part = parts[number]
        outcomes = [outcome] * len(part) if isinstance(outcome, Problem) else outcome
        for job, found in zip(part, outcomes, strict=True):
            if isinstance(found, Problem):
                lost.append(job)
            else:
                yield job, found
    for number, outcome in run([[job] for job in lost], 1):
        found = outcome if isinstance(outcome, Problem) else outcome[0]
        if isinstance(found, Problem):
            found = replace(found, reason=f"{found.reason}, also when tried again alone")
        yield lost[number], found


def count_workers() -> int:
    """Return how many processes to use: SIGNLOOM_WORKERS, or the cores this process may use.

    Raises:
        UserError: If the variable is no whole number above 0.
    """
    if found := workers_wanted():
        return found
    return len(usable_cores())


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
) -> Iterator[tuple[int, Result | Problem]]:
    """Yield the number of each job with its result or its loss, as they come.

    A process that dies or takes too long is replaced; its job is `Problem`, the others go on. No
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
    yield from _ProcessPool(function, jobs, limit_s, jobs_per_worker).run(workers)


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
        if isinstance(outcome, Problem):
            raise RuntimeError(f"job {number} of {len(jobs)}: {outcome.reason}")
        early[number] = outcome
        while turn in early:
            yield early.pop(turn)
            turn += 1


class Guard:
    """A process in which functions read files that may hang it or ask for all the memory.

    It starts with the first call, and again after each that it did not survive; leaving the `with`
    block ends it.
    """

    def __init__(self) -> None:
        self._worker: _ProcessWorker | None = None
        self._events: _Events = queue.SimpleQueue()

    def __enter__(self) -> "Guard":
        return self

    def __exit__(self, *_: object) -> None:
        if self._worker is not None:
            self._worker.end()
            self._worker = None

    def call(self, function: Callable[..., Result], *arguments: Any, limit_s: float) -> Result:
        """Return what a function returns; it is importable, as its arguments are picklable.

        Raises:
            UserError: If the function does.
            ClipError: If the function does, or raises anything else, or its process dies or takes
                more than `limit_s` seconds.
        """
        if self._worker is None:
            self._worker, self._events = self._start()
        self._worker.start((function, arguments))
        try:
            _, event = self._events.get(timeout=limit_s)
        except queue.Empty:
            event = Died()
        if isinstance(event, Done):
            return event.result
        if isinstance(event, Raised):
            raise event.error
        self.__exit__()
        raise ClipError(f"reading it took more than {limit_s:.0f} s or {_MOST_BYTES / 1e9:.0f} GB "
                        "of memory", "bring another file in its place")  # fmt: skip

    def _start(self) -> "tuple[_ProcessWorker, _Events]":
        events: _Events = queue.SimpleQueue()
        worker = _ProcessWorker(_call_guarded, events)
        _, event = events.get()
        if isinstance(event, Died):
            raise UserError(f"no worker process can be started: {worker.end().reason}")
        return worker, events


def _call_guarded(call: tuple[Callable[..., Any], tuple[Any, ...]]) -> Any:
    function, arguments = call
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (_MOST_BYTES, _MOST_BYTES))
    try:
        return function(*arguments)
    except (UserError, ClipError):
        raise
    except Exception as error:  # whatever a library makes of bytes that nobody thought of
        what = shorten(" ".join(f"{type(error).__name__}: {error}".split()))
        raise ClipError(f"it cannot be read ({printable(what)})", "write it again") from None


class _ProcessWorker(Worker):
    """A spawned process, and a thread that listens to it.

    A thread, because a process that is stopped half-way through a result would block whoever
    reads it, also beyond the time limit.
    """

    def __init__(self, function: Callable[[Any], Any], events: "_Events") -> None:
        self._events = events
        self._pipe, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_work, args=(function, theirs), daemon=True)
        _start_ignoring_interrupt(self._process)
        theirs.close()  # now the pipe ends when the process does
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def start(self, job: object) -> None:
        try:
            self._pipe.send(job)
        except OSError:
            return  # it has just died, as the listener will say

    def end(self) -> Problem:
        self._process.kill()
        self._process.join()
        self._listener.join()
        end = _explain_exit(self._process.exitcode)
        self._process.close()  # its handles; a long run has many workers
        return end

    def _listen(self) -> None:
        with self._pipe:
            try:
                while True:
                    self._events.put((self, self._pipe.recv()))
            except (EOFError, OSError):
                self._process.join()  # the pipe closes a moment before the exit code is there
                self._events.put((self, Died()))


_Events = queue.SimpleQueue[tuple[Worker, Event]]


class _ProcessPool(Pool[Job]):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._events: _Events = queue.SimpleQueue()

    def start_worker(self) -> Worker:
        return _ProcessWorker(self.function, self._events)

    def wait(self, timeout_s: float | None) -> tuple[Worker, Event] | None:
        try:
            return self._events.get(timeout=timeout_s)
        except queue.Empty:
            return None


def _explain_exit(code: int | None) -> Problem:
    if code is not None and code < 0:
        memory = " (out of memory?)" if -code == KILLED else ""
        return Problem(f"its process was killed by signal {-code}{memory}", _HINT_DEATH)
    return Problem(f"its process ended with exit code {code}", _HINT_DEATH)


def _start_ignoring_interrupt(process: Any) -> None:
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
    threading.Thread(target=_exit_after_parent, name=SILENT, daemon=True).start()
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
