"""Training with two threads beside other work: threads that spin while they wait, or sleep.

    python -m tests.bench.threads [--rounds 3] [--busy 0 1 2 4 8]

A program that counts stands for other work; the two ways take turns, each in a process of its own.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

COUNT = "while True: pass"
# What libgomp does by default, and what `signloom` asks it to.
WAYS = {"spin": {"GOMP_SPINCOUNT": "300000"}, "sleep": {"OMP_WAIT_POLICY": "PASSIVE"}}


def measure() -> None:
    """Print how many frames a second some steps of the recommended model train."""
    import torch

    from tests.bench.training import PRUNED, RECIPE, TRAIN, measure_ours

    torch.set_num_threads(2)
    frames, seconds = measure_ours(RECIPE, TRAIN, PRUNED, clock=time.perf_counter)
    print(frames / seconds)


def main() -> None:
    """Measure both ways and print medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--busy", type=int, nargs="+", default=[0, 1, 2, 4, 8])
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure()
        return
    print(
        "| programs beside | spin, frames/s | sleep, frames/s | sleep / spin |\n|---|---|---|---|"
    )
    for busy in options.busy:
        others = [subprocess.Popen([sys.executable, "-c", COUNT]) for _ in range(busy)]
        try:
            found: dict[str, list[float]] = {name: [] for name in WAYS}
            for _ in range(options.rounds):
                for name, speeds in found.items():
                    done = subprocess.run(
                        [sys.executable, "-m", "tests.bench.threads", "--measure"],
                        env={**os.environ, **WAYS[name]},
                        check=True, capture_output=True, text=True,
                    )  # fmt: skip
                    speeds.append(float(done.stdout.split()[-1]))
        finally:
            for other in others:
                other.kill()
        spin, sleep = (statistics.median(speeds) for speeds in found.values())
        print(f"| {busy} | {spin:,.0f} | {sleep:,.0f} | {sleep / spin:.2f} |", flush=True)


if __name__ == "__main__":
    main()
