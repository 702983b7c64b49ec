"""What deliveries hold is read in this process."""

from collections.abc import Callable
from typing import Any

import pytest

from signloom.errors import ClipError, UserError
from signloom.extraction.pool import GuardedProcess


@pytest.fixture(autouse=True)
def unguarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare each test the half second that a guarded process takes to start.

    tests/golden/test_kept_project.py and tests/system/test_ingest.py start real ones.
    """

    def call(
        _: GuardedProcess, function: Callable[..., Any], *arguments: Any, limit_s: float
    ) -> Any:
        assert limit_s > 0
        try:
            return function(*arguments)
        except (UserError, ClipError):
            raise
        except Exception as error:
            message = f"it cannot be read ({type(error).__name__}: {error})"
            raise ClipError(message, "write it again") from None

    monkeypatch.setattr(GuardedProcess, "call", call)
