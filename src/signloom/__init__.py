"""Signloom: signing videos with their sentences -> a trained, scored, reproducible model."""

import os

# Read when torch is loaded, so set here. Threads that wait for each other sleep; by default they
# spin, and where other programs want the cores a training takes seven times as long with them
# (tests/bench/threads.py). Sums, and so bits, stay the same.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
