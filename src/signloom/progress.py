"""Output that differs between a terminal and a file: progress bars, long lines."""

import io
import shutil
import sys
import textwrap
import time

LINE_S = 60.0  # between two lines of a bar in a log file


def progress_file() -> "_Lines | None":
    """Return `file` of a `tqdm`: None, which is stderr, where that is a terminal.

    A file of messages would hold every state of a bar; so it gets one a minute, as a line.
    """
    return None if sys.stderr.isatty() else _Lines()


def wrap(text: str, indent: str = "  ") -> str:
    """Return a message, indented; on a terminal broken between words to its width."""
    if not sys.stdout.isatty():
        return indent + text
    width = shutil.get_terminal_size().columns
    return textwrap.fill(
        text, width, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False
    )


class _Lines(io.TextIOBase):
    """A text file that passes on what a bar writes once a minute, first after a minute."""

    def __init__(self) -> None:
        self._written_s = time.monotonic()

    def write(self, text: str) -> int:
        state, now = text.strip(), time.monotonic()
        if state and now - self._written_s >= LINE_S:
            self._written_s = now
            sys.stderr.write(f"{state}\n")
            sys.stderr.flush()
        return len(text)
