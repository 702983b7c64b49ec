"""Commands that make a corpus of others."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from signloom.cli.init import add_writing, finish_corpus
from signloom.errors import UserError

if TYPE_CHECKING:
    pass


def add_merge(parser: argparse.ArgumentParser) -> None:
    """Describe `signloom merge`."""
    parser.description = (
        "Make CORPUS of several corpora; its manifest says of each row which it comes from. Scores "
        "are broken down by it, train.corpus_temperature samples by it. Videos are linked; of "
        "landmarks those are taken that all have. docs/data.md has an example."
    )
    parser.add_argument("corpus", type=Path, metavar="CORPUS", help="the folder to make")
    parser.add_argument(
        "parts", nargs="+", metavar="[NAME=]FROM", help="a corpus folder, or its manifest"
    )
    parser.add_argument(
        "--landmarks", nargs="+", default=[], metavar="NAME=SHARDS",
        help="landmarks to take in place of the videos of a corpus, where others have no videos",
    )  # fmt: skip
    parser.add_argument(
        "--copy", action="store_true", help="copy the videos instead of linking them"
    )
    add_writing(parser)
    parser.set_defaults(run=run_merge)


def run_merge(options: argparse.Namespace) -> None:
    """Plan, report, and unless it is a dry run, write."""
    from signloom.importing.merge import merge_landmarks, plan_merge, read_parts
    from signloom.importing.user_tables import read_pairs

    parts = read_parts(options.parts, read_pairs(options.landmarks, "--landmarks"))
    for part in parts:
        print(f"{part.name}: {len(part.clips)} clips, {part.kind}")
    options.text_only = parts[0].kind == "glosses"
    plan = plan_merge(parts, options.corpus)

    def write() -> None:
        for line in merge_landmarks(parts, plan, options.corpus):
            print(f"  {line}")

    _check_free(options)
    finish_corpus(options, plan, write if parts[0].shards else None)


def _check_free(options: argparse.Namespace) -> None:
    """Refuse a folder that has a manifest or landmarks, which nobody said to replace."""
    from signloom.corpus.manifest import IMPORTED_SHARDS
    from signloom.importing.new_corpus import check_free

    if not (options.force or options.dry_run):
        check_free(options.corpus)
        if (shards := options.corpus / IMPORTED_SHARDS).exists():
            raise UserError(f"{shards} is there already; --force replaces it")
