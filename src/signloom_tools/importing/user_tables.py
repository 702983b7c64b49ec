"""Tables of users: finding the separator, the columns and the fields of a clip."""

import csv
import gzip
import io
import json
import math
import re
import unicodedata
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

from signloom.corpus.manifest import VIDEO_SUFFIXES, is_manifest, read_table
from signloom.errors import UserError
from signloom_tools.importing.file_names import SIZES, without_ending

SEPARATORS = {"tab": "\t", "pipe": "|", "comma": ",", "semicolon": ";"}
_COMMENTS = re.compile(r"\A(?:#[^\t|,;\n]*\n)+")
QUOTED = (",", ";")  # spreadsheets quote these; tables parted by tabs or | may hold plain quotes
_SPACE = " "
_BOMS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_FALLBACK = "cp1252"  # what Windows programs write in Western Europe; reads anything
_MOST_SHARE = 2.0  # boxes of shares reach a little beyond the picture; of pixels, much further
INDEX = "index"  # what pandas' column of row numbers is called here, as it has no name
NAMES = {
    "train": "train", "training": "train", "dev": "dev", "development": "dev", "val": "dev",
    "valid": "dev", "validation": "dev", "test": "test", "testing": "test",
}  # fmt: skip
"""What tables call train, dev and test."""
_OLD_EXCEL = b"\xd0\xcf\x11\xe0"
# Marks without a shape: in texts they part what looks the same. Not the joiners of Persian, Hindi.
_INVISIBLE = dict.fromkeys(
    (
        0xAD,
        0x180E,
        0x200B,
        0x200E,
        0x200F,
        *range(0x202A, 0x202F),
        0x2060,
        *range(0x2066, 0x206A),
        0xFEFF,
    )
)
_CLOCK = re.compile(r"(?:(\d{1,6}):)?(\d{1,2}):(\d{1,2})(?:[.,](\d{1,9}))?")

Lines = Iterable[tuple[int, list[str]]]
"""Number and cells of each line."""


def clean(text: str) -> str:
    """Return a text or name as it is seen: accents composed, single spaces, no invisible marks."""
    return unicodedata.normalize("NFC", " ".join(text.translate(_INVISIBLE).split()))


def parse_time(text: str) -> float | None:
    """Return the seconds of `3.25`, `3,25` or `00:00:03.250`; None if it is no time."""
    if clock := _CLOCK.fullmatch(text):
        hours, minutes, seconds, fraction = clock.groups()
        minutes = 60 * int(hours or 0) + int(minutes)
        return round(60 * minutes + float(f"{seconds}.{fraction or 0}"), 6)
    try:
        number = float(text.replace(",", "."))
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in text else None


_NUMBER = re.compile(r"(?:(?<!\d)-)?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?")  # 10-20 are two
BOX_ORDER = "left top right bottom"  # WLASL's pixels, OpenASL's shares of the picture
_MS_ASL_ORDER, _COCO_ORDER = "top left bottom right", "left top width height"


def read_box(text: str, order: str = BOX_ORDER) -> str:
    """Return a box as a manifest has it, of four numbers in an order, or of FFmpeg's W:H:X:Y."""
    numbers = [float(number) for number in _NUMBER.findall(text.lower())]
    if len(numbers) != 4:
        return text
    order = "width height left top" if text.count(":") == 3 else order
    sides = dict(zip(order.split(), numbers, strict=True))
    if "width" in sides:
        sides["right"] = sides["left"] + sides["width"]
        sides["bottom"] = sides["top"] + sides["height"]
    most = 1.0 if max(numbers) < _MOST_SHARE else math.inf
    return " ".join(f"{min(max(sides[name], 0.0), most):g}" for name in BOX_ORDER.split())


@dataclass(frozen=True, slots=True)
class Row:
    """One row: where it is, and its cells by column."""

    table: str  # name of the file
    line: int  # row number in Parquet, from 1
    cells: dict[str, str]

    def values(self, sources: Mapping[str, "FieldSource"]) -> dict[str, str]:
        """Return its values by field, as they are seen; times in seconds."""
        values = {name: clean(source.of(self.cells)) for name, source in sources.items()}
        for name in {"start_s", "end_s", "duration_s"} & values.keys():
            in_ms = (sources[name].column or "").lower().endswith("_ms")
            seconds = parse_time(values[name]) if in_ms or {*":,"} & {*values[name]} else None
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
    rows: list[Row]
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
    if not path.is_file():
        raise UserError(f"{path}: no such table")
    if path.suffix == ".parquet":
        table = read_table(path)
        return build_table(path, "Parquet", table.header, table.rows)
    raw = _read_bytes(path)
    if raw.startswith(_OLD_EXCEL) or (raw.startswith(b"PK\x03\x04") and path.suffix != ".npz"):
        return _name_columns(path, "a spreadsheet", _read_spreadsheet(path, raw), names)
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
    records, kind = _read_json(path, text) if text.lstrip()[:1] in ("[", "{") else ([], "")
    if lists := [record for record in records if isinstance(record, list)]:
        return _name_columns(path, kind, list(enumerate(lists, start=1)), names)
    if maps := [record for record in records if isinstance(record, dict)]:
        header = list(dict.fromkeys(name for record in maps for name in record))
        cells = ([record.get(name, "") for name in header] for record in maps)
        return build_table(path, kind, header, enumerate(cells, start=1))
    if "\ufffd" in text and how.endswith("(else say --encoding)"):
        raise UserError(
            f"{path}: neither UTF-8 nor {_FALLBACK}; say --encoding, such as gb18030 or shift_jis"
        )
    text = _COMMENTS.sub(lambda match: "\n" * match[0].count("\n"), text, count=1)
    first = text.partition("\n")[0].strip(" ")
    if match := re.fullmatch(r'"?sep=(.)"?', first):  # for Excel
        text = text.replace(first, "", 1)  # the numbers of lines stay
    mark = SEPARATORS[separator] if separator else match[1] if match else _find_separator(text)
    labels = {**{value: key for key, value in SEPARATORS.items()}, _SPACE: "space"}
    how += f", columns parted by {labels[mark]}" if mark in labels else ", one column"
    lines = _name_rows(text.split("\n"), _split(path, text, mark), mark)
    return _name_columns(path, how, lines, names)


def _read_bytes(path: Path) -> bytes:
    try:
        return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
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


def _read_json(path: Path, text: str) -> tuple[Sequence[dict[str, str] | list[str]], str]:
    """Return the records or lists of JSON or JSON lines, and how; none: it is no JSON."""
    skipped: dict[str, None] = {}
    try:
        try:
            content = json.loads(text)
        except ValueError:
            content = [json.loads(line) for line in text.splitlines() if line.strip()]
        if isinstance(content, dict) and {"columns", "schema"} & {*content}:  # pandas: split, table
            rows = content.get("data")
            head = [content["columns"]] if "columns" in content else []
            content = [*head, *rows] if isinstance(rows, list) else content
        if (
            isinstance(content, list)
            and content
            and all(isinstance(cells, list) for cells in content)
        ):
            return [list(map(_cell_of, cells)) for cells in content], "JSON"
        if isinstance(content, dict):
            columns = [
                [*column.values()] if isinstance(column, dict) else column
                for column in content.values()
            ]
            are_lists = all(
                isinstance(column, list) and not _has_records(column) for column in columns
            )
            lengths = {*map(len, columns)} if are_lists else set()
            are_boxes = lengths == {4} and not any(str in map(type, column) for column in columns)
            is_even = len(lengths) == 1 and [*content.values()] == columns
            is_named = any(_plain_name(name) in _ALL_NAMES for name in content)
            if are_lists and (is_named or (is_even and not are_boxes)):  # as pandas writes them
                content = [
                    dict(zip(content, cells, strict=True)) for cells in zip(*columns, strict=True)
                ]
            elif are_boxes:  # as OpenASL has them
                content = [{"vid": name, "bbox": box} for name, box in content.items()]
            elif all(isinstance(column, str) for column in columns):
                content = [{"name": name, "text": text} for name, text in content.items()]
        records = list(_flatten_records(content, {}, skipped))
        if not records:
            raise ValueError("it is empty")
    except (ValueError, RecursionError) as error:
        if not path.name.removesuffix(".gz").endswith((".json", ".jsonl", ".ndjson")):
            return [], ""
        raise UserError(f"{path}: JSON without records ({error}); expected a list") from None
    return records, "JSON" + f", without {', '.join(skipped)}" * bool(skipped)


def _flatten_records(
    node: Any, around: Mapping[str, str], skipped: dict[str, None]
) -> Iterator[dict[str, str]]:
    """Yield the innermost records, each with the values of those around it.

    The keys of a map of records are their `name`, or their `split`; what only tells of splits is
    skipped.
    """
    if not isinstance(node, dict):
        for child in node if isinstance(node, list) else ():
            yield from _flatten_records(child, around, skipped)
        return
    inner = {key: child for key, child in node.items() if _has_records(child)}
    for key in _others(inner):
        skipped[key] = None
        del inner[key]
    cells = {
        **around,
        **{key: _cell_of(child) for key, child in node.items() if not _has_records(child)},
    }
    is_record = not all(map(_has_records, node.values()))
    splits = {*map(str.lower, inner)} & {*NAMES}
    are_splits = 2 * len(splits) > len(inner) or not inner
    if splits and not are_splits and _keys_of([*inner.values()]) & {*KNOWN_NAMES["text"]}:
        stray = next(key for key in inner if key.lower() not in splits)
        raise ValueError(f"{stray} is no split, but {splits.pop()} is: name it train, dev or test")
    for key, child in [*inner.items()] if is_record else ():
        if isinstance(child, dict) and not (are_splits and _has_records([*child.values()])):
            cells |= {f"{key}.{name}": _cell_of(cell) for name, cell in inner.pop(key).items()}
    if is_record and not inner:
        yield cells
    label = "split" if are_splits else "name"
    label = INDEX if [*inner] == [str(number) for number in range(len(inner))] else label
    for key, child in inner.items():
        is_list = len(inner) == 1 and isinstance(child, list)  # under a name that says nothing
        is_named = are_splits or not (is_record or is_list)
        yield from _flatten_records(child, {**cells, label: key} if is_named else cells, skipped)


def _others(inner: Mapping[str, Any]) -> list[str]:
    """Return the names beside splits, or a lone list, with nothing like their records."""
    below = {
        k: [*child.values()] if isinstance(child, dict) else child for k, child in inner.items()
    }
    tables = [key for key, child in below.items() if key.lower() in NAMES and _has_records(child)]
    lists = [key for key, child in inner.items() if isinstance(child, list)]
    tables = tables or (lists if len(lists) == 1 else [])
    table_keys = _keys_of(inner[tables[0]]) if tables else set()
    candidates = (key for key in inner if key not in tables and key.lower() not in NAMES)
    return [
        key for key in candidates if 2 * len(_keys_of(inner[key]) & table_keys) < len(table_keys)
    ]


def _keys_of(node: Any) -> set[str]:
    """Return the keys of the first record of a map or list."""
    below = node if isinstance(node, list) else node.values()
    first = next((child for child in below if _has_records(child)), None)
    return {*node} if first is None else _keys_of(first)


def _has_records(node: Any) -> bool:
    return any(isinstance(record, dict) for record in (node if isinstance(node, list) else [node]))


def _cell_of(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(_cell_of, value))
    return "" if value is None or value != value else str(value)  # NaN


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
    is_one = len(header) < 2 and _plain_name(header[0]) not in _ALL_NAMES
    if is_one or len({*header}) < len(header):
        raise UserError(
            f"{path}: read as {how}, the first line names the columns {first}; expected two or "
            "more, each once. Say --separator, --encoding, or --names if it is no line of names"
        )
    return build_table(path, how, header, rows[1:])


def _is_row(rows: Sequence[tuple[int, list[str]]]) -> bool:
    """Tell whether the first line is no line of names, but looks like those below it.

    That is a cell which differs from most of its column in digits only, a path or a film's name;
    or words that no table uses as names, of which one occurs in its column again.
    """
    first = rows[0][1] if rows else []
    are_names = [_plain_name(cell) in _ALL_NAMES for cell in first]
    has_names = sum(are_names) > 1 or first[:1] == [""] or are_names[:1] == [True]
    for number, cell in enumerate(first):
        column = [cells[number] for _, cells in rows[1:] if len(cells) > number]
        alike = [neighbour for neighbour in column if _shape_of(neighbour) == _shape_of(cell)]
        is_film = PurePosixPath(cell).suffix.lower() in VIDEO_SUFFIXES
        is_alike = re.search(r"[\d/]", cell) and 2 * len(alike) >= len(column) > 0
        if (
            is_film
            or (is_alike and not has_names)
            or (cell and cell in column and not any(are_names))
        ):
            return True
    return False


def _shape_of(cell: str) -> str:
    """Return a cell without its digits, and of a path without its letters."""
    cell = re.sub(r"[^\W\d_]+", "a", cell) if "/" in cell else cell
    return re.sub(r"\d+", "0", cell)


def _plain_name(column: str) -> str:
    return re.sub(r"[\s-]+", "_", column.lower())


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
        fits[column] = _compile(f"--only {column}", pattern)
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
    more: dict[tuple[str, ...], Row] = {}
    for row in added.rows:
        key = tuple(row.cells[name] for name in shared)
        if more.setdefault(key, row) is not row:
            raise UserError(
                f"{added.path}: lines {more[key].line} and {row.line} have the same "
                f"{', '.join(shared)}; remove one of them"
            )
    empty = dict.fromkeys(added.header, "")
    rows = []
    for row in table.rows:
        added_row = more.get(tuple(row.cells[name] for name in shared))
        rows.append(
            Row(
                row.table,
                row.line,
                {**empty, **(added_row.cells if added_row else {}), **row.cells},
            )
        )
    return UserTable(table.path, table.how, list(rows[0].cells) if rows else [], rows, table.torn)


def decode_text(raw: bytes, encoding: str | None) -> tuple[str, str]:
    """Return a text and the name of its encoding; None: by its mark, else UTF-8, else Windows'."""
    if encoding is not None:
        return raw.decode(encoding), encoding
    encoding = next((name for bom, name in _BOMS.items() if raw.startswith(bom)), None)
    try:
        return raw.decode(name := encoding or _guess_encoding(raw)), name
    except UnicodeDecodeError:
        guess = f"no UTF-8 and so taken for {_FALLBACK} (else say --encoding)"
        return raw.decode(_FALLBACK, errors="replace"), guess


def _guess_encoding(raw: bytes) -> str:
    """Return UTF-16 without a mark, by its zeros: of Latin letters half of the bytes; or UTF-8."""
    zeros = raw[::2].count(0), raw[1::2].count(0)
    is_wide = min(zeros) == 0 and 6 * max(zeros) > len(raw)
    return "utf-8" if not is_wide else "utf-16-be" if zeros[0] else "utf-16-le"


def _find_separator(text: str) -> str:
    """Return what parts the first line most often; a space after names of clips, or an end."""
    lines = [line for line in text.splitlines() if line.strip()]
    names = [line.split()[0] for line in lines]
    spaced = re.compile(r"\s*[^\t|,;\s]*[\d/.][^\t|,;\s]* [^\t|]*")
    if len({*names}) == len(lines) > 0 and all(map(spaced.fullmatch, lines)):
        return _SPACE
    first = lines[0] if lines else ""
    best = max(SEPARATORS.values(), key=first.count)
    return best if first.count(best) else "\n"


def _split(path: Path, text: str, mark: str) -> Sequence[tuple[int, list[str]]]:
    """Return line number and stripped cells of every line that is not blank."""
    if mark in QUOTED:
        return list(_split_quoted(path, text, mark))
    lines = text.split("\n")  # splitlines() cuts inside of cells
    # Lists of films have a name and numbers, or a name and a text.
    are_lists = all(re.fullmatch(r"\S+(\s+\d+)*\s*|\s*", line) for line in lines)
    most = 1 if mark == _SPACE and not are_lists else -1
    plain = [
        (number, [cell.strip() for cell in line.split(None if mark == _SPACE else mark, most)])
        for number, line in enumerate(lines, start=1)
        if line.strip()
    ]
    # Cells are quoted as by pandas where they must be, or all; other quotes are the text's.
    header = plain[0][1] if plain else []
    doubled = any(re.fullmatch('".*"".*"', cell) for _, cells in plain for cell in cells)
    torn = any(len(cells) != len(header) for _, cells in plain)
    if doubled or torn or all(re.fullmatch('".*"', cell) for cell in header):
        try:
            quoted = list(_split_quoted(path, text, mark))
        except UserError:
            return plain
        widths = {len(cells) for _, cells in quoted[1:]}
        if len(widths) == 1 and widths <= {len(quoted[0][1]), len(quoted[0][1]) + 1}:
            return quoted
    return plain


def _name_rows(lines: Sequence[str], rows: Lines, mark: str) -> Lines:
    """Put an empty name over R's names of rows, which are quoted, or numbers but for commas."""
    (number, header), *remaining = [*rows] or [(0, [""])]
    is_named = all(
        lines[at - 1].lstrip()[:1] == '"' or (mark != "," and cells[0] == str(n))
        for n, (at, cells) in enumerate(remaining, start=1)
    )
    is_wider = {len(cells) for _, cells in remaining} == {len(header) + 1}
    is_filled = any(cells[-1] for _, cells in remaining)  # no separator that ends each line
    return [(number, [""] * (is_wider and is_named and is_filled) + header), *remaining]


def _split_quoted(path: Path, text: str, mark: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(
        (line + "\n" for line in text.split("\n")),
        delimiter=mark,
        strict=True,
        skipinitialspace=True,
    )
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
    first, *remaining = tables
    shared = [name for name in first.header if all(name in table.header for table in remaining)]
    if not shared:
        listed = "; ".join(f"{table.path.name}: {', '.join(table.header)}" for table in tables)
        raise UserError(f"the tables have no column in common: {listed}")
    return shared


KNOWN_NAMES: dict[str, tuple[str, ...]] = {
    "clip_id": ("clip_id", "name", "sentence_name", "sequence_id", "id", "video_id"),
    "video": ("video", "video_path", "video_file", "filename", "file_name", "file", "path"),
    "text": ("text", "translation", "sentence", "phrase", "sign", "caption", "label", "word",
             "raw_text"),
    "signer": ("signer", "signer_id", "speaker", "participant_id", "participant", "person"),
    "split": ("split", "subset", "partition", "set"),
    "start_s": ("start_s", "start_ms", "start_time", "time_start", "start_sec"),
    "end_s": ("end_s", "end_ms", "end_time", "time_end", "end_sec"),
    "duration_s": ("duration_s", "duration_ms", "duration"),  # where clips have no ends
    "start_frame": ("start_frame",),
    "end_frame": ("end_frame",),
    "fps": ("fps",),
    "box": ("box", "bbox", "bounding_box", "bbox_xywh"),
    "gloss": ("gloss", "glosses", "orth"),
    "language": ("language", "lang"),
    "corpus": ("corpus",),
    "consent_until": ("consent_until",),
}  # fmt: skip
"""Fields, and what makers of corpora call their columns, lower-cased, the likeliest first."""
_ALL_NAMES = frozenset(name for names in KNOWN_NAMES.values() for name in names)
_NUMBERED = {"video": "1", "text": "2"}  # of tables of two columns that nothing names


@dataclass(frozen=True, slots=True)
class FieldSource:
    """Where the values of a field come from: a column, or one value for every row."""

    column: str | None
    value: str = ""
    pattern: re.Pattern[str] | None = None  # its first group is the value
    guessed: bool = False
    order: str = ""  # of the numbers of a box

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
        order = f": {self.order}" if self.order else ""
        return self.column + order + picked + (" (guessed)" if self.guessed else "")


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
    given_sources = {name: FieldSource(column) for name, column in columns.items()}
    given_sources |= {name: FieldSource(None, value) for name, value in constants.items()}
    sources = {**_guess(header, given_sources), **given_sources}
    for field, pattern in patterns.items():
        source = sources.get(field)
        if source is None or source.column is None:
            raise UserError(f"--pick {field}: say with --column {field}=COLUMN where to look")
        compiled = _compile(f"--pick {field}", pattern)
        if compiled.groups != 1:
            raise UserError(f"--pick {field}: {pattern!r} needs one pair of round brackets")
        sources[field] = FieldSource(source.column, pattern=compiled)
    if "box" in sources:
        column = sources["box"].column or ""
        order = _MS_ASL_ORDER if column == "box" and "org_text" in header else BOX_ORDER
        order = _COCO_ORDER if _plain_name(column) == "bbox_xywh" else order
        sources["box"] = replace(sources["box"], order=order)
    if "duration_s" in sources and ("start_s" not in sources or "end_s" in sources):
        if not sources["duration_s"].guessed:
            raise UserError(
                "--column duration_s: a duration counts from a start where the table has no end; "
                "give --column start_s=COLUMN, and neither end_s nor a column of its name"
            )
        del sources["duration_s"]  # of the film
    return {name: sources[name] for name in KNOWN_NAMES if name in sources}


def _guess(header: Sequence[str], given_sources: Mapping[str, FieldSource]) -> Sources:
    """Return fields whose column has a known name and is not given to another field."""
    used_columns = {source.column for source in given_sources.values()}
    plain = {_plain_name(name): name for name in header if name not in used_columns}
    sources: Sources = {}
    for field, names in KNOWN_NAMES.items():
        known_names = (
            (*names, _NUMBERED.get(field, "")) if {"1", "3"} & {*header} == {"1"} else names
        )
        match = next((plain[name] for name in known_names if name in plain), None)
        if field not in given_sources and match is not None:
            sources[field] = FieldSource(match, guessed=True)
            plain = {key: name for key, name in plain.items() if name != match}
    if INDEX in plain and not {"clip_id", "video"} & {*given_sources, *sources}:
        sources["clip_id"] = FieldSource(INDEX, guessed=True)
    return sources


def _compile(option: str, pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UserError(f"{option}: {pattern!r} is no regular expression ({error})") from None
