import dataclasses
import json
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from pipeline.params_schema import (
    OPS_SCHEMA,
    PAGE,
    SCHEMA,
    build_ops_schema,
    build_schema,
    read_page,
)
from signloom.evaluation.metrics import ScoreOptions
from signloom.preflight import FIXED, SECTIONS
from signloom.translation.options import DecodingOptions
from tests.tiny import ROOT

PARAMS = (ROOT / "params.yaml").read_text(encoding="utf-8")
OPS = (ROOT / "ops.yaml").read_text(encoding="utf-8")
TEXTS = (PARAMS, (ROOT / PAGE).read_text(encoding="utf-8"))
ELSEWHERE = {"report.films"} | {  # described on other pages, or no parameters
    f"{section}.{name}" for section, (_, names) in FIXED.items() for name in names
}


def test_the_schema_of_params_yaml_is_that_of_the_options() -> None:
    written = (ROOT / SCHEMA).read_text(encoding="utf-8")
    assert written == build_schema(*TEXTS), "run `python -m pipeline.params_schema`"
    assert PARAMS.startswith(f"# yaml-language-server: $schema={SCHEMA}\n")
    written = (ROOT / OPS_SCHEMA).read_text(encoding="utf-8")
    assert written == build_ops_schema(OPS), "run `python -m pipeline.params_schema`"
    assert OPS.startswith(f"# yaml-language-server: $schema={OPS_SCHEMA}\n")


@pytest.mark.parametrize("folder", ["", "pipeline/smoke/"])
def test_the_schemas_take_the_parameters(folder: str) -> None:
    for name, schema in (("params", build_schema(*TEXTS)), ("ops", build_ops_schema(OPS))):
        values = yaml.safe_load((ROOT / f"{folder}{name}.yaml").read_text(encoding="utf-8"))
        Draft202012Validator(json.loads(schema)).validate(values)


@pytest.mark.parametrize(
    ("section", "change"),
    [
        ("train", {"epochs": 0}),
        ("train", {"epochs": "ten"}),
        ("train", {"epohcs": 3}),
        ("train", {"optimizer": "adamx"}),
        ("gate", {"level": 2}),
        ("inbx", {}),
    ],
)
def test_the_schemas_refuse_what_the_options_refuse(section: str, change: dict[str, Any]) -> None:
    is_params = section == "train"
    values = yaml.safe_load(PARAMS if is_params else OPS) or {}
    values[section] = values.get(section, {}) | change
    schema = build_schema(*TEXTS) if is_params else build_ops_schema(OPS)
    assert not Draft202012Validator(json.loads(schema)).is_valid(values)


def test_keys_are_described_by_the_comments_beside_them() -> None:
    sections = json.loads(build_schema(*TEXTS))["properties"]
    beam = sections["evaluate"]["properties"]["decoding"]["properties"]["beam_size"]
    assert beam == {
        "description": "1 is greedy",
        "minimum": 1,
        "maximum": 64,
        "type": "integer",
    }
    gate = json.loads(build_ops_schema(OPS))["properties"]["gate"]
    assert gate["properties"]["seeds"]["description"].startswith("models")


def defaults(options: Any) -> dict[str, Any]:
    """Return the defaults of a class of options by name."""
    values = {}
    for field in dataclasses.fields(options):
        if field.default is not dataclasses.MISSING:
            values[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            values[field.name] = field.default_factory()
    return values


def test_the_page_has_every_default_that_params_yaml_does_not_name() -> None:
    page, values = read_page(TEXTS[1]), yaml.safe_load(PARAMS)
    nested = {"evaluate.decoding": DecodingOptions, "evaluate.score": ScoreOptions}
    for section, options in (*SECTIONS.items(), *nested.items()):
        named = values
        for part in section.split("."):
            named = named[part]
        for name, default in defaults(options).items():
            path = f"{section}.{name}"
            if path in ELSEWHERE:
                continue
            if name in named:
                assert path not in page, "it stands in params.yaml"
                continue
            assert path in page, f"{PAGE} lacks {path}"
            plain = dataclasses.asdict(default) if dataclasses.is_dataclass(default) else default
            assert yaml.safe_load(page[path][0]) == plain, path
