"""The frames of a clip come in one by one, the landmarks that MediaPipe finds in them go out."""

import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from signloom.corpus.landmarks import COORDINATES, HANDS_POSE
from signloom.reproducibility import hash_file

_GRAPH = "modules/holistic_landmark/holistic_landmark_cpu.binarypb"
_MODELS = (
    "modules/pose_detection/pose_detection.tflite",
    "modules/pose_landmark/pose_landmark_full.tflite",
    "modules/holistic_landmark/hand_recrop.tflite",
    "modules/hand_landmark/hand_landmark_full.tflite",
)
_NODES = ("PoseLandmarkCpu", "HandLandmarksLeftAndRightCpu")
_OUTPUTS = {
    # group: the graph's output, which of its landmarks. Holistic's sides are the signer's own.
    "left_hand": ("left_hand_landmarks", tuple(range(21))),
    "right_hand": ("right_hand_landmarks", tuple(range(21))),
    "pose": ("pose_landmarks", (0, 11, 12, 13, 14, 15, 16, 23, 24)),
}
_DETECTION = "poselandmarkcpu__posedetectioncpu__TensorsToDetectionsCalculator.min_score_thresh"
_TRACKING = (
    "poselandmarkcpu__poselandmarkbyroicpu__tensorstoposelandmarksandsegmentation__"
    "ThresholdingCalculator.threshold"
)


class HolisticDetector:
    """MediaPipe Holistic without its face mesh, which nobody reads here: a tenth less work.

    Hands and pose are what `mp.solutions.holistic` gives with model complexity 1, to the bit.
    One thread: the cores are kept busy by processes.

    Args:
        min_detection_confidence: Least confidence to take something for a person, 0 to 1.
        min_tracking_confidence: Least confidence to go on following the person, 0 to 1.
    """

    def __init__(self, min_detection_confidence: float, min_tracking_confidence: float) -> None:
        # Here, in the processes that detect: it takes a second and 100 MB.
        from mediapipe.python.solution_base import SolutionBase

        self._graph = SolutionBase(
            graph_config=_read_graph(),
            side_inputs={
                "model_complexity": 1,
                "smooth_landmarks": True,
                "enable_segmentation": False,
                "smooth_segmentation": False,
                "use_prev_landmarks": True,
            },
            calculator_params={
                _DETECTION: min_detection_confidence,
                _TRACKING: min_tracking_confidence,
            },
            outputs=[output for output, _ in _OUTPUTS.values()],
        )

    def reset(self) -> None:
        """Forget the last clip: it would shine through in the landmarks of the next.

        Restores bit-equality with a new process, for about 0.1 s in the first frame after it.
        """
        try:
            self._graph.reset()
        except RuntimeError:  # says again what failed in the last clip, then is clear of it
            self._graph.reset()

    def detect(
        self, rgb: npt.NDArray[np.uint8]
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
        """Return the landmarks of the next frame of the clip.

        Args:
            rgb: Shape (height, width, 3), red first.

        Returns:
            Points, shape (P, 3), NaN where absent, and presence, shape (G,); see `HANDS_POSE`.

        Raises:
            RuntimeError: If MediaPipe fails.
        """
        results = self._graph.process({"image": rgb})
        points = np.full((HANDS_POSE.points, COORDINATES), np.nan, np.float32)
        present = np.zeros(len(HANDS_POSE.groups), np.bool_)
        for column, name in enumerate(HANDS_POSE.group_names):
            output, indices = _OUTPUTS[name]
            found = getattr(results, output)
            if found is not None:
                marks = [found.landmark[index] for index in indices]
                points[HANDS_POSE.slice(name)] = [(mark.x, mark.y, mark.z) for mark in marks]
                present[column] = True
        return points, present


def describe_detector() -> dict[str, Any]:
    """Return what determines the detector's results beside its options, for JSON."""
    root = _mediapipe_folder()
    return {
        "detector": "holistic",
        "mediapipe": importlib.metadata.version("mediapipe"),
        "models": {Path(name).name: hash_file(root / name) for name in _MODELS},
    }


@contextmanager
def quiet_native_code() -> Iterator[None]:
    """Keep what MediaPipe's native code writes to the terminal away; it has no switch for it."""
    sys.stderr.flush()
    saved, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(null)


def _read_graph() -> Any:
    """Return Holistic's graph, cut down to the pose and the hands."""
    from mediapipe.framework import calculator_pb2
    from mediapipe.python.solutions import holistic  # noqa: F401  registers option types

    graph = calculator_pb2.CalculatorGraphConfig()
    graph.ParseFromString((_mediapipe_folder() / _GRAPH).read_bytes())
    graph.num_threads = 1
    kept = [node for node in graph.node if node.calculator in _NODES]
    del graph.node[:]
    graph.node.extend(kept)
    for names, prefix in ((graph.output_stream, "FACE"), (graph.input_side_packet, "REFINE")):
        for name in [name for name in names if name.startswith(prefix)]:
            names.remove(name)
    return graph


def _mediapipe_folder() -> Path:
    spec = importlib.util.find_spec("mediapipe")  # does not import it
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("mediapipe is not installed; run `make setup`")
    return Path(spec.origin).parent
