"""Tables in JSON: each shape that they have, and how it becomes records."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from signloom_tools.importing.column_names import (
    ALL_NAMES,
    INDEX,
    KNOWN_NAMES,
    SPLIT_NAMES,
    plain_name,
)

Records = Sequence[dict[str, str] | list[str]]
"""Cells by name, or in the order of columns."""


def read_json_records(text: str) -> tuple[Records, list[str]]:
    """Return the records or lists of JSON or JSON lines, and the keys that were skipped.

    Raises:
        ValueError: If it is no JSON, or holds no records.
        RecursionError: If it is nested too deeply.
    """
    try:
        content = json.loads(text)
    except ValueError:
        content = [json.loads(line) for line in text.splitlines() if line.strip()]
    content = _unwrap(content)
    if isinstance(content, list) and content and all(isinstance(row, list) for row in content):
        return [list(map(_cell_of, cells)) for cells in content], []
    to_records = next((make for is_shape, make in _SHAPES.values() if is_shape(content)), None)
    skipped: dict[str, None] = {}
    nested = to_records(content) if to_records else content
    records = list(_flatten_records(nested, {}, skipped))
    if not records:
        raise ValueError("it is empty")
    return records, [*skipped]


def _unwrap(content: Any) -> Any:
    """Return the rows of what pandas writes as `split`, below their columns, or as `table`."""
    if not (isinstance(content, dict) and {"columns", "schema"} & {*content}):
        return content
    rows = content.get("data")
    header = [content["columns"]] if "columns" in content else []
    return [*header, *rows] if isinstance(rows, list) else content


def _cells_by_key(content: Any) -> list[list[Any]] | None:
    """Return the cells below each key of a map: lists, or maps by row; None if others are there."""
    if not isinstance(content, dict):
        return None
    columns = [
        [*column.values()] if isinstance(column, dict) else column for column in content.values()
    ]
    are_lists = all(isinstance(column, list) and not _has_records(column) for column in columns)
    return columns if are_lists else None


def _are_columns(content: Any) -> bool:
    columns = _cells_by_key(content)
    if columns is None or any(plain_name(name) in ALL_NAMES for name in content):
        return columns is not None
    is_even = len({*map(len, columns)}) == 1 and not any(
        isinstance(column, dict) for column in content.values()
    )
    return is_even and not _are_boxes(content)


def _are_boxes(content: Any) -> bool:
    boxes = _cells_by_key(content) or []
    return bool(boxes) and all(len(box) == 4 and str not in map(type, box) for box in boxes)


def _rows_of_columns(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    columns = _cells_by_key(content) or []
    return [dict(zip(content, cells, strict=True)) for cells in zip(*columns, strict=True)]


def _are_columns_by_word(content: Any) -> bool:
    """Tell whether there are columns below each word, maybe below splits, as in BOBSL."""
    if isinstance(content, dict) and content and {*map(str.lower, content)} <= {*SPLIT_NAMES}:
        return all(map(_are_columns_by_word, content.values()))
    words = content.values() if isinstance(content, dict) else ()
    return bool(words) and all(
        isinstance(columns, dict)
        and len(columns) > 1
        and len(
            {len(column) if isinstance(column, list) else -1 for column in columns.values()} - {-1}
        )
        == 1
        and all(isinstance(column, list) for column in columns.values())
        for columns in words
    )


def _rows_of_words(content: Mapping[str, Any], split: str = "") -> list[dict[str, Any]]:
    if {*map(str.lower, content)} <= {*SPLIT_NAMES}:
        below = (_rows_of_words(words, name) for name, words in content.items())
        return [row for rows in below for row in rows]
    return [
        {"word": word, **row, **({"split": split} if split else {})}
        for word, columns in content.items()
        for row in _rows_of_columns(columns)
    ]


def _rows_of_film(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    film = content["metaData"].get("name", "")
    return [
        {
            "video": film,
            "start_s": sign.get("start"),
            "end_s": sign.get("end"),
            "sign": " ".join(attribute.get("name", "") for attribute in sign.get("attributes", ())),
        }
        for sign in content["data"]
    ]


_SHAPES: dict[
    str, tuple[Callable[[Any], bool], Callable[[Mapping[str, Any]], list[dict[str, Any]]]]
] = {
    "a film with its signs, as AI-Hub has them": (
        lambda content: isinstance(content, dict) and {*content} >= {"metaData", "data"},
        _rows_of_film,
    ),
    "columns by word, as BOBSL's spottings are": (_are_columns_by_word, _rows_of_words),
    "columns, as pandas writes them": (_are_columns, _rows_of_columns),
    "boxes by name, as OpenASL has them": (
        _are_boxes,
        lambda content: [{"vid": name, "bbox": box} for name, box in content.items()],
    ),
    "texts by name": (
        lambda content: isinstance(content, dict) and {*map(type, content.values())} <= {str},
        lambda content: [{"name": name, "text": text} for name, text in content.items()],
    ),
}
"""Shapes of maps: their name, how each is recognised, and how it becomes records.

The first that fits is taken. Other content has its records inside of lists and maps.
"""


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
    cells = {**around, **{key: _cell_of(node[key]) for key in node if key not in inner}}
    is_record = len(inner) < len(node)
    for key in _others(inner):
        skipped[key] = None
        del inner[key]
    are_splits = _are_splits(inner)
    if is_record:
        parts = {  # whose values are the record's own, as `key.name`
            key: child
            for key, child in inner.items()
            if isinstance(child, dict) and not (are_splits and _has_records([*child.values()]))
        }
        cells |= {
            f"{key}.{name}": _cell_of(cell)
            for key, part in parts.items()
            for name, cell in part.items()
        }
        inner = {key: child for key, child in inner.items() if key not in parts}
        if not inner:
            yield cells
    label = "split" if are_splits else "name"
    if [*inner] == [str(number) for number in range(len(inner))]:
        label = INDEX
    for key, child in inner.items():
        is_list = len(inner) == 1 and isinstance(child, list)  # under a name that says nothing
        is_named = are_splits or not (is_record or is_list)
        yield from _flatten_records(child, {**cells, label: key} if is_named else cells, skipped)


def _are_splits(inner: Mapping[str, Any]) -> bool:
    """Tell whether the keys of a map of records are splits.

    Raises:
        ValueError: If only some are, of records with texts.
    """
    splits = {*map(str.lower, inner)} & {*SPLIT_NAMES}
    if 2 * len(splits) > len(inner) or not inner:
        return True
    if splits and _keys_of([*inner.values()]) & {*KNOWN_NAMES["text"]}:
        stray = next(key for key in inner if key.lower() not in splits)
        raise ValueError(f"{stray} is no split, but {splits.pop()} is: name it train, dev or test")
    return False


def _others(inner: Mapping[str, Any]) -> list[str]:
    """Return the names next to splits, or a lone list, with nothing like their records."""
    below = {
        k: [*child.values()] if isinstance(child, dict) else child for k, child in inner.items()
    }
    tables = [
        key for key, child in below.items() if key.lower() in SPLIT_NAMES and _has_records(child)
    ]
    lists = [key for key, child in inner.items() if isinstance(child, list)]
    tables = tables or (lists if len(lists) == 1 else [])
    table_keys = _keys_of(inner[tables[0]]) if tables else set()
    candidates = (key for key in inner if key not in tables and key.lower() not in SPLIT_NAMES)
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
