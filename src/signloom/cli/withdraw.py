"""`signloom withdraw`: a delivery leaves the corpus again."""

import argparse
from pathlib import Path

from signloom.config import load_section
from signloom.paths import PARAMS


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "withdraw",
        help="take a delivery out of the corpus again",
        description="Take the clips of BATCH out of the manifest and move their videos to "
        "data/withdrawn/BATCH. They do not come in again by themselves. deliveries.tsv beside the "
        "manifest has the batches.",
    )
    parser.add_argument("batch", metavar="BATCH", help="such as 2026-11-21")
    parser.add_argument("--reason", required=True, help="why; kept in the corpus's tables")
    parser.add_argument("--params", type=Path, default=PARAMS)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Withdraw and say what that concerns."""
    from signloom.corpus.manifest import SPLITS, CorpusOptions
    from signloom.intake.withdraw import withdraw

    corpus = load_section(options.params, "corpus", CorpusOptions)
    gone = withdraw(corpus, options.batch, options.reason)
    if not gone:
        print(f"{options.batch} was withdrawn before; nothing changed")
        return
    parts = [f"{sum(clip.split == split for clip in gone)} {split}" for split in SPLITS]
    print(f"{len(gone)} clips left the corpus ({', '.join(parts)})")
    print("models that were trained on them still carry traces; `dvc repro` trains without them")
