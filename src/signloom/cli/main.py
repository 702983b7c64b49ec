"""The commands of `signloom`, a module each; what a person asks for at the prompt."""

import argparse
import logging
import os
import sys
from collections.abc import Sequence

from signloom.cli import (
    adopt,
    cache,
    champion,
    compare,
    deliver,
    drift,
    drop_videos,
    export_landmarks,
    export_model,
    forget,
    import_landmarks,
    ingest,
    init,
    retrain,
    runs,
    scores,
    summary,
    task,
    translate,
    tune_worker,
    withdraw,
)
from signloom.errors import UserError

# A module has `add_parser`, which names its `run`. It imports torch or mediapipe in `run` only:
# they take seconds to load and `--help` should not.
COMMANDS = (
    init, ingest, withdraw, forget, drift, retrain, translate, scores, compare, runs, summary,
    adopt, champion, tune_worker, deliver, cache, import_landmarks, export_landmarks, drop_videos,
    export_model, task,
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Run `signloom`; a user's mistake ends in its message and exit code 1."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    options = build_parser().parse_args(arguments)
    try:
        options.run(options)
        sys.stdout.flush()
    except UserError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("stopped")
    except BrokenPipeError:  # as by `signloom ... | head`: nobody reads what is still to be said
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python's last flush too
        sys.exit(1)


def build_parser() -> argparse.ArgumentParser:
    """Describe the commands and their options."""
    parser = argparse.ArgumentParser(
        prog="signloom",
        description="Signing videos and their sentences in, a trained, scored translation model "
        "out. The pipeline itself runs with `dvc repro`.",
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add_parser(commands)
    return parser
