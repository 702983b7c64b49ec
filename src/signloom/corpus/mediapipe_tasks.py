"""A user's own model files (`.task`): a frame comes in, the hands or the pose in it go out."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from signloom.config import UserError
from signloom.corpus.sides import FoundHand


class HandTask:
    """A hand landmarker with at most two hands.

    Args:
        model: A hand_landmarker .task file.
        min_detection_confidence: Least confidence to take something for a palm, 0 to 1.
        min_tracking_confidence: Least confidence to go on following the hand, 0 to 1.
    """

    def __init__(
        self, model: Path, min_detection_confidence: float, min_tracking_confidence: float
    ) -> None:
        from mediapipe.tasks.python import vision

        options = vision.HandLandmarkerOptions(
            base_options=_base_options(model),
            running_mode=vision.RunningMode.VIDEO,
            num_hands=2,
            min_hand_detection_confidence=min_detection_confidence,
            min_hand_presence_confidence=min_tracking_confidence,
            min_tracking_confidence=min_tracking_confidence,
        )
        self._task = _VideoTask(
            lambda: vision.HandLandmarker.create_from_options(options), model, "hand_model"
        )
        self.reset = self._task.reset

    def find(self, rgb: npt.NDArray[np.uint8], time_s: float) -> list[FoundHand]:
        """Return the hands that the next frame shows, in no order.

        Raises:
            RuntimeError: If MediaPipe fails.
        """
        results = self._task.process(rgb, time_s)
        hands = []
        for marks, sides in zip(results.hand_landmarks, results.handedness, strict=True):
            right = sides[0].score if sides[0].category_name == "Right" else 1 - sides[0].score
            hands.append(FoundHand(_points(marks), right))
        return hands


class PoseTask:
    """A pose landmarker for one person; arguments as those of `HandTask`."""

    def __init__(
        self, model: Path, min_detection_confidence: float, min_tracking_confidence: float
    ) -> None:
        from mediapipe.tasks.python import vision

        options = vision.PoseLandmarkerOptions(
            base_options=_base_options(model),
            running_mode=vision.RunningMode.VIDEO,
            min_pose_detection_confidence=min_detection_confidence,
            min_pose_presence_confidence=min_tracking_confidence,
            min_tracking_confidence=min_tracking_confidence,
        )
        self._task = _VideoTask(
            lambda: vision.PoseLandmarker.create_from_options(options), model, "pose_model"
        )
        self.reset = self._task.reset

    def find(self, rgb: npt.NDArray[np.uint8], time_s: float) -> npt.NDArray[np.float32] | None:
        """Return the 33 landmarks of the signer's pose in the next frame, if there is one.

        Raises:
            RuntimeError: If MediaPipe fails.
        """
        found = self._task.process(rgb, time_s).pose_landmarks
        return _points(found[0]) if found else None


class _VideoTask:
    """A task that runs along a clip; made anew for each, as it has no other way to forget."""

    def __init__(self, create: Callable[[], Any], model: Path, option: str) -> None:
        self._create = create
        try:
            self._task = create()
        except (RuntimeError, ValueError, OSError) as error:
            reason = " ".join(str(error).split())
            raise UserError(
                f"extract.{option}: MediaPipe cannot use {model} ({reason}); give a "
                f"{option.replace('model', 'landmarker')} .task file made for Tasks"
            ) from error
        self._start_s: float | None = None
        self._last_ms = -1

    def reset(self) -> None:
        self._task.close()
        self._task = self._create()
        self._start_s, self._last_ms = None, -1

    def process(self, rgb: npt.NDArray[np.uint8], time_s: float) -> Any:
        import mediapipe

        if rgb.size == 0:
            raise RuntimeError("the frame is empty")  # MediaPipe would end the process
        # From the clip's first frame on, so that a segment is as if cut out; ever later, or
        # MediaPipe refuses the frame.
        self._start_s = time_s if self._start_s is None else self._start_s
        self._last_ms = max(round(1000 * (time_s - self._start_s)), self._last_ms + 1)
        image = mediapipe.Image(image_format=mediapipe.ImageFormat.SRGB, data=rgb)
        return self._task.detect_for_video(image, self._last_ms)


def _base_options(model: Path) -> Any:
    from mediapipe.tasks.python import BaseOptions

    return BaseOptions(model_asset_path=str(model))


def _points(marks: Any) -> npt.NDArray[np.float32]:
    return np.array([(mark.x, mark.y, mark.z) for mark in marks], np.float32)
