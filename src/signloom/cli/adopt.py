"""`signloom adopt`: the winner of the last search is written into the parameters."""

import argparse
import difflib
from pathlib import Path
from typing import Any

from signloom.config import read_json, update_params
from signloom.errors import UserError
from signloom.paths import PARAMS, TUNE


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Describe the command."""
    parser = commands.add_parser("adopt", help="write the search's winner into params.yaml")
    parser.add_argument("--best", type=Path, default=TUNE / "best.json")
    parser.add_argument("--params", type=Path, default=PARAMS)
    parser.add_argument(
        "--trial", type=int, help="another trial of the Pareto front instead of the winner"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Write the winner of the last search into the parameters and print the difference."""
    best = read_json(options.best, hint="run `dvc repro tune` first")
    overrides = best["overrides"]
    if options.trial is not None:
        overrides = _of_front(options.best.with_name("trials.json"), options.trial)
    else:
        _print_confirmation(best.get("confirmed", []))
    before, after = update_params(options.params, overrides)
    if before == after:
        print(f"{options.params} has the winner's values already")
        return
    name = str(options.params)
    difference = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), name, name
    )
    print("".join(difference), end="")
    print(f"review and commit {name}, then `dvc repro evaluate` trains and scores with it")


def _of_front(path: Path, trial: int) -> dict[str, dict[str, Any]]:
    """Return what a trial of the front changes."""
    found = read_json(path, hint="run `dvc repro tune` first")["overrides"]
    if str(trial) not in found:
        raise UserError(f"trial {trial} is not of the search's front: {', '.join(found)}")
    changes: dict[str, dict[str, Any]] = found[str(trial)]
    return changes


def _print_confirmation(rows: list[dict[str, Any]]) -> None:
    """Print what the candidates reached with other seeds, the winner first."""
    for place, row in enumerate(rows):
        values = ", ".join(f"{value:.4f}" for value in row["values"])
        name = f"trial {row['number']}" + (", the parameters of then" if not row["number"] else "")
        print(f"{'winner' if not place else 'beaten'}: {name}: mean {row['mean']:.4f} of {values}")
