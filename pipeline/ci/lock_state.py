"""List, without data, the stages that dvc.lock does not cover: what `dvc repro` would run.

`dvc repro --dry --allow-missing` tells it where nothing has changed, and stops with "no such file"
at the first stage that has changed while its data is missing (DVC 3.67, looking into the run
cache). The states of `dvc status` tell the rest: data that is not here counts as unchanged.
"""

import argparse
import json
import logging
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from pipeline.stage import run
from signloom.errors import UserError

_ABSENT = ("deleted", "not in cache")  # of data: it is elsewhere


def stale_stages(status: Mapping[str, list[Any]]) -> dict[str, list[str]]:
    """Return what has changed since the lock was written, by stage.

    Args:
        status: What `dvc status --json` prints.
    """
    stages = {}
    for stage, entries in status.items():
        changed = []
        for entry in entries:
            if isinstance(entry, str):  # "changed command", "always changed"
                changed.append(entry)
                continue
            for paths in entry.values():
                for path, state in paths.items():
                    # Of a parameters' file: the state of each parameter.
                    changed += state if isinstance(state, dict) else [path] * (state not in _ABSENT)
        if changed:
            stages[stage] = changed
    return stages


def lost_files(status: Mapping[str, list[Any]]) -> list[str]:
    """Return missing dependencies that are no data: Git should have them."""
    deps = [
        path
        for entries in status.values()
        for entry in entries
        if isinstance(entry, dict)
        for path, state in entry.get("changed deps", {}).items()
        if state == "deleted"
    ]
    ignored = subprocess.run(
        ["git", "check-ignore", "--stdin"], input="\n".join(deps), capture_output=True, text=True
    ).stdout.splitlines()
    return sorted(set(deps) - set(ignored))


def read_state() -> dict[str, list[str]]:
    """Return what has changed since the locks were written, by stage.

    Raises:
        UserError: If the pipeline is broken: it cannot be read, or a file of it is missing.
    """
    process = _dvc("status", "--json", "--with-deps", "dvc.yaml")
    if process.returncode:
        raise UserError(f"`dvc status` cannot read the pipeline:\n{process.stderr.strip()}")
    status = json.loads(process.stdout)
    if lost := lost_files(status):
        raise UserError(f"stages depend on files that are not there: {', '.join(lost)}")
    stale = stale_stages(status)
    dry = _dvc("repro", "--dry", "--allow-missing")
    if dry.returncode and not stale:
        raise UserError(f"`dvc repro --dry --allow-missing`:\n{dry.stderr.strip()}")
    return stale


def main() -> None:
    """Print the stages that the locks do not cover; with --strict, they are an error."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--strict", action="store_true", help="exit code 1 if there are any")
    options = parser.parse_args()
    stale = read_state()
    if not stale:
        logging.info("dvc.lock covers the code, the parameters and the data")
    for stage, changed in stale.items():
        more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
        logging.info("%s would run again: %s%s", stage, ", ".join(changed[:5]), more)
    if stale and options.strict:
        sys.exit("dvc.lock does not belong to this commit; run `dvc repro` and commit dvc.lock")


def _dvc(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "dvc", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


if __name__ == "__main__":
    run(main)
