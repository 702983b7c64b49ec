"""A worker pool on a Ray cluster.

Ray is an optional extra. The rules and so the results are those of `pool`; only the processes are
elsewhere.
"""

import contextlib
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from signloom.errors import Problem, UserError
from signloom.extraction.pool import (
    WORKERS_VARIABLE,
    Died,
    Done,
    Event,
    Pool,
    Raised,
    Ready,
    Worker,
    count_workers,
    workers_wanted,
)

ADDRESS_VARIABLE = "RAY_ADDRESS"  # Ray's own

_HINT = (
    f"if memory ran out on the machine, use fewer workers ({WORKERS_VARIABLE}=1); look at the "
    "cluster's logs; otherwise convert the video to 640x480 .mp4"
)

Job = TypeVar("Job")
Result = TypeVar("Result")


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
            # As in `pool.run_in_processes`: less memory a process.
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
        yield workers_wanted() or max(1, int(ray.cluster_resources().get("CPU", 1)))
    finally:
        ray.shutdown()


def run_on_ray(
    function: Callable[[Job], Result],
    jobs: Sequence[Job],
    workers: int,
    limit_s: Callable[[Job], float] | None = None,
    jobs_per_worker: int | None = None,
) -> Iterator[tuple[int, Result | Problem]]:
    """Do in processes of the cluster, a CPU each, what `pool.run_in_processes` does in its own."""
    yield from _RayPool(function, jobs, limit_s, jobs_per_worker).run(workers)


class _Process:
    """What lives in a process of the cluster."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def get_ready(self) -> None:
        """Answer, which it cannot before it has started."""

    def work(self, job: Any) -> Any:
        """Do a job."""
        return self._function(job)


class _RayPool(Pool[Job]):
    def __init__(self, *arguments: Any) -> None:
        import ray

        super().__init__(*arguments)
        self._ray = ray
        self._function = ray.put(self.function)
        # No retries of Ray's own: what follows a death is the same everywhere.
        self._actor = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(_Process)
        self.pending: dict[Any, _RayWorker] = {}  # what will be there, of whom

    def start_worker(self) -> Worker:
        return _RayWorker(self, self._actor.remote(self._function), self._ray.kill)

    def wait(self, timeout_s: float | None) -> tuple[Worker, Event] | None:
        errors = self._ray.exceptions
        done, _ = self._ray.wait(list(self.pending), num_returns=1, timeout=timeout_s)
        if not done:
            return None
        worker = self.pending.pop(done[0])
        try:
            result = self._ray.get(done[0])
        except errors.RayTaskError as error:
            return worker, Raised(error.cause)
        except errors.RayError as error:
            worker.death = f"{type(error).__name__}: {error}"
            return worker, Died()
        return worker, Done(result) if worker.is_ready else worker.note_ready()


class _RayWorker(Worker):
    def __init__(self, pool: _RayPool[Any], process: Any, kill: Callable[[Any], None]) -> None:
        self._pool = pool
        self._process = process
        self._kill = kill
        self.is_ready = False
        self.death = "ended"
        pool.pending[process.get_ready.remote()] = self

    def note_ready(self) -> Event:
        """Answer the first sign of life."""
        self.is_ready = True
        return Ready()

    def start(self, job: object) -> None:
        self._pool.pending[self._process.work.remote(job)] = self

    def end(self) -> Problem:
        for reference in [r for r, worker in self._pool.pending.items() if worker is self]:
            del self._pool.pending[reference]
        self._kill(self._process)
        return Problem(" ".join(f"its Ray worker died ({self.death:.120})".split()), _HINT)
