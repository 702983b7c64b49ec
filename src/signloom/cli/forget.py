"""`signloom forget`: a signer has withdrawn; everything of theirs goes."""

import argparse
import sys
from pathlib import Path

from signloom.errors import UserError
from signloom.paths import PARAMS


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "forget",
        help="remove a signer: clips, videos, landmarks, copies; mark the models",
        description="Remove the clips of SIGNER from the corpus, with their videos, landmarks, "
        "cached landmarks, tokens, and what reports and model versions say of them; say which "
        "models were trained on them and mark these; say what is left that no program here can "
        "reach. A removal that was cut short is finished by the same command.",
    )
    parser.add_argument("signer", metavar="SIGNER", help="as in the manifest")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--params", type=Path, default=PARAMS)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Say what is there, ask, remove, say what is left."""
    from signloom.nightly.lock import hold_lock
    from signloom.privacy.forget import (
        end_removal,
        find_person,
        plan_removal,
        read_places,
        remove,
        sync_marks,
    )
    from signloom.privacy.traces import tell_left, tell_models

    places = read_places(options.params)
    person = find_person(options.signer, places)
    steps = plan_removal(person, places)
    for step in steps:
        print(f"{len(step.found):6,}  {step.what}")
    models = tell_models(person, places.store)
    print("\n".join(models))
    if options.dry_run:
        print("nothing was removed (--dry-run)")
        return
    if not options.yes:
        _ask(person.signer)
    with hold_lock():  # no night in between
        remove(person, steps, lambda what: print(f"done: {what}"))
        print(sync_marks(options.params, places))
        print("left to you:")
        for line in tell_left(person, places.corpus):
            print(f"- {line}")
        end_removal()


def _ask(signer: str) -> None:
    """Have the name typed once more.

    Raises:
        UserError: If it is another, or nobody is there to type it.
    """
    if not sys.stdin.isatty():
        raise UserError("nothing was removed: give --yes where nobody can be asked")
    if input(f"This cannot be undone. Type {signer} to go on: ").strip() != signer:
        raise UserError("nothing was removed: that is another name")
