#!/usr/bin/env bash
# Believed: ru_maxrss of a process that Python has just started is the most memory that it had.
# Happens:  On Linux it begins with the peak of the process that started it: the kernel notes the
#           memory that exec gives up, which a forked process shares with its parent. A child that
#           holds 10 MB reports its parent's 400 MB, and a bench that measures each step in a process
#           of its own gives all small steps the size of the caller. VmHWM in /proc/self/status
#           begins anew. Output: both figures of the child, before and after the parent's array.
# Version:  Linux 6.18, CPython 3.11.7, numpy 2.3.5, November 2026.
# Source:   begin_new_exec and exec_mmap in fs/exec.c (setmax_mm_hiwater_rss of the old memory);
#           getrusage(2) says nothing of it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check numpy==2.3.5
cat > "$folder/child.py" <<'PYTHON'
import re
import resource
from pathlib import Path

peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, int(peak) // 1024)
PYTHON
cat > "$folder/parent.py" <<'PYTHON'
import subprocess
import sys

import numpy as np


def child() -> list[int]:
    command = [sys.executable, sys.argv[1]]
    return [*map(int, subprocess.run(command, capture_output=True, check=True).stdout.split())]


small = child()
array = np.ones(50_000_000)  # 400 MB
large = child()
print(f"the child, MB: ru_maxrss {small[0]}, VmHWM {small[1]}")
print(f"the same, started by a process of 400 MB: ru_maxrss {large[0]}, VmHWM {large[1]}")
sys.exit(not (small[0] < 100 and large[0] > 380 and max(small[1], large[1]) < 30 and array.all()))
PYTHON
"$folder/venv/bin/python" "$folder/parent.py" "$folder/child.py" || { echo "changed" >&2; exit 1; }
echo "as described"
