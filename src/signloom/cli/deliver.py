"""`signloom deliver`: records that MLflow could not take are brought to it."""

import argparse

from signloom.errors import UserError
from signloom.paths import SPOOL


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Describe the command."""
    parser = commands.add_parser("deliver", help="bring MLflow what it could not take before")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Deliver everything that is kept in data/.tracking/."""
    from signloom.tracking.deliver import deliver
    from signloom.tracking.journal import PROBLEM, outboxes

    count = len(outboxes(SPOOL))
    if not deliver(SPOOL, patience_s=0.0):
        raise UserError(f"MLflow did not take it: {(SPOOL / PROBLEM).read_text()}")
    print(f"{count} runs were delivered" if count else "nothing was waiting")
