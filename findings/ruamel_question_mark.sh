#!/usr/bin/env bash
# Believed: what ruamel.yaml's safe dumper writes, its safe loader reads back as the same values.
# Happens:  in flow style (brackets and braces, which is also the default for innermost lists and
#           maps) a text that begins with a question mark and a blank is written without quotes. In
#           a list it comes back as a map with the text as its key, without an error; in a map the
#           file cannot be parsed. A text that begins with a colon is written without quotes, too,
#           and read in braces of their own, but not in braces that are the value of a key.
#           PyYAML quotes the first and reads all of its own output.
# Version:  ruamel.yaml 0.19.1 (pure Python), PyYAML 6.0.3, November 2026.
# Source:   analyze_scalar in ruamel/yaml/emitter.py, https://sourceforge.net/projects/ruamel-yaml
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check ruamel.yaml==0.19.1 PyYAML==6.0.3

"$folder/venv/bin/python" - <<'PYTHON'
import io
import sys

import ruamel.yaml
import yaml

VALUES = [["? a"], {"f": "? a"}, {"e": {"f": ":a", "g": 1}}, {"f": ":a", "g": 1}]


def by_ruamel(value: object) -> object:
    library, text = ruamel.yaml.YAML(typ="safe", pure=True), io.StringIO()
    library.default_flow_style = None
    library.dump(value, text)
    try:
        read = ruamel.yaml.YAML(typ="safe", pure=True).load(text.getvalue())
    except ruamel.yaml.error.YAMLError as error:
        read = type(error).__name__
    print(f"ruamel.yaml writes {text.getvalue().strip()!r} and reads {read!r}")
    return read


read = [by_ruamel(value) for value in VALUES]
expected = [[{"a": None}], "ParserError", "ParserError", VALUES[3]]
others = [yaml.safe_load(yaml.safe_dump(value, default_flow_style=None)) for value in VALUES]
print(f"PyYAML reads {others!r}")
sys.exit(read != expected or others != VALUES)
PYTHON
echo "as described"
