"""A table as its makers wrote it comes in, whatever parts its columns; named cells go out."""

import csv
import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from signloom.config import UserError
from signloom.corpus.tables import is_manifest, read_table

SEPARATORS = {"tab": "\t", "pipe": "|", "comma": ",", "semicolon": ";"}
QUOTED = (",", ";")  # spreadsheets quote these; tables parted by tabs or | hold plain quotes
_BOMS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_FALLBACK = "cp1252"  # what Windows programs write in Western Europe; reads anything


@dataclass(frozen=True, slots=True)
class Row:
    """One row: where it stands, and its cells by column."""

    table: str  # name of the file
    line: int  # row number in Parquet, from 1
    cells: dict[str, str]


@dataclass(frozen=True, slots=True)
class UserTable:
    """The rows of a file that could be told apart, and those that could not."""

    path: Path
    how: str  # how it was read, for a person to check
    header: list[str]
    rows: list[Row]
    torn: list[tuple[int, str]]  # line, why its cells cannot be told apart


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
    rows, torn = [], []
    for line, cells in lines:
        if len(cells) == len(header):
            rows.append(Row(path.name, line, dict(zip(header, cells, strict=True))))
        else:
            torn.append((line, f"{len(cells)} cells, but {len(header)} columns"))
    return UserTable(path, how, header, rows, torn)


def how_to_use(manifest: Path) -> str:
    """Say what follows where a manifest is there already."""
    return (
        f"Name it in params.yaml (corpus.folder: {manifest.parent.as_posix()}, corpus.manifest: "
        f"{manifest.name}); further clips are brought in by `signloom ingest`"
    )


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
    if encoding is None:
        encoding = next((name for bom, name in _BOMS.items() if raw.startswith(bom)), "utf-8")
        try:
            return raw.decode(encoding), encoding
        except UnicodeDecodeError:
            guess = f"no UTF-8 and so taken for {_FALLBACK} (else say --encoding)"
            return raw.decode(_FALLBACK, errors="replace"), guess
    try:
        return raw.decode(encoding), encoding
    except (UnicodeDecodeError, LookupError) as error:
        raise UserError(f"{path}: cannot be read as {encoding} ({error})") from None


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
