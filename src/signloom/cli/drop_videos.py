"""`signloom drop-videos`: a corpus goes on as landmarks, without its videos."""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from signloom.config import load_section
from signloom.errors import UserError
from signloom.paths import LANDMARKS, PARAMS

if TYPE_CHECKING:
    from signloom.intake.drop_videos import Dropped

_ELSEWHERE = (
    "Copies may be left: where the videos came from (data/inbox, linked files), data/withdrawn, "
    "DVC's cache and remote (`dvc gc --workspace`, with --cloud), backups. docs/data.md has more."
)


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "drop-videos",
        help="delete the corpus's videos and go on with their landmarks",
        description="Put the landmarks that `dvc repro extract` found into the corpus, take the "
        "videos out of the manifest and delete them, once it is proved that `dvc repro` gives the "
        "same landmarks without them. Nothing can come into the corpus afterwards.",
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be deleted")
    parser.add_argument("--yes", action="store_true", help="delete without asking")
    parser.add_argument("--params", type=Path, default=PARAMS)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Ask, delete, and say where copies may be."""
    from signloom.corpus.manifest import CorpusOptions
    from signloom.extraction.extract import ExtractOptions
    from signloom.intake.drop_videos import drop_videos, plan_drop
    from signloom.intake.staging import workshop_of
    from signloom.nightly.lock import hold_lock

    corpus = load_section(options.params, "corpus", CorpusOptions)
    extract = load_section(options.params, "extract", ExtractOptions)
    is_begun = workshop_of(corpus).journal.is_file()
    if options.dry_run:
        done = f"end the change of {corpus.folder} that an earlier call began"
        print(f"would {done if is_begun else _describe(plan_drop(corpus, LANDMARKS))}")
        return
    if not is_begun:
        _ask(_describe(plan_drop(corpus, LANDMARKS)), options.yes)
    with hold_lock():
        found = drop_videos(
            corpus,
            LANDMARKS,
            frames_per_shard=extract.frames_per_shard,
            max_rejected_share=extract.max_rejected_share,
            check=check_extracted,
        )
    if found is None:
        holds = "landmarks" if corpus.imported_shards.is_dir() else "videos: say the same again"
        print(f"ended the change that an earlier call began; {corpus.folder} holds {holds}")
        return
    print(f"done: {_describe(found)}. {corpus.imported_shards} has the landmarks; {found.version}")
    print(_ELSEWHERE)


def check_extracted() -> None:
    """Ask DVC whether the landmarks are those of the videos as they are.

    Raises:
        UserError: If they are not, or DVC cannot say.
    """
    command = [sys.executable, "-m", "dvc", "status", "--json", "extract"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        why = " ".join(done.stderr.split())
        raise UserError(f"`dvc status extract` cannot tell whose the landmarks are: {why}")
    if changed := json.loads(done.stdout):
        raise UserError(
            f"{LANDMARKS} may not be of the videos as they are (`dvc status extract`: "
            f"{json.dumps(changed)}); run `dvc repro extract`, then this again"
        )


def _describe(found: "Dropped") -> str:
    landless = f", also those of {found.landless} clips without landmarks" if found.landless else ""
    size = f"{found.size_bytes / 1e6:,.1f} MB"
    return f"delete {len(found.videos)} videos, {size}, of {found.clips} clips{landless}"


def _ask(what: str, is_agreed: bool) -> None:
    if is_agreed:
        return
    if not sys.stdin.isatty():
        raise UserError(f"this would {what} for good; say --yes, or look with --dry-run")
    if input(f"This will {what} for good. Type yes: ").strip() != "yes":
        raise UserError("nothing was deleted")
