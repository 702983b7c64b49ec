"""The terminal: text made safe to show there, and errors that end in a message."""

import atexit
import contextlib
import gc
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TextIO, cast

from signloom.errors import explain

# Controls (but tabs, line ends and the carriage return that redraws a bar), lone surrogates, and
# what turns the direction of a line or ends it unseen.
_NOT_SHOWN = re.compile(
    "[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\u2028-\\u202e\\u2066-\\u2069\\ud800-\\udfff]"
    r"|(?!\A)\r(?!\n)"
)
NATIVE_STDERR = 2  # descriptor
SILENT = "silent"  # name of a thread that writes nothing


def printable(text: str, encoding: str = "utf-8") -> str:
    r"""Return a text as a terminal may get it; what it cannot show becomes `\uNNNN`, as in JSON."""
    text = _NOT_SHOWN.sub(lambda match: _escape(match[0]), text)
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return "".join(
            character if _fits(character, encoding) else _escape(character) for character in text
        )
    return text


def _fits(character: str, encoding: str) -> bool:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", errors="surrogatepass").hex()
    return "".join(f"\\u{units[n : n + 4]}" for n in range(0, len(units), 4))


class _Printable:
    """A stream that passes on what is printable."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(printable(text, self._stream.encoding or "utf-8"))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def run_program(
    work: Callable[[], None],
    *,
    stopped: str,
    before: str = "",
    keep: Callable[[str], object] = lambda _: None,
) -> None:
    """Run a program; what a user can put right ends in a message and exit code 1.

    Args:
        stopped: What is said when it is stopped, unless the one who stops says something.
        before: Put before the message of an error.
        keep: Called with what went wrong, for a log.
    """
    # Or Python looks through all that torch made, for 0.3 s, before it ends.
    atexit.register(gc.freeze)
    with _printable_output():
        try:
            work()
            sys.stdout.flush()
        except KeyboardInterrupt as stop:
            keep("stopped")
            sys.exit(before + (printable(str(stop)) if stop.args else stopped))
        except BrokenPipeError:  # as by `signloom ... | head`: the reader has gone
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the last flush, too
            sys.exit(1)
        except Exception as error:
            message = explain(error)
            keep(traceback.format_exc() if message is None else message)
            if message is None:
                raise
            sys.exit(f"{before}error: {printable(message)}")


@contextlib.contextmanager
def _printable_output() -> Iterator[None]:
    own = _own_stderr()
    out, err = (cast(TextIO, _Printable(stream)) for stream in (sys.stdout, own))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield
    own.flush()


def _own_stderr() -> TextIO:
    """Return stderr on a descriptor of its own.

    What networks say can then be kept away from descriptor 2, to which they write, while another
    thread says something that a person must read.
    """
    stream = sys.__stderr__
    if stream is None or sys.stderr is not stream or stream.fileno() != NATIVE_STDERR:
        return sys.stderr
    return open(
        os.dup(NATIVE_STDERR),
        "w",
        buffering=1,
        encoding=stream.encoding,
        errors=stream.errors,
        closefd=False,
    )
