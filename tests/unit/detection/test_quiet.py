"""What networks write to the terminal is kept away, and nothing else."""

import subprocess
import sys

NOISE = r"""
import os, sys, threading, time
from signloom.detection.detector import quiet_native_code
from signloom.terminal import run_program

def say():
    print("warning: not calibrated", file=sys.stderr)

def quietly(seconds):
    with quiet_native_code():
        os.write(2, b"noise of a network\n")
        time.sleep(seconds)
"""


def stderr_of(program: str) -> str:
    process = subprocess.run(
        [sys.executable, "-c", NOISE + program], capture_output=True, text=True, check=True
    )
    return process.stderr


def test_a_warning_of_another_thread_is_not_lost_while_networks_are_silenced() -> None:
    output = stderr_of("""
def work():
    with quiet_native_code():
        os.write(2, b"noise of a network\\n")
        thread = threading.Thread(target=say)
        thread.start()
        thread.join()
    os.write(2, b"after it\\n")
run_program(work, stopped="")
""")
    assert output == "warning: not calibrated\nafter it\n"


def test_stderr_is_what_it_was_after_two_threads_were_quiet_in_turns() -> None:
    output = stderr_of("""
def work():
    threads = [threading.Thread(target=quietly, args=(s,)) for s in (0.2, 0.4)]
    for thread in threads:
        thread.start()
        time.sleep(0.1)
    for thread in threads:
        thread.join()
    os.write(2, b"after it\\n")
run_program(work, stopped="")
""")
    assert output == "after it\n"


def test_nothing_is_silenced_where_other_threads_write_to_the_same_descriptor() -> None:
    output = stderr_of("""
thread = threading.Thread(target=lambda: (time.sleep(0.2), say()))
thread.start()
quietly(0.4)
thread.join()
quietly(0)
""")
    assert output == "noise of a network\nwarning: not calibrated\n"


def test_a_worker_that_waits_for_its_parent_is_still_quiet() -> None:
    """Its networks wrote "Created TensorFlow Lite XNNPACK delegate" between the progress bars."""
    program = """
import os, threading, time
from signloom.detection.detector import quiet_native_code
from signloom.terminal import SILENT
threading.Thread(target=time.sleep, args=(60,), name=SILENT, daemon=True).start()
with quiet_native_code():
    os.write(2, b"noise")
os.write(2, b"after")
os._exit(0)
"""
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert process.stderr == "after"
