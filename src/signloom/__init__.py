"""Signloom: signing videos with their sentences -> a trained, scored, reproducible model."""

import os

# Read when torch is loaded, so set here. Threads that wait for each other sleep; by default they
# spin, and where two other programs want two cores a training takes twice as long with them
# (docs/log/2026-11-benchmarks.md). Sums, and so bits, stay the same.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
