"""A large manifest is read by columns; what is read so is what the reader of rows reads."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from signloom.corpus.large_manifest import read_large_manifest
from signloom.corpus.manifest import read_manifest

COLUMNS = ("clip_id", "video", "text", "signer", "split", "start_s", "end_s", "box")
GOOD = (
    ("a", "v/a.mp4", "je vais à l'école", "Zoë", "train", "1.5", "3", "0 0 1 1"),
    ("ü 1", "v/b.mp4", 'il a dit "non"', "bob", "dev", "", "", ""),
    ("c.1-x", "./v//a.mp4", "नमस्ते\u200d", "日本", "train", "1e1", "+12", "1 2 30 40"),
)
CELLS = (
    "", " ", "a", "A", "\u00e9", "e\u0301", "-a", "a/b", "é" * 101, "x" * 201, "²", "٣",
    "\u3000x\xa0", "\ufeffa", "\x07", "\x85", "\u2028", "\x1c", "\r", "\0", "\n", "x\ty", "#",
    '"', '""', '"a ""b"""', '"a,b"', 'a"b', ",", "train", "dev", "test", "val",
    "v", "v/a.mp4", "v/A.mp4", "V/a.mp4", "v/../v/a.mp4", "../a.mp4", "/v/a.mp4", "v/a.mp4/",
    "v/link.mp4", "out/a.mp4",
    "0", "-0", "1_0", "inf", "nan", "1e999", "0x1", ".5", "5.", "0 0 1 1", "1 1 0 0",
)  # fmt: skip
RAW = (
    b"\xff",
    b"\xed\xa0\x80",
    b"\xc2",
    b"\xc2\x85",
    b"\r",
    b"\t",
    b'"',
    b"\n\n",
    b"\xef\xbb\xbf",
    b",",
)


class Change(NamedTuple):
    """A cell of the good table that is replaced."""

    row: int
    column: int
    cell: str


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with films, and one outside of it."""
    root = tmp_path_factory.mktemp("corpus")
    (root / "in/v").mkdir(parents=True)
    for name in "ab":
        (root / f"in/v/{name}.mp4").touch()
    (root / "outside").mkdir()
    (root / "outside/a.mp4").touch()
    (root / "in/out").symlink_to(root / "outside")
    (root / "in/v/link.mp4").symlink_to(root / "outside/a.mp4")
    os.link(root / "in/v/a.mp4", root / "in/v/A.mp4")
    return root / "in"


def table(rows: Sequence[Sequence[str]], suffix: str, end: str = "\n") -> bytes:
    tab = "\t" if suffix == ".tsv" else ","
    quoted = ['"' + cell.replace('"', '""') + '"' for row in rows for cell in row]
    cells = iter(quoted if suffix == ".csv" else [cell for row in rows for cell in row])
    lines = [tab.join(COLUMNS), *(tab.join(next(cells) for _ in row) for row in rows)]
    return ("# signloom-manifest 1" + end + "".join(line + end for line in lines)).encode(
        errors="surrogatepass"
    )


def parquet(rows: Sequence[Sequence[str]]) -> pa.Table:
    """Return a table whose seconds are numbers where they can be, as pandas would write it."""
    cells = dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True))
    columns: dict[str, Any] = {}
    for name, texts in cells.items():
        columns[name] = texts
        if name in ("start_s", "end_s"):
            with suppress(ValueError):
                columns[name] = [float(text or "nan") for text in texts]
    return pa.table(columns)


def check_same(path: Path, signer_disjoint: bool) -> None:
    columns = read_large_manifest(path, signer_disjoint)
    if columns is not None:
        assert columns == read_manifest(path, signer_disjoint)


@pytest.mark.parametrize("rows", [GOOD, [("a", "v/b.mp4", "x", "s", "train", "", "", "")]])
@pytest.mark.parametrize("suffix", [".tsv", ".csv"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
def test_a_good_table_is_read_by_columns(
    folder: Path, rows: Sequence[Sequence[str]], suffix: str, end: str, start: bytes
) -> None:
    path = folder / f"manifest{suffix}"
    path.write_bytes(start + table(rows, suffix, end) + end.encode())
    columns = read_large_manifest(path, signer_disjoint=True)
    assert columns is not None
    assert columns == read_manifest(path)
    assert (columns[-1], columns[1:]) == (read_manifest(path)[-1], read_manifest(path)[1:])


@given(
    suffix=st.sampled_from([".tsv", ".csv"]),
    changes=st.lists(
        st.builds(
            Change, st.integers(0, 2), st.integers(0, len(COLUMNS) - 1), st.sampled_from(CELLS)
        ),
        max_size=3,
    ),
    raw=st.lists(st.tuples(st.floats(0, 1), st.sampled_from(RAW)), max_size=2),
    signer_disjoint=st.booleans(),
)
@example(  # Arrow takes the lines after the header for a file, and U+FEFF for its mark
    suffix=".tsv", changes=[Change(0, 0, "\ufeffa")], raw=[], signer_disjoint=False
)
@example(  # a header that is no strict CSV
    suffix=".csv", changes=[], raw=[(0.10546875, b'"'), (0.125, b'"')], signer_disjoint=False
)
def test_what_columns_accept_rows_read_alike(
    folder: Path,
    suffix: str,
    changes: list[Change],
    raw: list[tuple[float, bytes]],
    signer_disjoint: bool,
) -> None:
    rows = [list(row) for row in GOOD]
    for row, column, cell in changes:
        rows[row][column] = cell
    content = table(rows, suffix)
    for share, code in raw:
        start = int(share * len(content))
        content = content[:start] + code + content[start:]
    path = folder / f"manifest{suffix}"
    path.write_bytes(content)
    check_same(path, signer_disjoint)


@given(
    changes=st.lists(
        st.builds(
            Change, st.integers(0, 2), st.integers(0, len(COLUMNS) - 1), st.sampled_from(CELLS)
        ),
        max_size=3,
    ),
    kind=st.sampled_from([pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]),
    signer_disjoint=st.booleans(),
)
def test_what_columns_accept_of_parquet_rows_read_alike(
    folder: Path, changes: list[Change], kind: pa.DataType, signer_disjoint: bool
) -> None:
    rows = [list(row) for row in GOOD]
    for row, column, cell in changes:
        rows[row][column] = cell
    table, path = parquet(rows), folder / "manifest.parquet"
    table = table.set_column(2, "text", table["text"].cast(kind))
    pq.write_table(table, path)
    check_same(path, signer_disjoint)
    if not changes:
        assert read_large_manifest(path, signer_disjoint) is not None


@pytest.mark.parametrize(
    ("name", "values", "is_read"),
    [
        ("signer", [1, 2, 3], True),
        ("start_s", [1, None, 2], True),
        ("start_s", pa.array([0.1, None, 2.0], pa.float32()), True),
        ("signer", [1.0, 2.0, 3.0], False),
        ("text", [["a"], ["b"], ["c"]], False),
        ("end_s", [None, float("inf"), None], False),
    ],
)
def test_numbers_of_parquet_are_read_as_rows_read_them(
    folder: Path, name: str, values: Any, is_read: bool
) -> None:
    table, path = parquet(GOOD), folder / "manifest.parquet"
    pq.write_table(table.set_column(COLUMNS.index(name), name, pa.array(values)), path)
    columns = read_large_manifest(path, signer_disjoint=False)
    assert (columns is not None) == is_read
    if is_read:
        assert columns == read_manifest(path, signer_disjoint=False)


def test_arrow_and_python_agree_on_white_space() -> None:
    characters = [chr(code) for code in range(32, 0x110000) if not 0xD800 <= code < 0xE000]
    around = [c for c in characters if not "\x7f" <= c < "\xa0" and c not in "\u2028\u2029"]
    trimmed = pc.utf8_trim_whitespace(pa.array(around)).to_pylist()
    assert [c for c, t in zip(around, trimmed, strict=True) if t != c.strip()] == []
