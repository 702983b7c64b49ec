"""Which model a command works with."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from signloom.paths import CHECKPOINT
from signloom_tools.command_options import option

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
