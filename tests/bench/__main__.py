"""Measure what docs/benchmarks.md states, and say which bars are met.

Usage: python -m tests.bench [NAME ...] [--out reports/benchmarks]

Each bench is a process of its own, takes under five minutes on two idle cores, and has a function
`measure` that returns its figures. All need the demo (`make demo`); `decoding` needs the extra
`bench`. `tests.bench.gpu`, for a CUDA device, is a program of its own.
"""

import argparse
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from tests.bench.figures import Figure, format_table

BENCHES = (
    "extraction",
    "training",
    "loss",
    "decoding",
    "translate",
    "live",
    "scaling",
    "signs",
)
NEEDS = {"decoding": ("ctranslate2", "transformers")}
DEMO = (Path("data/demo/corpus/manifest.tsv"), Path("data/checkpoint"), Path("reports/evaluation"))
MOST_S = 600.0  # of a bench on a busy machine


def missing(names: list[str]) -> str:
    """Return what the benches lack, or nothing: said before the first minute is spent."""
    for name in names:
        for module in NEEDS.get(name, ()):
            if importlib.util.find_spec(module) is None:
                return f"`{name}` needs {module}: pip install -c constraints.txt -e '.[bench]'"
    absent = [path for path in DEMO if not path.exists()]
    return f"{absent[0]} does not exist: run `make demo` first" if absent else ""


def run(name: str, out: Path) -> list[Figure] | str:
    """Run one bench; return its figures, or what went wrong."""
    command = [sys.executable, "-m", "tests.bench", "--measure", name, "--out", str(out)]
    try:
        process = subprocess.run(command, timeout=MOST_S)
    except subprocess.TimeoutExpired:
        return f"{name} did not end within {MOST_S:g} s"
    if process.returncode:
        return f"{name} ended with {process.returncode}; its messages are above"
    return [Figure(**row) for row in json.loads((out / f"{name}.json").read_text())]


def main() -> int:
    """Run the benches, print the table, keep it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHES))
    parser.add_argument("--out", type=Path, default=Path("reports/benchmarks"))
    parser.add_argument("--measure", choices=BENCHES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - {*BENCHES}:
        parser.error(f"no bench {', '.join(sorted(unknown))}; there are {', '.join(BENCHES)}")
    if arguments.measure:
        measured = import_module(f"tests.bench.{arguments.measure}").measure()
        text = json.dumps([asdict(figure) for figure in measured], indent=1) + "\n"
        (arguments.out / f"{arguments.measure}.json").write_text(text)
        return 0
    names = arguments.names or list(BENCHES)
    if lack := missing(names):
        parser.error(lack)
    rows: list[tuple[str, Figure]] = []
    failed = []
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            begun = time.monotonic()
            figures = run(name, Path(folder))
            print(f"{name}: {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
            if isinstance(figures, str):
                failed.append(figures)
            else:
                rows += [(name, figure) for figure in figures]
    load = os.getloadavg()[0]
    text = f"{platform.machine()}, {os.cpu_count()} cores, load {load:.1f} at the end.\n\n"
    text += format_table(rows) + "".join(f"\nFailed: {failure}.\n" for failure in failed)
    (arguments.out / "benchmarks.md").write_text(text)
    content = {
        "load": load,
        "figures": [{"bench": name, **asdict(figure)} for name, figure in rows],
    }
    (arguments.out / "benchmarks.json").write_text(json.dumps(content, indent=1) + "\n")
    print(text)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
