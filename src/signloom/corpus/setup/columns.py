"""The columns of a user's table come in; which of them holds which field of a clip goes out."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from signloom.config import UserError

KNOWN_NAMES: dict[str, tuple[str, ...]] = {
    "clip_id": ("clip_id", "name", "sentence_name", "sequence_id", "id"),
    "video": ("video", "video_path", "video_file", "filename", "file_name", "file", "path"),
    "text": ("text", "translation", "sentence", "phrase", "sign", "caption", "label", "word"),
    "signer": ("signer", "signer_id", "speaker", "participant_id", "participant", "person"),
    "split": ("split", "subset", "partition", "set"),
    "start_s": ("start_s",),
    "end_s": ("end_s",),
    "start_frame": ("start_frame",),
    "end_frame": ("end_frame",),
    "gloss": ("gloss", "glosses", "orth"),
    "language": ("language", "lang"),
}
"""Fields, and what makers of corpora call their columns, lower-cased, the likeliest first."""

ASKED = ("text", "signer", "split", "clip_id", "gloss")


@dataclass(frozen=True, slots=True)
class Source:
    """Where the values of a field come from: a column, or one value for every row."""

    column: str | None
    value: str = ""
    pattern: re.Pattern[str] | None = None  # its first group is the value
    guessed: bool = False

    def of(self, cells: Mapping[str, str]) -> str:
        """Return the value of a row; empty where it has none."""
        text = self.value if self.column is None else cells.get(self.column, "")
        if self.pattern is None:
            return text
        match = self.pattern.search(text)
        return (match[1] or "") if match else ""

    def __str__(self) -> str:
        """How a person would say it."""
        if self.column is None:
            return f"{self.value!r} in every row"
        picked = f", what {self.pattern.pattern!r} finds in it" if self.pattern else ""
        return self.column + picked + (" (guessed)" if self.guessed else "")


Sources = dict[str, Source]


def read_pairs(texts: Sequence[str], flag: str, allowed: Sequence[str] = ()) -> dict[str, str]:
    """Parse `KEY=VALUE` arguments of a flag.

    Raises:
        UserError: If one is not of that form, or its key is not allowed or stands twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        key, mark, value = text.partition("=")
        if not mark or not value or key in found or (allowed and key not in allowed):
            known = f"; KEY is one of {', '.join(allowed)}" if allowed else ""
            raise UserError(f"{flag}: found {text!r}, expected KEY=VALUE, each key once{known}")
        found[key] = value
    return found


def find_sources(
    header: Sequence[str],
    columns: Mapping[str, str],
    constants: Mapping[str, str],
    patterns: Mapping[str, str],
    ask: Callable[[str], str] | None,
    settled: Sequence[str] = (),
) -> Sources:
    """Decide where each field comes from: as given, as asked, or by a known name.

    Args:
        header: The table's columns.
        columns: Field and column, as given.
        constants: Field and value of every row, as given.
        patterns: Field and regular expression with one group, as given.
        ask: Puts a question to a person and returns the answer; None: nobody is there.
        settled: Fields that need no column.

    Raises:
        UserError: If a given column does not exist, or a pattern is none.
    """
    for field, column in columns.items():
        _check_column(header, column, field)
    given = {name: Source(column) for name, column in columns.items()}
    given |= {name: Source(None, value) for name, value in constants.items()}
    guessed = _guess(header, given)
    sources = {**guessed, **given}
    if ask is not None:
        for field in ASKED:
            if field not in given and field not in settled:
                _ask(ask, header, field, sources)
    for field, pattern in patterns.items():
        source = sources.get(field)
        if source is None or source.column is None:
            raise UserError(f"--pick {field}: say with --column {field}=COLUMN where to look")
        sources[field] = Source(source.column, pattern=_compile(field, pattern))
    return {name: sources[name] for name in KNOWN_NAMES if name in sources}


def _guess(header: Sequence[str], given: Mapping[str, Source]) -> Sources:
    """Return fields whose column has a known name and is not given to another field."""
    taken = {source.column for source in given.values()}
    plain = {re.sub(r"[\s-]+", "_", name.lower()): name for name in header if name not in taken}
    found: Sources = {}
    for field, names in KNOWN_NAMES.items():
        match = next((plain[name] for name in names if name in plain), None)
        if field not in given and match is not None:
            found[field] = Source(match, guessed=True)
            plain = {key: name for key, name in plain.items() if name != match}
    return found


def _ask(ask: Callable[[str], str], header: Sequence[str], field: str, sources: Sources) -> None:
    """Ask for the column of a field until the answer is one, or none."""
    guess = sources.get(field)
    default = f" [{guess.column}]" if guess else ""
    known = f"columns: {', '.join(header)}\n" if field == ASKED[0] else ""
    while True:
        question = f"{known}{field}: which column, or =VALUE for every row{default}? "
        answer = ask(question).strip()
        if not answer:
            return
        if answer.startswith("="):
            sources[field] = Source(None, answer[1:])
            return
        if answer in header:
            sources[field] = Source(answer)
            return
        known = f"there is no column {answer!r}; columns: {', '.join(header)}\n"


def _check_column(header: Sequence[str], column: str, field: str) -> None:
    if column not in header:
        raise UserError(
            f"--column {field}={column}: no such column; the table has {', '.join(header)}"
        )


def _compile(field: str, pattern: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise UserError(f"--pick {field}: {pattern!r} is no regular expression ({error})") from None
    if compiled.groups != 1:
        raise UserError(f"--pick {field}: {pattern!r} needs one pair of round brackets")
    return compiled
