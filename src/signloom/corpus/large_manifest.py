"""A large manifest as columns: read by Arrow, where nothing in it is wrong or unusual."""

import csv
import unicodedata
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions, read_csv
from pyarrow.parquet import ParquetFile

from signloom.corpus.manifest import (
    IMPORTED_SHARDS,
    MANIFEST_VERSION,
    MOST_ROWS,
    PLAIN_ID,
    REQUIRED,
    SPLITS,
    VERSION_KEY,
    VERSION_LINE,
    Clip,
    Table,
    VideoPaths,
    header_problems,
    id_problem,
    parse_consent,
    parse_segment,
)
from signloom.files import disk_name
from signloom.tables import Records

_BLOCK_BYTES = 2**22
_RECURRING = ("video", "signer", "split", "language", "corpus", "batch", "box", "consent_until")
# Controls and Unicode's own line ends, as in `field_problem`, in UTF-8.
_CUTTING = (b"\xe2\x80\xa8", b"\xe2\x80\xa9", *(bytes((0xC2, code)) for code in range(128, 160)))
_CONTROLS = r"[\x00-\x1f\x7f-\x{9f}\x{2028}\x{2029}]"
_NO_NUMBER = pa.scalar(None, pa.float64())
_PLAIN_NUMBER = r"^[0-9]{1,9}(\.[0-9]{1,9})?$"


def read_large_manifest(path: Path, signer_disjoint: bool) -> Records[Clip] | None:
    """Read and check a manifest at about the speed of pandas.

    Returns:
        The clips; None where anything is wrong, or so unusual that it is left to `read_table` and
        the checks of rows, which say what it is.
    """
    try:
        parts = _read_parquet(path) if path.suffix == ".parquet" else _read_text(path)
        table = pa.concat_tables(_check_rows(part, path) for part in parts).unify_dictionaries()
        _check_corpus(table, path.parent, signer_disjoint)
    except (ValueError, OSError, csv.Error, pa.ArrowException):  # those of UTF-8 are ValueErrors
        return None
    for name in (field.name for field in fields(Clip) if field.name not in table.column_names):
        table = table.append_column(name, pa.nulls(table.num_rows))
    return Records(table, Clip, {"video": path.parent.joinpath})


def _require(is_plain: bool) -> None:
    if not is_plain:
        raise ValueError("left to the reader of rows")


def _all(is_plain: pa.Array) -> bool:
    return bool(pc.all(is_plain, min_count=0).as_py())


def _read_header(file: BinaryIO, path: Path) -> list[str]:
    line = file.readline().decode("utf-8-sig")
    if line.lstrip('"').startswith("#"):
        match = VERSION_LINE.fullmatch(line.rstrip("\r\n"))
        _require(match is not None and match[1] == str(MANIFEST_VERSION))
        line = file.readline().decode()
    (header,) = csv.reader([line], strict=True) if path.suffix == ".csv" else [line.split("\t")]
    header = [name.strip() for name in header]
    _require(not header_problems(Table(header, [], [], 1, "line"), path))
    return header


def _read_parquet(path: Path) -> Iterator[pa.Table]:
    """Yield the cells of some rows at a time, as `_read_text`."""
    with ParquetFile(path) as file:
        names, rows = file.schema_arrow.names, file.metadata.num_rows
        version = (file.schema_arrow.metadata or {}).get(VERSION_KEY, b"1")
        _require(version == str(MANIFEST_VERSION).encode() and rows <= MOST_ROWS)
        _require(not header_problems(Table(names, [], [], 0, "row"), path))
        for batch in file.iter_batches():
            columns = zip(names, batch.columns, strict=True)
            yield pa.table({name: _to_texts(name, column) for name, column in columns})


def _to_texts(name: str, column: pa.Array) -> pa.Array:
    if pa.types.is_floating(column.type):
        _require(name in ("start_s", "end_s"))  # Arrow writes 5.0 as 5
        column = pc.if_else(pc.is_nan(column), _NO_NUMBER, column.cast(pa.float64()))
    texts = column.cast(pa.string()).fill_null("")
    texts.validate(full=True)
    _require(not pc.any(pc.match_substring_regex(texts, _CONTROLS)).as_py())
    return pc.utf8_trim_whitespace(texts)


def _read_text(path: Path) -> Iterator[pa.Table]:
    """Yield the cells of some lines at a time; they have no controls and no white space around."""
    with path.open("rb") as file:
        header = _read_header(file, path)
        while block := file.read(_BLOCK_BYTES):
            yield _split_block(block + file.readline(), header, path.suffix)


def _split_block(block: bytes, header: list[str], suffix: str) -> pa.Table:
    types = dict.fromkeys(header, pa.string())
    ends = block.count(b"\r\n")
    _require(ends == block.count(b"\r"))
    tabs = block.count(b"\t") if suffix == ".tsv" else 0
    controls = np.count_nonzero(np.frombuffer(block, np.uint8) < 32)
    _require(controls == ends + block.count(b"\n") + tabs)
    _require(b"\x7f" not in block)
    _require(not block.startswith(BOM_UTF8))  # Arrow takes a block for a file, and drops it
    _require(block.isascii() or not any(code in block for code in _CUTTING))
    if suffix == ".csv":
        reader = csv.reader(block.decode().replace("\r\n", "\n").split("\n"), strict=True)
        lines = list(reader)
        _require(len(lines) == reader.line_num)  # a cell has no line end
        cells = zip(*filter(None, lines), strict=True)
        part = pa.table(dict(zip(header, cells, strict=True)), schema=pa.schema(types))
    else:
        part = read_csv(
            pa.BufferReader(block),
            ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=header),
            ParseOptions(delimiter="\t", quote_char=False),
            ConvertOptions(column_types=types),
        )
    trimmed = [pc.utf8_trim_whitespace(column) for column in part.columns]
    if suffix == ".tsv" and b'""' in block:
        looks_quoted = partial(pc.match_substring_regex, pattern=r'^".*"".*"$')
        _require(not any(pc.any(looks_quoted(column)).as_py() for column in trimmed))
    return pa.table(trimmed, names=header)


def _check_rows(part: pa.Table, path: Path) -> pa.Table:
    """Return the columns of clips; refuse rows that are wrong, each by itself."""
    columns = dict(zip(part.column_names, part.columns, strict=True))
    for name in (*REQUIRED, "video") if "video" in columns else REQUIRED:
        _require(pc.min(pc.binary_length(columns[name])).as_py() > 0)
    is_text = "video" not in columns and not (path.parent / IMPORTED_SHARDS).is_dir()
    _require(not is_text or pc.min(pc.binary_length(columns["gloss"])).as_py() > 0)
    _require(_all(pc.is_in(columns["split"], pa.array(SPLITS))))
    for name in ("clip_id", "signer"):
        if not _all(pc.string_is_ascii(columns[name])):
            values = (unicodedata.normalize("NFC", v) for v in columns[name].to_pylist())
            columns[name] = pa.chunked_array([pa.array(values, pa.string())])
    is_plain = pc.match_substring_regex(columns["clip_id"], f"^{PLAIN_ID}$")
    unusual = columns["clip_id"].filter(pc.invert(is_plain)).to_pylist()
    _require(not any(map(id_problem, unusual)))
    for name in columns.keys() - set(REQUIRED):
        is_empty = pc.equal(columns[name], "")
        columns[name] = pc.if_else(is_empty, pa.scalar(None, pa.string()), columns[name])
    for name in columns.keys() & {"start_s", "end_s"}:
        columns[name] = _parse_seconds(columns[name], name)
    if "end_s" in columns:
        starts = columns.get("start_s", pa.scalar(None, pa.float64()))
        _require(_all(pc.greater(columns["end_s"], pc.fill_null(starts, 0.0))))
    for name in columns.keys() & {"box", "consent_until"}:
        for value in pc.unique(columns[name]).drop_null().to_pylist():
            _require(not (parse_segment({name: value})[2] or parse_consent({name: value})[1]))
    for name in columns.keys() & {*_RECURRING}:
        columns[name] = columns[name].dictionary_encode()
    return pa.table(columns)


def _parse_seconds(texts: pa.Array, name: str) -> pa.Array:
    if _all(pc.match_substring_regex(texts, _PLAIN_NUMBER)):
        return texts.cast(pa.float64())
    cells = [parse_segment({name: text or ""}) for text in texts.to_pylist()]
    _require(not any(problems for _, _, problems in cells))
    return pa.array([start_s if name == "start_s" else end_s for start_s, end_s, _ in cells])


def _check_corpus(table: pa.Table, folder: Path, signer_disjoint: bool) -> None:
    """Refuse what is wrong with the rows together, and videos that are not there."""
    _require(pc.count_distinct(table["clip_id"]).as_py() == table.num_rows)
    pairs = table.select(["signer", "split"]).group_by(["signer", "split"], use_threads=False)
    signers, splits = (column.to_pylist() for column in pairs.aggregate([]).columns)
    _require("train" in splits)
    _require(len({*signers}) == len(signers) or not signer_disjoint)
    if "video" in table.column_names:
        videos = table["video"].chunk(0).dictionary.to_pylist()
        _require(len({*map(disk_name, videos)}) == len(videos))
        _require(all(map(VideoPaths(folder).has, videos)))
