"""Landmarks along a clip by MediaPipe's networks, without MediaPipe's graph.

What lies between the networks is written here after MediaPipe's graphs and calculators, whose
files are named: holistic_landmark_cpu.pbtxt and the graphs in it, as version 0.10.21 has them.
"""

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import cv2
import numpy as np
import numpy.typing as npt

from signloom.detection.handedness import FoundHand
from signloom.detection.mediapipe_models import FACES_MODEL, HAND_MODELS, POSE_MODELS
from signloom.detection.networks import MeshNetwork, Network, Picture, Tensor
from signloom.detection.regions import (
    WHOLE,
    Pair,
    Points,
    Reach,
    Region,
    Size,
    box_of,
    crop,
    grow,
    project,
    project_square,
    region_about,
    region_of_box,
    region_of_hand,
    region_of_points,
    region_of_wrist,
    scale_of,
    stays,
    uncrop,
)
from signloom.detection.smoothing import LowPassFilter, OneEuroFilter
from signloom.detection.video import Frame

F = np.float32
T = TypeVar("T")
FoundPose = tuple[Points, Tensor]  # 33 landmarks and how visible each is
_POSE_POINTS, _AUXILIARY = 33, slice(33, 35)
_WRISTS = {"left_hand": [15, 17, 19], "right_hand": [16, 18, 20]}  # wrist, little, index finger
_LEAST_VISIBLE = F(0.1)
_LEAST_HAND = _LEAST_FACE = F(0.5)
_REFINED_FROM = F(0.5)  # least confidence of a heatmap that corrects a landmark
_REACH = 4  # cells of the heatmap to each side of a landmark; the graph says 3, and does 4
_SAME_THING = F(0.3)  # intersection over union of two detections
_SAME_HAND = F(0.5)  # of where a hand was and where a palm is
_MOST_HANDS = 2
_HAND_REACH = Reach(degrees=40, way=0.2, growth=0.4, margin=-0.1)
_FACE_REACH = Reach(degrees=15, way=0.1, growth=0.3, margin=-0.2)
_FIRST_LOOK = 10  # frame at which people are counted; films often begin black
_LEAST_SURE = 0.7  # that something is a face
# The whole picture and its quarters, which overlap.
_QUARTERS = (
    WHOLE,
    *(Region(F(x), F(y), F(0.55), F(0.55), F(0)) for x in (0.275, 0.725) for y in (0.275, 0.725)),
)
# Frames that one network looks at before the next: its weights stay in the processor's cache.
_CHUNK = 8
_CHUNK_BYTES = 32_000_000  # of their pictures, at most


def in_chunks(
    frames: Iterator[Frame],
    first: Callable[[Frame], T],
    *then: Callable[[Sequence[Frame], Sequence[T]], Sequence[Any]],
    at_once: bool,
) -> Generator[tuple[Frame, T, list[Any]], None, None]:
    """Yield each frame with what is found in it, chunk by chunk; nothing found depends on chunks.

    Args:
        first: Looks at a frame.
        then: Each looks at a chunk's frames and at what `first` found in them.
        at_once: In threads: frames are decoded ahead, `first` is a chunk ahead of the others.
    """
    with ThreadPoolExecutor(2 + len(then)) as pool:  # no thread before it gets work
        ahead: Callable[[Iterator[Any]], Iterator[Any]] = partial(_ahead, pool) if at_once else iter
        chunks = ahead(_chunks(frames))
        for chunk, leads in ahead((chunk, [first(frame) for frame in chunk]) for chunk in chunks):
            looks = [partial(look, chunk, leads) for look in then]
            looked = pool.map(_call, looks) if at_once else map(_call, looks)
            yield from zip(chunk, leads, map(list, zip(*looked, strict=True)), strict=True)


def _call(function: Callable[[], T]) -> T:
    return function()


def _chunks(frames: Iterator[Frame]) -> Iterator[list[Frame]]:
    for frame in frames:
        size = min(_CHUNK, max(1, _CHUNK_BYTES // max(1, frame.rgb.nbytes)))
        yield [frame, *itertools.islice(frames, size - 1)]


def _ahead(pool: ThreadPoolExecutor, items: Iterator[T]) -> Iterator[T]:
    """Yield items while a thread makes the next one."""
    coming = pool.submit(next, items, None)
    while (item := coming.result()) is not None:
        coming = pool.submit(next, items, None)
        yield item


@dataclass(frozen=True, slots=True, eq=False)
class Detection:
    """Something that a detector has found."""

    low: Points  # left and upper edge, shape (2,), parts of the picture
    sides: Points  # width and height, likewise
    points: Points  # its key points, shape (points, 2), likewise


class BoxDetector:
    """Finds something in a whole picture (pose_detection_cpu.pbtxt, palm_detection_cpu.pbtxt).

    Args:
        model: pose_detection.tflite or the like.
        strides: Pixels a cell, of each of its layers.
        low: What black becomes for it.
        min_confidence: Least confidence, 0 to 1.
        boxes: Of a cell.
    """

    def __init__(
        self, model: Path, strides: Sequence[int], low: float, min_confidence: float, boxes: int = 2
    ) -> None:
        self._network = Network(model, low=low)
        self._least = F(min_confidence)
        self._anchors = build_anchors(self._network.size, strides, boxes)

    def find(self, rgb: Picture) -> list[Detection]:
        """Return what is in a picture, the surest first."""
        detections, padding = self.look(rgb, WHOLE)
        left, top = padding
        inner = np.array([F(1) - (left + left), F(1) - (top + top)], np.float32)
        return [  # detection_letterbox_removal_calculator.cc
            Detection(
                (detection.low - np.array(padding, np.float32)) / inner,
                detection.sides / inner,
                uncrop(detection.points, padding),
            )
            for detection in detections
        ]

    def look(self, rgb: Picture, region: Region) -> tuple[list[Detection], Pair]:
        """Return what is in a region, in sizes of its crop, and the padding of that."""
        picture = crop(rgb, region, self._network.size, border=cv2.BORDER_CONSTANT)
        boxes, logits = self._network.run(picture.rgb)
        detections = read_detections(
            boxes, logits[:, 0], self._anchors, self._network.size, self._least
        )
        return detections, picture.padding


class PeopleCounter:
    """Finds out whether a film shows several people, by faces in a few of its frames.

    Args:
        models: Folder with MediaPipe's modules; where it lacks this network, nothing is found.
    """

    def __init__(self, models: Path) -> None:
        path = models / FACES_MODEL
        self._detector = BoxDetector(path, (4,), -1.0, _LEAST_SURE, 1) if path.is_file() else None
        self._looks: list[bool] = []  # whether a frame shows several

    def watch(self, frames: Iterator[Frame]) -> Iterator[Frame]:
        """Pass the frames of a film on; look at number 10, 20, 40, 80 and so on."""
        self._looks, following = [], _FIRST_LOOK
        for number, frame in enumerate(frames):
            if number == following and self._detector:
                self._looks.append(len(self.find_faces(frame.rgb, self._detector)) > 1)
                following *= 2
            yield frame

    @property
    def found_several(self) -> bool:
        """Whether more than half of the frames that were looked at show several people."""
        return 2 * sum(self._looks) > len(self._looks)

    @staticmethod
    def find_faces(rgb: Picture, detector: BoxDetector) -> list[tuple[Points, Points]]:
        """Return middle and sides of each face, parts of the picture."""
        faces: list[tuple[Points, Points]] = []
        for region in _QUARTERS:  # in the whole picture a face in a corner is too small
            detections, padding = detector.look(rgb, region)
            for detection in detections:
                corners = uncrop(
                    np.stack([detection.low, detection.low + detection.sides]), padding
                )
                low, high = project(corners, region)
                middle, sides = (low + high) / 2, high - low
                if all((abs(middle - face) > np.maximum(sides, its)).any() for face, its in faces):
                    faces.append((middle, sides))
        return faces


def build_anchors(size: int, strides: Sequence[int], boxes: int = 2) -> npt.NDArray[np.float32]:
    """Return the centres of the boxes of a detector, shape (boxes, 2) (ssd_anchors_calculator.cc).

    Args:
        size: Pixels of its square picture.
        strides: Pixels a cell, of each layer.
        boxes: Of a cell of a layer.
    """
    anchors = []
    for stride in sorted(set(strides)):
        cells = -(-size // stride)
        centres = (np.arange(cells, dtype=np.float32) + F(0.5)) / F(cells)
        grid = np.stack(np.meshgrid(centres, centres), axis=-1).reshape(-1, 2)
        anchors.append(np.repeat(grid, boxes * strides.count(stride), axis=0))
    return np.concatenate(anchors)


def read_detections(
    boxes: Tensor, logits: Tensor, anchors: Tensor, size: int, least: np.float32
) -> list[Detection]:
    """Return detections, the surest first, each averaged with those that lie on it.

    It is tensors_to_detections_calculator.cc and the weighted way of
    non_max_suppression_calculator.cc.

    Args:
        boxes: Shape (boxes, 4 and twice the key points).
        logits: Shape (boxes,).
        anchors: Shape (boxes, 2).
        size: Pixels of the picture.
        least: Least score.
    """
    scores = _sigmoid(np.clip(logits, -100, 100))
    (chosen,) = np.nonzero(scores >= least)
    # Of equal scores the first; MediaPipe's order of them is the compiler's.
    chosen = chosen[np.argsort(-scores[chosen], kind="stable")]
    scores, boxes, anchors = scores[chosen], boxes[chosen], anchors[chosen]
    side = F(size)
    centres, sides = boxes[:, :2] / side + anchors, boxes[:, 2:4] / side
    low, high = centres - sides / F(2), centres + sides / F(2)
    sides = high - low
    points = boxes[:, 4:].reshape(len(boxes), boxes.shape[1] // 2 - 2, 2) / side + anchors[:, None]
    detections = []
    remaining = np.arange(len(chosen))
    while len(remaining):
        near = (
            _overlap(low[remaining], sides[remaining], low[remaining[0]], sides[remaining[0]])
            > _SAME_THING
        )
        same, weights = remaining[near], scores[remaining[near]]
        if not near.any():  # a box without a size
            detections.append(
                Detection(low[remaining[0]], sides[remaining[0]], points[remaining[0]])
            )
            break
        total = np.cumsum(weights)[-1]  # in MediaPipe's order of summing
        mean = [
            np.cumsum(values[same] * weights.reshape(-1, *[1] * (values.ndim - 1)), axis=0)[-1]
            / total
            for values in (low, low + sides, points)
        ]
        detections.append(Detection(mean[0], mean[1] - mean[0], mean[2]))
        remaining = remaining[~near]
    return detections


def _overlap(low: Points, sides: Points, its_low: Points, its_sides: Points) -> Tensor:
    """Return the intersection over the union of rectangles, shape (n, 2), with one of them."""
    common = np.minimum(low + sides, its_low + its_sides) - np.maximum(low, its_low)
    areas, area = sides[:, 0] * sides[:, 1], its_sides[0] * its_sides[1]
    shared = np.where((common > 0).all(axis=1), common[:, 0] * common[:, 1], F(0))
    union = areas + area - shared
    return np.where(union > 0, shared / np.where(union > 0, union, F(1)), F(0))


class PoseTracker:
    """Follows one person's pose along a clip (pose_landmark_cpu.pbtxt).

    Args:
        models: Folder with MediaPipe's modules.
        min_detection_confidence: Least confidence to take something for a person, 0 to 1.
        min_tracking_confidence: Least confidence to go on following the person, 0 to 1.
    """

    def __init__(
        self, models: Path, min_detection_confidence: float, min_tracking_confidence: float
    ) -> None:
        self._detector = BoxDetector(
            models / POSE_MODELS[0], (8, 16, 32, 32, 32), -1.0, min_detection_confidence
        )
        self._network = Network(models / "pose_landmark/pose_landmark_full.tflite", (0, 1, 3))
        self._least = F(min_tracking_confidence)
        self.reset()

    def reset(self) -> None:
        """Forget the clip."""
        self._region: Region | None = None
        self._forget_movement()

    def _forget_movement(self) -> None:
        self._visible = LowPassFilter()
        self._smooth, self._smooth_auxiliary = OneEuroFilter(0.05, 80.0), OneEuroFilter(0.01, 10.0)

    def find(self, rgb: Picture) -> FoundPose | None:
        """Return 33 landmarks, shape (33, 3), and how visible each is, 0 to 1, if there is one."""
        size = rgb.shape[1], rgb.shape[0]
        region = self._region or self._detect(rgb, size)
        self._region = None
        pose = None if region is None else self._look(rgb, region)
        if region is None or pose is None:
            self._forget_movement()
            return None
        points, visible = pose
        auxiliary = points[_AUXILIARY]
        scale = scale_of(region_of_points(auxiliary[0], auxiliary[1], size), size)
        visible = self._visible.apply(visible[:_POSE_POINTS])
        auxiliary = _smooth(self._smooth_auxiliary, auxiliary, scale, size)
        self._region = grow(region_of_points(auxiliary[0], auxiliary[1], size), size, 1.25)
        return _smooth(self._smooth, points[:_POSE_POINTS], scale, size), visible

    def _detect(self, rgb: Picture, size: Size) -> Region | None:
        """Return the region of the person who is seen best (pose_detection_to_roi.pbtxt)."""
        for detection in self._detector.find(rgb):
            return grow(
                region_of_points(detection.points[0], detection.points[1], size), size, 1.25
            )
        return None

    def _look(self, rgb: Picture, region: Region) -> FoundPose | None:
        """Return the landmarks of one picture (pose_landmark_by_roi_cpu.pbtxt)."""
        picture = crop(rgb, region, self._network.size)
        values, presence, heatmap = self._network.run(picture.rgb)
        if not presence[0] > self._least:
            return None
        count = _AUXILIARY.stop
        values = values.reshape(-1, 5)[:count]
        points = refine(values[:, :3] / F(self._network.size), heatmap)
        return project(uncrop(points, picture.padding), region), _sigmoid(values[:, 3])


def refine(points: Points, heatmap: Tensor) -> Points:
    """Return landmarks moved to where their heatmaps are (refine_landmarks_from_heatmap_...cc).

    Args:
        points: Shape (landmarks, 3), in sizes of the crop.
        heatmap: Logits, shape (rows, columns, landmarks or more).
    """
    count, (rows, columns, depth) = len(points), heatmap.shape
    size = np.array([columns, rows], np.float32)
    column, row = np.trunc(points[:, :2] * size).astype(np.int64).T
    steps = np.arange(-_REACH, _REACH + 1)
    at_row, at_column = row[:, None] + steps, column[:, None] + steps
    inside = ((at_row >= 0) & (at_row < rows))[:, :, None] & (
        (at_column >= 0) & (at_column < columns)
    )[:, None, :]  # (landmarks, 9, 9)
    cells = at_row.clip(0, rows - 1)[:, :, None] * columns
    cells = cells + at_column.clip(0, columns - 1)[:, None, :]
    logits = heatmap.take(cells * depth + np.arange(count)[:, None, None])
    weights = np.where(inside, _sigmoid(logits), F(0)).reshape(count, -1)
    where = [
        np.broadcast_to(at.astype(np.float32), inside.shape).reshape(count, -1)
        for at in (at_column[:, None, :], at_row[:, :, None])
    ]
    total = np.cumsum(weights, axis=1)[:, -1]  # in MediaPipe's order of summing
    is_sure = (weights.max(axis=1) >= _REFINED_FROM) & (total > 0)
    is_sure &= (column >= 0) & (column < columns) & (row >= 0) & (row < rows)
    refined = points.copy()
    for axis in (0, 1):
        mean = np.cumsum(where[axis] * weights, axis=1)[is_sure, -1] / size[axis] / total[is_sure]
        refined[is_sure, axis] = mean
    return refined


class _Tracker(ABC):
    """Follows a part of the person whose pose is known."""

    def reset(self) -> None:
        """Forget the clip."""
        self._last: Points | None = None

    def follow(
        self, frames: Sequence[Frame], poses: Sequence[FoundPose | None]
    ) -> list[Points | None]:
        """Return the landmarks of the part in the next frames, shape (landmarks, 3), if seen."""
        regions = [self._locate(frame.rgb, pose) for frame, pose in zip(frames, poses, strict=True)]
        return [
            self._find(frame.rgb, region) for frame, region in zip(frames, regions, strict=True)
        ]

    @abstractmethod
    def _locate(self, rgb: Picture, pose: FoundPose | None) -> Region | None:
        """Return where the part may be by the pose."""

    @abstractmethod
    def _find(self, rgb: Picture, region: Region | None) -> Points | None:
        """Return the landmarks there, or where they were in the last frame and have stayed."""


class HandTracker(_Tracker):
    """Follows one hand at the end of an arm along a clip (hand_landmarks_from_pose_cpu.pbtxt).

    Args:
        recrop: Finds the hand near a wrist: hand_recrop.tflite.
        landmarks: hand_landmark_full.tflite.
        wrist: Wrist, little finger and index finger among the pose's landmarks.
    """

    def __init__(self, recrop: Network, landmarks: Network, wrist: list[int]) -> None:
        self._recrop, self._landmarks, self._wrist = recrop, landmarks, wrist
        self.reset()

    def _find(self, rgb: Picture, region: Region | None) -> Points | None:
        last, self._last = self._last, None
        if region is None:
            return None
        if last is not None:
            size = rgb.shape[1], rgb.shape[0]
            before = grow(region_of_hand(last, size), size, 2.0, -0.1)
            region = before if stays(before, last, region, size, _HAND_REACH) else region
        hand = find_hand(self._landmarks, rgb, region)
        self._last = None if hand is None else hand[0]
        return self._last

    def _locate(self, rgb: Picture, pose: FoundPose | None) -> Region | None:
        """Return where the hand may be by the pose (hand_recrop_by_roi_cpu.pbtxt)."""
        if pose is None or not pose[1][self._wrist[0]] > _LEAST_VISIBLE:
            return None
        size = rgb.shape[1], rgb.shape[0]
        region = grow(region_of_wrist(pose[0][self._wrist], size), size, 2.7, -0.1)
        picture = crop(rgb, region, self._recrop.size)
        (values,) = self._recrop.run(picture.rgb)
        points = values.reshape(2, 2) / F(self._recrop.size)
        centre, edge = project(uncrop(points, picture.padding), region)
        return grow(region_of_points(centre, edge, size, down=True), size, 1.0, -0.1)


def find_hand(
    network: Network, rgb: Picture, region: Region, least: np.float32 = _LEAST_HAND
) -> tuple[Points, float] | None:
    """Return the hand in a region, if there is one (hand_landmark_cpu.pbtxt).

    Args:
        network: hand_landmark_full.tflite, its first three outputs.
        least: Least confidence that it is a hand.

    Returns:
        Its landmarks, shape (21, 3), and how much it looks like a left hand, 0 to 1.
    """
    picture = crop(rgb, region, network.size)
    values, presence, left = network.run(picture.rgb)
    if not presence[0] > least:
        return None
    points = values.reshape(-1, 3) / F(network.size)
    points[:, 2] /= F(0.4)
    return project(uncrop(points, picture.padding), region), float(left[0])


class FaceTracker(_Tracker):
    """Follows the face of the person whose pose is known (face_landmarks_from_pose_cpu.pbtxt).

    Args:
        models: Folder with MediaPipe's modules.
        refined: Look again at lips, eyes and brows, and find the irises.
    """

    def __init__(self, models: Path, *, refined: bool = False) -> None:
        self._detector = BoxDetector(
            models / "face_detection/face_detection_short_range.tflite", (8, 16, 16, 16), -1.0, 0.5
        )
        folder = models / "face_landmark"
        self._landmarks = (
            MeshNetwork(folder / "face_landmark_with_attention.tflite")
            if refined
            else Network(folder / "face_landmark.tflite")
        )
        self.reset()

    def _find(self, rgb: Picture, region: Region | None) -> Points | None:
        last, self._last = self._last, None
        if region is None:
            return None
        if last is not None:
            size = rgb.shape[1], rgb.shape[0]
            before = grow(_turned_box(last, 33, 263, size), size, 1.5)
            region = before if stays(before, last, region, size, _FACE_REACH) else region
        picture = crop(rgb, region, self._landmarks.size, pad=False)
        values, presence = self._landmarks.run(picture.rgb)
        if _sigmoid(presence.ravel())[0] > _LEAST_FACE:
            self._last = project(values.reshape(-1, 3) / F(self._landmarks.size), region)
        return self._last

    def _locate(self, rgb: Picture, pose: FoundPose | None) -> Region | None:
        """Return where the face is (face_landmarks_from_pose_to_recrop_roi, face_detection_...)."""
        if pose is None:
            return None
        size = rgb.shape[1], rgb.shape[0]
        about = grow(_turned_box(pose[0][:11], 5, 2, size), size, 3.0)
        detections, _ = self._detector.look(rgb, about)
        if not detections:
            return None
        points = project_square(detections[0].points, about, size)
        return grow(region_about(points, points[0], points[1], size), size, 2.0, -0.1)


def _turned_box(points: Points, left: int, right: int, size: Size) -> Region:
    """Return the rectangle about landmarks, level by two of them."""
    low, high = box_of(points)
    return region_of_box(low, high - low, points[left], points[right], size, level=True)


class HandNetworks:
    """Finds what MediaPipe Hands finds: two hands, wherever they are (hand_landmark_tracking_...).

    Args:
        models: Folder with MediaPipe's modules.
        min_detection_confidence: Least confidence to take something for a palm, 0 to 1.
        min_tracking_confidence: Least confidence to go on following the hand, 0 to 1.
    """

    def __init__(
        self, models: Path, min_detection_confidence: float, min_tracking_confidence: float
    ) -> None:
        self._detector = BoxDetector(
            models / HAND_MODELS[0], (8, 16, 16, 16), 0.0, min_detection_confidence
        )
        self._landmarks = _hand_network(models)
        self._least = F(min_tracking_confidence)
        self.reset()

    def reset(self) -> None:
        """Forget the clip."""
        self._regions: list[Region] = []

    def find(self, rgb: Picture, time_s: float) -> list[FoundHand]:
        """Return the hands that the next frame shows, in no order."""
        size = rgb.shape[1], rgb.shape[0]
        regions: list[Region] = []
        palms = self._detect(rgb, size) if len(self._regions) < _MOST_HANDS else []
        for region in (*palms, *self._regions):  # association_norm_rect_calculator.cc
            regions = [earlier for earlier in regions if not _covers(region, earlier)]
            regions.append(region)
        hands, self._regions = [], []
        for region in regions:
            hand = find_hand(self._landmarks, rgb, region, self._least)
            if hand is None:
                continue
            points, left = hand
            # This network thinks of mirrored pictures: its left is the signer's right. As
            # MediaPipe's answer rounds it.
            right = left if left > 0.5 else 1 - float(F(1 - left))
            hands.append(FoundHand(points, right))
            self._regions.append(grow(region_of_hand(points, size), size, 2.0, -0.1))
        return hands

    def _detect(self, rgb: Picture, size: Size) -> list[Region]:
        """Return where hands are by their palms (palm_detection_detection_to_roi.pbtxt)."""
        regions = (
            region_of_box(palm.low, palm.sides, palm.points[0], palm.points[2], size)
            for palm in self._detector.find(rgb)[:_MOST_HANDS]
        )
        return [grow(region, size, 2.6, -0.5) for region in regions]


def _covers(region: Region, second: Region) -> bool:
    """Return whether two regions are of one hand, turned or not."""
    (low, sides), (its_low, its_sides) = (
        (
            np.array([box.x - box.width / F(2), box.y - box.height / F(2)], np.float32),
            np.array([box.width, box.height], np.float32),
        )
        for box in (region, second)
    )
    return bool(_overlap(low[None], sides[None], its_low, its_sides)[0] > _SAME_HAND)


def _hand_network(models: Path) -> Network:
    return Network(models / "hand_landmark/hand_landmark_full.tflite", (0, 1, 2))


class PoseNetworks:
    """Finds what MediaPipe Pose finds; arguments as those of `PoseTracker`."""

    def __init__(self, models: Path, *confidences: float) -> None:
        self._tracker = PoseTracker(models, *confidences)
        self.reset = self._tracker.reset

    def find(self, rgb: Picture, time_s: float) -> Points | None:
        """Return the 33 landmarks of the signer's pose in the next frame, if there is one."""
        landmarks = self._tracker.find(rgb)
        return None if landmarks is None else landmarks[0]


class HolisticNetworks:
    """Finds what MediaPipe Holistic finds.

    Args:
        models: Folder with MediaPipe's modules.
        min_detection_confidence: Least confidence to take something for a person, 0 to 1.
        min_tracking_confidence: Least confidence to go on following the person, 0 to 1.
        refined: Whether to find its brows, lids and irises well.
        at_once: Look for pose, hands and face in threads of their own.
    """

    def __init__(
        self,
        models: Path,
        min_detection_confidence: float,
        min_tracking_confidence: float,
        *,
        face: bool = False,
        refined: bool = False,
        at_once: bool = False,
    ) -> None:
        self._pose = PoseTracker(models, min_detection_confidence, min_tracking_confidence)
        self._at_once = at_once
        self._others: dict[str, HandTracker | FaceTracker] = {}
        for name, wrist in _WRISTS.items():
            if at_once or not self._others:  # a network runs once at a time
                recrop = Network(models / "holistic_landmark/hand_recrop.tflite")
                landmarks = _hand_network(models)
            self._others[name] = HandTracker(recrop, landmarks, wrist)
        if face:
            self._others["face"] = FaceTracker(models, refined=refined)

    def reset(self) -> None:
        """Forget the clip."""
        self._pose.reset()
        for part in self._others.values():
            part.reset()

    def find_all(
        self, frames: Iterator[Frame]
    ) -> Generator[tuple[Frame, dict[str, Points]], None, None]:
        """Yield the next frames of the clip with the parts of the signer that they show."""
        followers = [part.follow for part in self._others.values()]
        for frame, pose, located in in_chunks(
            frames, lambda frame: self._pose.find(frame.rgb), *followers, at_once=self._at_once
        ):
            parts = dict(zip(self._others, located, strict=True)) | {"pose": pose and pose[0]}
            yield frame, {name: points for name, points in parts.items() if points is not None}

    def find(self, rgb: Picture) -> dict[str, Points]:
        """Return the parts of the signer that the next frame shows."""
        ((_, parts),) = self.find_all(iter([Frame(0.0, rgb)]))
        return parts


def _smooth(smoother: OneEuroFilter, points: Points, scale: np.float32, size: Size) -> Points:
    """Smooth in pixels, z by the width (landmarks_smoothing_calculator_utils.cc)."""
    pixels = np.array([size[0], size[1], size[0]], np.float32)
    return smoother.apply(points * pixels, scale) / pixels


def _sigmoid(logits: Tensor) -> Tensor:
    return F(1) / (F(1) + _exp(-logits))


_EXP_STEPS = 87 * 32 * 3 // 2  # to each side of 1; beyond, single precision ends
_POWERS = np.array(
    [math.ldexp(2.0 ** (step % 32 / 32), step // 32) for step in range(-_EXP_STEPS, _EXP_STEPS + 1)]
)
_EXP_TERMS = (
    float.fromhex("0x1.c6af84b912394p-20"),
    float.fromhex("0x1.ebfce50fac4f3p-13"),
    float.fromhex("0x1.62e42ff0c52d6p-6"),
)


def _exp(values: Tensor) -> Tensor:
    """Return what glibc's expf returns (e_expf.c), which MediaPipe calls; NumPy's differs."""
    scaled = values.astype(np.float64).clip(-87, 87) * (32 * float.fromhex("0x1.71547652b82fep+0"))
    steps = np.rint(scaled)
    remainder, power = scaled - steps, _POWERS[steps.astype(np.intp) + _EXP_STEPS]
    cubic, square, line = _EXP_TERMS
    small = (cubic * remainder + square) * (remainder * remainder) + (line * remainder + 1)
    return (small * power).astype(np.float32)
