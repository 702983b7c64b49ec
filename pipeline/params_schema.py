"""The JSON Schemas of params.yaml and ops.yaml, from which editors complete and check them.

Usage: python -m pipeline.params_schema
"""

import json
import re
from pathlib import Path
from typing import Any

import pydantic

from pipeline.stage import run
from signloom.files import write_file
from signloom.paths import OPS, PARAMS
from signloom.preflight import FIXED, SECTIONS
from signloom_ops.options import OpsOptions

SCHEMA, OPS_SCHEMA = Path("schemas/params.schema.json"), Path("schemas/ops.schema.json")
PAGE = Path("docs/parameters.md")  # of what params.yaml need not name


def main() -> None:
    """Write the schemas beside the files."""
    params, page, ops = (path.read_text(encoding="utf-8") for path in (PARAMS, PAGE, OPS))
    write_file(SCHEMA, build_schema(params, page))
    write_file(OPS_SCHEMA, build_ops_schema(ops))


def build_schema(params: str, page: str) -> str:
    """Return the schema of params.yaml as JSON.

    Args:
        params: The text of params.yaml, whose comments describe the keys.
        page: That of docs/parameters.md, whose tables describe the others.
    """
    comments = {name: description for name, (_, description) in read_page(page).items()}
    comments |= _read_comments(params)
    properties: dict[str, Any] = {}
    for section, options in SECTIONS.items():
        properties[section] = _describe_class(options, section, comments)
    for path, (_, names) in FIXED.items():
        node = {"properties": properties}
        for part in path.split("."):
            node = node["properties"][part]
        for name in names:
            del node["properties"][name]
    # A study adds sections of its own.
    return _to_json(PARAMS, {"properties": properties, "additionalProperties": True})


def build_ops_schema(ops: str) -> str:
    """Return the schema of ops.yaml as JSON; the comments of its text describe the keys."""
    comments = {f"ops.{name}": description for name, description in _read_comments(ops).items()}
    return _to_json(OPS, _describe_class(OpsOptions, "ops", comments))


def _to_json(path: Path, schema: dict[str, Any]) -> str:
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"{path} of Signloom",
        "type": "object",
    }
    return json.dumps({**head, **schema}, ensure_ascii=False, indent=1) + "\n"


def _describe_class(options: Any, key: str, comments: dict[str, str]) -> Any:
    schema = pydantic.TypeAdapter(options).json_schema()
    # A class may be named in two sections: each section keeps its own definitions.
    return _describe(schema, schema.pop("$defs", {}), key, comments)


def _describe(schema: Any, definitions: Any, key: str, comments: dict[str, str]) -> Any:
    """Put definitions in their place and comments beside what they describe."""
    if isinstance(schema, list):
        return [_describe(item, definitions, "", comments) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        schema = {**definitions[schema["$ref"].rpartition("/")[2]], **schema}
        del schema["$ref"]
    described = {
        name: _describe(value, definitions, "", comments)
        for name, value in schema.items()
        if name not in ("title", "description", "properties")
    }
    if key in comments:
        described["description"] = comments[key]
    if "properties" in schema:
        described["properties"] = {
            name: _describe(value, definitions, f"{key}.{name}" if key else "", comments)
            for name, value in schema["properties"].items()
        }
    return described


def read_page(page: str) -> dict[str, tuple[str, str]]:
    """Return the default and the description of each parameter in the tables, by its path."""
    parameters, section = {}, ""
    for line in page.splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif row := re.match(r"\| `([\w.]+)` \| `(.*?)` \| (.*) \|$", line):
            parameters[f"{section}.{row[1]}"] = (row[2], row[3])
    return parameters


def _read_comments(text: str) -> dict[str, str]:
    """Return the comment beside each key, by its path."""
    path: list[tuple[int, str]] = []
    comments = {}
    for line in text.splitlines():
        match = re.match(r"( *)([\w.]+):(?:.*?\s# (.*))?", line)
        if match is None:
            continue
        indent, name, comment = len(match[1]), match[2], match[3]
        path = [*(step for step in path if step[0] < indent), (indent, name)]
        if comment:
            comments[".".join(part for _, part in path)] = comment
    return comments


if __name__ == "__main__":
    run(main)
