"""The commands that operations add to `signloom`, found by the entry point signloom.commands."""

import argparse

from signloom_tools.cli.main import Commands


def _describe_champion(parser: argparse.ArgumentParser) -> None:
    from signloom_ops.cli.nights import add_champion  # loads slowly, and is wanted seldom

    add_champion(parser)


COMMANDS: Commands = {
    "data": {
        "ingest": (
            "signloom_ops.cli.corpus:run_ingest",
            "take new videos and their sentences into the corpus",
        ),
        "withdraw": (
            "signloom_ops.cli.corpus:run_withdraw",
            "take a delivery out of the corpus again",
        ),
        "forget": (
            "signloom_ops.cli.corpus:run_forget",
            "remove a signer: clips, videos, landmarks, copies",
        ),
        "drift": (
            "signloom_ops.cli.corpus:run_drift",
            "compare the clips of a delivery with the old ones",
        ),
    },
    "app": {
        "app": (
            "signloom_ops.cli.app:run_app",
            "record, label, deliver and translate in a browser",
        ),
    },
    "nights": {
        "retrain": (
            "signloom_ops.cli.nights:run_retrain",
            "train on new data; promote the model if it is better",
        ),
        "champion": (_describe_champion, "show, promote and roll back versions of the model"),
    },
}
