"""Processes that work for this one and end with it."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from subprocess import Popen

from signloom.devices import variable_of_gpu
from signloom.log import GROUP, group_name
from signloom.system import is_alive

POLL_S = 0.5  # seconds between two checks of the processes
PARENT = "SIGNLOOM_PARENT"  # the number of the process that a process works for


def start_module(
    module: str, arguments: Sequence[str], *, slot: int, threads: int, is_quiet: bool = False
) -> "Popen[bytes]":
    """Run a module of Python for this process, whose log it continues.

    Args:
        slot: Which of the processes that run at a time it is: each has a GPU, where there are any.
        threads: That it computes with.
        is_quiet: Whether it shows no bars.
    """
    environment = {**os.environ, GROUP: group_name(), PARENT: str(os.getpid())}
    environment |= {"OMP_NUM_THREADS": str(threads), **variable_of_gpu(slot)}
    if is_quiet:
        environment["TQDM_DISABLE"] = "1"
    return Popen([sys.executable, "-m", module, *arguments], env=environment)


@contextmanager
def ending(running: "Mapping[int, Popen[bytes]]") -> Iterator[None]:
    """End the processes that are still running when the block ends."""
    try:
        yield
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait()


def each_end(
    running: "dict[int, Popen[bytes]]", tick: Callable[[], None] = lambda: None
) -> Iterator[tuple[int, int]]:
    """Yield the number and the exit code of each process that ends, until none is left.

    Args:
        running: By number; those that ended are removed, and others may be added meanwhile.
        tick: Called now and then.
    """
    while running:
        time.sleep(POLL_S)
        tick()
        for number in [slot for slot, process in running.items() if process.poll() is not None]:
            yield number, running.pop(number).returncode


def check_parent() -> None:
    """End this process where the one that it works for is gone.

    Raises:
        KeyboardInterrupt: If it is.
    """
    if (number := os.environ.get(PARENT)) is not None and not is_alive(int(number)):
        raise KeyboardInterrupt
