"""Options that are declared as fields of a dataclass."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from signloom.config import Count
from signloom.errors import UserError
from signloom_tools.command_options import (
    add_options,
    argument,
    given_flags,
    group,
    option,
    read_options,
    read_pairs,
)


@dataclass(frozen=True, kw_only=True)
class Inner:
    keys: dict[str, str] = option("names", {})
    size: Count = option("a number", 3, flag="-n")
    hidden: Count = option("not of this command", 7)


@dataclass(frozen=True, kw_only=True)
class Options:
    folder: Path | None = argument("where", "FOLDER", nargs="?")
    words: Sequence[str] = option("some", ())
    kind: Literal["a", "b"] = option("one of two", "a")
    is_dry: bool = option("do nothing", False)
    inner: Inner = group(Inner, "inner", only=("keys", "size"))


def read(*arguments: str) -> Options:
    parser = argparse.ArgumentParser()
    add_options(parser, Options)
    return read_options(Options, parser.parse_args(arguments))


def test_what_is_not_given_has_the_defaults_of_the_fields() -> None:
    assert read() == Options(
        folder=None, words=(), kind="a", is_dry=False, inner=Inner(keys={}, size=3, hidden=7)
    )
    assert list(given_flags(read())) == []


def test_types_and_ranges_are_those_of_the_fields(capsys: pytest.CaptureFixture[str]) -> None:
    options = read(
        "here",
        "--words",
        "x",
        "y",
        "--kind",
        "b",
        "--is-dry",
        "-n",
        "5",
        "--keys",
        "a=b",
        "--keys",
        "c=d=e",
    )
    assert options == Options(
        folder=Path("here"),
        words=["x", "y"],
        kind="b",
        is_dry=True,
        inner=Inner(keys={"a": "b", "c": "d=e"}, size=5),
    )
    assert list(given_flags(options.inner)) == ["--keys", "-n"]
    for wrong in (["-n", "0"], ["--kind", "c"], ["--hidden", "1"]):
        with pytest.raises(SystemExit):
            read(*wrong)
    assert "found '0', expected at least 1" in capsys.readouterr().err


def test_pairs_have_each_key_once() -> None:
    assert read_pairs(["a=b=c"], "--column") == {"a": "b=c"}
    for texts in (["a"], ["a="], ["a=1", "a=2"], ["c=1"]):
        with pytest.raises(UserError, match="--column: found"):
            read_pairs(texts, "--column", ("a", "b"))
