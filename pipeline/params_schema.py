"""The JSON Schema of params.yaml, from which editors complete and check it.

Usage: python -m pipeline.params_schema
"""

import json
import re
from pathlib import Path
from typing import Any

import pydantic

from pipeline.check import SECTIONS as STAGE_SECTIONS
from pipeline.stage import run
from signloom.files import write_file
from signloom.paths import PARAMS
from signloom_ops.nightly.plan import RetrainOptions

SCHEMA = Path("params.schema.json")
PAGE = Path("docs/parameters.md")  # of what params.yaml need not name
SECTIONS: dict[str, Any] = {**STAGE_SECTIONS, "retrain": RetrainOptions}


def main() -> None:
    """Write the schema beside params.yaml."""
    texts = (path.read_text(encoding="utf-8") for path in (PARAMS, PAGE))
    write_file(SCHEMA, build_schema(*texts))


def build_schema(params: str, page: str) -> str:
    """Return the schema as JSON.

    Args:
        params: The text of params.yaml, whose comments describe the keys.
        page: That of docs/parameters.md, whose tables describe the others.
    """
    comments = {name: what for name, (_, what) in read_page(page).items()}
    comments |= _read_comments(params)
    properties = {}
    for section, options in SECTIONS.items():
        schema = pydantic.TypeAdapter(options).json_schema()
        # A class may be named in two sections: each section keeps its own definitions.
        definitions = schema.pop("$defs", {})
        properties[section] = _describe(schema, definitions, section, comments)
    content = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "params.yaml of Signloom",
        "type": "object",
        "properties": properties,
        "additionalProperties": True,  # a study adds sections of its own
    }
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def _describe(schema: Any, definitions: Any, key: str, comments: dict[str, str]) -> Any:
    """Put definitions in their place and comments beside what they describe."""
    if isinstance(schema, list):
        return [_describe(item, definitions, "", comments) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        schema = {**definitions[schema["$ref"].rpartition("/")[2]], **schema}
        del schema["$ref"]
    found = {
        name: _describe(value, definitions, "", comments)
        for name, value in schema.items()
        if name not in ("title", "description", "properties")
    }
    if key in comments:
        found["description"] = comments[key]
    if "properties" in schema:
        found["properties"] = {
            name: _describe(value, definitions, f"{key}.{name}" if key else "", comments)
            for name, value in schema["properties"].items()
        }
    return found


def read_page(page: str) -> dict[str, tuple[str, str]]:
    """Return the default and the description of each parameter in the tables, by its path."""
    found, section = {}, ""
    for line in page.splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif row := re.match(r"\| `([\w.]+)` \| `(.*?)` \| (.*) \|$", line):
            found[f"{section}.{row[1]}"] = (row[2], row[3])
    return found


def _read_comments(text: str) -> dict[str, str]:
    """Return the comment beside each key, by its path."""
    path: list[tuple[int, str]] = []
    comments = {}
    for line in text.splitlines():
        match = re.match(r"( *)([\w.]+):(?:.*?\s# (.*))?", line)
        if match is None:
            continue
        indent, name, comment = len(match[1]), match[2], match[3]
        path = [*(one for one in path if one[0] < indent), (indent, name)]
        if comment:
            comments[".".join(part for _, part in path)] = comment
    return comments


if __name__ == "__main__":
    run(main)
