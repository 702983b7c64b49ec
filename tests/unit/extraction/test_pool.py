"""Each job has a result or a loss, whatever happens to the processes that do them."""

import functools
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from signloom.errors import ClipError, Problem, UserError
from signloom.extraction.pool import (
    GuardedProcess,
    count_workers,
    map_in_order,
    ray_cluster,
    run_in_processes,
    run_on_ray,
    run_with_retry,
)

needs_proc = pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc")


@pytest.mark.parametrize(("workers", "jobs"), [(1, range(50)), (2, range(50)), (1, [])])
def test_results_come_in_the_order_of_the_jobs(workers: int, jobs: Sequence[int]) -> None:
    assert list(map_in_order(math.factorial, jobs, workers)) == [math.factorial(n) for n in jobs]


def test_a_short_job_does_not_wait_for_a_long_one() -> None:
    outcomes = run_in_processes(time.sleep, [1.5, 0.0, 0.0], 2)
    assert [number for number, _ in outcomes] == [1, 2, 0]


def test_an_exception_of_a_job_is_raised_here() -> None:
    with pytest.raises(ZeroDivisionError):
        list(map_in_order(one_over, [1, 0], 1))


def one_over(number: int) -> float:
    return 1 / number


@pytest.mark.parametrize("workers", [1, 2])
def test_a_process_that_dies_loses_its_job_and_no_other(workers: int) -> None:
    outcomes = dict(run_in_processes(fall_at_seven, range(12), workers))
    lost = outcomes.pop(7)
    assert isinstance(lost, Problem)
    assert lost.reason == "its process was killed by signal 9 (out of memory?)"
    assert outcomes == {number: number for number in range(12) if number != 7}


def fall_at_seven(number: int) -> int:
    if number == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_a_process_that_ends_says_with_which_code() -> None:
    ((_, lost),) = run_in_processes(os._exit, [3], 1)
    assert isinstance(lost, Problem)
    assert lost.reason == "its process ended with exit code 3"
    with pytest.raises(RuntimeError, match="job 0 of 1: its process ended with exit code 3"):
        list(map_in_order(os._exit, [3], 1))


def test_a_job_that_takes_too_long_is_given_up_and_the_others_go_on() -> None:
    begun = time.monotonic()
    outcomes = dict(run_in_processes(time.sleep, [0.0, 60.0, 0.0], 1, limit_s=lambda _: 0.5))
    assert time.monotonic() - begun < 30
    lost = outcomes.pop(1)
    assert isinstance(lost, Problem)
    assert lost.reason == "no result within 0 s"
    assert outcomes == {0: None, 2: None}


@needs_proc
def test_a_process_that_is_stopped_while_it_answers_is_given_up() -> None:
    stream = run_in_processes(answer_and_stop, [20_000_000, 5], 1, limit_s=lambda _: 1.0)
    outcomes = dict(stream)
    assert isinstance(outcomes[0], Problem)
    assert outcomes[1] == b"     "


def answer_and_stop(size: int) -> bytes:
    """Answer; stop all of this process soon after, in the middle of a long answer."""
    if size > 1000:
        stop = f"sleep 0.02; kill -STOP {os.getpid()}"
        subprocess.Popen(["sh", "-c", stop])
        return SlowBytes(size)
    return b" " * size


class SlowBytes(bytes):
    """Many bytes that are on their way for a while: the pipe takes 200 kB at once."""

    def __reduce__(self) -> tuple[type, tuple[bytes]]:
        time.sleep(0.05)  # until the stop is near
        return bytes, (bytes(self),)


@needs_proc
@pytest.mark.parametrize("workers", [1, 2])
def test_a_process_ends_after_so_many_jobs_and_leaves_nothing_open(workers: int) -> None:
    opened = len(list(Path("/proc/self/fd").iterdir()))
    results = run_in_processes(own_pid, range(9), workers, jobs_per_worker=2)
    job_counts = Counter()
    for _, pid in results:
        job_counts[pid] += 1
        assert len(list(Path("/proc/self/fd").iterdir())) <= opened + 10 * workers
    assert sum(job_counts.values()) == 9
    assert max(job_counts.values()) == 2
    assert not any(map(is_running, job_counts))
    assert len(list(Path("/proc/self/fd").iterdir())) <= opened + 1  # multiprocessing's tracker


def own_pid(_: int) -> int:
    return os.getpid()


def test_a_lost_job_is_tried_again_alone_after_all_the_others(tmp_path: Path) -> None:
    run = functools.partial(run_in_processes, functools.partial(fall_at_first, folder=tmp_path))
    outcomes = list(run_with_retry(run, [[0, 1], [2], [3, 4]], 2))
    assert [number for number, _ in outcomes][-1] == 2
    assert sorted(outcomes) == [(number, number) for number in range(5)]


def fall_at_first(part: list[int], folder: Path) -> list[int]:
    mark = folder / "fallen"
    if 2 in part and not mark.exists():
        mark.touch()
        os._exit(1)
    return part


def test_a_job_that_is_lost_twice_stays_lost(tmp_path: Path) -> None:
    run = functools.partial(run_in_processes, functools.partial(count_and_fall, folder=tmp_path))
    outcomes = dict(run_with_retry(run, [[0, 1, 2]], 1))
    assert (outcomes[0], outcomes[2]) == (0, 2)
    assert isinstance(outcomes[1], Problem)
    assert outcomes[1].reason == "its process ended with exit code 1, also when tried again alone"
    assert len(list(tmp_path.iterdir())) == 2


def count_and_fall(part: list[int], folder: Path) -> list[int]:
    if 1 in part:
        (folder / str(os.getpid())).touch()
        os._exit(1)
    return part


class Unloadable:
    """A function that no other process can load."""

    def __call__(self, number: int) -> int:
        return number

    def __reduce__(self) -> tuple[object, tuple[int]]:
        return os._exit, (4,)


def test_processes_that_cannot_start_end_in_words() -> None:
    with pytest.raises(UserError, match=r"no worker process can be started: .* exit code 4"):
        list(run_in_processes(Unloadable(), [1, 2], 2))


def test_the_number_of_processes_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNLOOM_WORKERS", "3")
    assert count_workers() == 3
    monkeypatch.delenv("SIGNLOOM_WORKERS")
    assert 1 <= count_workers() <= (os.cpu_count() or 1)
    for value in ("0", "-1", "two", "1.5"):
        monkeypatch.setenv("SIGNLOOM_WORKERS", value)
        with pytest.raises(UserError, match=f"SIGNLOOM_WORKERS: found '{value}', expected"):
            count_workers()


PARENT = """
import multiprocessing, signal, time
from signloom.extraction.pool import run_in_processes

if __name__ == "__main__":
    # A test run in the background of a shell has SIGINT ignored, which children inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    results = run_in_processes(time.sleep, [0, 60], 1)
    next(results)
    print(*[child.pid for child in multiprocessing.active_children()], flush=True)
    next(results)
"""


@needs_proc
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_process_outlives_its_parent(tmp_path: Path, number: int) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    command = [sys.executable, str(script)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        children = parent.stdout.readline().split()
        parent.send_signal(number)
        _, errors = parent.communicate()
    assert len(children) == 1
    deadline = time.monotonic() + 10
    while is_running(int(children[0])):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert errors.count("Traceback") == (number == signal.SIGINT)  # the parent's own only


def is_running(pid: int) -> bool:
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())  # empty: ended, not yet cleared
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.slow
def test_on_ray_a_job_that_dies_or_hangs_is_lost_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Quick twins: the same of processes, above."""
    pytest.importorskip("ray")
    monkeypatch.setenv("SIGNLOOM_WORKERS", "2")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    script = "from tests.unit.extraction.test_pool import print_ray_outcomes as p; p()"
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    # Ray prints there, too, when it likes.
    (line,) = [line for line in process.stdout.splitlines() if line.startswith("{")]
    outcomes = json.loads(line)
    assert [type(outcomes[str(number)]).__name__ for number in range(5)] == [
        "int",
        "str",
        "str",
        "int",
        "int",
    ]
    assert all("its Ray worker died or took too long" in outcomes[number] for number in "12")
    assert max(Counter(outcomes.values()).values()) <= 2
    assert "ZeroDivisionError" in process.stderr


def print_ray_outcomes() -> None:
    with ray_cluster() as workers:
        outcomes = run_on_ray(die_or_hang, range(5), workers, lambda _: 1.0, 2)
        print(
            json.dumps(
                {
                    number: str(outcome) if isinstance(outcome, Problem) else outcome
                    for number, outcome in outcomes
                }
            ),
            flush=True,
        )
        list(run_on_ray(one_over, [0], workers))


def die_or_hang(number: int) -> int:
    if number == 1:
        os._exit(3)
    if number == 2:
        time.sleep(60)
    return os.getpid()


def take_all_memory() -> int:
    return len(bytearray(4 * 10**9))


def test_a_guarded_process_that_hangs_or_dies_is_followed_by_another() -> None:
    with GuardedProcess() as guard:
        assert guard.call(len, "abc", limit_s=60.0) == 3
        with pytest.raises(ClipError, match="more than 0 s"):
            guard.call(time.sleep, 60, limit_s=0.2)
        with pytest.raises(ClipError, match=r"cannot be read .MemoryError"):
            guard.call(take_all_memory, limit_s=60.0)
        with pytest.raises(ClipError, match="memory"):
            guard.call(os._exit, 1, limit_s=60.0)
        with pytest.raises(ClipError, match=r"cannot be read .ValueError: invalid literal"):
            guard.call(int, "x", limit_s=60.0)
