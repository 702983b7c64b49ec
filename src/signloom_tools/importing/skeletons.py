"""Skeletons of detectors: which of our landmarks their points are, and the layout these make."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from signloom.corpus.landmarks import (
    GROUP_INDICES,
    HAND_LANDMARKS,
    PART_POINTS,
    Group,
    Layout,
    build_layout,
    index_of,
)

_HAND = tuple(range(len(HAND_LANDMARKS)))  # wrist, thumb to little finger: all detectors agree
# MediaPipe's landmarks nearest to the 68 points of iBUG, which all these detectors have: the jaw
# from the right ear to the left (0 to 16), the brows from right to left (17 to 26), the bridge of
# the nose (27), the eyes (36 to 47) and the mouth (48 to 67).
_FACE_68 = dict(
    zip(
        (*range(28), *range(36, 68)),
        (
            162,
            234,
            93,
            58,
            172,
            136,
            149,
            148,
            152,
            377,
            378,
            365,
            397,
            288,
            323,
            454,
            389,
            70,
            63,
            105,
            66,
            107,
            336,
            296,
            334,
            293,
            300,
            168,
            33,
            160,
            158,
            133,
            153,
            144,
            362,
            385,
            387,
            263,
            373,
            380,
            61,
            39,
            37,
            0,
            267,
            269,
            291,
            405,
            314,
            17,
            84,
            181,
            78,
            82,
            13,
            312,
            308,
            317,
            14,
            87,
        ),
        strict=True,
    )
)
# Of the pose without the hips: most pictures of signing end above them, where detectors guess, or
# say that they found none. MediaPipe's nose, shoulders, elbows and wrists.
_COCO_POSE = {0: 0, 5: 11, 6: 12, 7: 13, 8: 14, 9: 15, 10: 16}
_OPENPOSE_POSE = {0: 0, 5: 11, 2: 12, 6: 13, 3: 14, 7: 15, 4: 16}


@dataclass(frozen=True, slots=True)
class Skeleton:
    """The points of a detector."""

    name: str  # as people call it
    parts: Mapping[str, Mapping[int, int]]
    """Part, and MediaPipe's index in it for some of the detector's points."""
    has_depth: bool = False  # whether the third number of a point is z; else it is the score


def _skeleton(
    name: str,
    pose: Mapping[int, int],
    *,
    face: int | None = None,
    hands: tuple[int, int] | None = None,
    wrists: tuple[int, int] | None = None,
) -> Skeleton:
    """Describe a skeleton by where its parts begin; `wrists`: hands lack theirs, the body has."""
    parts = {"pose": pose}
    if hands:
        for number, part in enumerate(("left_hand", "right_hand")):
            columns = {hands[number] + index - bool(wrists): index for index in _HAND}
            if wrists:
                columns = {key: index for key, index in columns.items() if index} | {
                    wrists[number]: 0
                }
            parts[part] = columns
    if face is not None:
        parts["face"] = {face + number: index for number, index in _FACE_68.items()}
    return Skeleton(name, parts)


def _mediapipe(name: str, *parts: str) -> Skeleton:
    starts = np.cumsum([0, *(PART_POINTS[part] for part in parts)])
    indices = {
        part: {int(start) + index: index for index in range(PART_POINTS[part])}
        for part, start in zip(parts, starts, strict=False)
    }
    return Skeleton(name, indices, has_depth=True)


_HANDS = ("left_hand", "right_hand")
# Isharah's points (Alyami et al. 2025), of MediaPipe's and without depth: right hand, left hand,
# outer edge of the lips by rising number, pose down to the hips.
_OUTER_LIPS = (
    0, 17, 37, 39, 40, 61, 84, 91, 146, 181, 185, 267, 269, 270, 291, 314, 321, 375, 405,
)  # fmt: skip
_ISHARAH = Skeleton(
    "Isharah, 86 points",
    {
        "right_hand": {index: index for index in _HAND},
        "left_hand": {21 + index: index for index in _HAND},
        "face": {42 + number: index for number, index in enumerate(_OUTER_LIPS)},
        "pose": {61 + index: index for index in range(25)},
    },
)
# Sapiens: each finger from its tip to its base, the wrist behind; of the face nothing is taken.
_TIPS_FIRST = {
    4 * finger + joint: 4 * finger + 4 - joint for finger in range(5) for joint in range(4)
}
_SAPIENS = Skeleton(
    "Sapiens, 308 points",
    {
        "pose": {0: 0, 5: 11, 6: 12, 7: 13, 8: 14, 62: 15, 41: 16},
        "right_hand": {41: 0, **{21 + number: index for number, index in _TIPS_FIRST.items()}},
        "left_hand": {62: 0, **{42 + number: index for number, index in _TIPS_FIRST.items()}},
    },
)
# By the number of points, in which they all differ.
SKELETONS: Mapping[int, Skeleton] = MappingProxyType(
    {
        17: _skeleton("COCO, 17 points", _COCO_POSE),
        26: _skeleton("Halpe, 26 points", _COCO_POSE),
        42: _mediapipe("MediaPipe's hands", *_HANDS),
        75: _mediapipe("MediaPipe's pose and hands", "pose", *_HANDS),
        86: _ISHARAH,
        128: _skeleton("DWPose, 128 points", _OPENPOSE_POSE, face=18, hands=(86, 107)),
        130: _skeleton(
            "OpenPose, 18 points, hands and face", _OPENPOSE_POSE, hands=(18, 39), face=60
        ),
        133: _skeleton("COCO-WholeBody, 133 points", _COCO_POSE, face=23, hands=(91, 112)),
        134: _skeleton("DWPose, 134 points", _OPENPOSE_POSE, face=24, hands=(92, 113)),
        135: _skeleton("OpenPose BODY_135", _COCO_POSE, hands=(25, 45), wrists=(9, 10), face=65),
        136: _skeleton("Halpe, 136 points", _COCO_POSE, face=26, hands=(94, 115)),
        137: _skeleton("OpenPose BODY_25, hands and face", _OPENPOSE_POSE, hands=(25, 46), face=67),
        308: _SAPIENS,
        543: _mediapipe("MediaPipe Holistic", "face", "left_hand", "pose", "right_hand"),
    }
)

_NEEDED = {
    "pose": ("left_shoulder", "right_shoulder"),
    "lips": ("left_outer_corner", "right_outer_corner"),
    "face_outline": ("left_upper_outline_8", "right_upper_outline_8"),
    "brows": ("bridge", "left_upper_brow_1", "right_upper_brow_1"),
    "eyes": tuple(
        f"{side}_{edge}_corner" for side in ("left", "right") for edge in ("outer", "inner")
    ),
}  # to normalise; others may be left out
_MOST_NAMED = 3  # landmarks that the name of a layout lists
FLAT = "-flat"  # ends the name of a layout whose points have no depth: z is 0


def partial_layout(
    choices: Collection[str], indices: Mapping[str, Collection[int]], *, flat: bool
) -> Layout:
    """Return the layout of those landmarks of some groups that a detector finds.

    Args:
        choices: Of `GROUP_CHOICES`.
        indices: Of each part, MediaPipe's indices of the points that are found.
        flat: Whether they have no depth.

    Raises:
        ValueError: Names a group that lacks what a signer is measured by.
    """
    plain = build_layout(choices)
    groups, lacking = [], []
    for group in plain.groups:
        part = GROUP_INDICES[group.name][0]
        marks = tuple(
            mark for mark in group.landmarks if index_of(group.name, mark) in indices.get(part, ())
        )
        needed = _NEEDED.get(group.name, group.landmarks)
        if not marks or not set(needed) <= set(marks):
            raise ValueError(group.name)
        groups.append(Group(group.name, marks))
        missing = [mark for mark in group.landmarks if mark not in marks]
        if len(missing) > _MOST_NAMED:
            missing = [f"{len(missing)}-of-{group.name}"]
        lacking += missing
    name = plain.name + (f"-without-{'-'.join(lacking)}" if lacking else "")
    return Layout(name + FLAT * flat, plain.version, tuple(groups))
