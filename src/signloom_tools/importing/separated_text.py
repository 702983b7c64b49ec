"""Lines of tables in text, and the separator that parts their cells."""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from signloom.errors import UserError

SEPARATORS = {"tab": "\t", "pipe": "|", "comma": ",", "semicolon": ";"}
_COMMENTS = re.compile(r"\A(?:#[^\t|,;\n]*\n)+")
QUOTED = (",", ";")  # spreadsheets quote these; tables parted by tabs or | may hold plain quotes
_SPACE = " "

Lines = Iterable[tuple[int, list[str]]]
"""Number and cells of each line."""


def separate_cells(path: Path, text: str, separator: str | None) -> tuple[Lines, str]:
    """Return the lines of a table with their cells, and by what its columns are parted.

    Args:
        path: The file, for messages.
        text: With the line ends of Unix.
        separator: A key of `SEPARATORS`; None: what a line for Excel says, or the one that parts
            the first line most often.
    """
    text = _COMMENTS.sub(lambda match: "\n" * match[0].count("\n"), text, count=1)
    first = text.partition("\n")[0].strip(" ")
    if match := re.fullmatch(r'"?sep=(.)"?', first):  # for Excel
        text = text.replace(first, "", 1)  # the numbers of lines stay
    mark = SEPARATORS[separator] if separator else match[1] if match else _find_separator(text)
    labels = {**{value: key for key, value in SEPARATORS.items()}, _SPACE: "space"}
    parted = f"columns parted by {labels[mark]}" if mark in labels else "one column"
    return _name_rows(text.split("\n"), _split(path, text, mark), mark), parted


def _find_separator(text: str) -> str:
    """Return what parts the first line most often; a space after names of clips, or an end."""
    lines = [line for line in text.splitlines() if line.strip()]
    names = [line.split(maxsplit=1)[0] for line in lines]
    spaced = re.compile(r"\s*[^\t|,;\s]*[\d/.][^\t|,;\s]* [^\t|]*")
    if len({*names}) == len(lines) > 0 and all(map(spaced.fullmatch, lines)):
        return _SPACE
    first = lines[0] if lines else ""
    best = max(SEPARATORS.values(), key=first.count)
    return best if first.count(best) else "\n"


def _split(path: Path, text: str, mark: str) -> Lines:
    """Return line number and stripped cells of every line that is not blank."""
    if mark in QUOTED:
        return list(_split_quoted(path, text, mark))
    plain = _split_plain(text.split("\n"), mark)  # splitlines() cuts inside of cells
    if not _may_be_quoted(plain):
        return plain
    try:
        quoted = list(_split_quoted(path, text, mark))
    except UserError:
        return plain
    widths = {len(cells) for _, cells in quoted[1:]}
    is_even = len(widths) == 1 and widths <= {len(quoted[0][1]), len(quoted[0][1]) + 1}
    return quoted if is_even else plain


def _split_plain(lines: Sequence[str], mark: str) -> list[tuple[int, list[str]]]:
    """Return the lines that are not blank, with quotes as they stand in the text."""
    # Lists of films have a name and numbers, or a name and a text.
    are_lists = all(re.fullmatch(r"\S+(\s+\d+)*\s*|\s*", line) for line in lines)
    most = 1 if mark == _SPACE and not are_lists else -1
    return [
        (number, [cell.strip() for cell in line.split(None if mark == _SPACE else mark, most)])
        for number, line in enumerate(lines, start=1)
        if line.strip()
    ]


def _may_be_quoted(plain: Sequence[tuple[int, list[str]]]) -> bool:
    """Tell whether cells seem quoted as by pandas, where they must be or all.

    Other quotes are the text's.
    """
    header = plain[0][1] if plain else []
    doubled = any(
        '""' in cell and re.fullmatch('".*"".*"', cell) for _, cells in plain for cell in cells
    )
    torn = any(len(cells) != len(header) for _, cells in plain)
    return doubled or torn or all(re.fullmatch('".*"', cell) for cell in header)


def _name_rows(lines: Sequence[str], rows: Lines, mark: str) -> Lines:
    """Put an empty name over R's row names: quoted, or numbers where no commas separate cells."""
    (number, header), *remaining = [*rows] or [(0, [""])]
    is_named = all(
        lines[at - 1].lstrip()[:1] == '"' or (mark != "," and cells[0] == str(n))
        for n, (at, cells) in enumerate(remaining, start=1)
    )
    is_wider = {len(cells) for _, cells in remaining} == {len(header) + 1}
    is_filled = any(cells[-1] for _, cells in remaining)  # no separator that ends each line
    return [(number, [""] * (is_wider and is_named and is_filled) + header), *remaining]


def _split_quoted(path: Path, text: str, mark: str) -> Iterator[tuple[int, list[str]]]:
    number = 1
    try:
        # Python 3.13 refuses the end of a line as a separator, and a quotation mark.
        reader = csv.reader(
            (line + "\n" for line in text.split("\n")),
            delimiter="\x1f" if mark == "\n" else mark,
            strict=True,
            skipinitialspace=True,
        )
        for row in reader:
            if any(cell.strip() for cell in row):
                yield number, [" ".join(cell.split()) for cell in row]
            number = reader.line_num + 1  # a quoted cell may span lines
    except (csv.Error, ValueError) as error:
        raise UserError(f"{path} line {number}: a quotation mark is not closed ({error})") from None
