"""`signloom adopt`: the winner of the last search is written into the parameters."""

import argparse
import difflib
from pathlib import Path

from signloom.config import read_json, update_params


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Describe the command."""
    parser = commands.add_parser("adopt", help="write the search's winner into params.yaml")
    parser.add_argument("--best", type=Path, default=Path("reports/tune/best.json"))
    parser.add_argument("--params", type=Path, default=Path("params.yaml"))
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Write the winner of the last search into the parameters and print the difference."""
    best = read_json(options.best, mend="run `dvc repro tune` first")
    before, after = update_params(options.params, best["overrides"])
    if before == after:
        print(f"{options.params} has the winner's values already")
        return
    name = str(options.params)
    difference = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), name, name
    )
    print("".join(difference), end="")
    print(f"review and commit {name}, then `dvc repro evaluate` trains and scores with it")
