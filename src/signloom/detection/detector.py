"""Landmark detectors: frames of a clip one by one, landmarks out."""

import functools
import importlib.metadata
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from signloom.config import MIN_FPS, NonNegative, Share, checked_dataclass
from signloom.corpus.landmarks import (
    COORDINATES,
    GROUP_CHOICES,
    GROUP_INDICES,
    POSE_WRISTS,
    Layout,
    build_layout,
    index_of,
)
from signloom.detection.handedness import FoundHand, HandednessTracker
from signloom.detection.mediapipe_models import (
    FACE_MODELS,
    HAND_MODELS,
    HOLISTIC_MODELS,
    POSE_MODELS,
    REFINED_FACE_MODELS,
    HandGraph,
    HolisticGraph,
    Points,
    PoseGraph,
    models_folder,
    package_folder,
)
from signloom.detection.video import Frame
from signloom.errors import UserError
from signloom.files import hash_file
from signloom.terminal import NATIVE_STDERR, SILENT

if TYPE_CHECKING:  # OpenCV and NumPy's tables, only where it detects
    from signloom.detection.runtime import HandNetworks, PeopleCounter, PoseNetworks

DETECTOR_VERSION = 1  # raise it when the same options give other landmarks for the same frames

_REFINED_GROUPS = ("brows", "eyes", "gaze")
_FACE_GROUPS = ("lips", "face_outline", *_REFINED_GROUPS)

Marks = tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]
"""Points, shape (P, 3), NaN where absent, and presence, shape (G,): see `Detector.layout`."""
Found = Generator[tuple[Frame, Mapping[str, Any]], None, None]


@checked_dataclass
class DetectorOptions:
    """What finds the landmarks, and which of them are kept."""

    detector: Literal["hands", "hands+pose", "holistic"]
    """MediaPipe Hands; Hands and Pose; or Holistic, which finds the hands by way of the pose."""
    groups: tuple[str, ...]
    """Landmarks to keep, of `landmarks.GROUP_CHOICES`; the detector must see them."""
    min_detection_confidence: Share = 0.5
    """Least confidence to take something for a hand or a person."""
    min_tracking_confidence: Share = 0.5
    """Least confidence to go on following it; below, detect again."""
    runtime: Literal["litert", "mediapipe"] = "litert"
    """Who runs MediaPipe's networks, LiteRT or MediaPipe's graphs; the landmarks are the same."""
    fps: NonNegative = 0.0
    """Frames a second that are looked at, of a video that has more; 0: all."""

    def __post_init__(self) -> None:
        build_layout(self.groups)  # raises if a group is unknown or is listed twice
        visible_groups = DETECTORS[self.detector].sees
        if unseen := [group for group in self.groups if group not in visible_groups]:
            raise ValueError(
                f"groups: detector {self.detector!r} sees no {', '.join(unseen)}, only "
                f"{', '.join(visible_groups)}; 'holistic' sees {', '.join(HolisticDetector.sees)}"
            )
        if 0 < self.fps < MIN_FPS:
            raise ValueError(f"fps: found {self.fps:g}, expected 0 (all) or {MIN_FPS:g} or more")

    @property
    def layout(self) -> Layout:
        """What the detector's arrays mean."""
        return build_layout(self.groups)

    @property
    def uses_litert(self) -> bool:
        """Whether the detector needs no graph of MediaPipe."""
        return self.runtime == "litert"


class Detector(ABC):
    """Finds the landmarks of one clip after another.

    Attributes:
        sees: The groups of landmarks that a detector of this class can find.
        layout: What the arrays of `Marks` mean.
    """

    sees: ClassVar[tuple[str, ...]]
    layout: Layout

    @abstractmethod
    def __init__(self, options: DetectorOptions, threads: int) -> None:
        """Build it; with more than one of `threads`, parts of a frame are found in parallel."""

    @staticmethod
    @abstractmethod
    def packaged_models(options: DetectorOptions) -> tuple[str, ...]:
        """Return the model files inside MediaPipe's package that it would read."""

    @abstractmethod
    def reset(self) -> None:
        """Forget the last clip; what follows is bit-equal to what a new process would find."""

    @abstractmethod
    def find(self, rgb: npt.NDArray[np.uint8], time_s: float) -> Mapping[str, Any]:
        """Return the parts of the signer that the next frame of the clip shows.

        Args:
            rgb: Shape (height, width, 3), red first.
            time_s: Of the frame, later than the last one's.

        Returns:
            Of `landmarks.PART_POINTS`: all landmarks of the part, shape (points, 3).

        Raises:
            RuntimeError: If MediaPipe fails.
        """

    def find_all(self, frames: Iterator[Frame]) -> Found:
        """Yield the next frames of the clip, each with its parts; see `find`."""
        for frame in frames:
            yield frame, self.find(frame.rgb, frame.time_s)

    def detect_all(self, frames: Iterator[Frame]) -> Generator[tuple[Frame, Marks], None, None]:
        """Yield the next frames of the clip, each with its landmarks.

        Raises:
            RuntimeError: If MediaPipe fails.
        """
        with closing(self.find_all(frames)) as results:
            for frame, parts in results:
                yield frame, self._arrange(parts)

    def detect(self, rgb: npt.NDArray[np.uint8], time_s: float) -> Marks:
        """Return the landmarks of the next frame of the clip; arguments as those of `find`.

        Raises:
            RuntimeError: If MediaPipe fails.
        """
        return self._arrange(self.find(rgb, time_s))

    def _arrange(self, parts: Mapping[str, Any]) -> Marks:
        points = np.full((self.layout.points, COORDINATES), np.nan, np.float32)
        present = np.zeros(len(self.layout.groups), np.bool_)
        for column, group in enumerate(self.layout.groups):
            part = GROUP_INDICES[group.name][0]
            if part in parts:
                indices = [index_of(group.name, mark) for mark in group.landmarks]
                points[self.layout.slice(group.name)] = parts[part][indices]
                present[column] = True
        return points, present


class HolisticDetector(Detector):
    """Finds a person, then the hands at the ends of the arms, then the face."""

    sees = ("hands", "pose", *_FACE_GROUPS)

    def __init__(self, options: DetectorOptions, threads: int) -> None:
        from signloom.detection.runtime import HolisticNetworks  # OpenCV, only where it detects

        confidences = (options.min_detection_confidence, options.min_tracking_confidence)
        parts = {"face": _needs_face(options), "refined": _needs_refined_face(options)}
        self.layout = options.layout
        self._found_by: HolisticGraph | HolisticNetworks = (
            HolisticNetworks(models_folder(), *confidences, **parts, at_once=threads > 1)
            if options.uses_litert
            else HolisticGraph(*confidences, **parts, threads=threads)
        )

    @staticmethod
    def packaged_models(options: DetectorOptions) -> tuple[str, ...]:
        """Return the model files inside MediaPipe's package that it would read."""
        if _needs_refined_face(options):
            return HOLISTIC_MODELS + REFINED_FACE_MODELS
        return HOLISTIC_MODELS + (FACE_MODELS if _needs_face(options) else ())

    def reset(self) -> None:
        """Forget the last clip."""
        self._found_by.reset()

    def find(self, rgb: npt.NDArray[np.uint8], time_s: float) -> Mapping[str, Any]:
        """Return the parts that the frame shows; see `Detector`."""
        return self._found_by.find(rgb)

    def find_all(self, frames: Iterator[Frame]) -> Found:
        """Yield the next frames with their parts, chunk by chunk where the networks are ours."""
        if isinstance(self._found_by, HolisticGraph):
            yield from super().find_all(frames)
        else:
            yield from self._found_by.find_all(frames)


class HandsDetector(Detector):
    """Finds hands wherever they are; decides itself which is left and which right."""

    sees: ClassVar[tuple[str, ...]] = ("hands",)

    def __init__(self, options: DetectorOptions, threads: int) -> None:
        self.layout, self._threads = options.layout, threads
        self._hands = _build_hands(options, threads)
        self._pose: PoseGraph | PoseNetworks | None = None
        self._handedness = HandednessTracker()

    @staticmethod
    def packaged_models(options: DetectorOptions) -> tuple[str, ...]:
        """Return the model files inside MediaPipe's package that it would read."""
        return HAND_MODELS

    def reset(self) -> None:
        """Forget the last clip."""
        self._hands.reset()
        if self._pose:
            self._pose.reset()
        self._handedness.reset()

    def find(self, rgb: npt.NDArray[np.uint8], time_s: float) -> Mapping[str, Any]:
        """Return the parts that the frame shows; see `Detector`."""
        ((_, parts),) = self.find_all(iter([Frame(time_s, rgb)]))
        return parts

    def find_all(self, frames: Iterator[Frame]) -> Found:
        """Yield the next frames with their parts, chunk by chunk."""
        from signloom.detection.runtime import in_chunks

        for frame, pose, (hands,) in in_chunks(
            frames, self._find_pose, self._find_hands, at_once=self._threads > 1
        ):
            yield frame, self._tell_sides(frame.rgb, pose, hands)

    def _find_pose(self, frame: Frame) -> Points | None:
        return self._pose.find(frame.rgb, frame.time_s) if self._pose else None

    def _find_hands(self, frames: Sequence[Frame], _: object) -> list[list[FoundHand]]:
        return [self._hands.find(frame.rgb, frame.time_s) for frame in frames]

    def _tell_sides(
        self, rgb: npt.NDArray[np.uint8], pose: Points | None, hands: list[FoundHand]
    ) -> Mapping[str, Any]:
        left, right = self._handedness.assign(
            hands,
            arms=None if pose is None else pose[list(POSE_WRISTS), :2],
            aspect=rgb.shape[1] / rgb.shape[0],
        )
        parts = {
            "left_hand": left and left.points,
            "right_hand": right and right.points,
            "pose": pose,
        }
        return {name: points for name, points in parts.items() if points is not None}


class HandsPoseDetector(HandsDetector):
    """Finds hands wherever they are, and the pose, whose wrists decide left and right."""

    sees = ("hands", "pose")

    def __init__(self, options: DetectorOptions, threads: int) -> None:
        super().__init__(options, threads)
        self._pose = _build_pose(options, threads)

    @staticmethod
    def packaged_models(options: DetectorOptions) -> tuple[str, ...]:
        """Return the model files inside MediaPipe's package that it would read."""
        return HAND_MODELS + POSE_MODELS


def _build_hands(options: DetectorOptions, threads: int) -> "HandGraph | HandNetworks":
    confidences = (options.min_detection_confidence, options.min_tracking_confidence)
    if options.uses_litert:
        from signloom.detection.runtime import HandNetworks

        return HandNetworks(models_folder(), *confidences)
    return HandGraph(*confidences, threads=threads)


def _build_pose(options: DetectorOptions, threads: int) -> "PoseGraph | PoseNetworks":
    confidences = (options.min_detection_confidence, options.min_tracking_confidence)
    if options.uses_litert:
        from signloom.detection.runtime import PoseNetworks

        return PoseNetworks(models_folder(), *confidences)
    return PoseGraph(*confidences, threads=threads)


# A new detector is a class, a row here and its name in `DetectorOptions.detector`.
DETECTORS: dict[str, type[Detector]] = {
    "holistic": HolisticDetector,
    "hands": HandsDetector,
    "hands+pose": HandsPoseDetector,
}


def build_detector(options: DetectorOptions, *, threads: int = 1) -> Detector:
    """Return a detector that has seen no clip; takes a second and 100 MB in a new process.

    Args:
        threads: More than one: find the parts of a frame in parallel, and decode ahead; no landmark
            depends on it.

    Raises:
        UserError: If a model file is missing or cannot be used.
    """
    _model_files(options)
    return DETECTORS[options.detector](options, threads)


@functools.lru_cache(maxsize=1)
def people_counter() -> "PeopleCounter":
    """Return this process's counter of people."""
    from signloom.detection.runtime import PeopleCounter

    return PeopleCounter(models_folder())


def describe_detector(options: DetectorOptions) -> dict[str, Any]:
    """Return all that decides the landmarks of given frames, for JSON; imports no MediaPipe.

    Raises:
        UserError: If a model file is missing.
    """
    files = _model_files(options)  # first: its message names what is not installed
    return {
        "detector": options.detector,
        "detector_version": DETECTOR_VERSION,
        "groups": [name for name in GROUP_CHOICES if name in options.groups],
        "min_detection_confidence": options.min_detection_confidence,
        "min_tracking_confidence": options.min_tracking_confidence,
        **_runtime_versions(options),
        **({"fps": options.fps} if options.fps else {}),
        "models": {name: hash_file(path) for name, path in files.items()},
    }


@contextmanager
def quiet_native_code() -> Iterator[None]:
    """Keep what MediaPipe's native code writes to the terminal away; it has no switch for it.

    Descriptor 2 stays as it is where another thread of Python may write to it.
    """
    if _shares_stderr():
        yield
        return
    sys.stderr.flush()
    with _quiet_lock:
        _quiet.append(_quiet[0] if _quiet else _silence())
    try:
        yield
    finally:
        with _quiet_lock:
            saved = _quiet.pop()
            if not _quiet:  # the last thread that leaves puts back what the first one took
                os.dup2(saved, NATIVE_STDERR)
                os.close(saved)


_quiet: list[int] = []  # saved stderr, once for each thread that silences it now
_quiet_lock = threading.Lock()


def _silence() -> int:
    """Point stderr of native code at nothing; return a descriptor of what it was."""
    saved, null = os.dup(NATIVE_STDERR), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, NATIVE_STDERR)
    os.close(null)
    return saved


def _shares_stderr() -> bool:
    """Return whether another thread of Python may write to the descriptor of native code.

    A worker's thread that waits for the end of its parent does not: it is named `SILENT`.
    """
    try:
        descriptor = sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):  # a notebook's, or none
        return False
    here = threading.current_thread()
    threads = (
        thread for thread in threading.enumerate() if thread is not here and thread.name != SILENT
    )
    return descriptor == NATIVE_STDERR and any(threads)


def _needs_face(options: DetectorOptions) -> bool:
    return any(group in options.groups for group in _FACE_GROUPS)


def _needs_refined_face(options: DetectorOptions) -> bool:
    return any(group in options.groups for group in _REFINED_GROUPS)


def _runtime_versions(options: DetectorOptions) -> dict[str, str]:
    if options.uses_litert:
        versions = {"litert": importlib.metadata.version("ai-edge-litert")}
        for name in ("contrib-python", "python", "python-headless", "contrib-python-headless"):
            with suppress(importlib.metadata.PackageNotFoundError):
                versions.setdefault("opencv", importlib.metadata.version(f"opencv-{name}"))
        return versions
    return {"mediapipe": importlib.metadata.version("mediapipe")}


def _model_files(options: DetectorOptions) -> dict[str, Path]:
    """Return every model file that the detector reads, by a name that has no folder in it."""
    names = DETECTORS[options.detector].packaged_models(options)
    folder = models_folder() if options.uses_litert else package_folder() / "modules"
    files = {Path(name).name: folder / name for name in names}
    if missing := sorted(name for name in names if not (folder / name).is_file()):
        raise UserError(
            f"{folder} does not hold the models {', '.join(missing)}; install MediaPipe 0.10.21, "
            "or take them out of its wheel (`signloom landmarks --networks WHEEL`)"
        )
    return files
