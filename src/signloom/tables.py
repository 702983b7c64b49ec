"""Tables that the program writes and reads again (.tsv and .csv).

A .tsv has no quotes, so its cells have no tabs and no line ends; a .csv is quoted as usual.
"""

import csv
import hashlib
import io
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import eq
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from signloom.errors import UserError
from signloom.files import SEAL, UNSEALED, check_seal, seal, write_file

if TYPE_CHECKING:
    import pyarrow as pa

VERSION_KEY = b"signloom.format_version"  # in the metadata of a Parquet table

LARGE_ROWS = 10_000  # a table of fewer rows is kept as objects, which are read quicker
_BATCH_ROWS = 10_000  # of a columnar table that are objects at one time

Record = TypeVar("Record")


class Records(Sequence[Record]):
    """The rows of a columnar table; each becomes an object when it is read, and is not kept."""

    def __init__(
        self,
        table: "pa.Table",
        kind: Callable[..., Record],
        convert: Mapping[str, Callable[[Any], Any]] | None = None,
    ) -> None:
        """Take the columns, and what makes an object of the values of a row, by their names.

        Args:
            convert: What makes the values of some columns of their cells, where there are any.
        """
        self.table, self._kind, self.convert = table, kind, convert or {}

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @overload
    def __getitem__(self, index: int) -> Record: ...

    @overload
    def __getitem__(self, index: slice) -> "Records[Record]": ...

    def __getitem__(self, index: int | slice) -> "Record | Records[Record]":
        """Return a row, or several as a table."""
        numbers = range(len(self))[index]
        if isinstance(numbers, range):
            return self.take(numbers)
        return next(iter(self.take(range(numbers, numbers + 1))))

    def __iter__(self) -> Iterator[Record]:
        names, kind = self.table.column_names, self._kind
        for values in read_columns(self, *names):
            yield kind(**dict(zip(names, values, strict=True)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))

    def take(self, numbers: Sequence[int]) -> "Records[Record]":
        """Return the rows of these numbers, in that order."""
        if isinstance(numbers, range) and numbers.step == 1:
            rows = self.table.slice(numbers.start, len(numbers))
        else:
            import pyarrow as pa

            rows = self.table.take(pa.array(numbers, pa.int64()))
        return Records(rows, self._kind, self.convert)

    def append(self, rows: Sequence[Mapping[str, Any]]) -> "Records[Record]":
        """Return the rows with others after them, whose cells are given by column."""
        import pyarrow as pa

        kinds = {f.name: None if pa.types.is_null(f.type) else f.type for f in self.table.schema}
        cells = {name: pa.array([row[name] for row in rows], kind) for name, kind in kinds.items()}
        table = pa.concat_tables([self.table, pa.table(cells)], promote_options="default")
        return Records(table, self._kind, self.convert)


def take_rows(records: Sequence[Record], numbers: Sequence[int]) -> Sequence[Record]:
    """Return the records of these numbers, in that order; of a columnar table without objects."""
    if isinstance(records, Records):
        return records.take(numbers)
    return [records[number] for number in numbers]


def read_columns(records: Sequence[Any], *names: str) -> Iterator[tuple[Any, ...]]:
    """Yield these fields of each record; of a columnar table no object is made."""
    if not isinstance(records, Records):
        yield from (tuple(getattr(record, name) for name in names) for record in records)
        return
    for batch in records.table.select(names).to_batches(max_chunksize=_BATCH_ROWS):
        columns = [to_values(column) for column in batch.columns]
        for number, name in enumerate(names):
            if name in records.convert:
                values = {cell: records.convert[name](cell) for cell in {*columns[number]} - {None}}
                columns[number] = [values.get(cell) for cell in columns[number]]
        yield from zip(*columns, strict=True)


def to_table(records: Sequence[Any], names: Sequence[str], kind: "pa.DataType") -> "pa.Table":
    """Return these fields of the records as columns of one type."""
    import pyarrow as pa

    schema = pa.schema(dict.fromkeys(names, kind))
    if isinstance(records, Records):
        return records.table.select(names).cast(schema)
    columns = {name: [getattr(record, name) for record in records] for name in names}
    return pa.table(columns, schema)


def to_values(column: "pa.Array") -> list[Any]:
    """Return the values of a column of text, numbers or lists, a missing one as None."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_list(column.type):
        ends, values = column.offsets.to_pylist(), column.values.to_numpy().tolist()
        return [values[start:end] for start, end in itertools.pairwise(ends)]
    if pa.types.is_string(column.type):
        return list(column.to_numpy(zero_copy_only=False))  # four times as fast
    return list(column.to_pylist())


def read_rows(path: Path, checksum: str = "") -> list[dict[str, str]]:
    """Read the rows of a table that the program wrote, by the names in its first line.

    Args:
        checksum: SHA-256 of its bytes as hex, if it was noted when it was written.

    Raises:
        OSError: If it is missing or cannot be read.
        ValueError: If its checksum differs, or a line has fewer or more cells than the first.
    """
    is_tsv = path.suffix == ".tsv"
    raw = path.read_bytes()
    if checksum and (digest := hashlib.sha256(raw).hexdigest()) != checksum:
        raise ValueError(f"found SHA-256 {digest[:16]}, expected {checksum[:16]}")
    text = raw.decode("utf-8")
    lines = text.split("\n") if is_tsv else io.StringIO(text, newline="")
    reader = csv.DictReader(
        (line for line in lines if line),
        delimiter="\t" if is_tsv else ",",
        quoting=csv.QUOTE_NONE if is_tsv else csv.QUOTE_MINIMAL,
    )
    try:
        rows: list[dict[str, Any]] = list(reader)
    except csv.Error as error:
        raise ValueError(str(error)) from None
    for row in rows:
        if None in row or None in row.values():
            raise ValueError(f"a torn line: {next(iter(row.values()))}")
    return rows


def write_rows(
    path: Path, rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | None = None
) -> None:
    """Write a table, whole or not at all.

    Args:
        path: The file; its ending says which kind.
        rows: Values by name; they may be empty if the columns are named.
        columns: Names; those of the first row if not given.
    """
    rows = list(rows)
    columns = list(columns or rows[0])
    if path.suffix == ".tsv":
        write_file(path, tsv_text(columns, ([row[name] for name in columns] for row in rows)))
        return
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_file(path, text.getvalue())


def tsv_text(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a .tsv; tabs and line ends within a cell become spaces."""
    lines = [columns, *(map(_fold, map(str, row)) for row in rows)]
    return "".join("\t".join(line) + "\n" for line in lines)


def _fold(cell: str) -> str:
    return " ".join(cell.split()) if any(end in cell for end in "\t\n\r") else cell


def write_parquet(path: Path, table: "pa.Table") -> None:
    """Write a Parquet table with its checksum, whole or not at all."""
    write_file(path, to_parquet(table))


def to_parquet(table: "pa.Table") -> bytes:
    """Return a Parquet file with a checksum of all its bytes, which `read_parquet` compares."""
    import pyarrow.parquet as pq

    metadata = {k: v for k, v in (table.schema.metadata or {}).items() if k != SEAL.encode()}
    table, buffer = table.replace_schema_metadata(metadata), io.BytesIO()
    with pq.ParquetWriter(buffer, table.schema, compression="zstd") as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({SEAL: UNSEALED})
    return seal(buffer.getvalue())


def read_parquet(
    path: Path,
    version: int,
    *,
    hint: str,
    key: bytes = VERSION_KEY,
    columns: Sequence[str] | None = None,
) -> "pa.Table":
    """Read a Parquet table that a stage wrote.

    Args:
        version: Of its format, as its metadata have it.
        hint: What to do if it is missing, damaged or of another version.
        key: Where its metadata have the version.
        columns: Those that are needed; None: all.

    Raises:
        UserError: If it is missing, damaged (by its checksum, too) or of another format version.
    """
    import pyarrow as pa  # here, so that commands without such tables do not load it
    import pyarrow.parquet as pq

    # Arrow's own pool keeps what is freed: as much as half of a large table.
    pa.set_memory_pool(pool := pa.system_memory_pool())
    try:
        raw = path.read_bytes()
        check_seal(raw)
        file = pq.ParquetFile(pa.BufferReader(raw))
        # Decoding a million rows together would take three times the memory of the table.
        names = file.schema_arrow.names if columns is None else columns
        schema = pa.schema(map(file.schema_arrow.field, names), file.schema_arrow.metadata)
        table = pa.Table.from_batches(file.iter_batches(columns=names), schema)
        pool.release_unused()
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; {hint}") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UserError(f"{path} is damaged ({error}); {hint}") from None
    text = (table.schema.metadata or {}).get(key, b"none").decode(errors="replace")
    if text != str(version):
        raise UserError(
            f"{path}: found format version {text}, this Signloom reads {version}; {hint}"
        )
    return table
