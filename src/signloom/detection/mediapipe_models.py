"""MediaPipe's graphs, the models in its package and users' own model files.

The package of newer releases has neither graphs nor models: they need Tasks and model files of the
user. Threads change no landmark: one where processes keep the cores busy, more where somebody waits
for one clip.
"""

import importlib.util
import os
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from signloom.detection.handedness import FoundHand
from signloom.errors import UserError
from signloom.files import check_output_folder, replace_folder, write_file

Points = npt.NDArray[np.float32]  # shape (landmarks of the part, 3)

MODELS_VARIABLE = "SIGNLOOM_MODELS"

HAND_MODELS = (
    "palm_detection/palm_detection_full.tflite",
    "hand_landmark/hand_landmark_full.tflite",
)
POSE_MODELS = ("pose_detection/pose_detection.tflite", "pose_landmark/pose_landmark_full.tflite")
HOLISTIC_MODELS = (
    *POSE_MODELS,
    "holistic_landmark/hand_recrop.tflite",
    "hand_landmark/hand_landmark_full.tflite",
)
FACE_MODELS = (
    "face_detection/face_detection_short_range.tflite",
    "face_landmark/face_landmark.tflite",
)
FACES_MODEL = "face_detection/face_detection_full_range_sparse.tflite"  # counts people
REFINED_FACE_MODELS = (FACE_MODELS[0], "face_landmark/face_landmark_with_attention.tflite")

_MOST_BYTES = 50_000_000  # of a network: they have some 1 to 6 MB

_POSE_DETECTION = "posedetectioncpu__TensorsToDetectionsCalculator.min_score_thresh"
_POSE_TRACKING = (
    "poselandmarkbyroicpu__tensorstoposelandmarksandsegmentation__ThresholdingCalculator.threshold"
)
_POSE_INPUTS = {
    "model_complexity": 1,  # 0 and 2 are not in the package
    "smooth_landmarks": True,
    "enable_segmentation": False,
    "smooth_segmentation": False,
    "use_prev_landmarks": True,
}


class _Graph:
    """One of MediaPipe's graphs that runs along a clip.

    Args:
        name: File of the graph in the package, below modules/, without its ending.
        side_inputs: The graph's settings.
        parameters: Settings of single calculators in it.
        outputs: What it is asked for.
        threads: Parts of the graph that may run in parallel.
        face: Whether to keep the part of Holistic that finds the face.
    """

    def __init__(
        self,
        name: str,
        *,
        side_inputs: Mapping[str, Any],
        parameters: Mapping[str, float],
        outputs: tuple[str, ...],
        threads: int,
        face: bool = True,
    ) -> None:
        # Here, in the processes that detect: it takes a second and 100 MB.
        from mediapipe.python.solution_base import SolutionBase

        self._base = SolutionBase(
            graph_config=_read_graph(name, threads=threads, face=face),
            side_inputs=side_inputs,
            calculator_params=parameters,
            outputs=list(outputs),
        )

    def reset(self) -> None:
        """Forget the last clip: it would shine through in the landmarks of the next.

        Restores bit-equality with a new process, for about 0.1 s in the first frame after it.
        """
        try:
            self._base.reset()
        except RuntimeError:  # repeats the error of the last clip, then is clear of it
            self._base.reset()

    def process(self, rgb: npt.NDArray[np.uint8]) -> Any:
        """Return the graph's outputs for the next frame, shape (height, width, 3)."""
        return self._base.process({"image": rgb})


class HolisticGraph:
    """MediaPipe Holistic with model complexity 1; without its face mesh where it is not read.

    What it gives is what `mp.solutions.holistic` gives, to the bit. Left and right are the
    signer's own.

    Args:
        min_detection_confidence: Least confidence to take something for a person, 0 to 1.
        min_tracking_confidence: Least confidence to go on following the person, 0 to 1.
        face: Whether to find the face: a tenth more work.
        refined: Whether to find its brows, lids and irises well.
        threads: Parts of the graph that may run in parallel; with 2 both hands do.
    """

    def __init__(
        self,
        min_detection_confidence: float,
        min_tracking_confidence: float,
        *,
        face: bool,
        refined: bool = False,
        threads: int = 1,
    ) -> None:
        self._parts = ("left_hand", "right_hand", "pose", "face")[: 4 if face else 3]
        self._graph = _Graph(
            "holistic_landmark/holistic_landmark_cpu",
            side_inputs=_POSE_INPUTS | ({"refine_face_landmarks": refined} if face else {}),
            parameters={
                f"poselandmarkcpu__{_POSE_DETECTION}": min_detection_confidence,
                f"poselandmarkcpu__{_POSE_TRACKING}": min_tracking_confidence,
            },
            outputs=tuple(f"{part}_landmarks" for part in self._parts),
            threads=threads,
            face=face,
        )
        self.reset = self._graph.reset

    def find(self, rgb: npt.NDArray[np.uint8]) -> dict[str, Points]:
        """Return the parts of the signer that the next frame shows.

        Raises:
            RuntimeError: If MediaPipe fails.
        """
        results = self._graph.process(rgb)
        landmarks = {part: getattr(results, f"{part}_landmarks") for part in self._parts}
        return {part: _points(marks) for part, marks in landmarks.items() if marks is not None}


class HandGraph:
    """MediaPipe Hands with model complexity 1 and at most two hands.

    Args:
        min_detection_confidence: Least confidence to take something for a palm, 0 to 1.
        min_tracking_confidence: Least confidence to go on following the hand, 0 to 1.
        threads: Parts of the graph that may run in parallel.
    """

    def __init__(
        self, min_detection_confidence: float, min_tracking_confidence: float, *, threads: int = 1
    ) -> None:
        self._graph = _Graph(
            "hand_landmark/hand_landmark_tracking_cpu",
            side_inputs={"model_complexity": 1, "num_hands": 2, "use_prev_landmarks": True},
            parameters={
                "palmdetectioncpu__TensorsToDetectionsCalculator.min_score_thresh": (
                    min_detection_confidence
                ),
                "handlandmarkcpu__ThresholdingCalculator.threshold": min_tracking_confidence,
            },
            outputs=("multi_hand_landmarks", "multi_handedness"),
            threads=threads,
        )
        self.reset = self._graph.reset

    def find(self, rgb: npt.NDArray[np.uint8], time_s: float) -> list[FoundHand]:
        """Return the hands that the next frame shows, in no order.

        Raises:
            RuntimeError: If MediaPipe fails.
        """
        results = self._graph.process(rgb)
        hands = []
        for marks, handedness in zip(
            results.multi_hand_landmarks or (), results.multi_handedness or (), strict=True
        ):
            label = handedness.classification[0]
            # This graph thinks of mirrored pictures: what it calls left is the signer's right.
            right = label.score if label.label == "Left" else 1 - label.score
            hands.append(FoundHand(_points(marks), right))
        return hands


class PoseGraph:
    """MediaPipe Pose with model complexity 1; arguments as those of `HolisticGraph`."""

    def __init__(
        self, min_detection_confidence: float, min_tracking_confidence: float, *, threads: int = 1
    ) -> None:
        self._graph = _Graph(
            "pose_landmark/pose_landmark_cpu",
            side_inputs=_POSE_INPUTS,
            parameters={
                _POSE_DETECTION: min_detection_confidence,
                _POSE_TRACKING: min_tracking_confidence,
            },
            outputs=("pose_landmarks",),
            threads=threads,
        )
        self.reset = self._graph.reset

    def find(self, rgb: npt.NDArray[np.uint8], time_s: float) -> Points | None:
        """Return the 33 landmarks of the signer's pose in the next frame, if there is one.

        Raises:
            RuntimeError: If MediaPipe fails.
        """
        marks = self._graph.process(rgb).pose_landmarks
        return None if marks is None else _points(marks)


GET_WHEEL = (  # of any system and Python: its networks are the same
    "pip download --no-deps --only-binary :all: --python-version 3.12 "
    "--platform manylinux_2_28_x86_64 mediapipe==0.10.21"
)


def package_folder() -> Path:
    """Return where MediaPipe is installed, without importing it.

    Raises:
        UserError: If it is not.
    """
    if folder := _find_package():
        return folder
    raise UserError(
        "the networks that find hands are not here: they are in mediapipe 0.10.21, which is not "
        "installed. Two commands fetch them once:\n"
        f"  {GET_WHEEL}\n"
        "  signloom landmarks --networks mediapipe-0.10.21-*.whl\n"
        "(extract.runtime: mediapipe needs the package itself, so Python 3.11 or 3.12)"
    )


def own_networks() -> Path:
    """Return where `signloom landmarks --networks` keeps networks for all projects of a user."""
    return Path.home() / ".signloom" / "networks"


def models_folder() -> Path:
    """Return the folder with MediaPipe's networks.

    It is the one that SIGNLOOM_MODELS names; else that in MediaPipe's package, if it is installed
    and has networks; else what `signloom landmarks --networks` took out of a wheel.

    Raises:
        UserError: If there is none.
    """
    if named := os.environ.get(MODELS_VARIABLE):
        return Path(named).absolute()
    package = _find_package()
    if package and (package / "modules" / POSE_MODELS[1]).is_file():
        return package / "modules"
    return own_networks() if own_networks().is_dir() else package_folder() / "modules"


def take_networks(wheel: Path, folder: Path) -> int:
    """Unpack the networks of a wheel of mediapipe into a folder, whole or not at all.

    Returns:
        How many there are.

    Raises:
        UserError: If the file cannot be read as a wheel or has no networks, or the folder holds
            something else.
    """
    models = (*HAND_MODELS, *HOLISTIC_MODELS, *FACE_MODELS, *REFINED_FACE_MODELS, FACES_MODEL)
    names = sorted({*models})
    check_output_folder(folder, [wheel], {name.split("/")[0] for name in names})
    try:
        with zipfile.ZipFile(wheel) as archive:
            entries = {info.filename: info for info in archive.infolist()}
            infos = {name: entries.get(f"mediapipe/modules/{name}") for name in names}
            if missing := [name for name, info in infos.items() if info is None]:
                raise UserError(
                    f"{wheel} has no networks ({missing[0]} and {len(missing) - 1} more are "
                    "missing): releases of mediapipe after 0.10.21 have none; take 0.10.21, of any "
                    "system"
                )
            contents = {
                name: archive.read(info)
                for name, info in infos.items()
                if info and info.file_size <= _MOST_BYTES
            }
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise UserError(f"{wheel} is no wheel that can be read ({error}): get it again") from None
    if len(contents) < len(names):
        raise UserError(f"{wheel} has networks of more than {_MOST_BYTES:,} bytes: it is damaged")
    folder.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".networks."))
    try:
        for name, content in contents.items():
            write_file(new / name, content)
        replace_folder(new, folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return len(names)


def _find_package() -> Path | None:
    spec = importlib.util.find_spec("mediapipe")
    return Path(spec.origin).parent if spec and spec.origin else None


def _points(marks: Any) -> Points:
    return np.array([(mark.x, mark.y, mark.z) for mark in marks.landmark], np.float32)


def _read_graph(name: str, *, threads: int, face: bool) -> Any:
    from mediapipe.framework import calculator_pb2
    from mediapipe.python.solutions import holistic  # noqa: F401  registers option types

    graph = calculator_pb2.CalculatorGraphConfig()
    graph.ParseFromString((package_folder() / f"modules/{name}.binarypb").read_bytes())
    graph.num_threads = threads
    if not face:
        nodes = [node for node in graph.node if "face" not in str(node).lower()]
        del graph.node[:]
        graph.node.extend(nodes)
        for names, prefix in ((graph.output_stream, "FACE"), (graph.input_side_packet, "REFINE")):
            for line in [line for line in names if line.startswith(prefix)]:
                names.remove(line)
    return graph
