from pathlib import Path

import pytest

from signloom.tables import read_rows, tsv_text, write_rows

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
