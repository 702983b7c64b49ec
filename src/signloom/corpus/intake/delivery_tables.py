"""A table of a delivery comes in, whoever wrote it; its rows with their faults go out."""

from collections.abc import Iterator
from pathlib import Path

from signloom.config import UserError
from signloom.corpus.setup.columns import Sources, find_sources
from signloom.corpus.setup.user_tables import Row, UserTable, read_user_table
from signloom.corpus.tables import read_table

_VERSION_MARK = b"# signloom-manifest"  # the first line of our own manifests
_FIELDS = ("clip_id", "video", "text", "signer", "split", "start_s", "end_s", "gloss", "language")

TableRow = tuple[str, dict[str, str], list[tuple[str, str]]]
"""Where it stands, its cells by the manifest's columns, what is wrong with it and what to do."""


def read_delivery_table(path: Path) -> Iterator[TableRow]:
    """Yield the rows of a table; if it cannot be read at all, one that says why."""
    try:
        table = _read(path)
        sources = _find_columns(table)
    except UserError as error:
        yield path.name, {}, [(" ".join(str(error).split()), "mend the table")]
        return
    for line, why in table.torn:
        yield (
            f"{path.name} line {line}",
            {},
            [(f"its cells cannot be told apart: {why}", "mend it")],
        )
    for row in table.rows:
        values = {
            name: " ".join(source.of(row.cells).split())
            for name, source in sources.items()
            if name in _FIELDS
        }
        yield f"{path.name} line {row.line}", values, []


def _read(path: Path) -> UserTable:
    """Read any table that `signloom init` understands, or a manifest."""
    with path.open("rb") as file:
        is_manifest = _VERSION_MARK in file.readline(100)
    if not is_manifest:
        return read_user_table(path, None, None)
    found = read_table(path)
    if found.problems:
        raise UserError(f"{path}: " + "; ".join(f"line {n}: {bad}" for n, bad in found.problems))
    rows, torn = [], []
    for line, cells in found.rows:
        if len(cells) == len(found.header):
            rows.append(Row(path.name, line, dict(zip(found.header, cells, strict=True))))
        else:
            torn.append((line, f"{len(cells)} cells, but {len(found.header)} columns"))
    return UserTable(path, "manifest", found.header, rows, torn)


def _find_columns(table: UserTable) -> Sources:
    """Settle by their names which columns hold what; nobody is there to be asked."""
    sources = find_sources(table.header, {}, {}, {}, None)
    listed = ", ".join(table.header)
    if "text" not in sources:
        raise UserError(f"no column of the sentences; found {listed}, expected one named text")
    if not {"clip_id", "video"} & sources.keys():
        raise UserError(f"no column of the videos; found {listed}, expected one named video")
    if {"start_frame", "end_frame"} & sources.keys():
        raise UserError(
            "start_frame and end_frame are numbers of frames; give seconds in start_s and end_s"
        )
    return sources
