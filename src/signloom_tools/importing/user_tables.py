"""Tables of users: finding the separator, the columns and the fields of a clip."""

import csv
import gzip
import math
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from signloom.corpus.manifest import is_manifest, read_table
from signloom.errors import UserError
from signloom_tools.importing.options import SIZES, without_ending

SEPARATORS = {"tab": "\t", "pipe": "|", "comma": ",", "semicolon": ";"}
QUOTED = (",", ";")  # spreadsheets quote these; tables parted by tabs or | hold plain quotes
_BOMS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_FALLBACK = "cp1252"  # what Windows programs write in Western Europe; reads anything


@dataclass(frozen=True, slots=True)
class Row:
    """One row: where it is, and its cells by column."""

    table: str  # name of the file
    line: int  # row number in Parquet, from 1
    cells: dict[str, str]

    def values(self, sources: Mapping[str, "FieldSource"]) -> dict[str, str]:
        """Return its values by field, with single spaces."""
        return {name: " ".join(one.of(self.cells).split()) for name, one in sources.items()}


@dataclass(frozen=True, slots=True)
class UserTable:
    """The rows of a file whose cells could be separated, and those whose could not."""

    path: Path
    how: str  # how it was read, for a person to check
    header: list[str]
    rows: list[Row]
    torn: list[tuple[int, str]]  # line, why its cells cannot be separated


def read_user_table(path: Path, separator: str | None, encoding: str | None) -> UserTable:
    """Read a text table, plain or .gz, or a .parquet file.

    Args:
        path: The file; its first line names the columns.
        separator: A key of `SEPARATORS`; None: the one that parts the first line most often.
        encoding: As Python names it; None: by its mark, else UTF-8, else Windows' (cp1252).

    Raises:
        UserError: If it cannot be read, is a manifest already, or its header names no columns or
            one twice.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such table")
    if path.suffix == ".parquet":
        found = read_table(path)
        how, header, lines = "Parquet", found.header, iter(found.rows)
    else:
        text, name = _decode(path, encoding)
        if "\0" in text:
            raise UserError(
                f"{path}: no text, read as {name}; expected a table in text or Parquet, perhaps "
                "with another --encoding"
            )
        if is_manifest(text):
            raise UserError(
                f"{path}: is a Signloom manifest already, so there is nothing to make of it. "
                f"{how_to_use(path)}. To make another corpus of the same clips, take the first "
                "line out of a copy"
            )
        mark = SEPARATORS[separator] if separator else _find_separator(path, text)
        label = next(key for key, value in SEPARATORS.items() if value == mark)
        how, lines = f"{name}, columns parted by {label}", _split(path, text, mark)
        header = next(lines, (0, [""]))[1]
    if len(header) < 2 or len(set(header)) < len(header) or "" in header:
        raise UserError(
            f"{path}: read as {how}, the first line names the columns {header}; expected two or "
            "more, each once. Say --separator, --encoding, or add the names as a first line"
        )
    return build_table(path, how, header, lines)


def build_table(
    path: Path, how: str, header: list[str], lines: Iterable[tuple[int, list[str]]]
) -> UserTable:
    """Return a table of numbered lines, those set apart that have more or fewer cells."""
    rows, torn = [], []
    for line, cells in lines:
        if len(cells) == len(header):
            rows.append(Row(path.name, line, dict(zip(header, cells, strict=True))))
        else:
            torn.append((line, f"{len(cells)} cells, but {len(header)} columns"))
    return UserTable(path, how, header, rows, torn)


def read_rates(path: Path) -> dict[str, dict[str, float]]:
    """Return what a table says of landmark files: fps, width and height, by their names.

    Raises:
        UserError: If it has no column `file` (or such), none of the three, or no number there.
    """
    table = read_user_table(path, None, None)
    names = (*KNOWN_NAMES["video"], *KNOWN_NAMES["clip_id"])
    of = next((name for name in names if name in table.header), None)
    sizes = [name for name in SIZES if name in table.header]
    if of is None or not sizes:
        raise UserError(
            f"{path}: its columns are {', '.join(table.header)}; expected file, and fps, width or "
            "height"
        )
    if table.torn:
        raise UserError(f"{path} line {table.torn[0][0]}: {table.torn[0][1]}")
    found: dict[str, dict[str, float]] = {}
    for row in table.rows:
        try:
            own = {name: float(row.cells[name]) for name in sizes if row.cells[name]}
            if not all(value > 0 and math.isfinite(value) for value in own.values()):
                raise ValueError
        except ValueError:
            shown = ", ".join(f"{name} {row.cells[name]!r}" for name in sizes)
            raise UserError(
                f"{path} line {row.line}: found {shown}, expected numbers above 0"
            ) from None
        name = without_ending(row.cells[of]).removeprefix("./")
        if found.setdefault(name, own) != own:
            raise UserError(f"{path} line {row.line}: an earlier row says other of {name}")
    return found


def how_to_use(manifest: Path) -> str:
    """Say what follows where a manifest already exists."""
    return (
        f"Name it in params.yaml (corpus.folder: {manifest.parent.as_posix()}, corpus.manifest: "
        f"{manifest.name}); further clips are brought in by `signloom ingest`"
    )


def keep_rows(table: UserTable, wanted: Mapping[str, str]) -> UserTable:
    """Keep the rows whose cells fit regular expressions, by column.

    Raises:
        UserError: If a column does not exist, or an expression is none.
    """
    fits = {}
    for column, pattern in wanted.items():
        if column not in table.header:
            raise UserError(
                f"--only {column}={pattern}: no such column; {table.path} has "
                f"{', '.join(table.header)}"
            )
        try:
            fits[column] = re.compile(pattern)
        except re.error as error:
            raise UserError(
                f"--only {column}: {pattern!r} is no regular expression ({error})"
            ) from None
    rows = [
        row for row in table.rows
        if all(fit.fullmatch(row.cells[column]) for column, fit in fits.items())
    ]  # fmt: skip
    return replace(table, rows=rows)


def join_rows(table: UserTable, other: UserTable) -> UserTable:
    """Give each row the cells of the row of `other` with the same values in shared columns.

    Raises:
        UserError: If the tables share no column, or two rows of `other` have the same values.
    """
    shared = [name for name in other.header if name in table.header]
    if not shared:
        raise UserError(
            f"{other.path}: shares no column with {table.path}, so their rows cannot be joined; "
            f"found {', '.join(other.header)} and {', '.join(table.header)}"
        )
    more: dict[tuple[str, ...], Row] = {}
    for row in other.rows:
        key = tuple(row.cells[name] for name in shared)
        if more.setdefault(key, row) is not row:
            raise UserError(
                f"{other.path}: lines {more[key].line} and {row.line} have the same "
                f"{', '.join(shared)}; remove one of them"
            )
    empty = dict.fromkeys(other.header, "")
    rows = []
    for row in table.rows:
        found = more.get(tuple(row.cells[name] for name in shared))
        rows.append(
            Row(row.table, row.line, {**empty, **(found.cells if found else {}), **row.cells})
        )
    return UserTable(table.path, table.how, list(rows[0].cells) if rows else [], rows, table.torn)


def _decode(path: Path, encoding: str | None) -> tuple[str, str]:
    """Return the text of a file and the name of its encoding."""
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: cannot be read ({error})") from None
    try:
        return decode_text(raw, encoding)
    except (UnicodeDecodeError, LookupError) as error:
        raise UserError(f"{path}: cannot be read as {encoding} ({error})") from None


def decode_text(raw: bytes, encoding: str | None) -> tuple[str, str]:
    """Return a text and the name of its encoding; None: by its mark, else UTF-8, else Windows'."""
    if encoding is not None:
        return raw.decode(encoding), encoding
    encoding = next((name for bom, name in _BOMS.items() if raw.startswith(bom)), "utf-8")
    try:
        return raw.decode(encoding), encoding
    except UnicodeDecodeError:
        guess = f"no UTF-8 and so taken for {_FALLBACK} (else say --encoding)"
        return raw.decode(_FALLBACK, errors="replace"), guess


def _find_separator(path: Path, text: str) -> str:
    first = text.lstrip().partition("\n")[0]
    best = max(SEPARATORS.values(), key=first.count)
    if not first.count(best):
        raise UserError(
            f"{path}: its first line is {first[:80]!r}; expected the names of two or more columns, "
            f"parted by {', '.join(SEPARATORS)}"
        )
    return best


def _split(path: Path, text: str, mark: str) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and stripped cells of every line that is not blank."""
    lines = text.replace("\r\n", "\n").split("\n")  # splitlines() cuts inside of cells
    if mark not in QUOTED:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield number, [cell.strip() for cell in line.split(mark)]
        return
    reader = csv.reader((line + "\n" for line in lines), delimiter=mark, strict=True)
    number = 1
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                yield number, [" ".join(cell.split()) for cell in row]
            number = reader.line_num + 1  # a quoted cell may span lines
    except csv.Error as error:
        raise UserError(f"{path} line {number}: a quotation mark is not closed ({error})") from None


def same_header(tables: Sequence[UserTable]) -> list[str]:
    """Return the columns that all tables have, in the order of the first.

    Raises:
        UserError: If they have none in common.
    """
    first, *others = tables
    shared = [name for name in first.header if all(name in table.header for table in others)]
    if not shared:
        found = "; ".join(f"{table.path.name}: {', '.join(table.header)}" for table in tables)
        raise UserError(f"the tables have no column in common: {found}")
    return shared


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
    "fps": ("fps",),
    "gloss": ("gloss", "glosses", "orth"),
    "language": ("language", "lang"),
    "corpus": ("corpus",),
    "consent_until": ("consent_until",),
}
"""Fields, and what makers of corpora call their columns, lower-cased, the likeliest first."""


@dataclass(frozen=True, slots=True)
class FieldSource:
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


Sources = dict[str, FieldSource]


def find_sources(
    header: Sequence[str],
    columns: Mapping[str, str] = MappingProxyType({}),
    constants: Mapping[str, str] = MappingProxyType({}),
    patterns: Mapping[str, str] = MappingProxyType({}),
) -> Sources:
    """Decide where each field comes from: as given, or by a known name.

    Args:
        header: The table's columns.
        columns: Field and column, as given.
        constants: Field and value of every row, as given.
        patterns: Field and regular expression with one group, as given.

    Raises:
        UserError: If a given column does not exist, or a pattern is none.
    """
    for field, column in columns.items():
        if column not in header:
            raise UserError(
                f"--column {field}={column}: no such column; the table has {', '.join(header)}"
            )
    given = {name: FieldSource(column) for name, column in columns.items()}
    given |= {name: FieldSource(None, value) for name, value in constants.items()}
    sources = {**_guess(header, given), **given}
    for field, pattern in patterns.items():
        source = sources.get(field)
        if source is None or source.column is None:
            raise UserError(f"--pick {field}: say with --column {field}=COLUMN where to look")
        sources[field] = FieldSource(source.column, pattern=_compile(field, pattern))
    return {name: sources[name] for name in KNOWN_NAMES if name in sources}


def _guess(header: Sequence[str], given: Mapping[str, FieldSource]) -> Sources:
    """Return fields whose column has a known name and is not given to another field."""
    taken = {source.column for source in given.values()}
    plain = {re.sub(r"[\s-]+", "_", name.lower()): name for name in header if name not in taken}
    found: Sources = {}
    for field, names in KNOWN_NAMES.items():
        match = next((plain[name] for name in names if name in plain), None)
        if field not in given and match is not None:
            found[field] = FieldSource(match, guessed=True)
            plain = {key: name for key, name in plain.items() if name != match}
    return found


def _compile(field: str, pattern: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise UserError(f"--pick {field}: {pattern!r} is no regular expression ({error})") from None
    if compiled.groups != 1:
        raise UserError(f"--pick {field}: {pattern!r} needs one pair of round brackets")
    return compiled
