"""Results come in the order of the jobs; a process that dies is reported with its jobs."""

import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from signloom.config import UserError
from signloom.corpus.pool import WorkerDiedError, count_workers, map_in_order


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_the_order_of_the_jobs(workers: int) -> None:
    jobs = range(150)  # more than are submitted at once
    assert list(map_in_order(math.factorial, jobs, workers)) == [math.factorial(n) for n in jobs]


def test_jobs_are_read_as_they_are_needed() -> None:
    read = []

    def jobs() -> Iterator[int]:
        for number in range(10_000):
            read.append(number)
            yield number

    results = map_in_order(abs, jobs(), 1)
    assert [next(results), next(results)] == [0, 1]
    assert len(read) < 100
    results.close()


def test_an_exception_of_a_job_is_raised_here() -> None:
    with pytest.raises(ZeroDivisionError):
        list(map_in_order(one_over, [1, 0], 1))


def one_over(number: int) -> float:
    return 1 / number


def test_a_process_that_dies_names_what_it_was_doing() -> None:
    results = map_in_order(die_at_seven, range(20), 1)
    with pytest.raises(WorkerDiedError) as caught:
        list(results)
    assert caught.value.suspects == [7]


def die_at_seven(number: int) -> int:
    if number == 7:
        time.sleep(0.5)  # so that the results before it have arrived
        os._exit(1)
    return number


def test_no_job_is_no_result() -> None:
    assert list(map_in_order(abs, [], 1)) == []


def test_the_number_of_processes_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNLOOM_WORKERS", "3")
    assert count_workers() == 3
    monkeypatch.delenv("SIGNLOOM_WORKERS")
    assert 1 <= count_workers() <= (os.cpu_count() or 1)


@pytest.mark.parametrize("found", ["0", "-1", "two", "1.5"])
def test_a_senseless_number_of_processes_is_refused(
    monkeypatch: pytest.MonkeyPatch, found: str
) -> None:
    monkeypatch.setenv("SIGNLOOM_WORKERS", found)
    with pytest.raises(UserError, match=f"SIGNLOOM_WORKERS: found '{found}', expected a whole"):
        count_workers()


PARENT = """
import multiprocessing, time
from signloom.corpus.pool import map_in_order

results = map_in_order(time.sleep, [0, 60], 1)
next(results)
print(*[child.pid for child in multiprocessing.active_children()], flush=True)
next(results)
"""


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc")
def test_no_process_outlives_a_parent_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        children = parent.stdout.readline().split()
        parent.kill()
    assert len(children) == 1
    deadline = time.monotonic() + 10
    while is_running(int(children[0])):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())  # empty: ended, not yet cleared
    except (FileNotFoundError, ProcessLookupError):
        return False
