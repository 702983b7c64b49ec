"""Worker processes: a function over jobs, each of which has a result or a `Problem`.

The processes are those of this machine (`run_in_processes`) or of a Ray cluster (`run_on_ray`).
"""

import contextlib
import faulthandler
import itertools
import logging
import math
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, TypeVar

from signloom.errors import ClipError, Problem, UserError, shorten
from signloom.system import KILLED, usable_cores
from signloom.terminal import SILENT, printable

WORKERS_VARIABLE = "SIGNLOOM_WORKERS"  # in the environment, not in params.yaml: no result changes
ADDRESS_VARIABLE = "RAY_ADDRESS"  # Ray's own

_MOST_STARTS = 6  # of processes that end before their first job
_MOST_BYTES = 2 * 10**9  # that a guarded process may ask for
_HINT_DEATH = (
    f"if the memory ran out, use fewer processes ({WORKERS_VARIABLE}=1); otherwise convert the "
    "video to 640x480 .mp4"
)

# spawn: a forked copy of a process that ran MediaPipe can hang.
_SPAWN = multiprocessing.get_context("spawn")

Job = TypeVar("Job")
Result = TypeVar("Result")


class _LostError(ClipError):
    """The process that had a job died or took too long."""


class _Worker:
    """A process that does one job at a time; if it ends, another follows with the next job.

    Each has a pipe of its own. On a shared one, a process that is killed or stopped while it
    answers would block the others.

    Args:
        most_jobs: A process that has done this many jobs is replaced; None: never.
    """

    def __init__(self, function: Callable[[Any], Any], most_jobs: int | None = None) -> None:
        self.is_closing = False
        self._function = function
        self._most_jobs = most_jobs
        self._jobs_done = 0
        self._process: Any = None
        self._pipe: Any  # a Connection; on Windows it has another class

    def do(self, job: object, limit_s: float) -> Any:
        """Return what the function returns.

        Raises:
            Exception: That the function raises.
            UserError: If no process can be started.
            _LostError: If the process dies or takes more than `limit_s` seconds.
        """
        if self._process is None:
            self._start()
        begun_s = time.monotonic()
        # Not a limit of the pipe's: a process can stop in the middle of an answer.
        timer = threading.Timer(min(limit_s, threading.TIMEOUT_MAX), self.kill)
        timer.start()
        answer = None
        try:
            self._pipe.send(job)
            answer = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join()  # the pipe closes a moment before the exit code is there
        finally:
            timer.cancel()
            timer.join()
        if time.monotonic() - begun_s >= limit_s:
            self.end()
            hint = "play the video to see whether it hangs, or raise extract.time_limit_s"
            raise _LostError(f"no result within {limit_s:.0f} s", hint)
        if answer is None:
            raise _LostError(_explain_exit(self.end()), _HINT_DEATH)
        self._jobs_done += 1
        if self._jobs_done == self._most_jobs:
            self.end()
        result, error = answer
        if error is not None:
            raise error
        return result

    def kill(self) -> None:
        """Kill the process, if there is one; for other threads than the one that calls `do`."""
        if process := self._process:
            process.kill()

    def end(self) -> int | None:
        """Kill the process, if there is one, and wait for its end; return its exit code."""
        if self._process is None:
            return None
        self._process.kill()
        self._process.join()
        self._pipe.close()
        code: int | None = self._process.exitcode
        self._process = None
        return code

    def _start(self) -> None:
        """Start a process and wait until it is ready.

        Raises:
            UserError: If none gets ready.
        """
        code = None
        for _ in range(_MOST_STARTS):
            if self.is_closing:
                break
            self._pipe, theirs = _SPAWN.Pipe()
            process = _SPAWN.Process(target=_work, args=(self._function, theirs), daemon=True)
            _start_unreached_by_interrupts(process)
            self._process, self._jobs_done = process, 0
            theirs.close()  # now the pipe ends when the process does
            try:
                self._pipe.recv()
            except (EOFError, OSError):
                process.join()
                code = self.end()
            else:
                return
        raise UserError(
            f"no worker process can be started: {_explain_exit(code)}, {_MOST_STARTS} times "
            f"running; {_HINT_DEATH}"
        )


def _start_unreached_by_interrupts(process: Any) -> None:
    """Start a process that Ctrl-C does not reach: its parent ends it, without a traceback."""
    if sys.platform == "win32":
        process.start()
        return
    resource_tracker.ensure_running()  # its start would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # inherited
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(function: Callable[[Any], Any], pipe: Connection) -> None:
    """Do jobs until killed; the whole life of a process."""
    threading.Thread(target=_exit_after_parent, name=SILENT, daemon=True).start()
    # The pipe may tell first that the parent ended.
    with contextlib.suppress(EOFError, ConnectionError):
        pipe.send("ready")
        while True:
            job = pipe.recv()
            try:
                answer: tuple[Any, Exception | None] = function(job), None
            except Exception as error:
                answer = None, error
            pipe.send(answer)


def _exit_after_parent() -> None:
    """End this process when its parent does, even if that is killed and cannot end it."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


def _explain_exit(code: int | None) -> str:
    if code is not None and code < 0:
        memory = " (out of memory?)" if -code == KILLED else ""
        return f"its process was killed by signal {-code}{memory}"
    return f"its process ended with exit code {code}"


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
        jobs: Independent of each other; begun in this order.
        workers: Most processes.
        limit_s: Seconds that a job may take; None: any time.
        jobs_per_worker: A process that has done this many is replaced by a new one.

    Raises:
        UserError: If no process can be started.
        Exception: The first that a job raises.
    """
    # Read when a process starts: 390 instead of 470 MB each, as MediaPipe's threads share a heap.
    os.environ.setdefault("MALLOC_ARENA_MAX", "1")
    waiting = iter(range(len(jobs)))
    results: SimpleQueue[tuple[int, Any, Exception | None]] = SimpleQueue()

    def serve(worker: _Worker) -> None:
        while not worker.is_closing and (number := next(waiting, None)) is not None:
            job = jobs[number]
            try:
                result = worker.do(job, limit_s(job) if limit_s else math.inf)
                results.put((number, result, None))
            except _LostError as error:
                results.put((number, error.problem, None))
            except Exception as error:
                results.put((number, None, error))
        worker.end()  # its memory is free for those who still work

    serving: dict[_Worker, threading.Thread] = {}
    try:
        for _ in range(min(workers, len(jobs))):
            worker = _Worker(function, jobs_per_worker)
            serving[worker] = threading.Thread(target=serve, args=(worker,), daemon=True)
            serving[worker].start()
        for _ in jobs:
            number, result, error = results.get()
            if error is not None:
                raise error
            yield number, result
    finally:
        for worker in serving:
            worker.is_closing = True
        for worker, thread in serving.items():
            while thread.is_alive():
                worker.kill()  # again, if a process was just being started
                thread.join(0.05)


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


def run_with_retry(
    run: Callable[[Sequence[Sequence[Job]], int], Iterator[tuple[int, Any]]],
    parts: Sequence[Sequence[Job]],
    workers: int,
) -> Generator[tuple[Job, Any], None, None]:
    """Run parts of jobs; try those that get lost once more, each alone and after all the others.

    Alone: so that it has the machine's memory to itself, and takes no other job with it.

    Args:
        run: Makes one pass over some parts with some workers, as `run_in_processes`; the result of
            a part is a result, or a `Problem`, for each of its jobs.
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
    return _workers_wanted() or len(usable_cores())


def _workers_wanted() -> int | None:
    text = os.environ.get(WORKERS_VARIABLE, "")
    if not text:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise UserError(f"{WORKERS_VARIABLE}: found {text!r}, expected a whole number above 0")
    return int(text)


class GuardedProcess:
    """A process in which functions read files that may hang it or ask for all the memory.

    It starts with the first call, and again after each that it did not survive; leaving the `with`
    block ends it.
    """

    def __init__(self) -> None:
        self._worker = _Worker(_call_guarded)

    def __enter__(self) -> "GuardedProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.end()

    def call(self, function: Callable[..., Result], *arguments: Any, limit_s: float) -> Result:
        """Return what a function returns; it is importable, as its arguments are picklable.

        Raises:
            UserError: If the function does, or if no process can be started.
            ClipError: If the function does, or raises anything else, or its process dies or takes
                more than `limit_s` seconds.
        """
        try:
            result: Result = self._worker.do((function, arguments), limit_s)
        except _LostError:
            raise ClipError(
                f"reading it took more than {limit_s:.0f} s or {_MOST_BYTES / 1e9:.0f} GB of "
                "memory",
                "bring another file in its place",
            ) from None
        return result


def _call_guarded(call: tuple[Callable[..., Any], tuple[Any, ...]]) -> Any:
    function, arguments = call
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (_MOST_BYTES, _MOST_BYTES))
    try:
        return function(*arguments)
    except (UserError, ClipError):
        raise
    except Exception as error:  # of a library that did not expect such bytes
        message = shorten(" ".join(f"{type(error).__name__}: {error}".split()))
        raise ClipError(f"it cannot be read ({printable(message)})", "write it again") from None


@contextlib.contextmanager
def ray_cluster() -> Iterator[int]:
    """Join the cluster that RAY_ADDRESS names, or start one on this machine; give its workers.

    Raises:
        UserError: If Ray is not installed or the cluster cannot be reached.
    """
    try:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # read when it is imported
        import ray
    except ImportError as error:
        raise UserError(
            "extract.executor is `ray`, which is not installed; run "
            "`pip install 'signloom[ray]'`, or set it to `processes`"
        ) from error
    address = os.environ.get(ADDRESS_VARIABLE)
    here: dict[str, Any] = {"num_cpus": count_workers(), "include_dashboard": False}
    try:
        ray.init(
            address=address or "local",
            **({} if address else here),
            # As in `run_in_processes`: less memory a process.
            runtime_env={"env_vars": {"MALLOC_ARENA_MAX": "1"}},
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise UserError(
            f"no Ray cluster can be reached at {ADDRESS_VARIABLE}={address}: {error}; start one "
            f"with `ray start --head`, or unset {ADDRESS_VARIABLE} for one on this machine; if the "
            "head asks for a token, set RAY_AUTH_MODE=token, with its ~/.ray/auth_token"
        ) from error
    try:
        yield _workers_wanted() or max(1, int(ray.cluster_resources().get("CPU", 1)))
    finally:
        ray.shutdown()


def run_on_ray(
    function: Callable[[Job], Result],
    jobs: Sequence[Job],
    workers: int,
    limit_s: Callable[[Job], float] | None = None,
    jobs_per_worker: int | None = None,
) -> Iterator[tuple[int, Result | Problem]]:
    """Do in processes of the cluster, a CPU each, what `run_in_processes` does in its own.

    Ray itself replaces the processes, and repeats a job whose process or machine is lost.
    """
    import ray

    task = ray.remote(num_cpus=1, max_calls=jobs_per_worker or 0, max_retries=1)(_do_within)
    waiting = iter(range(len(jobs)))
    running = {}  # what will be there: of which job

    def begin(most: int) -> None:
        for number in itertools.islice(waiting, most):
            job = jobs[number]
            running[task.remote(function, job, limit_s(job) if limit_s else math.inf)] = number

    begin(workers)
    while running:
        (ready, *_), _ = ray.wait(list(running))
        number = running.pop(ready)
        begin(1)
        try:
            outcome = ray.get(ready)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from error
        except ray.exceptions.RayError as error:
            message = " ".join(f"{type(error).__name__}: {error!s:.120}".split())
            hint = f"look at the logs of the cluster; {_HINT_DEATH}"
            outcome = Problem(f"its Ray worker died or took too long ({message})", hint)
        yield number, outcome


def _do_within(function: Callable[[Job], Result], job: Job, limit_s: float) -> Result:
    """Do a job; end this process if that takes too long."""
    faulthandler.dump_traceback_later(min(limit_s, threading.TIMEOUT_MAX), exit=True)
    try:
        return function(job)
    finally:
        faulthandler.cancel_dump_traceback_later()
