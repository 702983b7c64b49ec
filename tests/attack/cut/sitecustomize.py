"""Numbers the operations by which the Python processes of a project change files.

Python imports this in every process that has this folder on its PYTHONPATH. At the operation whose
number is asked for, the power is cut: the whole process group is killed.
"""

import os
import signal
import sys

CHANGES = {
    "os.rename": 1,
    "os.remove": 0,
    "os.mkdir": 0,
    "os.rmdir": 0,
    "os.link": 1,
    "os.symlink": 1,
    "os.truncate": 0,
    "shutil.copyfile": 1,
}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
LINE = 200  # bytes a line, so that the place in the log is the number


def _watch(root: str, log: int, operation: int, group: int) -> None:
    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open":
            if not isinstance(arguments[2], int) or not arguments[2] & WRITES:
                return
            path = arguments[0]
        elif event in CHANGES:
            path = arguments[CHANGES[event]]
        else:
            return
        if not isinstance(path, str | bytes | os.PathLike):
            return
        name = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 (sees no audit event itself)
        if not name.startswith(root):
            return
        text = f"{event} {name[len(root) :]}".encode(errors="replace")
        os.write(log, text[: LINE - 1].ljust(LINE - 1) + b"\n")
        if os.lseek(log, 0, os.SEEK_CUR) // LINE - 1 == operation:
            os.killpg(group, signal.SIGKILL)

    sys.addaudithook(hook)


if "ATTACK_ROOT" in os.environ:
    _watch(
        os.environ["ATTACK_ROOT"],
        os.open(os.environ["ATTACK_LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600),
        int(os.environ["ATTACK_CUT"]),
        int(os.environ["ATTACK_GROUP"]),
    )
