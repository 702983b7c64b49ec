"""`signloom retrain`: a night's work, from new deliveries to a champion that is never worse."""

import argparse
import json
import sys
from pathlib import Path

from signloom.paths import PARAMS


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "retrain",
        help="take in what is new, train a challenger, promote it if it is better",
        description="Exit codes: 0 there is a new champion, 3 nothing is new, 4 the gate refused "
        "the challenger, 5 the new data were refused, 6 another retraining runs, 1 an error, "
        "130 and 143 stopped. docs/retraining.md",
    )
    parser.add_argument("--params", type=Path, default=PARAMS)
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.add_argument(
        "--start",
        choices=("champion", "scratch"),
        help="weights to train from; retrain.start if not given",
    )
    parser.add_argument("--no-pull", action="store_true", help="do not ask retrain.remote first")
    parser.add_argument(
        "--force", action="store_true", help="train though nothing is new, as after new parameters"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run a night and end with its exit code."""
    from signloom.nightly.night import NOTHING, Request, code_of, foresee_night, run_night

    request = Request(
        params=options.params,
        start=options.start,
        pull=not options.no_pull,
        force=options.force,
    )
    if options.dry_run:
        foreseen = foresee_night(request)
        as_json = json.dumps(foreseen, ensure_ascii=False, indent=1)
        print(as_json if options.json else "\n".join(foreseen["lines"]))
        sys.exit(NOTHING if foreseen["kind"] == "nothing" else 0)
    try:
        night = run_night(request)
    except KeyboardInterrupt as stop:  # before the first step, or after the last
        sys.exit(code_of(stop))
    if options.json:
        print(json.dumps(night, ensure_ascii=False, indent=1))
    else:
        print(f"{night['outcome']}: {night['verdict']}")
    sys.stdout.flush()
    sys.exit(night["exit_code"])
