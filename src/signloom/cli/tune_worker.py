"""`signloom tune-worker`: this machine helps with a search that was started on another one."""

import argparse
from pathlib import Path

from signloom.paths import LANDMARKS, PARAMS, TOKENS


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Describe the command."""
    parser = commands.add_parser("tune-worker", help="help with a search of another machine")
    parser.add_argument("--params", type=Path, default=PARAMS)
    parser.add_argument(
        "--landmarks",
        type=Path,
        default=LANDMARKS,
        help="what extract wrote (default: %(default)s)",
    )
    parser.add_argument(
        "--tokens",
        type=Path,
        default=TOKENS,
        help="what tokenize_targets wrote (default: %(default)s)",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Work on the search of the same parameters, data and code until it is over."""
    from signloom.tune.worker import SearchPaths, join

    join(
        SearchPaths(
            params=options.params,
            shards=options.landmarks / "shards",
            targets=options.tokens / "targets.parquet",
            tokenizer=options.tokens / "tokenizer.json",
            labels=options.tokens / "labels.json",
        )
    )
    print("no trial of the search is missing any more")
