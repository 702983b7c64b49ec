"""Errors that a user can put right: shown as a message, never as a traceback."""

from dataclasses import dataclass


class UserError(ValueError):
    """A mistake in what the user gave; the message says what to do, as no traceback is shown."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a clip, or a file of clips, cannot be used."""

    reason: str
    hint: str
    """What to do about it."""

    def __str__(self) -> str:
        """Both as one phrase."""
        return f"{self.reason}; {self.hint}"


class ClipError(ValueError):
    """A clip, or a file of clips, that cannot be used.

    Attributes:
        problem: Why not.
    """

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason, hint)
        self.problem = Problem(reason, hint)

    def __str__(self) -> str:
        """Reason and hint as one phrase."""
        return str(self.problem)
