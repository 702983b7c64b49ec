"""Networks, regions and filters beside MediaPipe's own calculators, and written out by hand."""

import ctypes
import math
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import cv2
import flatbuffers
import numpy as np
import numpy.typing as npt
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter

from signloom.detection.mediapipe_models import HandGraph, HolisticGraph, PoseGraph, models_folder
from signloom.detection.networks import MeshNetwork, Network, _cut_level, _level, rewrite
from signloom.detection.regions import (
    WHOLE,
    Region,
    crop,
    grow,
    project,
    region_of_hand,
    region_of_points,
    region_of_wrist,
    scale_of,
    stays,
    uncrop,
)
from signloom.detection.runtime import (
    _HAND_REACH,
    HandNetworks,
    HolisticNetworks,
    PoseNetworks,
    PoseTracker,
    _exp,
    _smooth,
    build_anchors,
    read_detections,
    refine,
)
from signloom.detection.smoothing import LowPassFilter, OneEuroFilter
from signloom.detection.video import Video
from tests.extraction import NEEDS_MEDIAPIPE
from tests.golden.landmarks import VIDEO
from tests.mediapipe_streams import HolisticStreams

F = np.float32
MODELS = models_folder()
POSE = "poselandmarkcpu__"
LOOK = f"{POSE}poselandmarkbyroicpu__"
TENSORS = f"{LOOK}tensorstoposelandmarksandsegmentation__"
HANDS = "handlandmarksleftandrightcpu__"
RIGHT = f"{HANDS}handlandmarksfromposecpu_2__"
MESSAGES = {
    "pose": "pose_landmarks",
    "hand": "right_hand_landmarks",
    "pose_region": f"{POSE}pose_rect",
    "raw": f"{TENSORS}raw_landmarks",
    "refined": f"{TENSORS}all_landmarks",
    "unfiltered": f"{POSE}unfiltered_pose_landmarks",
    "scale": f"{POSE}poselandmarkfiltering__roi",
    "auxiliary": f"{POSE}auxiliary_landmarks",
    "next_region": "pose_landmarks_roi",
    "wrist_region": f"{HANDS}right_hand_roi_from_pose",
    "recrop_region": f"{HANDS}right_hand_roi_from_recrop",
    "hand_region": f"{HANDS}right_hand_tracking_roi",
    "last_hand_region": f"{RIGHT}handtracking__prev_hand_landmarks_roi",
}
CROPS = {
    "pose_crop": f"{LOOK}input_tensors",
    "values": f"{TENSORS}landmark_tensor",
    "heatmap": f"{TENSORS}heatmap_tensor",
    "recrop_crop": f"{RIGHT}handrecropbyroicpu__initial_crop_tensor",
    "recrop_values": f"{RIGHT}handrecropbyroicpu__landmark_tensors",
    "hand_crop": f"{RIGHT}handlandmarkcpu__input_tensor",
    "hand_values": f"{RIGHT}handlandmarkcpu__landmark_tensors",
}


@pytest.fixture(scope="module")
def frames() -> list[npt.NDArray[np.uint8]]:
    with Video(VIDEO) as video:
        return [frame.rgb for frame in video.frames()]


@pytest.fixture(scope="module")
def flows(frames: list[npt.NDArray[np.uint8]]) -> list[dict[str, Any]]:
    """What MediaPipe's calculators sent, frame by frame."""
    streams = HolisticStreams(list(MESSAGES.values()), CROPS)
    names = {stream: name for name, stream in MESSAGES.items()}
    return [
        {names.get(name, name): value for name, value in streams.run(frame).items()}
        for frame in frames
    ]


def assert_close(actual: Any, expected: Any) -> None:
    """Equal to the bit where this was written; other processors round the last bits otherwise."""
    if isinstance(expected, Region):
        actual, expected = astuple(actual), astuple(expected)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.mediapipe
@NEEDS_MEDIAPIPE
def test_each_part_of_the_pose_is_mediapipes_own(
    frames: list[npt.NDArray[np.uint8]], flows: list[dict[str, Any]]
) -> None:
    size = frames[0].shape[1], frames[0].shape[0]
    region = PoseTracker(MODELS, 0.5, 0.5)._detect(frames[0], size)
    assert_close(region, flows[0]["pose_region"])
    network = Network(MODELS / "pose_landmark/pose_landmark_full.tflite", (0, 1, 3))
    smoothers = OneEuroFilter(0.05, 80.0), OneEuroFilter(0.01, 10.0)
    for frame, flow in zip(frames, flows, strict=True):
        cropped = crop(frame, flow["pose_region"], 256)
        assert_close(cropped.rgb.ravel() / 255, flow["pose_crop"])
        values, _, heatmap = network.run(cropped.rgb)
        assert_close(values, flow["values"])
        assert_close(heatmap.ravel(), flow["heatmap"])
        refined = refine(flow["raw"], flow["heatmap"].reshape(64, 64, 39))
        assert_close(refined, flow["refined"])
        points = project(uncrop(flow["refined"], cropped.padding), flow["pose_region"])
        assert_close(points[:33], flow["unfiltered"])
        assert_close(region_of_points(points[33], points[34], size), flow["scale"])
        scale = scale_of(flow["scale"], size)
        assert_close(_smooth(smoothers[0], flow["unfiltered"], scale, size), flow["pose"])
        assert_close(_smooth(smoothers[1], points[33:35], scale, size), flow["auxiliary"])
        centre, edge = flow["auxiliary"]
        assert_close(grow(region_of_points(centre, edge, size), size, 1.25), flow["next_region"])


@pytest.mark.mediapipe
@NEEDS_MEDIAPIPE
def test_each_part_of_a_hand_is_mediapipes_own(
    frames: list[npt.NDArray[np.uint8]], flows: list[dict[str, Any]]
) -> None:
    size = frames[0].shape[1], frames[0].shape[0]
    recrop = Network(MODELS / "holistic_landmark/hand_recrop.tflite")
    landmarks = Network(MODELS / "hand_landmark/hand_landmark_full.tflite", (0, 1))
    last, followed = None, 0
    for frame, flow in zip(frames, flows, strict=True):
        wrist = flow["pose"][[16, 18, 20]]
        assert_close(grow(region_of_wrist(wrist, size), size, 2.7, -0.1), flow["wrist_region"])
        cropped = crop(frame, flow["wrist_region"], 256)
        assert_close(cropped.rgb.ravel() / 255, flow["recrop_crop"])
        (values,) = recrop.run(cropped.rgb)
        np.testing.assert_allclose(values.ravel(), flow["recrop_values"], atol=1e-3)  # of 256
        points = flow["recrop_values"].reshape(2, 2) / F(256)
        centre, edge = project(uncrop(points, cropped.padding), flow["wrist_region"])
        region = region_of_points(centre, edge, size, down=True)
        assert_close(grow(region, size, 1.0, -0.1), flow["recrop_region"])
        if last is not None:
            before = grow(region_of_hand(last, size), size, 2.0, -0.1)
            assert_close(before, flow["last_hand_region"])
            is_followed = stays(
                flow["last_hand_region"], last, flow["recrop_region"], size, _HAND_REACH
            )
            followed += is_followed
            expected = flow["last_hand_region" if is_followed else "recrop_region"]
            assert astuple(expected) == astuple(flow["hand_region"])
        cropped = crop(frame, flow["hand_region"], 224)
        assert_close(cropped.rgb.ravel() / 255, flow["hand_crop"])
        values, _ = landmarks.run(cropped.rgb)
        np.testing.assert_allclose(values, flow["hand_values"], atol=1e-3)  # of 224
        last = flow["hand"]
        if last is not None:
            points = flow["hand_values"].reshape(-1, 3) / F(224)
            points[:, 2] /= F(0.4)
            assert_close(project(uncrop(points, cropped.padding), flow["hand_region"]), last)
    assert followed


@pytest.mark.slow
@pytest.mark.mediapipe
@pytest.mark.parametrize("refined", [False, True])
def test_the_landmarks_are_those_of_mediapipes_graph(
    frames: list[npt.NDArray[np.uint8]], refined: bool
) -> None:
    """Quick twins: the two above, the parts of a refined face below, and test_detector.py."""
    graph, networks = (
        HolisticGraph(0.5, 0.5, face=True, refined=refined),
        HolisticNetworks(MODELS, 0.5, 0.5, face=True, refined=refined),
    )
    black = np.zeros_like(frames[0])  # nobody: both forget, and detect again
    for frame in [*frames, black, *frames[2:5]]:
        landmarks, expected = networks.find(frame), graph.find(frame)
        assert landmarks.keys() == expected.keys()
        for part, points in expected.items():
            np.testing.assert_allclose(landmarks[part], points, atol=0.25 / frame.shape[1])
    first = networks.find(frames[4])
    networks.reset()
    networks.find(frames[4])
    networks.reset()
    for frame in frames[:2]:
        networks.find(frame)
    networks.reset()
    again = HolisticNetworks(MODELS, 0.5, 0.5, face=True, refined=refined).find(frames[4])
    assert first.keys() == again.keys()
    for part, points in networks.find(frames[4]).items():
        np.testing.assert_array_equal(points, again[part])  # nothing of the last clip is left


@pytest.mark.slow
@pytest.mark.mediapipe
def test_hands_and_pose_are_those_of_mediapipes_graphs(frames: list[npt.NDArray[np.uint8]]) -> None:
    """Quick twins: the parts above, which both share."""
    hands, pose = HandNetworks(MODELS, 0.5, 0.5), PoseNetworks(MODELS, 0.5, 0.5)
    hand_graph, pose_graph = HandGraph(0.5, 0.5), PoseGraph(0.5, 0.5)
    black = np.zeros_like(frames[0])
    for number, frame in enumerate([*frames, black, *frames[2:5]]):
        detected, expected = hands.find(frame, number / 15), hand_graph.find(frame, number / 15)
        assert len(detected) == len(expected)
        for hand, expected_hand in zip(detected, expected, strict=True):
            np.testing.assert_allclose(
                hand.points, expected_hand.points, atol=0.25 / frame.shape[1]
            )
            assert hand.right == pytest.approx(expected_hand.right, abs=1e-3)
        marks, its = pose.find(frame, number / 15), pose_graph.find(frame, number / 15)
        assert (marks is None) == (its is None)
        if marks is not None and its is not None:
            np.testing.assert_allclose(marks, its, atol=0.25 / frame.shape[1])


@pytest.mark.mediapipe
def test_a_refined_face_has_its_irises_in_its_eyes() -> None:
    network = MeshNetwork(MODELS / "face_landmark/face_landmark_with_attention.tflite")
    points, _ = network.run(np.full((network.size, network.size, 3), 128, np.uint8))
    assert points.shape == (478, 3)
    for iris, outer, inner, lids in ((468, 33, 133, [159, 145]), (473, 263, 362, [386, 374])):
        corners = points[[outer, inner], 0]
        assert corners.min() < points[iris, 0] < corners.max()
        assert points[iris : iris + 5, 2] == pytest.approx(points[lids, 2].mean(), abs=5)


@pytest.mark.parametrize("degrees", [0.0, 25.0, -100.0])
def test_features_are_cut_out_level_and_read_between_their_cells(degrees: float) -> None:
    corners = np.array([[-4, 0, 7], [4, 0, 7], [0, 3, 7], [0, -3, 7]], np.float32)
    angle = math.radians(degrees)
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]], F)
    corners[:, :2] = corners[:, :2] @ turn.T + 24
    frame = {
        "left_rotation_idx": 0,
        "right_rotation_idx": 1,
        "target_rotation_radians": 0.0,
        "subset_idxs": [0, 1, 2, 3],
        "scale_x": 1.5,
        "scale_y": 1.5,
        "output_width": 16,
        "output_height": 16,
    }
    matrix = _level(corners, frame)
    y, x = np.mgrid[:48, :48].astype(F) + F(0.5)
    cut = _cut_level(np.stack([x, y], axis=-1), matrix)  # features that say where they are
    # One and a half times the box about the marks, in its own axes.
    cells = (np.arange(16) + 0.5) / 16 - 0.5
    across, down = np.meshgrid(cells * 12, cells * 9)
    expected = np.stack([across, down], axis=-1) @ turn.T + 24
    np.testing.assert_allclose(cut, expected, rtol=1e-5)
    outside = matrix.copy()
    outside[0, 3] += 100
    assert not _cut_level(np.ones((48, 48, 2), F), outside).any()


def test_a_network_without_an_output_gives_the_others_to_the_bit() -> None:
    path = MODELS / "hand_landmark/hand_landmark_full.tflite"
    network, part = Network(path), Network(path, (1, 0))
    picture = np.random.default_rng(1).integers(0, 256, (224, 224, 3), np.uint8)
    points, presence, *_ = network.run(picture)
    for output, expected in zip(part.run(picture), (presence, points), strict=True):
        np.testing.assert_array_equal(output, expected)
    content = path.read_bytes()
    assert len(rewrite(content, (0, 1))) < len(content)


def test_a_product_a_channel_is_rounded_twice_as_mediapipe_rounds_it() -> None:
    """Which `rewrite` writes as a multiplication and an addition, constants a column each."""
    path = MODELS / "holistic_landmark/hand_recrop.tflite"
    model = schema.ModelT.InitFromObj(
        schema.Model.GetRootAsModel(rewrite(path.read_bytes(), None), 0)
    )
    (graph,) = model.subgraphs
    graph.operators = graph.operators[:4]  # a convolution, its activation, the product
    convolved, *_ = graph.operators[2].inputs
    graph.outputs = [convolved, *graph.operators[3].outputs]
    builder = flatbuffers.Builder(0)
    builder.Finish(model.Pack(builder), b"TFL3")
    interpreter = Interpreter(model_content=bytes(builder.Output()), num_threads=1)
    interpreter.allocate_tensors()
    picture = np.random.default_rng(4).random((1, 256, 256, 3), np.float32)
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], picture)
    interpreter.invoke()
    unscaled, scaled = (
        interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()
    )
    factors, bias = (
        model.buffers[graph.tensors[operator.inputs[1]].buffer].data.view(np.float32)
        for operator in graph.operators[2:]
    )
    assert factors.size == 128 * 8
    np.testing.assert_array_equal(scaled, unscaled * factors[:8] + bias[:8])


def test_a_region_is_cut_out_turned_and_its_points_come_back() -> None:
    picture = np.zeros((120, 160, 3), np.uint8)
    cv2.circle(picture, (100, 40), 3, (255, 255, 255), -1)
    region = Region(F(0.6), F(0.4), F(0.45), F(0.6), F(0.5))
    cropped = crop(picture, region, 96)
    rows, columns = np.nonzero(cropped.rgb[:, :, 0] > 127)
    point = np.array([[columns.mean() / 96, rows.mean() / 96, 0.1]], np.float32)
    projected = project(uncrop(point, cropped.padding), region)
    np.testing.assert_allclose(projected[0, :2] * [160, 120], [100, 40], atol=0.3)
    assert projected[0, 2] == pytest.approx(0.1 * 0.45, rel=1e-5)
    edge = replace(region, x=F(0.9), y=F(0.95))  # its picture goes on to the right and below
    noise = np.random.default_rng(5).integers(0, 256, picture.shape, np.uint8)
    picture = np.asarray(cv2.GaussianBlur(noise, (0, 0), 3), np.uint8)
    widened = np.pad(picture, ((0, 99), (0, 99), (0, 0)), "edge")
    inner = replace(
        edge,
        x=F(0.9 * 160 / 259),
        y=F(0.95 * 120 / 219),
        width=F(0.45 * 160 / 259),
        height=F(0.6 * 120 / 219),
    )
    cropped, expected = crop(picture, edge, 96).rgb, crop(widened, inner, 96).rgb
    assert np.abs(cropped - expected.astype(int)).max() <= 1
    assert np.ptp(cropped) > 8
    wide = crop(picture, WHOLE, 96, border=cv2.BORDER_CONSTANT)
    assert wide.padding == (0, pytest.approx(0.125))
    with pytest.raises(RuntimeError, match="the frame is empty"):
        crop(picture[:0], WHOLE, 96)


def test_a_hand_is_followed_only_if_it_is_where_the_pose_says() -> None:
    size, points = (100, 100), np.full((21, 3), 0.5, np.float32)
    now = Region(F(0.5), F(0.5), F(0.3), F(0.3), F(0.1))

    def follows(**change: float) -> bool:
        before = replace(now, **{name: F(value) for name, value in change.items()})
        return stays(before, points, now, size, _HAND_REACH)

    assert follows()
    assert follows(x=0.55, width=0.4)
    assert follows(rotation=0.1 + math.radians(39))
    assert follows(rotation=0.1 + math.radians(390))
    assert not follows(rotation=0.1 + math.radians(41))
    assert not follows(x=0.58)
    assert not follows(height=0.43)
    points[3, 0] = 0.64  # a landmark out of the region
    assert not follows()


def test_a_low_pass_filter_keeps_nine_tenths_of_what_was() -> None:
    low_pass = LowPassFilter()
    smoothed = [low_pass.apply(F([value])).item() for value in (1.0, 0.0, 0.5)]
    assert smoothed == pytest.approx([1.0, 0.9, 0.86])


def test_a_detection_is_averaged_with_those_that_lie_on_it() -> None:
    anchors = build_anchors(192, (8, 16, 16, 16))
    assert anchors.shape == (2016, 2)
    np.testing.assert_allclose(anchors[:3] * 48, [[1, 1], [1, 1], [3, 1]], rtol=1e-6)
    boxes = np.zeros((4, 8), np.float32)
    boxes[:, 2:4] = 40
    boxes[:, 4] = [1, 2, 3, 50]  # the x of its first key point
    centres = np.array([[0.5, 0.5], [0.51, 0.5], [0.9, 0.9], [0.5, 0.5]], np.float32)
    logits = np.array([1.0, 2.0, 1.5, -3.0], np.float32)
    detections = read_detections(boxes, logits, centres, 100, F(0.5))
    weights = 1 / (1 + np.exp(-logits[:2]))
    expected = (weights * (centres[:2, 0] + [0.01, 0.02])).sum() / weights.sum()
    assert len(detections) == 2
    assert detections[0].points[0, 0] == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(detections[1].low, [0.7, 0.7], rtol=1e-5)
    np.testing.assert_allclose(detections[1].sides, [0.4, 0.4], rtol=1e-5)
    assert read_detections(boxes, logits - 5, centres, 100, F(0.5)) == []


@pytest.mark.skipif(
    not Path("/lib64/ld-linux-x86-64.so.2").exists(), reason="needs glibc on x86-64"
)
def test_powers_of_e_are_those_of_the_c_library() -> None:
    power = ctypes.CDLL(None).expf
    power.argtypes, power.restype = [ctypes.c_float], ctypes.c_float
    values = np.random.default_rng(3).normal(0, 8, 5000).astype(np.float32)
    np.testing.assert_array_equal(_exp(values), F([power(float(value)) for value in values]))
