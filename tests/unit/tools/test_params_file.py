"""A command changes parameters and leaves every other line as it is."""

from pathlib import Path

import pytest

from signloom.config import load_params
from signloom_tools.params_file import update_params
from tests.tiny import write_params


def test_a_comment_of_several_lines_stays_whole(tmp_path: Path) -> None:
    text = "evaluate:\n  grid:\n    sizes: [1]  # of several\n                # one\n  seed: 1\n"
    _, after = update_params(
        write_params(tmp_path, text), {"evaluate": {"grid": {"weights": [0.1]}}}
    )
    assert after == text.replace("  seed", "    weights: [0.1]\n  seed")


@pytest.mark.parametrize("indent", ["", "  "])
def test_a_list_below_its_key_is_replaced(tmp_path: Path, indent: str) -> None:
    text = f"train:\n  seeds:  # of weights\n  {indent}- 1\n  {indent}- 2\n  epochs: 3\n"
    _, after = update_params(write_params(tmp_path, text), {"train": {"seeds": [4, 5]}})
    assert after == "train:\n  seeds:  # of weights\n    [4, 5]\n  epochs: 3\n"


@pytest.mark.parametrize(
    "text",
    [
        "stage:\n  rate: 1e-3  # a comment\n  inner: {size: 4}\nother: {}\n",
        "stage: {rate: 1}  # short",
        "stage: {}\n",
        "stage:\n  norm: pre  # last",
        "# nothing\nother: 1",
        "stage:\n  inner:\n    a: 1  # x\n\n# the end\nother: 2\n",
    ],
)
def test_a_file_from_before_a_knob_gets_the_knob(tmp_path: Path, text: str) -> None:
    path = write_params(tmp_path, text)
    new = {"stage": {"added": [1, "a b"], "inner": {"b": False}}, "late": {"c": 0.5}}
    expected = load_params(path)
    stage = expected.setdefault("stage", {})
    stage["added"], expected["late"] = [1, "a b"], {"c": 0.5}
    stage["inner"] = stage.get("inner", {}) | {"b": False}
    _, after = update_params(path, new)
    assert load_params(path) == expected
    lines = iter(after.splitlines())
    if "{" not in text:
        assert all(line in lines for line in text.splitlines())  # none changed or moved
