"""A whole-body network of the user's finds landmarks: SimCC or heatmaps, batched, in the cache."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from signloom.errors import UserError
from signloom.extraction.detector import DetectorOptions, build_detector
from signloom.extraction.extract import extract_video, extractor_fingerprint, options_of_fingerprint
from signloom.extraction.pictures import open_pictures
from signloom.extraction.video import Video
from signloom.extraction.wholebody import BATCH, WholeBodyNetwork
from tests.extraction import OPTIONS

SIZE = (64, 48)  # height and width that the networks read


def write_network(path: Path, kind: str, points: int = 133, batch: int | str = "B") -> Path:
    """A network that finds every point at the brightest place, by x and y or by a map."""
    height, width = SIZE
    given = helper.make_tensor_value_info("in", TensorProto.FLOAT, [batch, 3, height, width])
    if kind == "simcc":
        weights = {"w": np.ones((1, points, 1), np.float32)}
        nodes = [helper.make_node("ReduceMean", ["in"], ["grey"], axes=[1], keepdims=0)]
        for axis, name in ((1, "x"), (2, "y")):
            nodes += [
                helper.make_node("ReduceMax", ["grey"], [f"m{name}"], axes=[axis], keepdims=0),
                helper.make_node("Unsqueeze", [f"m{name}", "one"], [f"u{name}"]),
                helper.make_node("MatMul", ["w", f"u{name}"], [f"simcc_{name}"]),
            ]
        weights["one"] = np.array([1], np.int64)
        shapes = {"simcc_x": [batch, points, width], "simcc_y": [batch, points, height]}
    else:
        rng = np.random.default_rng(0)
        weights = {"w": rng.uniform(0.2, 0.4, (points, 3, 1, 1)).astype(np.float32)}
        nodes = [helper.make_node("Conv", ["in", "w"], ["maps"])]
        shapes = {"maps": [batch, points, height, width]}
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    ]
    graph = helper.make_graph(
        nodes, "net", [given], outputs,
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, path)
    return path


def options(path: Path, **changes: Any) -> DetectorOptions:
    plain = OPTIONS.detector_options
    wanted = {
        "detector": "wholebody",
        "pose_model": str(path) if path.name else "",
        "groups": ("hands", "pose", "lips"),
    }
    return replace(plain, **{**wanted, **changes})


def spot(x: float, y: float, width: int = 320, height: int = 240) -> np.ndarray:
    """A picture that is brightest at one place."""
    rows, columns = np.mgrid[:height, :width]
    far = np.hypot(columns - x * width, rows - y * height)
    grey = np.clip(255 - 4 * far, 0, 255).astype(np.uint8)
    return np.repeat(grey[..., None], 3, axis=2)


@pytest.mark.parametrize("kind", ["simcc", "maps"])
@pytest.mark.parametrize("batch", ["B", 1, 3])
def test_points_are_where_the_network_sees_them(
    tmp_path: Path, kind: str, batch: int | str
) -> None:
    network = WholeBodyNetwork(
        write_network(tmp_path / "n.onnx", kind, batch=batch), least=0.5, threads=1
    )
    places = [(0.2, 0.3), (0.5, 0.5), (0.8, 0.6), (0.4, 0.8), (0.9, 0.1)]
    found = network.find([spot(*place) for place in places])
    assert found.shape == (5, 133, 3)
    for points, place in zip(found, places, strict=True):
        np.testing.assert_allclose(points[:, :2].mean(axis=0), place, atol=0.03)
        assert (points[:, 2] > 0.5).all()
    tall = network.find([spot(0.3, 0.7, width=200, height=500)])
    np.testing.assert_allclose(tall[0, :, :2].mean(axis=0), (0.3, 0.7), atol=0.03)


def test_a_clip_is_looked_at_in_batches_with_the_same_result(tmp_path: Path) -> None:
    (tmp_path / "clip").mkdir()
    for number in range(BATCH + 3):
        picture = spot(0.2 + 0.05 * number, 0.8 - 0.03 * number)
        cv2.imwrite(str(tmp_path / f"clip/{number}.png"), picture)
    open_pictures(tmp_path / "clip", 25).pack(tmp_path / "clip.mov")
    chosen = options(write_network(tmp_path / "n.onnx", "maps"))
    clip = extract_video(tmp_path / "clip.mov", chosen)
    assert clip.layout.name == "hands-pose-lips-without-left_hip-right_hip-20-of-lips-flat"
    assert clip.present.all()
    assert (clip.points[..., 2] == 0).all()
    alone = build_detector(chosen)
    with Video(tmp_path / "clip.mov") as video:
        for number, frame in enumerate(video.frames()):
            points, present = alone.detect(frame.rgb, frame.time_s)
            np.testing.assert_array_equal(points.astype(np.float16), clip.points[number])
            assert present.all()


def test_the_file_is_part_of_what_describes_landmarks(tmp_path: Path) -> None:
    one = options(write_network(tmp_path / "one.onnx", "maps"))
    other = options(write_network(tmp_path / "other.onnx", "simcc"))
    first, second = (json.loads(extractor_fingerprint(each)) for each in (one, other))
    assert first["groups"] == ["hands", "pose", "lips"]
    assert first["models"] != second["models"]
    assert "onnxruntime" in first
    assert options_of_fingerprint(first, "", str(tmp_path / "one.onnx")) == replace(
        one, runtime="mediapipe"
    )
    with pytest.raises(UserError, match="another make"):
        options_of_fingerprint(first, "", str(tmp_path / "other.onnx"))


def test_what_is_no_such_network_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"needs the path of an \.onnx file"):
        options(Path())
    with pytest.raises(UserError, match="is not a file"):
        build_detector(options(tmp_path / "none.onnx"))
    (tmp_path / "text.onnx").write_text("no network")
    with pytest.raises(UserError, match="no network that ONNX Runtime can read"):
        build_detector(options(tmp_path / "text.onnx"))
    with pytest.raises(UserError, match=r"its outputs are .*, expected two of SimCC"):
        build_detector(options(write_network(tmp_path / "n.onnx", "maps", points=17)))
    with pytest.raises(ValueError, match="sees no gaze"):
        options(tmp_path / "n.onnx", groups=("gaze",))
