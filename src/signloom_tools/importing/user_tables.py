"""Tables of users: reading them, naming their columns, joining them."""

import gzip
import io
import math
import re
import unicodedata
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from signloom.corpus.manifest import VIDEO_SUFFIXES, is_manifest, read_table
from signloom.errors import UserError
from signloom_tools.importing.cells import clean, parse_time, read_box
from signloom_tools.importing.column_names import ALL_NAMES, INDEX, KNOWN_NAMES, plain_name
from signloom_tools.importing.column_sources import FieldSource, compile_expression
from signloom_tools.importing.file_names import SIZES, without_ending
from signloom_tools.importing.json_tables import read_json_records
from signloom_tools.importing.separated_text import Lines, separate_cells
from signloom_tools.importing.text_encoding import FALLBACK, decode_text

_OLD_EXCEL = b"\xd0\xcf\x11\xe0"


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row: where it is, and its cells by column."""

    table: str  # name of the file
    line: int  # row number in Parquet, from 1
    cells: dict[str, str]

    def values(self, sources: Mapping[str, FieldSource]) -> dict[str, str]:
        """Return its values by field, as they are seen; times in seconds."""
        values = {name: clean(source.of(self.cells)) for name, source in sources.items()}
        for name in {"start_s", "end_s", "duration_s"} & values.keys():
            in_ms, text = sources[name].in_ms, values[name]
            seconds = parse_time(text) if in_ms or ":" in text or "," in text else None
            seconds = seconds and seconds / (1000 if in_ms else 1)
            values[name] = values[name] if seconds is None else str(seconds)
        if "duration_s" in values:
            length = values.pop("duration_s")
            start_s, length_s = parse_time(values["start_s"]), parse_time(length)
            if start_s is not None and length_s is not None:
                length = str(round(start_s + length_s, 6))
            values["end_s"] = length
        if values.get("box"):
            values["box"] = read_box(values["box"], sources["box"].order)
        return values


@dataclass(frozen=True, slots=True)
class UserTable:
    """The rows of a file whose cells could be separated, and those whose could not."""

    path: Path
    how: str  # how it was read, for a person to check
    header: list[str]
    rows: list[TableRow]
    torn: list[tuple[int, str]]  # line, why its cells cannot be separated


def read_user_table(
    path: Path, separator: str | None, encoding: str | None, names: Sequence[str] = ()
) -> UserTable:
    """Read a table: text, plain or .gz, JSON, Parquet, or a spreadsheet where pandas has an engine.

    Args:
        path: The file. Its first line names the columns, or else it looks like the lines below:
            then they are called 1, 2, ...
        separator: A key of `SEPARATORS`; None: the one that parts the first line most often.
        encoding: As Python names it; None: by its mark, else UTF-8, else Windows' (cp1252).
        names: Of the columns, where the first line is no line of names.

    Raises:
        UserError: If it cannot be read, is a manifest already, or its header names no columns or
            one twice.
    """
    if path.is_dir():
        return _read_folder(path, separator, encoding, names)
    if not path.is_file():
        raise UserError(f"{path}: no such table")
    if path.suffix == ".parquet":
        table = read_table(path)
        return build_table(path, "Parquet", table.header, table.rows)
    raw = _read_bytes(path)
    if raw.startswith(_OLD_EXCEL) or (raw.startswith(b"PK\x03\x04") and path.suffix != ".npz"):
        return _name_columns(path, "a spreadsheet", _read_spreadsheet(path, raw), names)
    text, how = _read_text(path, raw, encoding)
    if json_table := _read_json(path, text, names):
        return json_table
    if "\ufffd" in text and how.endswith("(else say --encoding)"):
        raise UserError(
            f"{path}: neither UTF-8 nor {FALLBACK}; say --encoding, such as gb18030 or shift_jis"
        )
    lines, parted = separate_cells(path, text, separator)
    return _name_columns(path, f"{how}, {parted}", lines, names)


def _read_folder(
    folder: Path, separator: str | None, encoding: str | None, names: Sequence[str]
) -> UserTable:
    """Read a folder of JSON files, one a film, as one table."""
    paths = sorted(path for path in folder.rglob("*") if path.name.endswith((".json", ".json.gz")))
    if not paths:
        raise UserError(f"{folder}: a folder without .json files; name the table in it")
    tables = [read_user_table(path, separator, encoding, names) for path in paths]
    header = list(dict.fromkeys(name for table in tables for name in table.header))
    empty = dict.fromkeys(header, "")
    rows = [replace(row, cells=empty | row.cells) for table in tables for row in table.rows]
    how = f"{len(paths)} files, the first {tables[0].how}"
    return UserTable(folder, how, header, rows, [torn for table in tables for torn in table.torn])


def _read_bytes(path: Path) -> bytes:
    try:
        raw = path.read_bytes()
        raw = gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw
        if re.match(rb"\x80[\2-\5]", raw):  # of which each is a program
            raise UserError(
                f"{path}: a pickle, which is a program, and none is run here; if you trust who "
                "made it, write its records as JSON or CSV"
            )
        return raw
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: cannot be read ({error})") from None


def _read_spreadsheet(path: Path, raw: bytes) -> Lines:
    """Return the lines of the first sheet."""
    import pandas as pd  # loads slowly

    try:
        sheet = pd.read_excel(io.BytesIO(raw), header=None, dtype=str, keep_default_na=False)
    except Exception as error:  # each engine has its own
        why = "" if isinstance(error, ImportError) else f" ({type(error).__name__}: {error})"
        raise UserError(
            f"{path}: an Excel file or another archive, which is not read here{why}: save it as "
            "CSV UTF-8, or install openpyxl for .xlsx"
        ) from None
    cells = ([clean(str(cell)) for cell in row] for row in sheet.itertuples(index=False))
    return [(number, row) for number, row in enumerate(cells, start=1) if any(row)]


def _read_text(path: Path, raw: bytes, encoding: str | None) -> tuple[str, str]:
    """Return the text of a table, with the line ends of Unix, and the name of its encoding.

    Raises:
        UserError: If it is no text, or a manifest already.
    """
    try:
        text, how = decode_text(raw, encoding)
    except (UnicodeDecodeError, LookupError) as error:
        raise UserError(f"{path}: cannot be read as {encoding} ({error})") from None
    text = unicodedata.normalize("NFC", text).replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        raise UserError(
            f"{path}: no text, read as {how}; expected a table in text or Parquet, perhaps "
            "with another --encoding"
        )
    if is_manifest(text):
        raise UserError(
            f"{path}: is a Signloom manifest already, so there is nothing to make of it. "
            f"{how_to_use(path)}. To make another corpus of the same clips, take the first "
            "line out of a copy"
        )
    return text, how


def _read_json(path: Path, text: str, names: Sequence[str]) -> UserTable | None:
    """Return the table of JSON or JSON lines; None if it is no JSON."""
    if text.lstrip()[:1] not in ("[", "{"):
        return None
    try:
        records, skipped = read_json_records(text)
    except (ValueError, RecursionError) as error:
        if not path.name.removesuffix(".gz").endswith((".json", ".jsonl", ".ndjson")):
            return None
        raise UserError(f"{path}: JSON without records ({error}); expected a list") from None
    how = "JSON" + f", without {', '.join(skipped)}" * bool(skipped)
    if lists := [record for record in records if isinstance(record, list)]:
        return _name_columns(path, how, list(enumerate(lists, start=1)), names)
    maps = [record for record in records if isinstance(record, dict)]
    header = list(dict.fromkeys(name for record in maps for name in record))
    cells = ([record.get(name, "") for name in header] for record in maps)
    return build_table(path, how, header, enumerate(cells, start=1))


def _name_columns(path: Path, how: str, lines: Lines, names: Sequence[str]) -> UserTable:
    """Return the table of lines whose first names the columns, or looks like the others."""
    rows = list(lines)
    first = rows[0][1] if rows else [""]
    if names or _is_row(rows):
        header = list(names) or [str(number) for number in range(1, len(first) + 1)]
        shown = ", ".join(
            f"{name} ({cell[:40]})" for name, cell in zip(header, first, strict=False)
        )
        how += f", no line of names: its columns are {shown}" + "; --names calls them" * (not names)
        return build_table(path, how, header, rows)
    header = [name or str(number) for number, name in enumerate(first, start=1)]
    if not first[0] and INDEX not in header:
        header[0] = INDEX
    is_one = len(header) < 2 and plain_name(header[0]) not in ALL_NAMES
    if is_one or len({*header}) < len(header):
        raise UserError(
            f"{path}: read as {how}, the first line names the columns {first}; expected two or "
            "more, each once. Say --separator, --encoding, or --names if it is no line of names; "
            "two files of a line a sentence become a table by: paste GLOSSES SENTENCES > table.tsv"
        )
    return build_table(path, how, header, rows[1:])


def _is_row(rows: Sequence[tuple[int, list[str]]]) -> bool:
    """Tell whether the first line is no line of names, but looks like those below it.

    That is a cell which differs from most of its column in digits only, a path or a film's name;
    or words that no table uses as names, of which one occurs in its column again.
    """
    first = rows[0][1] if rows else []
    are_names = [plain_name(cell) in ALL_NAMES for cell in first]
    has_names = sum(are_names) > 1 or first[:1] == [""] or are_names[:1] == [True]
    for number, cell in enumerate(first):
        column = [cells[number] for _, cells in rows[1:] if len(cells) > number]
        if PurePosixPath(cell).suffix.lower() in VIDEO_SUFFIXES or (
            cell and cell in column and not any(are_names)
        ):
            return True
        if column and not has_names and re.search(r"[\d/]", cell):
            alike = sum(_shape_of(neighbour) == _shape_of(cell) for neighbour in column)
            if 2 * alike >= len(column):
                return True
    return False


def _shape_of(cell: str) -> str:
    """Return a cell without its digits, and of a path without its letters."""
    cell = re.sub(r"[^\W\d_]+", "a", cell) if "/" in cell else cell
    return re.sub(r"\d+", "0", cell)


def build_table(
    path: Path, how: str, header: list[str], lines: Iterable[tuple[int, list[str]]]
) -> UserTable:
    """Return a table of numbered lines, those set apart that have more or fewer cells."""
    rows, torn = [], []
    for line, cells in lines:
        if len(cells) == len(header):
            rows.append(TableRow(path.name, line, dict(zip(header, cells, strict=True))))
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
    rates: dict[str, dict[str, float]] = {}
    for row in table.rows:
        try:
            row_sizes = {name: float(row.cells[name]) for name in sizes if row.cells[name]}
            if not all(value > 0 and math.isfinite(value) for value in row_sizes.values()):
                raise ValueError
        except ValueError:
            shown = ", ".join(f"{name} {row.cells[name]!r}" for name in sizes)
            raise UserError(
                f"{path} line {row.line}: found {shown}, expected numbers above 0"
            ) from None
        name = without_ending(row.cells[of]).removeprefix("./")
        if rates.setdefault(name, row_sizes) != row_sizes:
            raise UserError(f"{path} line {row.line}: an earlier row says other of {name}")
    return rates


def how_to_use(manifest: Path) -> str:
    """Say what follows where a manifest already exists."""
    return (
        f"Name it in params.yaml (corpus.folder: {manifest.parent.as_posix()}, corpus.manifest: "
        f"{manifest.name}); further clips are brought in by `signloom ingest`"
    )


def keep_rows(table: UserTable, patterns: Mapping[str, str]) -> UserTable:
    """Keep the rows whose cells fit regular expressions, by column.

    Raises:
        UserError: If a column does not exist, or an expression is none.
    """
    fits = {}
    for column, pattern in patterns.items():
        if column not in table.header:
            raise UserError(
                f"--only {column}={pattern}: no such column; {table.path} has "
                f"{', '.join(table.header)}"
            )
        fits[column] = compile_expression(f"--only {column}", pattern)
    rows = [
        row
        for row in table.rows
        if all(fit.fullmatch(row.cells[column]) for column, fit in fits.items())
    ]
    return replace(table, rows=rows)


def join_rows(table: UserTable, added: UserTable) -> UserTable:
    """Give each row the cells of the row of `added` with the same values in shared columns.

    Raises:
        UserError: If the tables share no column, or two rows of `added` have the same values.
    """
    shared = [name for name in added.header if name in table.header]
    shared = [name for name in shared if name != INDEX] or shared
    if not shared:
        raise UserError(
            f"{added.path}: shares no column with {table.path}, so their rows cannot be joined; "
            f"found {', '.join(added.header)} and {', '.join(table.header)}"
        )

    def key_of(row: TableRow) -> tuple[str, ...]:
        return tuple(row.cells[name] for name in shared)

    more: dict[tuple[str, ...], TableRow] = {}
    for row in added.rows:
        key = key_of(row)
        if more.setdefault(key, row) is not row:
            raise UserError(
                f"{added.path}: lines {more[key].line} and {row.line} have the same "
                f"{', '.join(shared)}; remove one of them"
            )
    nothing = TableRow("", 0, dict.fromkeys(added.header, ""))
    rows = [
        replace(row, cells=more.get(key_of(row), nothing).cells | row.cells) for row in table.rows
    ]
    return UserTable(table.path, table.how, list(rows[0].cells) if rows else [], rows, table.torn)


def same_header(tables: Sequence[UserTable]) -> list[str]:
    """Return the columns that all tables have, in the order of the first.

    Raises:
        UserError: If they have none in common.
    """
    first, *remaining = tables
    shared = [name for name in first.header if all(name in table.header for table in remaining)]
    if not shared:
        listed = "; ".join(f"{table.path.name}: {', '.join(table.header)}" for table in tables)
        raise UserError(f"the tables have no column in common: {listed}")
    return shared
