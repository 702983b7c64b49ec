"""Options that several commands have, and the guards before something is lost for good."""

import contextlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from signloom.config import load_params
from signloom.corpus.manifest import is_manifest
from signloom.errors import UserError
from signloom.paths import CHECKPOINT, PARAMS
from signloom_tools.options import option

if TYPE_CHECKING:
    from signloom_tools.versions import NamedModel


@dataclass(frozen=True, kw_only=True)
class ModelChoice:
    """A model, named by its folder or as a version."""

    checkpoint: Path = option("model folder", CHECKPOINT)
    model: str | None = option(
        "champion, challenger or the number of a version instead, with the search that it was "
        "judged with; see `signloom champion`",
        None,
        metavar="VERSION",
    )

    def find(self) -> "NamedModel":
        """Return the model.

        Raises:
            UserError: If there is no such version.
        """
        from signloom_tools.versions import NamedModel, find_version

        return NamedModel(self.checkpoint) if self.model is None else find_version(self.model)


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
