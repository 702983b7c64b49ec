"""A command, as its users type it, that must end with an error."""

from collections.abc import Sequence

import pytest

from signloom_tools.cli.main import main


def expect_error(words: str, arguments: Sequence[str]) -> None:
    """Run a command that must end with an error of these words, a regular expression."""
    with pytest.raises(SystemExit, match=words):
        main(arguments)
