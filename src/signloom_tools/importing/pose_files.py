"""`.pose` files (pose-format's, with MediaPipe Holistic's components or OpenPose's), in and out.

Format: https://github.com/sign-language-processing/pose/blob/master/docs/specs/v0.2.md
"""

import io
import itertools
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from signloom.corpus.landmarks import (
    COORDINATES,
    GROUP_INDICES,
    HAND_LANDMARKS,
    POSE_LANDMARKS,
    LandmarkSequence,
    index_of,
)
from signloom.errors import ClipError, UserError
from signloom.files import write_file
from signloom_tools.importing.file_names import SIZES
from signloom_tools.importing.foreign import ClipSource, ForeignClip, LandmarkPart
from signloom_tools.importing.options import SourceDefaults
from signloom_tools.importing.people import DetectedPerson, clip_of_points, follow_signer
from signloom_tools.importing.skeletons import SKELETONS

Points = npt.NDArray[np.float32]  # x, y, z in the last axis

_VERSION = 0.2
_PARTS = {
    "POSE_LANDMARKS": "pose",
    "FACE_LANDMARKS": "face",
    "LEFT_HAND_LANDMARKS": "left_hand",
    "RIGHT_HAND_LANDMARKS": "right_hand",
}  # by the name of the component; POSE_WORLD_LANDMARKS are no image coordinates

_FLAT = (
    ("pose", "hand_left", "hand_right", "face"),  # OpenPose
    ("body", "face", "left_hand", "right_hand"),  # COCO-WholeBody, AlphaPose
    ("body",),
)
"""Components without depth, their numbers apart, in the order of a skeleton of `SKELETONS`."""
_LEAST_FILLED = 0.02  # of width and height, by all points of a clip
_MOST_CONFIDENCE = 2.0  # detectors give up to 1, some a little more
_SIDED = ("eye_inner", "eye", "eye_outer")
_PAIRS = (
    "shoulder",
    "elbow",
    "wrist",
    "pinky",
    "index",
    "thumb",
    "hip",
    "knee",
    "ankle",
    "heel",
    "foot_index",
)
ALL_POSE_LANDMARKS = (
    "nose",
    *(f"{side}_{mark}" for side in ("left", "right") for mark in _SIDED),
    "left_ear",
    "right_ear",
    "mouth_left",
    "mouth_right",
    *(f"{side}_{mark}" for mark in _PAIRS for side in ("left", "right")),
)  # 33, in MediaPipe's order

_ARMS = ("left_hip", "left_shoulder", "right_shoulder", "right_hip", "left_hip")
_LINES = (
    _ARMS,
    ("left_shoulder", "left_elbow", "left_wrist"),
    ("right_shoulder", "right_elbow", "right_wrist"),
)
_COLOURS = {
    "left_hand": (230, 120, 0),
    "right_hand": (0, 110, 200),
    "pose": (90, 90, 90),
    "face": (150, 80, 80),
}


def read_pose(path: Path, defaults: SourceDefaults) -> Iterator[ClipSource]:
    """Yield the one clip of a `.pose` file: pixels, as the library writes them.

    Raises:
        ClipError: If it cannot be read, its points are no pixels, or those of another detector; or
            it shows several people by Holistic.
    """
    pose = _load(path)
    frames, people, count, coordinates = pose.body.data.shape
    sizes = {component.name: len(component.points) for component in pose.header.components}
    plain_names = [re.sub(r"_keypoints_2d$|_\d+$", "", name.lower()) for name in sizes]
    flat = next((names for names in _FLAT if {*names} == {*plain_names}), ())
    listed = ", ".join(f"{name} ({size} points)" for name, size in sizes.items())
    if not (flat and count in SKELETONS) and not _PARTS.keys() & sizes.keys():
        raise ClipError(
            f"its components are {listed}",
            f"use {', '.join(_PARTS)}, or those of OpenPose or COCO-WholeBody",
        )
    if frames == 0 or people == 0:
        raise ClipError(f"it has {frames} frames and {people} people", "leave it out")
    if not flat and people > 1:
        raise ClipError(f"it shows {people} people", "write it with one person")
    if not flat and coordinates < COORDINATES:
        raise ClipError(
            f"its points have {coordinates} coordinates, MediaPipe's have three", "write all three"
        )
    header = pose.header.dimensions
    if header.width < 1 or header.height < 1:
        raise ClipError(
            f"its picture is {header.width}x{header.height}", "write the picture's size into it"
        )
    points, scores = pose.body.data.data, pose.body.confidence
    _check_pixels(points[scores > 0], header.width, header.height)
    # The file has a float of 4 bytes; its shortest decimal is what was meant, such as 29.97.
    rate_and_size = float(str(np.float32(pose.body.fps))), header.width, header.height
    if flat:
        every = np.concatenate([points[..., :2], scores[..., None]], axis=-1, dtype=np.float32)
        blocks = np.split(every, np.cumsum([*sizes.values()])[:-1], axis=2)
        by_name = dict(zip(plain_names, blocks, strict=True))
        ordered = np.concatenate([by_name[name] for name in flat], axis=2)
        shown = [
            [DetectedPerson(person) for person in frame if (person[:, 2] > 0).any()]
            for frame in ordered
        ]
        crowd = max(map(len, shown))
        signer = follow_signer(shown)
        make = partial(clip_of_points, path.stem, signer, None, rate_and_size, defaults)
        yield path.stem, partial(make, people=crowd)
        return
    xyz = np.array(points[:, 0, :, :COORDINATES], np.float32)
    xyz[scores[:, 0] <= 0] = np.nan
    xyz[..., :2] /= np.array([header.width, header.height], np.float32)
    parts, first = {}, 0
    for component in pose.header.components:
        columns = slice(first, first + len(component.points))
        first = columns.stop
        if component.name in _PARTS:
            part = _PARTS[component.name]
            parts[part] = _part(part, component.points, xyz[:, columns])
    stated_sizes = dict(zip(SIZES, rate_and_size, strict=True))
    yield (
        path.stem,
        partial(ForeignClip, clip_id=path.stem, parts=parts, states_size=True, **stated_sizes),
    )


def _check_pixels(points: Points, width: int, height: int) -> None:
    """Refuse points (N, 2 or 3) that fill next to nothing of the picture.

    Raises:
        ClipError: If they do, as behind `normalize` of pose-format: the shoulders are 1 apart.
    """
    if len(points) == 0:
        return
    low, high = points[:, :2].min(axis=0), points[:, :2].max(axis=0)
    if (high - low < _LEAST_FILLED * np.array([width, height])).all():
        raise ClipError(
            f"its points are no pixels of its picture of {width}x{height}: x from {low[0]:.3g} to "
            f"{high[0]:.3g}, y from {low[1]:.3g} to {high[1]:.3g}",
            "write it without the library's normalize(), or multiply shares by the picture's size",
        )


def write_pose(path: Path, sequence: LandmarkSequence) -> None:
    """Write a clip as a `.pose` file, atomically.

    Landmarks of an absent group have confidence 0, all others 1. What is read back and rounded to
    half precision is what shards hold, bit for bit; the frame rate keeps 7 digits.

    Raises:
        UserError: If pose-format is not installed.
    """
    _pose_format()  # its message names what is not installed
    size = np.array([sequence.width, sequence.height, 1], np.float32)
    columns, components = [], []
    for name, part in _PARTS.items():
        named_columns = _columns_of_part(sequence, part)
        if named_columns:
            columns += [column for column, _ in named_columns]
            components.append(_component(name, part, [mark for _, mark in named_columns]))
    sizes = [len(group.landmarks) for group in sequence.layout.groups]
    is_present = np.repeat(sequence.present, sizes, axis=1)[:, columns]
    points = sequence.points[:, columns] * size
    picture = sequence.width, sequence.height
    write_file(path, _pack(points, is_present, components, sequence.fps, picture))


def pack_parts(parts: Mapping[str, Points], *, fps: float, width: int, height: int) -> bytes:
    """Return a `.pose` file with all landmarks of MediaPipe Holistic.

    Args:
        parts: Shape (S, points, 3) each, shares of the picture, NaN where absent; of _PARTS.
        fps: Frames a second, even.
        width: Pixels of the picture.
        height: Likewise.

    Raises:
        UserError: If pose-format is not installed.
    """
    _pose_format()
    parts_by_name = {name: part for name, part in _PARTS.items() if part in parts}
    points = np.concatenate([parts[part] for part in parts_by_name.values()], axis=1)
    components = [
        _component(name, part, _all_names(part, parts[part].shape[1]))
        for name, part in parts_by_name.items()
    ]
    is_present = np.isfinite(points).all(axis=2)
    pixels = (points * np.array([width, height, 1])).astype(np.float32)
    return _pack(pixels, is_present, components, fps, (width, height))


def _all_names(part: str, count: int) -> list[str]:
    """Return pose-format's names of all landmarks of a part."""
    if part == "pose":
        return [name.upper() for name in ALL_POSE_LANDMARKS]
    return [*_indices_by_name(part)][:count]


def _pack(
    points: Points,
    is_present: npt.NDArray[np.bool_],
    components: list[Any],
    fps: float,
    picture: tuple[int, int],
) -> bytes:
    """Return a file's bytes; points in pixels, shape (S, P, 3), and which are there, (S, P)."""
    from pose_format import Pose
    from pose_format.numpy import NumPyPoseBody
    from pose_format.pose_header import PoseHeader, PoseHeaderDimensions

    points, confidence = np.nan_to_num(points, nan=0.0), is_present.astype(np.float32)
    body = NumPyPoseBody(fps, points[:, None], confidence[:, None])
    header = PoseHeader(_VERSION, PoseHeaderDimensions(*picture), components)
    buffer = io.BytesIO()
    Pose(header, body).write(buffer)
    return buffer.getvalue()


def _pose_format() -> Any:
    try:
        import pose_format
    except ImportError:
        raise UserError(
            ".pose files need the pose-format library: pip install 'signloom[pose]'"
        ) from None
    return pose_format


def _load(path: Path) -> Any:
    pose_class = _pose_format().Pose
    from pose_format.numpy import NumPyPoseBody
    from pose_format.pose_header import PoseHeader
    from pose_format.utils.reader import BufferReader

    reader = BufferReader(path.read_bytes())
    try:
        header = PoseHeader.read(reader)
        begin = reader.read_offset
        pose = pose_class(header, NumPyPoseBody.read(header, reader))
    except Exception as error:  # The library checks nothing: a torn file raises anything.
        reason = " ".join(f"not a readable .pose file ({type(error).__name__}: {error})".split())
        raise ClipError(reason, "restore it from where it came") from None
    # Up to version 0.1 the frames are counted by the file's length, and noted up to 65,535.
    noted = int.from_bytes(reader.buffer[begin + 2 : begin + 4], "little")
    is_counted = round(header.version, 3) != 0.1 or noted == len(pose.body.data) % 2**16
    if reader.bytes_left() or not is_counted:
        raise ClipError(
            f"it has {len(reader.buffer):,} bytes, and not what its header declares",
            "write it again: points and coordinates of the header are those of the numbers",
        )
    confidence = pose.body.confidence
    if not ((confidence >= 0) & (confidence <= _MOST_CONFIDENCE)).all():
        raise ClipError(
            f"its confidences are {confidence.min():.3g} to {confidence.max():.3g}, expected 0 to "
            "1: its numbers are not in the order that its header declares",
            "write it again with pose-format",
        )
    return pose


def _part(part: str, names: list[str], points: npt.NDArray[np.float32]) -> LandmarkPart:
    """Find out which of MediaPipe's landmarks the points of a component are."""
    indices = _indices_by_name(part)
    columns = [number for number, name in enumerate(names) if name in indices]
    if part.endswith("hand") and len(columns) < len(HAND_LANDMARKS):
        raise ClipError(
            f"its {part} has {len(columns)} of {len(HAND_LANDMARKS)} landmarks",
            "write the files with all landmarks of the hands",
        )
    return LandmarkPart(points[:, columns], tuple(indices[names[column]] for column in columns))


def _indices_by_name(part: str) -> dict[str, int]:
    """Return MediaPipe's indices by the names that pose-format gives to the landmarks of a part."""
    if part == "face":
        return {str(index): index for index in range(478)}
    marks = POSE_LANDMARKS if part == "pose" else HAND_LANDMARKS
    indices = GROUP_INDICES[part][1]
    return {_foreign_name(part, mark): index for mark, index in zip(marks, indices, strict=True)}


def _foreign_name(part: str, mark: str) -> str:
    """Return MediaPipe's name of one of our landmarks, as in index_tip: INDEX_FINGER_TIP."""
    name = mark.upper()
    if part == "pose" or name == "WRIST" or name.startswith("THUMB"):
        return name
    finger, joint = name.split("_")
    return f"{'PINKY' if finger == 'LITTLE' else f'{finger}_FINGER'}_{joint}"


def _columns_of_part(sequence: LandmarkSequence, part: str) -> list[tuple[int, str]]:
    """Return column and foreign name of the layout's landmarks of a part, by MediaPipe's index."""
    by_index: dict[int, tuple[int, str]] = {}
    for group in sequence.layout.groups:
        if GROUP_INDICES[group.name][0] != part:
            continue
        first = sequence.layout.slice(group.name).start
        for column, mark in enumerate(group.landmarks, start=first):
            index = index_of(group.name, mark)
            name = str(index) if part == "face" else _foreign_name(part, mark)
            by_index.setdefault(index, (column, name))
    return [by_index[index] for index in sorted(by_index)]


def _component(name: str, part: str, names: list[str]) -> Any:
    """Return a component of a header, with lines where a viewer should draw some."""
    from pose_format.pose_header import PoseHeaderComponent

    if part == "pose":
        paths = [[_foreign_name(part, mark) for mark in line] for line in _LINES]
    elif part == "face":
        paths = []
    else:
        joints = [_foreign_name(part, mark) for mark in HAND_LANDMARKS]
        fingers = [[joints[0], *joints[start : start + 4]] for start in range(1, 21, 4)]
        paths = [*fingers, [joints[number] for number in (5, 9, 13, 17)]]
    limbs = [
        (names.index(a), names.index(b))
        for path in paths
        for a, b in itertools.pairwise(path)
        if a in names and b in names
    ]
    return PoseHeaderComponent(name, names, limbs, [_COLOURS[part]], "XYZC")
