"""Changes of a parameters file in place: every other line stays as it is."""

import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ruamel.yaml

from signloom.config import load_params, read_yaml
from signloom.errors import UserError
from signloom.files import write_file


def update_params(path: Path, overrides: Mapping[str, Mapping[str, object]]) -> tuple[str, str]:
    """Change values of a parameters file and nothing else: no other line is touched.

    Args:
        overrides: New values by section and key; of a map the keys that are to change. A section
            or key that the file lacks is added at the end of its map.

    Returns:
        The file's text before and after.

    Raises:
        UserError: If the file is damaged, or its layout too unusual for a change.
    """
    values = load_params(path)  # for its errors
    before = path.read_text(encoding="utf-8")
    edits = _find_edits(ruamel.yaml.YAML().compose(before), values, overrides, before)
    after = before
    for start, end, text in sorted(edits, reverse=True):
        after = after[:start] + _replace_text(after[start:], end - start, text)
    if read_yaml(after) != _merge(values, overrides):
        raise UserError(f"{path}: its layout is too unusual for a change by a command; edit it")
    write_file(path, after)
    return before, after


def _find_edits(
    node: Any, values: Mapping[str, Any], overrides: Mapping[str, Any], text: str
) -> list[tuple[int, int, str]]:
    """Return the replacements that the whole text needs: start, end, text."""
    nodes = {key.value: (key, value) for key, value in node.value}
    edits, added = [], {}
    for name, new in overrides.items():
        if name not in values:
            added[name] = new
            continue
        key, value = nodes[name]
        if isinstance(new, Mapping) and isinstance(values[name], dict):
            edits += _find_edits(value, values[name], new, text)
        elif _plain(new) != values[name] or type(_plain(new)) is not type(values[name]):
            start, end = value.start_mark.index, _end_of(value)
            if end <= start:  # nothing is written there, which is null
                start = end = key.end_mark.index + 1
            # The items of a list may stand right below its key, but nothing else may.
            below = value.start_mark.line > key.end_mark.line
            indent = 2 * (below and value.start_mark.column <= key.start_mark.column)
            edits.append((start, end, " " * (indent or end == start) + _to_yaml(new)))
    if added:
        edits.append(_add_keys(node, added, text))
    return edits


def _add_keys(node: Any, added: Mapping[str, Any], text: str) -> tuple[int, int, str]:
    """Return what to write where so that a map has further keys, behind its own."""
    lines = [f"{name}: {_to_yaml(value)}" for name, value in added.items()]
    if node.flow_style or not node.value:  # {a: 1}
        end = node.end_mark.index - 1
        return end, end, ", " * bool(node.value) + ", ".join(lines)
    first, last = node.value[0][0], node.value[-1][1]
    end = text.find("\n", max(_end_of(last), node.value[-1][0].end_mark.index))
    end = len(text) if end < 0 else end
    # A comment may go on below the last key, further to the right.
    goes_on = re.compile(rf"\n {{{first.start_mark.column + 1},}}#[^\n]*")
    while comment := goes_on.match(text, end):
        end = comment.end()
    indent = "\n" + " " * first.start_mark.column
    return end, end, "".join(indent + line for line in lines)


def _end_of(node: Any) -> int:
    """Return where a value ends; the mark of a block comes after the comments behind it."""
    is_block = isinstance(node.value, list) and not node.flow_style
    if not is_block:
        return int(node.end_mark.index)
    last = node.value[-1]
    return _end_of(last[1] if isinstance(last, tuple) else last)


def _replace_text(text: str, length: int, new: str) -> str:
    """Replace the beginning of a text; a comment behind it keeps its column if there is room."""
    remainder = text[length:]
    pad = len(remainder) - len(remainder.lstrip(" "))
    if pad and remainder[pad:].startswith("#"):
        remainder = " " * max(1, pad + length - len(new)) + remainder[pad:]
    return new + remainder


def _to_yaml(value: object) -> str:
    """Return a value in one line of YAML."""
    buffer = io.StringIO()
    writer = ruamel.yaml.YAML(typ="safe", pure=True)
    writer.default_flow_style, writer.width = True, 1_000_000
    is_map = isinstance(value, Mapping)
    # In a list, where nothing is said that braces around it would change.
    writer.dump(_plain(value) if is_map else [_plain(value)], buffer)
    text = buffer.getvalue().strip(" \n")[not is_map : None if is_map else -1]
    try:  # it may lie in braces, where a colon ends more; and Unicode has more line ends
        in_braces = read_yaml(f"section: {{name: {text}, next: 0}}\n")["section"]
        is_read = len(text.splitlines()) == 1 and in_braces == {"name": _plain(value), "next": 0}
    except ruamel.yaml.error.YAMLError:
        is_read = False
    return text if is_read else json.dumps(_plain(value))  # JSON is also YAML


def _plain(value: object) -> Any:
    """Return a value as a YAML file has it: lists and texts, no tuples and paths."""
    return json.loads(json.dumps(value, default=str))


def _merge(values: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(values)
    for name, new in overrides.items():
        is_map = isinstance(new, Mapping) and isinstance(merged.get(name), dict)
        merged[name] = _merge(merged[name], new) if is_map else _plain(new)
    return merged
