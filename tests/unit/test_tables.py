from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from signloom.tables import (
    Records,
    read_columns,
    read_rows,
    take_rows,
    tsv_text,
    write_rows,
)

ROWS = [{"clip_id": "a", "text": 'said "one",\u2028two'}, {"clip_id": "b", "text": ""}]


@pytest.mark.parametrize("suffix", [".tsv", ".csv"])
def test_a_table_is_read_as_it_was_written(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"rows{suffix}"
    write_rows(path, ROWS)
    assert read_rows(path) == ROWS
    write_rows(path, [], columns=["clip_id", "text"])
    assert path.read_text(encoding="utf-8").strip() in ("clip_id\ttext", "clip_id,text")
    assert read_rows(path) == []


@pytest.mark.parametrize("line", ["b", "b\tc\td"])
def test_a_torn_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "rows.tsv"
    path.write_text(f"clip_id\ttext\na\tone\n{line}\n", encoding="utf-8")
    with pytest.raises(ValueError, match="a torn line: b"):
        read_rows(path)


def test_a_cell_with_a_line_end_stays_one_line_and_other_spaces_stay() -> None:
    assert tsv_text(["n", "text"], [[1, "two\nlines\tof"], [2, "a  b"]]) == (
        "n\ttext\n1\ttwo lines of\n2\ta  b\n"
    )


@dataclass(frozen=True)
class Row:
    name: str
    speed: float | None
    ids: list[int]
    split: str | None
    box: str | None = None


def test_rows_of_a_columnar_table_are_those_of_a_list() -> None:
    rows = [Row(f"é{n}", n / 3 if n % 2 else None, [*range(n)], "dev" * (n % 3)) for n in range(9)]
    names = ("name", "speed", "ids", "split")
    columns = {name: [getattr(row, name) for row in rows] for name in names}
    columns["split"] = pa.array(columns["split"]).dictionary_encode()
    table = pa.table({**columns, "box": pa.nulls(9)})
    records = Records(pa.concat_tables([table[:4], table[4:]]), Row)
    assert records == rows
    assert rows[1:] == records[1:] != rows
    for numbers in (slice(2, 7), slice(-3, None), slice(None, None, -2), slice(5, 2)):
        assert records[numbers] == rows[numbers]
    assert (records[0], records[-1], records[5].ids) == (rows[0], rows[-1], [0, 1, 2, 3, 4])
    with pytest.raises(IndexError):
        records[9]
    assert (
        take_rows(records, [7, 0, 7]) == take_rows(rows, [7, 0, 7]) == [rows[7], rows[0], rows[7]]
    )
    for table_of_rows in (records, rows, records[3:], records[:0]):
        pairs = [(row.ids, row.box) for row in table_of_rows]
        assert [*read_columns(table_of_rows, "ids", "box")] == pairs
