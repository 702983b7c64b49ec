"""Whole-body networks (COCO-WholeBody's 133 points) by ONNX Runtime: RTMPose, DWPose, HRNet, ...

The file is the user's; nothing is downloaded. Outputs are told by their shapes: two of SimCC, the
chance of each x and each y (Li et al. 2022), or one of heatmaps.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from signloom.corpus.landmarks import PART_POINTS
from signloom.corpus.skeletons import SKELETONS
from signloom.errors import UserError
from signloom.extraction.video import Frame

Floats = npt.NDArray[np.float32]

POINTS = 133
BATCH = 8  # frames; the last batch is filled up, so that no result depends on its neighbours
_FLAT = np.array([1, 1, 0], np.float32)
_WIDEN = 1.25  # of the box around a person, as in training
_LEAST = 0.3  # score of the points that such a box is drawn around
_MEAN = np.array([123.675, 116.28, 103.53], np.float32)  # of ImageNet, red first
_SPREAD = np.array([58.395, 57.12, 57.375], np.float32)


class WholeBodyNetwork:
    """A network that is shown each frame twice: as a whole, then cut to the person found in it.

    Args:
        path: An .onnx file: pictures (B, 3, height, width) in, SimCC or heatmaps out.
        least: Median score of the points of a part that is there.
        threads: Of one run on the CPU.

    Raises:
        UserError: If ONNX Runtime is not installed or the file holds another kind of network.
    """

    def __init__(self, path: Path, *, least: float, threads: int) -> None:
        self._least = least
        try:
            import onnxruntime  # of the extra `onnx`
        except ImportError:
            raise UserError(
                "detector wholebody needs ONNX Runtime: pip install 'signloom[onnx]'"
            ) from None
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        wanted = ("CUDAExecutionProvider", "CPUExecutionProvider")
        there = onnxruntime.get_available_providers()
        try:
            self._session = onnxruntime.InferenceSession(
                str(path), options, providers=[name for name in wanted if name in there]
            )
        except Exception as error:  # ONNX Runtime's errors have no common kind
            raise UserError(f"{path}: no network that ONNX Runtime can read ({error})") from None
        (given, *others), outputs = self._session.get_inputs(), self._session.get_outputs()
        shape = given.shape
        if others or len(shape) != 4 or shape[1] != 3 or not all(map(_is_size, shape[2:])):
            raise UserError(
                f"{path}: its input is {shape}, expected (pictures, 3, height, width); export it "
                "with a fixed size"
            )
        self._name, self._batch = given.name, shape[0] if _is_size(shape[0]) else BATCH
        self._height, self._width = int(shape[2]), int(shape[3])
        shapes = [one.shape for one in outputs]
        is_simcc = len(shapes) == 2 and all(len(one) == 3 for one in shapes)
        is_maps = len(shapes) == 1 and len(shapes[0]) == 4
        found = {one[1] for one in shapes if len(one) > 1 and _is_size(one[1])}
        if not (is_simcc or is_maps) or found - {POINTS}:
            raise UserError(
                f"{path}: its outputs are {shapes}, expected two of SimCC (pictures, {POINTS}, "
                f"places) or one of heatmaps (pictures, {POINTS}, height, width)"
            )

    def find(self, pictures: list[npt.NDArray[np.uint8]]) -> Floats:
        """Return the points of some pictures.

        Args:
            pictures: Each (height, width, 3), red first.

        Returns:
            Shape (N, 133, 3): x, y, shares of the picture, and score.

        Raises:
            RuntimeError: If ONNX Runtime fails.
        """
        whole = [_box(np.zeros(2), np.array(one.shape[1::-1]), self._aspect) for one in pictures]
        first = self._look(pictures, whole)
        boxes = [
            _person(points, old, self._aspect) for points, old in zip(first, whole, strict=True)
        ]
        found = self._look(pictures, boxes)
        for points, picture in zip(found, pictures, strict=True):
            points[:, :2] /= np.array(picture.shape[1::-1], np.float32)
        return found

    @property
    def _aspect(self) -> float:
        return self._width / self._height

    def _look(self, pictures: list[npt.NDArray[np.uint8]], boxes: list[Floats]) -> Floats:
        """Return points in pixels of the pictures, looked for in boxes (middle and size)."""
        shown = [self._cut(*both) for both in zip(pictures, boxes, strict=True)]
        parts = []
        for start in range(0, len(shown), self._batch):
            batch = shown[start : start + self._batch]
            filled = batch + [batch[-1]] * (self._batch - len(batch))
            try:
                outputs = self._session.run(None, {self._name: np.stack(filled)})
            except Exception as error:
                raise RuntimeError(f"ONNX Runtime: {error}") from error
            parts.append(self._decode(outputs)[: len(batch)])
        points = np.concatenate(parts)
        for one, (middle, size) in zip(points, boxes, strict=True):
            one[:, :2] = one[:, :2] * size + middle - size / 2
        return points

    def _cut(self, picture: npt.NDArray[np.uint8], box: Floats) -> Floats:
        middle, size = box
        scale = self._width / size[0]
        low = middle - size / 2
        matrix = np.array([[scale, 0, -low[0] * scale], [0, scale, -low[1] * scale]])
        cut = cv2.warpAffine(picture, matrix, (self._width, self._height), flags=cv2.INTER_LINEAR)
        return ((cut - _MEAN) / _SPREAD).transpose(2, 0, 1).astype(np.float32)

    def _decode(self, outputs: list[Any]) -> Floats:
        """Return shares of the box and scores, shape (B, 133, 3)."""
        if len(outputs) == 2:
            places = [one.argmax(axis=2) / one.shape[2] for one in outputs]
            score = np.minimum(*(one.max(axis=2) for one in outputs))
            return np.stack([*places, score], axis=2).astype(np.float32)
        maps = np.asarray(outputs[0])
        height, width = maps.shape[2:]
        best = maps.reshape(*maps.shape[:2], -1)
        rows, columns = np.divmod(best.argmax(axis=2), width)
        found = [(columns + 0.5) / width, (rows + 0.5) / height, best.max(axis=2)]
        return np.stack(found, axis=2).astype(np.float32)

    def find_all(self, frames: Iterator[Frame]) -> Iterator[tuple[Frame, dict[str, Floats]]]:
        """Yield each frame with its parts, a batch at a time."""
        while batch := list(itertools.islice(frames, self._batch)):
            for frame, points in zip(batch, self.find([one.rgb for one in batch]), strict=True):
                yield frame, self._parts(points)

    def _parts(self, points: Floats) -> dict[str, Floats]:
        """Return each part that is there as (x, y, 0) by MediaPipe's indices; NaN: no such one."""
        found = {}
        for part, columns in SKELETONS[POINTS].parts.items():
            if np.median(points[list(columns), 2]) >= self._least:
                found[part] = np.full((PART_POINTS[part], 3), np.nan, np.float32)
                found[part][list(columns.values())] = points[list(columns)] * _FLAT
        return found


def _is_size(value: object) -> bool:
    return isinstance(value, int) and value > 0


def _box(low: npt.NDArray[Any], high: npt.NDArray[Any], aspect: float) -> Floats:
    """Return middle and size of the smallest box of an aspect around another one."""
    width, height = np.maximum(high - low, 1.0)
    size = np.array([max(width, height * aspect), max(height, width / aspect)])
    return np.stack([(low + high) / 2, size]).astype(np.float32)


def _person(points: Floats, whole: Floats, aspect: float) -> Floats:
    """Return the box around what was found, or the whole picture."""
    seen = points[points[:, 2] >= _LEAST, :2]
    if len(seen) < 2:
        return whole
    found = _box(seen.min(axis=0), seen.max(axis=0), aspect)
    return np.stack([found[0], np.minimum(found[1] * _WIDEN, whole[1])])
