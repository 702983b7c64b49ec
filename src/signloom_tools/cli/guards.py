"""Guards before something is lost for good."""

import contextlib
import sys
from pathlib import Path

from signloom.config import load_params
from signloom.corpus.manifest import is_manifest
from signloom.errors import UserError
from signloom.paths import PARAMS


def refuse_in_corpus(path: Path) -> None:
    """Refuse to write into a corpus, of which DVC watches every file.

    Raises:
        UserError: If the path lies in the project's, or in a folder with a manifest of ours.
    """
    corpus = None
    with contextlib.suppress(UserError, AttributeError, KeyError, TypeError):
        corpus = Path(load_params(PARAMS)["corpus"]["folder"]).resolve()
    target = path.resolve()
    for folder in (target, *target.parents):
        manifest = folder / "manifest.tsv"
        if folder == corpus or (
            manifest.is_file()
            and is_manifest(manifest.read_text(encoding="utf-8", errors="replace"))
        ):
            raise UserError(f"{path} lies in the corpus {folder}: name another path")


def confirm(question: str, answer: str) -> None:
    """Ask a person, and go on only if the answer is typed.

    Raises:
        UserError: If something else is typed, or there is no one to ask.
    """
    if not sys.stdin.isatty():
        raise UserError(
            "nothing was removed: give --yes where nobody can be asked, or --dry-run to see what "
            "would be removed"
        )
    if input(f"{question} Type {answer} to go on: ").strip() != answer:
        raise UserError("nothing was removed: another answer was typed")
