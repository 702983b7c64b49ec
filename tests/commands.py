"""Commands as their users type them."""

from collections.abc import Sequence

import pytest

from signloom_tools.cli.main import main


def refuse(words: str, arguments: Sequence[str]) -> None:
    """Run a command that must end with an error of these words, a regular expression."""
    with pytest.raises(SystemExit, match=words):
        main(arguments)
