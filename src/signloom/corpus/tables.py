"""A manifest's file comes in, rows of plain strings with their line numbers go out, and back."""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from signloom.config import UserError

MANIFEST_VERSION = 1

_VERSION_LINE = re.compile(r'"?#\s*signloom-manifest\s+([^\s,"]+)[\s,"]*')  # spreadsheets pad
_VERSION_KEY = b"signloom.manifest_version"  # in the schema metadata of a Parquet file
_DELIMITERS = {".tsv": "\t", ".csv": ","}
SUFFIXES = (*_DELIMITERS, ".parquet")

Problem = tuple[int, str]
"""Line (or row) number, what is wrong there."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of strings; an empty string stands for no value."""

    header: list[str]
    rows: list[tuple[int, list[str]]]  # line (row in Parquet) number from 1, fields
    problems: list[Problem]
    header_line: int
    unit: str  # what the numbers count: "line" or "row"


def read_table(path: Path) -> Table:
    """Read a .tsv, .csv or .parquet table.

    Raises:
        UserError: If nothing of the file can be read; lesser faults are in `Table.problems`.
    """
    return _read_parquet(path) if path.suffix == ".parquet" else _read_text(path)


def is_manifest(text: str) -> bool:
    """Tell whether a text says in its first line that it is a manifest, of whatever version."""
    first = text.removeprefix("\ufeff").partition("\n")[0]
    return _VERSION_LINE.fullmatch(first.removesuffix("\r")) is not None


def write_table(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write rows that share their keys, atomically, under the manifest's version.

    Raises:
        ValueError: If a field cannot be written so that it is read back (see `field_problem`).
    """
    temporary = path.with_name(f".{path.name}.tmp")
    for row in rows:
        for name, value in row.items():
            if problem := field_problem(str(value), path.suffix):
                raise ValueError(f"{path}: {name} {value!r} {problem}")
    if path.suffix == ".parquet":
        _write_parquet(temporary, rows)
    else:
        _write_text(temporary, rows, path.suffix)
    temporary.replace(path)


def field_problem(field: str, suffix: str) -> str | None:
    """Say why a field cannot stand in a table of this kind, if it cannot."""
    # Controls and Unicode's own line ends cut the tables that later stages write. Other characters
    # without a shape (the joiners of Persian or Hindi) belong to texts.
    for character in field:
        code = ord(character)
        if code < 32 or 127 <= code < 160 or character in "\u2028\u2029":
            return f"has the control character {character!r}; write it without"
    if suffix == ".tsv" and field[:1] == field[-1:] == '"' and '""' in field[1:-1]:
        return "looks quoted; a .tsv has no quoting (write it plainly, or use .csv)"
    return None


def _read_text(path: Path) -> Table:
    lines, problems = _decode_lines(path)
    first = 0
    if lines and lines[0].lstrip('"').startswith("#"):
        match = _VERSION_LINE.fullmatch(lines[0])
        _check_version(path, match[1] if match else lines[0])
        first = 1
    rows = list(_split_fields(lines, first, path.suffix, problems))
    if not rows:
        raise UserError(f"{path}: the file is empty; expected a header line and a line a clip")
    line, header = rows[0]
    return Table(header, rows[1:], problems, header_line=line, unit="line")


def _decode_lines(path: Path) -> tuple[list[str], list[Problem]]:
    raw = path.read_bytes()
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UserError(f"{path}: the file is UTF-16; save it as UTF-8")
    lines: list[str] = []
    problems: list[Problem] = []
    # Not splitlines(), which also cuts at characters inside a field. Excel writes a BOM.
    for number, line in enumerate(raw.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        try:
            text = line.removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            problems.append((number, f"byte {error.start + 1} is not UTF-8; save it as UTF-8"))
            text = line.removesuffix(b"\r").decode("utf-8", errors="replace")
        lines.append(text)
    return lines, problems


def _split_fields(
    lines: list[str], first: int, suffix: str, problems: list[Problem]
) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the stripped fields of every line that is not blank."""
    if suffix == ".tsv":
        for number, line in enumerate(lines[first:], start=first + 1):
            if line.strip():
                yield number, [field.strip() for field in line.split("\t")]
        return
    reader = csv.reader((line + "\n" for line in lines[first:]), strict=True)
    number = first + 1
    try:
        for row in reader:
            if any(field.strip() for field in row):
                yield number, [field.strip() for field in row]
            number = first + reader.line_num + 1  # a quoted field may span lines
    except csv.Error as error:
        problems.append((number, f"not CSV ({error}); the lines after it were not read"))


def _check_version(path: Path, found: str) -> None:
    if found != str(MANIFEST_VERSION):
        raise UserError(
            f"{path}: found manifest version {found!r}, this program reads version "
            f"{MANIFEST_VERSION} (first line `# signloom-manifest {MANIFEST_VERSION}`, or none)"
        )


def _read_parquet(path: Path) -> Table:
    import pyarrow as pa  # Here, so that a text manifest does not load it.
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(path).read()
    except (pa.ArrowException, OSError) as error:
        raise UserError(f"{path}: not a readable Parquet file: {error}") from None
    metadata = table.schema.metadata or {}
    _check_version(path, metadata.get(_VERSION_KEY, b"1").decode(errors="replace"))
    problems: list[Problem] = []
    columns: list[list[str]] = []
    for field, column in zip(table.schema, table.columns, strict=True):
        kind, number_like = field.type, pa.types.is_floating(field.type)
        if not number_like and not pa.types.is_integer(kind) and not pa.types.is_null(kind):
            try:
                column = column.cast(pa.large_string())
            except pa.ArrowException:
                problems.append((0, f"column {field.name!r} is {kind}; expected text or numbers"))
                column = pa.nulls(len(column))
        # pandas writes a missing number as NaN
        cells = ("" if v is None or v != v else str(v).strip() for v in column.to_pylist())
        columns.append(list(cells))
    rows = [(number, list(row)) for number, row in enumerate(zip(*columns, strict=True), start=1)]
    return Table(table.schema.names, rows, problems, header_line=0, unit="row")


def _write_text(path: Path, rows: Sequence[Mapping[str, object]], suffix: str) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(f"# signloom-manifest {MANIFEST_VERSION}\n")
        if suffix == ".tsv":
            file.write("\t".join(rows[0]) + "\n")
            for row in rows:
                cells = ("" if value is None else str(value) for value in row.values())
                file.write("\t".join(cells) + "\n")
        else:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def _write_parquet(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pylist([dict(row) for row in rows])
    version = {_VERSION_KEY: str(MANIFEST_VERSION).encode()}
    pq.write_table(table.replace_schema_metadata(version), path)
