import re
import xml.etree.ElementTree as ET
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from signloom.errors import UserError
from signloom.evaluation.results import write_alignments
from signloom.report.attention import (
    LEVELS,
    PARTS,
    AttentionMap,
    Axes,
    build_picker,
    draw_heatmap,
    read_alignments,
)
from signloom.report.canvas import BLUE, ORANGE
from signloom.translation.translator import Alignment as Looked

AXES = Axes(rows=["a", "<b>"], columns=[(0.5, "0"), (2.5, "1")], x_label="time", title="t")
SVG = "{http://www.w3.org/2000/svg}"


def shades(svg: str) -> dict[tuple[int, int], float]:
    """Return (row, column) to the shade drawn there, orange being negative."""
    opacities = {}
    for path in ET.fromstring(svg).iter(f"{SVG}path"):
        if path.get("fill-opacity") is None:
            continue
        sign = {BLUE: 1, ORANGE: -1}[path.attrib["fill"]]
        for column, row, cells in re.findall(r"M(\d+) (\d+)h(\d+)v1", path.attrib["d"]):
            for offset in range(int(cells)):
                place = (int(row), int(column) + offset)
                assert place not in opacities
                opacities[place] = sign * float(path.attrib["fill-opacity"])
    return opacities


def draw(matrix: list[list[float]]) -> str:
    return draw_heatmap(np.array(matrix), AXES, row_height=10.0, label_width=50.0)


def test_every_cell_has_the_shade_of_its_number() -> None:
    matrix = [[0.0, 1.0, 1.0, -0.5], [0.25, 0.25, -1.0, 2.0]]
    opacities = shades(draw(matrix))
    for row, numbers in enumerate(matrix):
        for column, number in enumerate(numbers):
            assert opacities.get((row, column), 0.0) == np.clip(number, -1, 1)


def test_shades_are_as_near_as_their_number_allows() -> None:
    matrix = np.random.default_rng(0).uniform(-1, 1, (7, 23))
    drawn = shades(draw_heatmap(matrix, AXES, row_height=10.0, label_width=50.0))
    for place, number in np.ndenumerate(matrix):
        assert abs(drawn.get(place, 0.0) - number) <= 0.5 / LEVELS + 1e-9


def test_labels_are_text_of_any_content() -> None:
    svg = draw([[0.0, 1.0, 0.5, 0.5]] * 2)
    assert "&lt;b&gt;" in svg
    labels = [
        "".join(text.itertext()).strip("\u2068\u2069")
        for text in ET.fromstring(svg).iter(f"{SVG}text")
    ]
    assert labels == ["t", "a", "<b>", "0", "1", "time"]


def test_attention_comes_back_as_it_was_written(tmp_path: Path) -> None:
    weights = np.random.default_rng(1).dirichlet(np.ones(5), 3).astype(np.float32)
    looked = Looked(tokens=("je", " vais", ""), step_s=0.25, weights=weights)
    empty = Looked(tokens=("",), step_s=0.25, weights=np.ones((1, 2), np.float32))
    path = tmp_path / "folder" / "alignments.parquet"
    write_alignments(path, {"b": looked, "a": empty})
    first = path.read_bytes()
    write_alignments(path, {"b": looked, "a": empty})
    assert path.read_bytes() == first
    alignments = read_alignments(path, ["b", "unknown"])
    assert list(alignments) == ["b"]
    assert alignments["b"].tokens == ["je", " vais", ""]
    assert alignments["b"].step_s == 0.25
    assert alignments["b"].weights == pytest.approx(weights, abs=0.5 / 255 + 1e-6)


@pytest.mark.parametrize("content", [None, b"torn"])
def test_a_missing_or_torn_file_names_the_stage(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "alignments.parquet"
    if content:
        path.write_bytes(content)
    with pytest.raises(UserError, match="run `dvc repro evaluate` again"):
        read_alignments(path, ["a"])


def test_another_format_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "alignments.parquet"
    schema = pa.schema([("clip_id", pa.string())], metadata={"signloom.format_version": "9"})
    pq.write_table(pa.table({"clip_id": ["a"]}, schema=schema), path)
    with pytest.raises(UserError, match="found format version 9, this Signloom reads 2"):
        read_alignments(path, ["a"])


def with_maps(source: tuple[str, ...] = ()) -> Looked:
    rng = np.random.default_rng(0)
    shapes = {"encoder": (3, 4, 5, 5), "decoder": (2, 4, 2, 2), "cross": (2, 4, 2, 5)}
    maps = {part: rng.dirichlet(np.ones(shape[-1]), shape[:-1]) for part, shape in shapes.items()}
    maps = {part: values.astype(np.float32) for part, values in maps.items()}
    return Looked(
        tokens=("a", ""),
        step_s=0.0 if source else 0.5,
        weights=maps["cross"].mean(axis=(0, 1)),
        source=source,
        maps=maps,
    )


@pytest.mark.parametrize("source", [(), ("HAUS", "<i>", "B", "C", "D")])
def test_the_maps_of_every_head_come_back_from_the_table(
    tmp_path: Path, source: tuple[str, ...]
) -> None:
    looked = with_maps(source)
    plain = Looked(tokens=("b",), step_s=0.5, weights=np.ones((1, 2), np.float32))
    write_alignments(tmp_path / "a.parquet", {"x": looked, "y": plain})
    alignments = read_alignments(tmp_path / "a.parquet", ["x", "y"])
    assert list(alignments["x"].source) == list(source)
    assert alignments["y"].maps == {}
    assert set(alignments["x"].maps) == set(looked.maps)
    for part, values in looked.maps.items():
        np.testing.assert_array_equal(alignments["x"].maps[part], values)


def test_a_picker_has_every_head_in_shades_of_its_strongest_weight() -> None:
    looked = with_maps(("HAUS", "<i>", "B", "C", "D"))
    shown = AttentionMap(
        **{field.name: getattr(looked, field.name) for field in fields(AttentionMap)}
    )
    picker = build_picker(shown, name="a", clip_id="<x>")
    assert [part.label for part in picker] == list(PARTS.values())
    for part, (name, values) in zip(
        picker, ((name, looked.maps[name]) for name in PARTS), strict=True
    ):
        assert (part.layers, part.heads, part.rows, part.columns) == values.shape
        strongest = np.array([float(share) / 100 for share in part.strongest.split(" ")])
        np.testing.assert_allclose(strongest, values.max(axis=(2, 3)).ravel(), rtol=0.005)
        levels = np.array([int(digit, LEVELS + 1) for digit in part.cells])
        weights = (
            levels.reshape(values.shape) / LEVELS * strongest.reshape((*values.shape[:2], 1, 1))
        )
        assert np.abs(weights - values).max() <= (0.5 / LEVELS + 0.006) * strongest.max(), name
    cross, encoder, decoder = (part.svg for part in picker)
    assert cross.count("HAUS") == 1  # glosses are columns
    assert encoder.count("HAUS") == 2  # and rows
    assert "(start)" in decoder
    assert not any("<i>" in svg or "<x>" in svg for svg in (cross, encoder, decoder))
    assert build_picker(replace(shown, maps={}), name="a", clip_id="x") == []
