"""Jobs of a study, each in a process of its own."""

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Protocol


class Job(Protocol):
    """Something to train or measure; it can be pickled."""

    def run(self) -> dict[str, Any]:
        """Return what was found, as plain values."""


def run_jobs(
    jobs: Sequence[Job], workers: int, log: Callable[[dict[str, Any]], None]
) -> Iterator[dict[str, Any]]:
    """Run each job in a process of its own, whose memory and time are the job's alone."""
    with ProcessPoolExecutor(
        workers, mp_context=multiprocessing.get_context("spawn"), max_tasks_per_child=1
    ) as pool:
        for found in pool.map(_run, jobs):
            log(found)
            yield found


def _run(job: Job) -> dict[str, Any]:
    return job.run()
