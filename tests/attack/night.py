"""Power cuts in a whole night: before any of its file operations, by number.

    python -m tests.attack.night [--cuts 12] [--seed 1]

The night is run once without a cut and its operations are counted, in all its processes: the
night itself, DVC and the stages. Then it is run from the same start again and again, each time
with everything killed at another operation, and once more without a cut: what it leaves must be
the bytes of the first night, and no temporary file more.
"""

import argparse
import collections
import contextlib
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from tests.attack.cut.sitecustomize import LINE
from tests.attack.project import SIGNLOOM, environment, make_project

BUILD = Path("build/attack")
CUT = Path(__file__).parent / "cut"
# What a night leaves for the next ones; logs, records and caches have times and numbers in them.
KEPT = (
    "data/raw",
    "data/inbox",
    "data/landmarks",
    "data/tokens",
    "data/checkpoint",
    "data/models",
    "reports/evaluation",
    "reports/metrics.json",
)
# Parts that record when and why a night ran, and the project's commit at that time; the lock has
# the parameters with which stage `check` ran last, before or after `train.start_from` was written.
_TIME = re.compile(
    rb"\d{4}-\d\d-\d\dT[\d:.]+([+-]\d\d:\d\d|Z)?"
    rb'|"(trigger|git_\w+|dvc_lock|signloom\.sha256)": [^\n]*'
)
HANGS_S = 900.0


def main() -> None:
    """Cut the power at operations drawn at random; end with 1 if a night was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuts", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at", type=int, nargs="*", help="these operations instead")
    options = parser.parse_args()
    start, uncut = BUILD / "night/start", BUILD / "night/whole"
    if not (start / "made").is_file():
        shutil.rmtree(BUILD / "night", ignore_errors=True)
        make_project(start)
        copy(start, uncut)
        code, log = run_night(uncut)
        assert code in (0, 4), code
        (BUILD / "night/operations.txt").write_text("".join(f"{operation}\n" for operation in log))
        # What was looked at once need not be looked at for each cut.
        shutil.copytree(uncut / "data/cache", start / "data/cache", dirs_exist_ok=True)
        (start / "made").touch()
    operations = (BUILD / "night/operations.txt").read_text().splitlines()
    expected = contents(uncut)
    faults = 0
    for number in options.at or draw(operations, options.cuts, options.seed):
        begin = time.monotonic()
        differences = try_cut(start, number, expected)
        faults += bool(differences)
        if differences:  # to be looked at
            shutil.rmtree(BUILD / f"night/{number}", ignore_errors=True)
            (BUILD / "night/cut").rename(BUILD / f"night/{number}")
        took = f"{time.monotonic() - begin:.0f} s"
        print(
            f"{number} {operations[number].strip()}: {'; '.join(differences) or 'whole'} ({took})",
            flush=True,
        )
    print(f"{len(operations):,} operations")
    sys.exit(faults > 0)


def draw(operations: Sequence[str], count: int, seed: int) -> list[int]:
    """Draw operations: of each kind of file one before a second of any."""
    chance = random.Random(seed)
    kinds = collections.defaultdict(list)
    for number, operation in enumerate(operations):
        if operation.startswith("os.mkdir "):  # of a folder that is there, mostly
            continue
        kinds[re.sub(r"[\w-]{22}(?=\.tmp)|[0-9a-f]{2,}|\d+", "#", operation)].append(number)
    firsts = [chance.choice(numbers) for numbers in kinds.values()]
    chance.shuffle(firsts)
    return sorted(firsts[:count])


def try_cut(start: Path, number: int, expected: dict[str, str]) -> list[str]:
    """Cut the power at an operation and run the night again; return what is not as it should be."""
    project = BUILD / "night/cut"
    copy(start, project)
    code, _ = run_night(project, cut=number)
    if code != -signal.SIGKILL:
        return [f"the cut night ended with {code}"]
    pointer = project / "data/models/champion.json"
    if not json.loads(pointer.read_text())["champion"]:
        return ["no champion after the cut"]
    code, _ = run_night(project)
    if code not in (0, 3, 4):
        record = (project / "reports/retrain/night.json").read_text()
        return [f"the next night ended with {code}: {json.loads(record)['verdict'][-600:]}"]
    hashes = contents(project)
    return [
        f"{name} {'is other' if name in hashes else 'is missing'}"
        if name in expected
        else f"{name} is left behind"
        for name in sorted({*expected, *hashes})
        if expected.get(name) != hashes.get(name)
    ]


def run_night(project: Path, cut: int = -1) -> tuple[int, list[str]]:
    """Run a night, with a cut of the power at an operation; return its code and operations."""
    log = project.resolve().parent / "log"
    log.unlink(missing_ok=True)
    variables = environment(project.resolve())
    variables |= {
        "PYTHONPATH": f"{CUT}{os.pathsep}{variables['PYTHONPATH']}",
        "ATTACK_ROOT": f"{project.resolve()}/",
        "ATTACK_LOG": str(log),
        "ATTACK_CUT": str(cut),
    }
    # The group is known to the process alone: a shell says it before it becomes the night.
    process = subprocess.Popen(
        ["/bin/sh", "-c", 'ATTACK_GROUP=$$ exec "$@"', "sh", *SIGNLOOM, "retrain"],
        cwd=project,
        env=variables,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
    )
    code = process.wait(HANGS_S)
    for candidate in psutil.process_iter():
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            if os.getsid(candidate.pid) == process.pid:
                candidate.kill()
                candidate.wait(10)
    raw = log.read_bytes().decode() if log.is_file() else ""
    return code, [raw[place : place + LINE].strip() for place in range(0, len(raw), LINE)]


def contents(project: Path) -> dict[str, str]:
    """Return hashes of the files that a night leaves; a card repeats the reasons of a night."""
    hashes = {}
    for part in KEPT:
        root = project / part
        for path in [root, *root.rglob("*")]:
            if path.is_file() and path.name not in ("lock", "MODEL_CARD.md"):
                raw = _TIME.sub(b"TIME", path.read_bytes())
                hashes[str(path.relative_to(project))] = hashlib.sha256(raw).hexdigest()
    for path in project.rglob("*"):  # what a killed process may leave; DVC's cache is DVC's
        if path.suffix == ".tmp" and ".dvc" not in path.parts:
            hashes.setdefault(str(path.relative_to(project)), "temporary")
    return hashes


def copy(source: Path, target: Path) -> None:
    """Copy a project, with the times of its files, so that DVC sees no change."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, symlinks=True)


if __name__ == "__main__":
    main()
