import dataclasses
from pathlib import Path
from typing import Literal

import pytest

from signloom.config import load_section, read_json, update_params
from signloom.errors import UserError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inner:
    size: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    rate: float
    count: int
    norm: Literal["pre", "post"]
    inner: Inner
    name: str | None
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"count: found {self.count}, expected at least 1")


GOOD = """\
stage:
  rate: 1e-3  # a comment
  count: 3
  norm: pre
  inner: {size: 4}
  name: x
  sizes: [1, 2]
other: {}
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "params.yaml"
    path.write_text(text)
    return path


def test_a_section_becomes_its_dataclass(tmp_path: Path) -> None:
    options = load_section(write(tmp_path, GOOD), "stage", Options)
    assert options == Options(
        rate=0.001, count=3, norm="pre", inner=Inner(size=4), name="x", sizes=(1, 2)
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rate:", "rat:", "stage.rat is not an option; did you mean `rate`?"),
        ("  count: 3\n", "", "stage.count is missing"),
        ("count: 3", "count: 3.5", r"stage.count: found 3.5 \(float\), expected int"),
        ("count: 3", "count: true", r"stage.count: found True \(bool\), expected int"),
        ("count: 3", "count: 0", "stage: count: found 0, expected at least 1"),
        ("norm: pre", "norm: prae", "stage.norm: found 'prae', expected one of 'pre', 'post'"),
        ("size: 4", "sise: 4", "stage.inner.sise is not an option; did you mean `size`?"),
        ("rate: 1e-3", "rate: fast", r"stage.rate: found 'fast' \(str\), expected float"),
        ("sizes: [1, 2]", "sizes: [1, x]", r"stage.sizes\[1\]: found 'x'"),
        ("stage:", "stag:", "section `stage` is missing; did you mean `stag`?"),
        ("norm: pre", "norm: [", "is not valid YAML"),
        ("rate: 1e-3", "rate: .nan", "stage.rate: found nan, expected a finite number"),
        ("count: 3", "count: 3\n  count: 4", "is not valid YAML"),
    ],
)
def test_a_mistake_is_named_with_its_mend(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = write(tmp_path, GOOD.replace(old, new))
    with pytest.raises(UserError, match=message) as caught:
        load_section(path, "stage", Options)
    assert "params.yaml" in str(caught.value)


def test_all_mistakes_come_in_one_message(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD.replace("rate:", "rat:").replace("count: 3", "count: x"))
    with pytest.raises(UserError) as caught:
        load_section(path, "stage", Options)
    assert len(str(caught.value).splitlines()) == 3  # unknown, missing, wrong type


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nothing\.yaml does not exist"):
        load_section(tmp_path / "nothing.yaml", "stage", Options)


def test_a_folder_is_no_parameters_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read: Is a directory"):
        load_section(tmp_path, "stage", Options)


def test_a_folder_in_place_of_a_json_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot be read .*; mend it"):
        read_json(tmp_path, hint="mend it")


def test_updates_keep_comments_and_order(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    before, after = update_params(path, {"stage": {"rate": 0.002, "norm": "post"}})
    assert before == GOOD
    assert after == path.read_text()
    changed = [
        (old, new)
        for old, new in zip(before.splitlines(), after.splitlines(), strict=True)
        if old != new
    ]
    assert [new.split("#")[0].strip() for _, new in changed] == ["rate: 0.002", "norm: post"]
    assert "# a comment" in after


def test_an_update_of_an_unknown_key_changes_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    with pytest.raises(UserError, match=r"has no stage\.nonsense"):
        update_params(path, {"stage": {"nonsense": 1}})
    assert path.read_text() == GOOD
