"""Errors that a user can put right: shown as a message, never as a traceback."""

from dataclasses import dataclass


class UserError(ValueError):
    """A mistake in what the user gave; the message says what to do, as no traceback is shown."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a clip, or a file or row of clips, cannot be used."""

    reason: str
    hint: str
    """What to do about it; empty: the reason says it."""
    concerns: tuple[str, ...] = ()
    """Clips, signers, files and cells that are meant, so that the reason need not name them."""

    def __str__(self) -> str:
        """Reason and hint as one phrase."""
        return f"{self.reason}; {self.hint}" if self.hint else self.reason


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
