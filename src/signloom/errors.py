"""Errors that a user can fix: shown as a message, never as a traceback."""


class UserError(ValueError):
    """A mistake in what the user gave; shown without a traceback, so it must tell how to fix it."""
