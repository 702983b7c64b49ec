import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from signloom.config import load_params
from signloom_tools.params_file import update_params

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "params.yaml").read_text(encoding="utf-8")
ODD = """\
a:  # of a
  b: "x"   # é: {not: a map}
  c:
  d: [1, 2,   3]
  e: {f: 1e-3, g: {h: null}}   # flow
i: {j: 'it''s', k: "# no comment"}
"""


def leaves(values: dict[str, Any], *path: str) -> Iterator[tuple[str, ...]]:
    """Yield the path of every value that stands in one line and is no map."""
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, *path, name)
        elif path and not (isinstance(value, list) and any(isinstance(v, dict) for v in value)):
            yield (*path, name)


WORDS = st.text(
    st.characters(max_codepoint=0x2FFF, exclude_categories=["Cs", "Cn", "Co"]), max_size=9
)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**9), 10**9),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    WORDS,
    st.sampled_from(
        ["true", "1e-3", "0x1F", "null", "", " a", "- b", "a: b", "x # y", "@", "*z", ":a", "? a"]
    ),
    st.lists(st.one_of(st.integers(), WORDS), max_size=3),
)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_an_update_touches_no_other_line(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "params.yaml"
        text = data.draw(st.sampled_from([ODD, ODD, TEXT]))
        path.write_text(text, encoding="utf-8")
        expected = load_params(path)
        chosen = data.draw(
            st.lists(st.sampled_from(list(leaves(expected))), unique=True, max_size=6)
        )
        overrides: dict[str, Any] = {}
        for names in chosen:
            node, inner = overrides, expected
            for name in names[:-1]:
                node, inner = node.setdefault(name, {}), inner[name]
            node[names[-1]] = inner[names[-1]] = data.draw(VALUES)
        before, after = update_params(path, overrides)
        assert (before, after) == (text, path.read_text(encoding="utf-8"))
        assert load_params(path) == expected
    lines = list(zip(before.split("\n"), after.split("\n"), strict=True))
    changed = [(old, new) for old, new in lines if old != new]
    assert len(changed) <= len(chosen)
    for old, new in changed:
        assert new.startswith(old.split(":")[0] + ":")
        comment = old.partition("   # ")[2]
        assert new.endswith(comment)
