"""Landmarks along a clip by MediaPipe's networks, without MediaPipe's graph.

What lies between the networks is written here after MediaPipe's graphs and calculators, whose
files are named: holistic_landmark_cpu.pbtxt and the graphs in it, as version 0.10.21 has them.
"""

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from signloom.extraction.networks import Network, Tensor
from signloom.extraction.regions import (
    WHOLE,
    Picture,
    Points,
    Region,
    Size,
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
from signloom.extraction.smoothing import LowPassFilter, OneEuroFilter

F = np.float32
_POSE_POINTS, _AUXILIARY = 33, slice(33, 35)
_WRISTS = {"left_hand": [15, 17, 19], "right_hand": [16, 18, 20]}  # wrist, little, index finger
_LEAST_VISIBLE = F(0.1)
_LEAST_HAND = F(0.5)
_REFINED_FROM = F(0.5)  # least confidence of a heatmap that corrects a landmark
_REACH = 4  # cells of the heatmap to each side of a landmark; the graph says 3, and does 4
_SAME_PERSON = F(0.3)  # intersection over union of two detections


class PoseDetector:
    """Finds the person in a whole picture (pose_detection_cpu.pbtxt).

    Args:
        model: pose_detection.tflite.
        min_confidence: Least confidence, 0 to 1.
    """

    def __init__(self, model: Path, min_confidence: float) -> None:
        self._network = Network(model)
        self._least = F(min_confidence)
        self._anchors = build_anchors(self._network.size, (8, 16, 32, 32, 32))

    def find(self, rgb: Picture) -> Region | None:
        """Return the region of the person who is seen best, if any."""
        size = rgb.shape[1], rgb.shape[0]
        seen = crop(rgb, WHOLE, self._network.size, low=-1.0, border=cv2.BORDER_CONSTANT)
        boxes, logits = self._network.run(seen.rgb)
        points = best_detection(boxes, logits[:, 0], self._anchors, self._network.size, self._least)
        if points is None:
            return None
        points = uncrop(points, seen.padding)
        return grow(region_of_points(points[0], points[1], size), size, 1.25)


def build_anchors(size: int, strides: Sequence[int]) -> npt.NDArray[np.float32]:
    """Return the centres of the boxes of a detector, shape (boxes, 2) (ssd_anchors_calculator.cc).

    Args:
        size: Pixels of its square picture.
        strides: Pixels a cell, of each layer; each layer has two boxes a cell.
    """
    found = []
    for stride in sorted(set(strides)):
        cells = -(-size // stride)
        centres = (np.arange(cells, dtype=np.float32) + F(0.5)) / F(cells)
        grid = np.stack(np.meshgrid(centres, centres), axis=-1).reshape(-1, 2)
        found.append(np.repeat(grid, 2 * strides.count(stride), axis=0))
    return np.concatenate(found)


def best_detection(
    boxes: Tensor, logits: Tensor, anchors: Tensor, size: int, least: np.float32
) -> Points | None:
    """Return the key points of the detection with the best score, averaged with those on it.

    It is tensors_to_detections_calculator.cc and the first result of
    non_max_suppression_calculator.cc, weighted.

    Args:
        boxes: Shape (boxes, 4 and twice the key points).
        logits: Shape (boxes,).
        anchors: Shape (boxes, 2).
        size: Pixels of the picture.
        least: Least score.
    """
    scores = _sigmoid(np.clip(logits, -100, 100))
    (chosen,) = np.nonzero(scores >= least)
    if not len(chosen):
        return None
    # Ties: as std::sort leaves them, which no test has met.
    chosen = chosen[np.argsort(-scores[chosen], kind="stable")]
    scores, boxes, anchors = scores[chosen], boxes[chosen], anchors[chosen]
    side = F(size)
    centres, sides = boxes[:, :2] / side + anchors, boxes[:, 2:4] / side
    low, high = centres - sides / F(2), centres + sides / F(2)
    sides = high - low
    high = low + sides
    overlap = np.minimum(high, high[0]) - np.maximum(low, low[0])
    common = np.where((overlap > 0).all(axis=1), overlap[:, 0] * overlap[:, 1], F(0))
    areas = sides[:, 0] * sides[:, 1]
    near = common / (areas + areas[0] - common) > _SAME_PERSON
    keypoints = boxes[:, 4:].reshape(len(boxes), -1, 2) / side + anchors[:, None]
    weights = scores[near]
    weighted = keypoints[near] * weights[:, None, None]
    # In MediaPipe's order of summing.
    found: Points = np.cumsum(weighted, axis=0)[-1] / np.cumsum(weights)[-1]
    return found


class PoseTracker:
    """Follows one person's pose along a clip (pose_landmark_cpu.pbtxt).

    Args:
        detector: Finds the person when there is nobody to follow.
        model: pose_landmark_full.tflite.
        min_confidence: Least confidence to go on following, 0 to 1.
        threads: Of the network.
    """

    def __init__(
        self, detector: PoseDetector, model: Path, min_confidence: float, *, threads: int = 1
    ) -> None:
        self._detector = detector
        self._network = Network(model, (0, 1, 3), threads=threads)
        self._least = F(min_confidence)
        self.reset()

    def reset(self) -> None:
        """Forget the clip."""
        self._region: Region | None = None
        self._forget_movement()

    def _forget_movement(self) -> None:
        self._visible = LowPassFilter()
        self._smooth, self._smooth_auxiliary = OneEuroFilter(0.05, 80.0), OneEuroFilter(0.01, 10.0)

    def find(self, rgb: Picture) -> tuple[Points, Tensor] | None:
        """Return 33 landmarks, shape (33, 3), and how visible each is, 0 to 1, if there is one."""
        size = rgb.shape[1], rgb.shape[0]
        region = self._region or self._detector.find(rgb)
        self._region = None
        found = None if region is None else self._look(rgb, region)
        if region is None or found is None:
            self._forget_movement()
            return None
        points, visible = found
        auxiliary = points[_AUXILIARY]
        scale = scale_of(region_of_points(auxiliary[0], auxiliary[1], size), size)
        visible = self._visible.apply(visible[:_POSE_POINTS])
        auxiliary = _smooth(self._smooth_auxiliary, auxiliary, scale, size)
        self._region = grow(region_of_points(auxiliary[0], auxiliary[1], size), size, 1.25)
        return _smooth(self._smooth, points[:_POSE_POINTS], scale, size), visible

    def _look(self, rgb: Picture, region: Region) -> tuple[Points, Tensor] | None:
        """Return the landmarks of one picture (pose_landmark_by_roi_cpu.pbtxt)."""
        seen = crop(rgb, region, self._network.size)
        values, presence, heatmap = self._network.run(seen.rgb)
        if not presence[0] > self._least:
            return None
        values = values.reshape(-1, 5)
        points = refine(values[:, :3] / F(self._network.size), heatmap)
        return project(uncrop(points, seen.padding), region), _sigmoid(values[:, 3])


def refine(points: Points, heatmap: Tensor) -> Points:
    """Return landmarks moved to where their heatmaps are (refine_landmarks_from_heatmap_...cc).

    Args:
        points: Shape (landmarks, 3), in sizes of the crop.
        heatmap: Logits, shape (rows, columns, landmarks).
    """
    rows, columns, count = heatmap.shape
    size = np.array([columns, rows], np.float32)
    column, row = np.trunc(points[:, :2] * size).astype(np.int64).T
    steps = np.arange(-_REACH, _REACH + 1)
    at_row, at_column = row[:, None] + steps, column[:, None] + steps
    inside = ((at_row >= 0) & (at_row < rows))[:, :, None] & (
        (at_column >= 0) & (at_column < columns)
    )[:, None, :]  # (landmarks, 7, 7)
    logits = heatmap[
        at_row.clip(0, rows - 1)[:, :, None],
        at_column.clip(0, columns - 1)[:, None, :],
        np.arange(count)[:, None, None],
    ]
    weights = np.where(inside, _sigmoid(logits), F(0)).reshape(count, -1)
    where = [
        np.broadcast_to(at.astype(np.float32), inside.shape).reshape(count, -1)
        for at in (at_column[:, None, :], at_row[:, :, None])
    ]
    total = np.cumsum(weights, axis=1)[:, -1]  # in MediaPipe's order of summing
    is_sure = (weights.max(axis=1) >= _REFINED_FROM) & (total > 0)
    is_sure &= (column >= 0) & (column < columns) & (row >= 0) & (row < rows)
    found = points.copy()
    for axis in (0, 1):
        mean = np.cumsum(where[axis] * weights, axis=1)[is_sure, -1] / size[axis] / total[is_sure]
        found[is_sure, axis] = mean
    return found


class HandTracker:
    """Follows one hand at the end of an arm along a clip (hand_landmarks_from_pose_cpu.pbtxt).

    Args:
        recrop: Finds the hand near a wrist: hand_recrop.tflite.
        landmarks: hand_landmark_full.tflite.
    """

    def __init__(self, recrop: Network, landmarks: Network) -> None:
        self._recrop, self._landmarks = recrop, landmarks
        self.reset()

    def reset(self) -> None:
        """Forget the clip."""
        self._last: Points | None = None

    def find(self, rgb: Picture, wrist: Points, visible: np.float32) -> Points | None:
        """Return the 21 landmarks of the hand, shape (21, 3), if it is there.

        Args:
            rgb: The picture.
            wrist: Wrist, little finger and index finger of the pose, shape (3, 3).
            visible: How visible the wrist is, 0 to 1.
        """
        last, self._last = self._last, None
        if not visible > _LEAST_VISIBLE:
            return None
        size = rgb.shape[1], rgb.shape[0]
        region = self._locate(rgb, grow(region_of_wrist(wrist, size), size, 2.7, -0.1), size)
        if last is not None:
            before = grow(region_of_hand(last, size), size, 2.0, -0.1)
            region = before if stays(before, last, region, size) else region
        self._last = find_hand(self._landmarks, rgb, region)
        return self._last

    def _locate(self, rgb: Picture, region: Region, size: Size) -> Region:
        """Return where the hand is in a region (hand_recrop_by_roi_cpu.pbtxt)."""
        seen = crop(rgb, region, self._recrop.size)
        (values,) = self._recrop.run(seen.rgb)
        points = values.reshape(2, 2) / F(self._recrop.size)
        centre, edge = project(uncrop(points, seen.padding), region)
        return grow(region_of_points(centre, edge, size, down=True), size, 1.0, -0.1)


def find_hand(network: Network, rgb: Picture, region: Region) -> Points | None:
    """Return the landmarks of the hand in a region, if there is one (hand_landmark_cpu.pbtxt)."""
    seen = crop(rgb, region, network.size)
    values, presence = network.run(seen.rgb)
    if not presence[0] > _LEAST_HAND:
        return None
    points = values.reshape(-1, 3) / F(network.size)
    points[:, 2] /= F(0.4)
    return project(uncrop(points, seen.padding), region)


class HolisticNetworks:
    """Finds what MediaPipe Holistic finds, without the face.

    Args:
        models: Folder with MediaPipe's modules.
        min_detection_confidence: Least confidence to take something for a person, 0 to 1.
        min_tracking_confidence: Least confidence to go on following the person, 0 to 1.
        threads: Of a network.
    """

    def __init__(
        self,
        models: Path,
        min_detection_confidence: float,
        min_tracking_confidence: float,
        *,
        threads: int = 1,
    ) -> None:
        detector = PoseDetector(
            models / "pose_detection/pose_detection.tflite", min_detection_confidence
        )
        self._pose = PoseTracker(
            detector,
            models / "pose_landmark/pose_landmark_full.tflite",
            min_tracking_confidence,
            threads=threads,
        )
        recrop = Network(models / "holistic_landmark/hand_recrop.tflite", threads=threads)
        landmarks = Network(
            models / "hand_landmark/hand_landmark_full.tflite", (0, 1), threads=threads
        )
        self._hands = {name: HandTracker(recrop, landmarks) for name in _WRISTS}

    def reset(self) -> None:
        """Forget the clip."""
        self._pose.reset()
        for hand in self._hands.values():
            hand.reset()

    def find(self, rgb: Picture) -> dict[str, Points]:
        """Return the parts of the signer that the next frame shows."""
        found = self._pose.find(rgb)
        if found is None:
            for hand in self._hands.values():
                hand.reset()
            return {}
        pose, visible = found
        parts = {"pose": pose}
        for name, wrist in _WRISTS.items():
            points = self._hands[name].find(rgb, pose[wrist], visible[wrist[0]])
            if points is not None:
                parts[name] = points
        return parts


def _smooth(smoother: OneEuroFilter, points: Points, scale: np.float32, size: Size) -> Points:
    """Smooth in pixels, z by the width (landmarks_smoothing_calculator_utils.cc)."""
    pixels = np.array([size[0], size[1], size[0]], np.float32)
    return smoother.apply(points * pixels, scale) / pixels


def _sigmoid(logits: Tensor) -> Tensor:
    return F(1) / (F(1) + _exp(-logits))


_EXP_TABLE = 2.0 ** (np.arange(32) / 32)
_EXP_TERMS = (
    float.fromhex("0x1.c6af84b912394p-20"),
    float.fromhex("0x1.ebfce50fac4f3p-13"),
    float.fromhex("0x1.62e42ff0c52d6p-6"),
)


def _exp(values: Tensor) -> Tensor:
    """Return what glibc's expf returns (e_expf.c), which MediaPipe calls; NumPy's differs."""
    scaled = values.astype(np.float64).clip(-87, 87) * (32 * float.fromhex("0x1.71547652b82fep+0"))
    steps = np.rint(scaled)
    rest, count = scaled - steps, steps.astype(np.int64)
    power = np.ldexp(_EXP_TABLE[count % 32], (count // 32).astype(np.int32))
    cubic, square, line = _EXP_TERMS
    small = (cubic * rest + square) * (rest * rest) + (line * rest + 1)
    return (small * power).astype(np.float32)
