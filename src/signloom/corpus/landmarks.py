"""Landmark layouts, and the landmarks of one clip.

Left and right are the signer's own, never the viewer's: in unmirrored video the signer's right
hand is on the left of the picture.

MediaPipe has four parts of a person and numbers the landmarks of each. Left and right are the
person's own in all of them.
"""

import functools
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from signloom.config import MAX_FPS, MAX_SIDE, MIN_FPS, checked_dataclass, parse_options
from signloom.errors import UserError

COORDINATES = 3  # x, y, z

FINGERS = {
    "thumb": ("cmc", "mcp", "ip", "tip"),
    "index": ("mcp", "pip", "dip", "tip"),
    "middle": ("mcp", "pip", "dip", "tip"),
    "ring": ("mcp", "pip", "dip", "tip"),
    "little": ("mcp", "pip", "dip", "tip"),
}
HAND_LANDMARKS = (
    "wrist",
    *(f"{finger}_{joint}" for finger, joints in FINGERS.items() for joint in joints),
)  # 21, in MediaPipe's order

POSE_LANDMARKS = (
    "nose",
    "left_shoulder",
    "right_shoulder",
    "left_elbow",
    "right_elbow",
    "left_wrist",
    "right_wrist",
    "left_hip",
    "right_hip",
)


def _around(middle: str, name: str, count: int) -> tuple[str, ...]:
    """Name a row of landmarks from the signer's right to the left, the middle one apart."""
    right = tuple(f"right_{name}_{number}" for number in range(count, 0, -1))
    left = tuple(f"left_{name}_{number}" for number in range(1, count + 1))
    return (*right, middle, *left)


LIP_LANDMARKS = (
    "right_outer_corner",
    *_around("upper_outer", "upper_outer", 4),
    "left_outer_corner",
    *_around("lower_outer", "lower_outer", 4),
    "right_inner_corner",
    *_around("upper_inner", "upper_inner", 4),
    "left_inner_corner",
    *_around("lower_inner", "lower_inner", 4),
)  # 40: two closed lines; both lower rows run from right to left too

FACE_OUTLINE_LANDMARKS = (
    *_around("forehead", "upper_outline", 8),
    *_around("chin", "lower_outline", 9),
)  # 36: the upper row from ear to ear over the forehead, then the lower one over the chin

_SIDES = ("right", "left")
_BROW = tuple(f"{edge}_brow_{number}" for edge in ("upper", "lower") for number in range(1, 6))
BROW_LANDMARKS = ("bridge", *(f"{side}_{mark}" for side in _SIDES for mark in _BROW))
# 21: the bridge of the nose, by which brows rise and fall; each edge from the temple to the nose

_LIDS = tuple(f"{edge}_lid_{number}" for edge in ("upper", "lower") for number in range(1, 8))
EYE_LANDMARKS = tuple(
    f"{side}_{mark}" for side in _SIDES for mark in ("outer_corner", "inner_corner", *_LIDS)
)  # 32: each lid from the temple to the nose

_IRIS = ("iris", *(f"iris_{edge}" for edge in ("outer", "top", "inner", "bottom")))
GAZE_LANDMARKS = tuple(
    f"{side}_{mark}" for side in _SIDES for mark in ("outer_corner", "inner_corner", *_IRIS)
)  # 14: the corners again, between which an iris moves; outer is towards the temple


@dataclass(frozen=True, slots=True)
class Group:
    """Landmarks that are detected together, so that one bit says whether they are there."""

    name: str
    landmarks: tuple[str, ...]


@dataclass(frozen=True)
class Layout:
    """An ordered list of landmark groups; stored with every array that follows it.

    A new order, group or landmark is a new `version` (or name): arrays are compared by layout.
    """

    name: str
    version: int
    groups: tuple[Group, ...]

    @cached_property
    def points(self) -> int:
        """Landmarks in a frame, P."""
        return sum(len(group.landmarks) for group in self.groups)

    @cached_property
    def group_names(self) -> tuple[str, ...]:
        """Names of the groups, in the order of `LandmarkSequence.present`."""
        return tuple(group.name for group in self.groups)

    @cached_property
    def landmark_names(self) -> tuple[str, ...]:
        """`group.landmark` for each of the P points."""
        return tuple(f"{group.name}.{mark}" for group in self.groups for mark in group.landmarks)

    def group(self, name: str) -> int:
        """Column of the group in `LandmarkSequence.present`."""
        if name not in self.group_names:
            names = ", ".join(self.group_names)
            raise ValueError(f"layout {self.name!r} has no group {name!r}; it has {names}")
        return self.group_names.index(name)

    def slice(self, name: str) -> slice:
        """Where the group's points lie on the P axis."""
        column = self.group(name)
        start = sum(len(group.landmarks) for group in self.groups[:column])
        return slice(start, start + len(self.groups[column].landmarks))

    def index(self, group: str, landmark: str) -> int:
        """Where one landmark lies on the P axis, as in `index("pose", "left_shoulder")`."""
        marks = self.groups[self.group(group)].landmarks
        if landmark not in marks:
            names = ", ".join(marks)
            raise ValueError(f"group {group!r} has no landmark {landmark!r}; it has {names}")
        return self.slice(group).start + marks.index(landmark)

    def to_json(self) -> str:
        """The layout as a line of JSON, for file metadata."""
        groups = [{"name": group.name, "landmarks": group.landmarks} for group in self.groups]
        return json.dumps({"name": self.name, "version": self.version, "groups": groups})

    @staticmethod
    def from_json(text: str) -> "Layout":
        """Inverse of `to_json`.

        Raises:
            UserError: If it is no layout.
        """
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UserError(f"the layout of the landmarks is damaged ({error})") from None
        return Layout.from_fields(content, where="layout")

    @staticmethod
    def from_fields(content: object, *, where: str) -> "Layout":
        """Turn what a JSON file says into a layout.

        Args:
            content: As `to_json` writes it.
            where: How messages name its position.

        Raises:
            UserError: If it is no layout.
        """
        record = parse_options(content, _LayoutFile, where=where)
        landmarks = {g.name: g.landmarks for choice in GROUP_CHOICES.values() for g in choice}
        for group in record.groups:
            expected = landmarks.get(group.name, group.landmarks)
            if group.name in _INCOMPLETE:
                expected = tuple(mark for mark in expected if mark in group.landmarks)
            if group.landmarks != expected or not expected:
                raise UserError(
                    f"{where}: {group.name} has {len(group.landmarks)} landmarks, expected its "
                    f"{len(landmarks.get(group.name, ())) or 'own'} in their order"
                )
        groups = tuple(Group(group.name, group.landmarks) for group in record.groups)
        return Layout(record.name, record.version, groups)


@checked_dataclass
class _GroupFile:
    name: str
    landmarks: tuple[str, ...]


@checked_dataclass
class _LayoutFile:
    name: str
    version: int
    groups: tuple[_GroupFile, ...]


# Of a text corpus, and of a model that reads glosses.
NO_LANDMARKS = Layout("none", 1, ())
# Group of a layout that holds features of another network; its name begins so, too.
FEATURES = "features"

# Groups of which imported files may lack some landmarks.
_INCOMPLETE = ("pose", "lips", "face_outline", "brows", "eyes")

GROUP_CHOICES: dict[str, tuple[Group, ...]] = {
    "hands": (Group("left_hand", HAND_LANDMARKS), Group("right_hand", HAND_LANDMARKS)),
    "pose": (Group("pose", POSE_LANDMARKS),),
    "lips": (Group("lips", LIP_LANDMARKS),),
    "face_outline": (Group("face_outline", FACE_OUTLINE_LANDMARKS),),
    "brows": (Group("brows", BROW_LANDMARKS),),
    "eyes": (Group("eyes", EYE_LANDMARKS),),
    "gaze": (Group("gaze", GAZE_LANDMARKS),),
}
"""What a user may choose (`extract.groups`), in the order in which layouts hold them."""


def build_layout(choices: Collection[str]) -> Layout:
    """Return the layout of some of `GROUP_CHOICES`, named after them, as `hands-pose`.

    Raises:
        ValueError: If there is no choice, one twice or one that is unknown.
    """
    unknown = sorted(set(choices) - GROUP_CHOICES.keys())
    if unknown or not choices or len(set(choices)) < len(choices):
        known = ", ".join(GROUP_CHOICES)
        raise ValueError(f"groups: found {list(choices)}, expected some of {known}, each once")
    chosen = [name for name in GROUP_CHOICES if name in choices]
    groups = tuple(group for name in chosen for group in GROUP_CHOICES[name])
    return Layout(name="-".join(chosen), version=1, groups=groups)


def choices_of(layout: Layout) -> list[str]:
    """Return which of `GROUP_CHOICES` a layout has."""
    return [
        name
        for name, groups in GROUP_CHOICES.items()
        if {group.name for group in groups} <= set(layout.group_names)
    ]


HANDS_POSE = build_layout(("hands", "pose"))
"""Both hands (2 x 21 x 3 = 126 numbers) and the upper body that is needed to normalise them."""


@dataclass(frozen=True, slots=True, eq=False)
class LandmarkSequence:
    """The landmarks of one clip."""

    points: npt.NDArray[np.float32]
    """Shape (S, P, 3) float32. x and y in image coordinates (0 to 1 inside the picture, x to the
    right, y down; a landmark guessed outside lies outside), z as MediaPipe gives it: in image
    widths, smaller is nearer to the camera, measured from the wrist for a hand and from the middle
    of the hips for the pose. NaN where absent."""
    present: npt.NDArray[np.bool_]
    """Shape (S, G) bool, one column a group. All points of a group are there or none."""
    fps: float  # frames a second
    width: int  # pixels, of the upright picture
    height: int  # pixels, of the upright picture
    layout: Layout = HANDS_POSE  # what the P and G axes mean
    missing_frames: int = 0  # frames that a whole video promises and does not have; not in shards
    is_crowded: bool = False  # whether several people are seen; not in shards

    def __post_init__(self) -> None:
        """Refuse arrays that do not fit the layout or each other."""
        frames = len(self.points)
        expected = (frames, self.layout.points, COORDINATES)
        if self.points.dtype != np.float32 or self.points.shape != expected or frames == 0:
            shape_of_points = f"{self.points.dtype} {self.points.shape}"
            raise ValueError(
                f"points are {shape_of_points}, expected float32 (S >= 1, {expected[1:]})"
            )
        if self.present.dtype != np.bool_ or self.present.shape != (
            frames,
            len(self.layout.groups),
        ):
            shape_of_points = f"{self.present.dtype} {self.present.shape}"
            raise ValueError(
                f"present is {shape_of_points}, expected bool ({frames}, groups of the layout)"
            )
        if not MIN_FPS <= self.fps <= MAX_FPS:  # NaN neither
            raise ValueError(f"fps is {self.fps}, expected {MIN_FPS:g} to {MAX_FPS:g}")
        if not (1 <= self.width <= MAX_SIDE and 1 <= self.height <= MAX_SIDE):
            raise ValueError(
                f"the picture is {self.width}x{self.height}, expected 1 to {MAX_SIDE} pixels a side"
            )
        self._check_absence()

    def _check_absence(self) -> None:
        # Whole arrays in one step: augmentation makes thousands of sequences an epoch.
        sizes = [COORDINATES * len(group.landmarks) for group in self.layout.groups]
        absent = np.repeat(~self.present, sizes, axis=1)
        points = self.points.reshape(absent.shape)  # flat: broadcasting over C is 5 times as slow
        wrong = (np.isnan(points) != absent) | np.isinf(points)
        if wrong.any():
            column = np.repeat(np.arange(len(sizes)), sizes)[np.argwhere(wrong)[0][1]]
            raise ValueError(
                f"{self.layout.group_names[column]}: points must be finite where present and NaN "
                "where absent"
            )

    @property
    def seconds(self) -> float:
        """Duration, S / fps."""
        return len(self.points) / self.fps


PART_POINTS = {"left_hand": 21, "right_hand": 21, "pose": 33, "face": 468}
"""Landmarks of each part; the face without the ten of the irises, which some models add."""

POSE_WRISTS = (15, 16)
"""The left and the right wrist in the pose."""

_POSE = (0, 11, 12, 13, 14, 15, 16, 23, 24)

_LIPS = (
    *(61, 185, 40, 39, 37, 0, 267, 269, 270, 409, 291),  # outer: corner, upper row, corner
    *(146, 91, 181, 84, 17, 314, 405, 321, 375),  # outer, lower row
    *(78, 191, 80, 81, 82, 13, 312, 311, 310, 415, 308),  # the same for the inner line
    *(95, 88, 178, 87, 14, 317, 402, 318, 324),
)

_FACE_OUTLINE = (
    *(234, 127, 162, 21, 54, 103, 67, 109, 10),  # right ear to forehead
    *(338, 297, 332, 284, 251, 389, 356, 454),  # forehead to left ear
    *(93, 132, 58, 172, 136, 150, 149, 176, 148, 152),  # right cheek to chin
    *(377, 400, 378, 379, 365, 397, 288, 361, 323),  # chin to left cheek
)

_BROWS = (
    *(168, 70, 63, 105, 66, 107, 46, 53, 52, 65, 55),  # bridge, right upper and lower edge
    *(300, 293, 334, 296, 336, 276, 283, 282, 295, 285),  # left
)

_EYES = (
    *(33, 133, 246, 161, 160, 159, 158, 157, 173, 7, 163, 144, 145, 153, 154, 155),  # right
    *(263, 362, 466, 388, 387, 386, 385, 384, 398, 249, 390, 373, 374, 380, 381, 382),
)

_GAZE = (
    *(33, 133, 468, 471, 470, 469, 472),  # right
    *(263, 362, 473, 474, 475, 476, 477),
)

GROUP_INDICES: dict[str, tuple[str, tuple[int, ...]]] = {
    "left_hand": ("left_hand", tuple(range(len(HAND_LANDMARKS)))),
    "right_hand": ("right_hand", tuple(range(len(HAND_LANDMARKS)))),
    "pose": ("pose", _POSE),
    "lips": ("face", _LIPS),
    "face_outline": ("face", _FACE_OUTLINE),
    "brows": ("face", _BROWS),
    "eyes": ("face", _EYES),
    "gaze": ("face", _GAZE),
}
"""Group of a layout: the part it is taken from, and the index there of each of its landmarks."""

assert all(
    len(GROUP_INDICES[group.name][1]) == len(group.landmarks)
    for groups in GROUP_CHOICES.values()
    for group in groups
), "a group and its indices differ in length"


def check_same_extractor(
    extractor: Mapping[str, Any], trained: Mapping[str, Any], *, hint: str
) -> None:
    """Refuse landmarks that were found in another way than those a model was trained on.

    Args:
        extractor: What made the landmarks at hand; see `extract.extractor_fingerprint`.
        trained: What made those of the model.
        hint: What to do about it, as the end of the message.

    Raises:
        UserError: If anything differs; all of it in one message.
    """
    differing = sorted(k for k in {**trained, **extractor} if trained.get(k) != extractor.get(k))
    if differing:
        parts = "; ".join(f"{k}: {extractor.get(k)}, not {trained.get(k)}" for k in differing)
        raise UserError(
            f"these landmarks were made with other settings than the checkpoint's ({parts}); {hint}"
        )


def index_of(group: str, mark: str) -> int:
    """Return MediaPipe's index, in the part, of one of our landmarks."""
    return _indices_by_name(group)[mark]


@functools.cache
def _indices_by_name(group: str) -> dict[str, int]:
    marks = {g.name: g.landmarks for groups in GROUP_CHOICES.values() for g in groups}[group]
    return dict(zip(marks, GROUP_INDICES[group][1], strict=True))
