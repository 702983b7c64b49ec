"""Names of a person in texts, tables, JSON and files.

Signloom writes names of people into fields alone: columns of signers and clips, keys of such in
JSON, folders in paths. There they are compared as a whole, so a name may be a number (`1`, `07`). A
name with a letter in it is looked for everywhere else, too, as a whole word, since people write
texts; a number there would look like any count, score or frame rate.
"""

import csv
import functools
import io
import json
import re
from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from signloom.config import checked_dataclass
from signloom.corpus.manifest import SPLITS
from signloom.files import hash_file
from signloom_ops.intake.deliveries import SIGNER_FILE
from signloom_tools.importing.user_tables import QUOTED, SEPARATORS, find_sources

BLANK = "(forgotten)"  # replaces a name
CONSENTS = "consent.json"  # of a delivery: what each signer agreed to

_BY_SIGNER = "by_signer.csv"  # its columns `name` and `group` have signers
_SIGNER_KEYS = ("signer", "signers", "judge")
_CLIP_KEYS = ("clip_id", "clips", "missing", "rejected", "test")
_LISTS = ("concerns",)  # columns of names with "; " between them
# Earlier versions wrote names into sentences: of `ingest` and the gate behind these words, several
# of them listed, and of the check for drift before those of `_BEFORE`.
_BEFORE = r"(?= signs \d|: the (?:left|right) hand)"
# Such as "signer ANNA", "also written 'Anna'".
_ANNOUNCED = (
    r"\b(?:signer |signed by (?:[\w-]+, )*?|also written (?:'[^']*', )*?|already, as )['\"`]?"
)
_NOTHING = "(?!)"  # no text has it
# A folder named after a signer: videos/ANNA in a path, but not models/0001.
_FOLDER = r"(?<=[^\W\d]/)(?<!models/)(?<!mlruns/)"  # those have numbers of their own


@checked_dataclass
class Person:
    """Who is to be forgotten, and by what they can be found."""

    signer: str  # the name, NFC
    request: str  # names this removal without naming the person
    clip_ids: tuple[str, ...]  # of all their clips
    videos: tuple[str, ...]  # SHA-256 of the videos that show nobody else
    files: tuple[str, ...]  # where these videos lie in the corpus
    shared: tuple[str, ...]  # where those lie that show others, too
    entries: tuple[str, ...]  # keys of their landmarks in the cache
    shared_copies: tuple[str, ...] = ()  # films of deliveries that show others, too

    @property
    def signer_names(self) -> set[str]:
        """Whole cells and values that name them among signers."""
        return {self.signer, *(f"{split} {self.signer}" for split in SPLITS)}

    @property
    def words(self) -> set[str]:
        """Whole cells and values that name them or a clip of theirs, wherever they occur."""
        signer = self.signer_names if is_word(self.signer) else set()
        return {*signer, *filter(is_word, (*self.clip_ids, *self.files))}


def is_word(name: str) -> bool:
    """Return whether a name can be distinguished from a number."""
    return any(character.isalpha() for character in name)


@functools.cache  # asked for every row of a table
def naming_pattern(person: Person) -> str:
    """Return a regular expression of the person's names in a text; its first group stays."""
    names = sorted((person.signer, *person.clip_ids, *person.files), key=len, reverse=True)
    words = "|".join(re.escape(name) for name in names if is_word(name)) or _NOTHING
    numbers = "|".join(re.escape(name) for name in names if not is_word(name)) or _NOTHING
    found = (
        rf"(?<![\w-])(?:{words})(?![\w-])",
        rf"({_ANNOUNCED})(?:{numbers})(?![\w-]|\.\d)",
        rf"{_FOLDER}(?:{numbers})(?![\w-]|\.\w)",
        rf"(?<![\w.-])(?:{numbers}){_BEFORE}",
    )
    return "|".join(found)


def blank(text: str, person: Person) -> str:
    """Return text in which the person's names, as whole words, are blanked."""
    return re.sub(naming_pattern(person), rf"\1{BLANK}", text)


def scrub_value(value: Any, person: Person, here: Set[str] = frozenset()) -> Any:
    """Return a JSON value without the list items and keys that are the person's.

    Args:
        value: Of JSON.
        person: Who.
        here: Names that occur in this part of the file, beside those which are found anywhere.
    """
    names = person.words | here
    if isinstance(value, dict):
        return {
            key: scrub_value(inner, person, _names_below(key, inner, person, here))
            for key, inner in value.items()
            if key not in names
        }
    if isinstance(value, list):
        return [scrub_value(v, person, here) for v in value if not _is_theirs(v, person, here)]
    if isinstance(value, str):
        return BLANK if value in here else blank(value, person)
    return value


def _names_below(key: str, inner: Any, person: Person, here: Set[str]) -> Set[str]:
    if key in _SIGNER_KEYS:
        return person.signer_names
    is_clips = key in _CLIP_KEYS and (isinstance(inner, list | str) or key == "clips")
    return set(person.clip_ids) if is_clips and not here else here


def _is_theirs(item: Any, person: Person, here: Set[str]) -> bool:
    """Return whether a list item is the person's: a name, or a map with one among its values."""
    if not isinstance(item, dict):
        return isinstance(item, str) and item in person.words | here
    if "check" in item:
        return False  # what a check found stays, without the name
    is_of_signers = item.get("kind") == "signer"
    return any(
        value in person.words | _names_below(key, value, person, here)
        or (is_of_signers and key == "group" and value in person.signer_names)
        for key, value in item.items()
        if isinstance(value, str)
    )


def scrub_table(name: str, text: str, person: Person) -> str:
    """Return a table without the rows that have a cell with a name of the person's.

    Args:
        name: Of the file.
        text: Whose first line, except remarks (`#`), names the columns.
        person: Who.
    """
    lines = list(io.StringIO(text, newline="\n"))
    start = next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines))
    if start == len(lines):
        return text
    mark = max(SEPARATORS.values(), key=lines[start].count)
    rows = list(_split(lines[start:], mark))
    columns, words = _columns(name, rows[0][1], person), person.words
    lists = [n for n, column in enumerate(rows[0][1]) if column in _LISTS]
    kept = [*lines[:start], *([rows.pop(0)[0]] if columns else [])]
    for row, cells in rows:
        theirs = any(n < len(cells) and cells[n] in names for n, names in columns.items())
        if not theirs and words.isdisjoint(cells):
            kept.append(blank(_blank_lists(row, lists, person), person))
    return "".join(kept)


def _blank_lists(row: str, columns: Sequence[int], person: Person) -> str:
    """Return a row of a table of ours without the person's names in columns of several."""
    if not columns:
        return row
    names = {person.signer, *person.clip_ids, *person.files}
    cells = row.rstrip("\n").split("\t")
    for column in columns:
        listed = cells[column].split("; ") if column < len(cells) else []
        if listed:
            cells[column] = "; ".join(BLANK if name in names else name for name in listed)
    return "\t".join(cells) + "\n"


def blank_columns(text: str, person: Person, columns: Sequence[str]) -> str:
    """Return a table with names blanked in some columns; a count elsewhere may look like one."""
    header, *lines = (line.split("\t") for line in text.split("\n"))
    for line in lines:
        for number, (name, cell) in enumerate(zip(header, line, strict=False)):
            line[number] = blank(cell, person) if name in columns else cell
    return "\n".join("\t".join(line) for line in [header, *lines])


def _columns(name: str, header: Sequence[str], person: Person) -> dict[int, Set[str]]:
    """Return which columns have names, and which of the person's occur there."""
    sources = find_sources(header)
    fields = {
        "clip_id": set(person.clip_ids), "video": set(person.files), "signer": person.signer_names,
    }  # fmt: skip
    found: dict[int, Set[str]] = {
        header.index(column): names
        for field, names in fields.items()
        if field in sources and (column := sources[field].column) is not None
    }
    if name == _BY_SIGNER:
        found |= {header.index(c): person.signer_names for c in ("name", "group") if c in header}
    return found


def _split(lines: Sequence[str], mark: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each row as it is written, and its cells."""
    if mark not in QUOTED:
        yield from ((line, [cell.strip() for cell in line.split(mark)]) for line in lines)
        return
    reader, begin = csv.reader(lines, delimiter=mark), 0
    for row in reader:  # a quoted cell may span lines
        yield "".join(lines[begin : reader.line_num]), [cell.strip() for cell in row]
        begin = reader.line_num


def scrub_file(path: Path, person: Person, *, columns: Sequence[str] = ()) -> str | bytes | None:
    """Return what a file of ours is without a person: rows and values go, names are blanked.

    Args:
        path: A table, JSON, Markdown or Parquet; anything else stays as it is.
        person: Who.
        columns: Of a .tsv whose rows stay: in which columns names are blanked.

    Returns:
        The new content; None where nothing changes.
    """
    if path.suffix == ".parquet":
        return _scrub_parquet(path, person)
    if path.suffix not in (".json", ".jsonl", ".csv", ".tsv", ".md", ".txt", ".log"):
        return None
    before = path.read_text(encoding="utf-8", errors="surrogateescape")
    if path.suffix == ".json":
        after = _scrub_json(path, before, person)
    elif columns:
        after = blank_columns(before, person, columns)
    elif path.suffix in (".csv", ".tsv"):
        after = scrub_table(path.name, before, person)
    elif path.name == SIGNER_FILE and before.strip() == person.signer:
        after = f"{BLANK}\n"
    else:
        after = blank(before, person)
    return None if after == before else after.encode("utf-8", errors="surrogateescape")


def _scrub_json(path: Path, before: str, person: Person) -> str:
    """Return JSON without the person; what is torn, too deep or not ours is a text."""
    try:
        content = json.loads(before)
        if path.name == CONSENTS and isinstance(content, dict):
            content.pop(person.signer, None)
        after = scrub_value(content, person)
    except (ValueError, RecursionError):
        return blank(before, person)
    return _dump_like(before, after) if after != json.loads(before) else before


def _scrub_parquet(path: Path, person: Person) -> bytes | None:
    table = pq.read_table(path)
    if "clip_id" not in table.column_names:
        return None
    theirs = pc.is_in(table["clip_id"], pa.array(person.clip_ids, pa.string()))
    kept = table.filter(pc.invert(theirs))
    if len(kept) == len(table):
        return None
    buffer = io.BytesIO()
    pq.write_table(kept, buffer, compression="zstd")
    return buffer.getvalue()


def _dump_like(before: str, value: Any) -> str:
    """Return JSON indented as it was."""
    second = before.split("\n", 2)[1] if "\n" in before.strip() else ""
    indent = len(second) - len(second.lstrip()) or None
    return json.dumps(value, ensure_ascii=False, indent=indent) + "\n"


def videos_like(folder: Path, person: Person) -> Iterator[Path]:
    """Yield the files below a folder that are the person's videos, by their bytes."""
    wanted = set(person.videos)
    for path in sorted(folder.rglob("*")) if wanted else ():
        if path.is_file() and hash_file(path) in wanted:
            yield path


def files_naming(
    folders: Sequence[Path], person: Person, patterns: Sequence[str] = ("*",)
) -> list[Path]:
    """Return the files below some folders whose bytes have the person's name or a clip's id."""
    pattern = re.compile(naming_pattern(person).encode())
    found = {path for folder in folders for one in patterns for path in folder.rglob(one)}
    return [p for p in sorted(found) if p.is_file() and pattern.search(p.read_bytes())]
