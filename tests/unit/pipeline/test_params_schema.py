import json
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from pipeline.params_schema import SCHEMA, build_schema
from tests.tiny import ROOT

PARAMS = (ROOT / "params.yaml").read_text(encoding="utf-8")


def test_the_schema_beside_params_yaml_is_that_of_the_options() -> None:
    written = (ROOT / SCHEMA).read_text(encoding="utf-8")
    assert written == build_schema(PARAMS), "run `python -m pipeline.params_schema`"
    assert PARAMS.startswith(f"# yaml-language-server: $schema={SCHEMA}\n")


@pytest.mark.parametrize("name", ["params.yaml", "pipeline/smoke/params.yaml"])
def test_the_schema_takes_the_parameters(name: str) -> None:
    values = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
    Draft202012Validator(json.loads(build_schema(PARAMS))).validate(values)


@pytest.mark.parametrize(
    "change", [{"epochs": 0}, {"epochs": "ten"}, {"epohcs": 3}, {"optimizer": "adamx"}]
)
def test_the_schema_refuses_what_the_options_refuse(change: dict[str, Any]) -> None:
    values = yaml.safe_load(PARAMS)
    values["train"] |= change
    assert not Draft202012Validator(json.loads(build_schema(PARAMS))).is_valid(values)


def test_keys_are_described_by_the_comments_beside_them() -> None:
    sections = json.loads(build_schema(PARAMS))["properties"]
    assert sections["model"]["properties"]["norm"]["description"] == "pre or post"
    beam = sections["evaluate"]["properties"]["decoding"]["properties"]["beam_size"]
    assert beam == {
        "description": "1 is greedy", "minimum": 1, "maximum": 64, "type": "integer",
    }  # fmt: skip
