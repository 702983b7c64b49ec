"""`signloom runs`: from an experiment of DVC to its runs in MLflow."""

import argparse
import os

from signloom.errors import UserError
from signloom.provenance import project_folder


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "runs",
        help="list the MLflow runs of a DVC experiment",
        description="List the MLflow runs of a DVC experiment, by its name in `dvc exp show`; "
        "without a name, of every experiment.",
    )
    parser.add_argument("experiment", nargs="?", metavar="EXPERIMENT")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print a line a run."""
    from signloom.tracking.runs import find_runs

    os.chdir(project_folder())  # where the default store lies
    found = find_runs(options.experiment)
    if not found:
        name = f"of the experiment {options.experiment!r}" if options.experiment else "of one"
        raise UserError(
            f"no run {name}. `dvc exp show` names the experiments; one whose results DVC took from "
            "its cache ran nothing, and `signloom deliver` brings runs that wait"
        )
    for one in found:
        when = f"{one.start:%Y-%m-%d %H:%M}"
        where = f"{one.dvc_experiment}\t{one.baseline[:7]}\t{one.mlflow_experiment}"
        print(f"{where}\t{when}\t{one.status}\t{one.run_id}\t{one.name}")
