import os
import subprocess
import sys
import time

import psutil  # type: ignore[import-untyped]

from signloom.processes import PARENT

CHILD = """
from signloom.processes import check_parent
check_parent()
print("works", flush=True)
input()
try:
    check_parent()
except KeyboardInterrupt:
    print("ends")
"""


def test_behind_a_launcher_a_seed_of_several_ends_at_once() -> None:
    """As in a virtual environment of Windows, whose python.exe starts another."""
    parent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    child = subprocess.Popen(
        ["/bin/sh", "-c", '"$0" -c "$1"; true', sys.executable, CHILD],
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, PARENT: str(parent.pid)},
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "works\n"
    parent.kill()
    while psutil.Process(parent.pid).status() != psutil.STATUS_ZOMBIE:  # nobody asked how it ended
        time.sleep(0.01)
    assert child.communicate("\n")[0] == "ends\n"
    parent.communicate()
