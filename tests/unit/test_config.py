import dataclasses
import json
import os
import pickle
import re
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import pytest

from signloom.config import (
    NO_BOOL,
    Count,
    Gone,
    Natural,
    ShareBelowOne,
    checked_dataclass,
    load_params,
    load_section,
    read_json,
    read_record,
)
from signloom.errors import UserError
from tests.damage import damaged_texts
from tests.tiny import write_params


@checked_dataclass
class Inner:
    size: Natural


@checked_dataclass
class Options:
    rate: ShareBelowOne
    count: Count
    norm: Literal["pre", "post"]
    inner: Inner
    name: str | None
    sizes: tuple[int, ...]
    step: Annotated[Literal[1, 2], NO_BOOL]

    GONE: ClassVar = {"speed": Gone(1.0, "rate says it")}

    def __post_init__(self) -> None:
        if self.count < len(self.sizes):
            raise ValueError(f"sizes: found {len(self.sizes)}, expected at most count")


GOOD = """\
stage:
  rate: 1e-3  # a comment
  count: 3
  norm: pre
  inner: {size: 4}
  name: x
  sizes: [1, 2]
  step: 1
other: {}
"""


def test_a_section_becomes_its_dataclass(tmp_path: Path) -> None:
    for text in (GOOD, GOOD.replace("1e-3", "'1e-3'")):  # a number may be written as text
        assert load_section(write_params(tmp_path, text), "stage", Options) == Options(
            rate=0.001, count=3, norm="pre", inner=Inner(size=4), name="x", sizes=(1, 2), step=1
        )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rate:", "rat:", "stage.rat is not an option; did you mean `rate`?"),
        ("  count: 3\n", "", "stage.count is missing"),
        ("count: 3", "count: 3.5", "stage.count: found 3.5, expected a whole number"),
        ("count: 3", "count: true", "stage.count: found True, expected a whole number"),
        ("count: 3", "count: 0", "stage.count: found 0, expected at least 1"),
        ("count: 3", "count: 1", "stage: sizes: found 2, expected at most count"),
        ("step: 1", "step: true", "stage.step: found True, expected a number"),
        ("norm: pre", "norm: prae", "stage.norm: found 'prae', expected 'pre' or 'post'"),
        ("size: 4", "sise: 4", "stage.inner.sise is not an option; did you mean `size`?"),
        ("size: 4", "size: -1", "stage.inner.size: found -1, expected at least 0"),
        ("  count: 3", "  speed: 3.0", "stage.speed is no option any more; rate says it"),
        ("rate: 1e-3", "rate: fast", "stage.rate: found 'fast', expected a number"),
        ("rate: 1e-3", "rate: 2", "stage.rate: found 2, expected less than 1"),
        ("rate: 1e-3", "rate: true", "stage.rate: found True, expected a number"),
        ("sizes: [1, 2]", "sizes: [1, x]", r"stage.sizes\[1\]: found 'x', expected a whole number"),
        ("inner: {size: 4}", "inner: 4", "stage.inner: found 4, expected a map of options"),
        ("stage:", "stag:", "section `stage` is missing; did you mean `stag`?"),
        ("norm: pre", "norm: [", "is not valid YAML"),
        ("rate: 1e-3", "rate: .nan", "stage.rate: found nan, expected a finite number"),
        ("count: 3", "count: 3\n  count: 4", "is not valid YAML"),
    ],
)
def test_mistakes_are_named_with_remedies(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = write_params(tmp_path, GOOD.replace(old, new))
    with pytest.raises(UserError, match=message) as caught:
        load_section(path, "stage", Options)
    assert "params.yaml" in str(caught.value)


def test_a_removed_option_is_read_where_it_is_off(tmp_path: Path) -> None:
    path = write_params(tmp_path, GOOD.replace("  count: 3", "  count: 3\n  speed: 1.0"))
    assert load_section(path, "stage", Options).count == 3


def test_a_value_is_checked_wherever_it_comes_from(tmp_path: Path) -> None:
    options = load_section(write_params(tmp_path, GOOD), "stage", Options)
    assert dataclasses.asdict(options)["inner"] == {"size": 4}
    assert pickle.loads(pickle.dumps(options)) == options
    for wrong in (0, True, 3.5):
        with pytest.raises(UserError, match=f"^count: found {wrong}, expected"):
            dataclasses.replace(options, count=wrong)


def test_all_mistakes_come_in_one_message(tmp_path: Path) -> None:
    path = write_params(
        tmp_path, GOOD.replace("rate:", "rat:").replace("count: 3", "count: x").replace("4", "-4")
    )
    with pytest.raises(UserError) as caught:
        load_section(path, "stage", Options)
    assert len(str(caught.value).splitlines()) == 4  # unknown, missing, wrong type, out of range


def test_a_file_that_is_missing_or_a_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nothing\.yaml does not exist"):
        load_section(tmp_path / "nothing.yaml", "stage", Options)
    with pytest.raises(UserError, match="cannot be read: Is a directory"):
        load_section(tmp_path, "stage", Options)
    with pytest.raises(UserError, match=r"cannot be read.*; repair it"):
        read_json(tmp_path, hint="repair it")


@pytest.mark.parametrize("kind", ["device", "pipe", "large"])
def test_a_file_without_end_is_refused_before_it_fills_memory(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "params.yaml"
    if kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.touch()
        os.truncate(path, 10**12)
    reason = "found 1,000,000,000,000 bytes" if kind == "large" else "no regular file"
    with pytest.raises(UserError, match=rf"params.yaml cannot be read: .*{reason}"):
        load_params(path)
    with pytest.raises(UserError, match=rf"{reason}.*; make it again"):
        read_json(path, hint="make it again")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &a [*a]", "is not valid YAML"),
        ("a: &a {b: *a}", "is not valid YAML"),
        ("a: " + "[" * 1_000 + "]" * 1_000, "nested too deeply"),
        ("a: " + "{b: " * 1_000 + "}" * 1_000, "nested too deeply"),
        ("a: 2024-13-45", "is not valid YAML"),
        ("2024-01-01: a", "found the date 2024-01-01, expected text as a key; put it in quotes"),
        ("? [a, b]\n: c", "found a tuple, ('a', 'b'), expected text as a key; put it in quotes"),
        (
            "a: {b: 2026-11-28}",
            "a.b: found the date 2026-11-28, expected text, a number, a list or",
        ),
        ("a: [0, 2026-11-28 10:00:00]", "a[1]: found the date 2026-11-28T10:00:00, expected text"),
        ("a: !!set {b}", "a: found a set, {'b'}, expected text"),
        ("a: !!binary aGk=", "a: found a bytes, b'hi', expected text"),
        ("a: !!pairs [b: 1]", "a[0]: found a tuple, ('b', 1), expected text"),
        ("a: !!python/object/apply:os.system [ls]", "is not valid YAML"),
        ("a: !!binary x", "is not valid YAML"),
        ("a: 1\na: 2", "is not valid YAML"),
        ("- a", "expected a map of sections, found list"),
        ("", "expected a map of sections, found NoneType"),
        ("a: \x00", "is not valid YAML"),
    ],
)
def test_damaged_or_hostile_yaml_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=re.escape(message)) as caught:
        load_params(path)
    assert str(path) in str(caught.value)


def test_aliases_of_a_careful_writer_are_read(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text("a: &one {b: 1}\nc: *one\nd: [*one, *one]")
    assert load_params(path) == {"a": {"b": 1}, "c": {"b": 1}, "d": [{"b": 1}] * 2}


@checked_dataclass
class Record:
    """A file with some keys."""

    names: tuple[str, ...]
    inner: dict[str, float]


def test_a_damaged_record_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    content = {"names": ["a", "b"], "inner": {"c": 0.5}, "format_version": 1, "more": {}}
    path.write_text(json.dumps(content))
    assert read_record(path, Record, hint="", version=1) == Record(
        names=("a", "b"), inner={"c": 0.5}
    )
    refused = 0
    for damage, text in damaged_texts(content, seed=0, count=200):
        path.write_text(text, encoding="latin-1")
        message = ""
        try:
            read_record(path, Record, hint="make it again", version=1)
        except UserError as error:
            message = str(error)
        assert not message or (str(path) in message and "make it again" in message), damage
        assert len(message) < 2_000, damage
        refused += bool(message)
    assert refused > 100
