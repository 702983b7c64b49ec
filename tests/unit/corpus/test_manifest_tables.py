"""Text and Parquet tables become the same rows of strings, with the lines they stand in."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from signloom.corpus.manifest import read_table
from signloom.errors import UserError


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("plain.tsv", b"a\tb\n1\tx y\n"),
        ("plain.csv", b"a,b\n1,x y\n"),
        ("windows.tsv", b"\xef\xbb\xbfa\tb\r\n1\tx y\r\n"),
        ("windows.csv", b"\xef\xbb\xbfa,b\r\n1,x y"),
        ("quoted.csv", b'"a","b"\n"1","x y"\n'),
        ("spaces.tsv", b" a\tb \n1 \t x y\n"),
        ("spreadsheet.csv", b'"# signloom-manifest 1",\na,b\n1,x y\n,\n'),
    ],
)
def test_kinds_of_text_mean_the_same(tmp_path: Path, name: str, content: bytes) -> None:
    table = read_table(write(tmp_path / name, content))
    assert table.header == ["a", "b"]
    assert [fields for _, fields in table.rows] == [["1", "x y"]]
    assert table.problems == []


def test_lines_are_counted_as_an_editor_counts_them(tmp_path: Path) -> None:
    content = b'# signloom-manifest 1\na,b\n1,"two\nlines"\n\n3,x\n'
    table = read_table(write(tmp_path / "m.csv", content))
    assert (table.header_line, table.unit) == (2, "line")
    assert table.rows == [(3, ["1", "two\nlines"]), (6, ["3", "x"])]


def test_quotation_marks_are_text_in_a_tsv(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "m.tsv", b'a\tb\n"1\t""\n'))
    assert table.rows == [(2, ['"1', '""'])]


def test_bytes_that_are_not_utf8_are_named_by_line(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "m.tsv", "a\tb\né\t2\nè\t3\n".encode("latin-1")))
    assert table.problems == [
        (2, "byte 1 is not UTF-8; save it as UTF-8"),
        (3, "byte 1 is not UTF-8; save it as UTF-8"),
    ]
    assert len(table.rows) == 2


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="UTF-16; save it as UTF-8"):
        read_table(write(tmp_path / "m.tsv", "a\tb\n".encode("utf-16")))
    with pytest.raises(UserError, match="not a readable Parquet file"):
        read_table(write(tmp_path / "m.parquet", b"PAR1 and then nothing"))
    table = pa.table({"a": [1]}, metadata={"signloom.manifest_version": "3"})
    pq.write_table(table, tmp_path / "m.parquet")
    with pytest.raises(UserError, match="found manifest version '3', this program reads version 1"):
        read_table(tmp_path / "m.parquet")


def test_an_open_quote_is_named_with_its_line(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "m.csv", b'a,b\n1,x\n2,"open\n3,z\n'))
    assert table.rows == [(2, ["1", "x"])]
    ((line, problem),) = table.problems
    assert line == 3
    assert "not CSV" in problem


def test_parquet_types_become_text(tmp_path: Path) -> None:
    latin = pa.array([b"\xe9", b"e"])
    columns = pa.table(
        {
            "text": pa.array([" x ", None]).dictionary_encode(),
            "int": [7, None],
            "float": [1.5, float("nan")],
            "none": pa.nulls(2),
            "list": [[1], [2]],
            "latin": pa.Array.from_buffers(pa.string(), 2, latin.buffers()),
        }
    )
    pq.write_table(columns, tmp_path / "m.parquet")
    table = read_table(tmp_path / "m.parquet")
    assert table.rows == [(1, ["x", "7", "1.5", "", "", ""]), (2, ["", "", "", "", "", ""])]
    assert table.problems == [
        (0, "column 'list' is list<element: int64>; expected UTF-8 text or numbers"),
        (0, "column 'latin' is string; expected UTF-8 text or numbers"),
    ]
    assert (table.header_line, table.unit) == (0, "row")
