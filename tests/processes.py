"""Children of the test process that run a function, alone or as the processes of `torchrun`."""

import os
import socket
import traceback
from collections.abc import Callable


def fork(action: Callable[[], None]) -> int:
    """Start an action in a child process; return its number."""
    if pid := os.fork():
        return pid
    try:
        action()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def wait(pid: int) -> int:
    """Return the exit code of a child, or less than 0: the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def fork_together(action: Callable[[], None], count: int) -> list[int]:
    """Start as many processes as `torchrun --nproc-per-node` would, with its environment."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": count,
        "LOCAL_WORLD_SIZE": count, "GROUP_RANK": 0, "TORCHELASTIC_RUN_ID": "test",
    }  # fmt: skip

    def of_rank(rank: int) -> Callable[[], None]:
        def start() -> None:
            names = {**common, "RANK": rank, "LOCAL_RANK": rank}
            os.environ.update({name: str(value) for name, value in names.items()})
            action()

        return start

    return [fork(of_rank(rank)) for rank in range(count)]
