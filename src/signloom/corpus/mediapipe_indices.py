"""Which landmark of MediaPipe each landmark of ours is, for detectors and files of other tools.

MediaPipe knows four parts of a person and numbers the landmarks of each. Left and right are the
person's own in all of them.
"""

from signloom.corpus.landmarks import (
    FACE_OUTLINE_LANDMARKS,
    HAND_LANDMARKS,
    LIP_LANDMARKS,
    POSE_LANDMARKS,
)

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

GROUP_INDICES: dict[str, tuple[str, tuple[int, ...]]] = {
    "left_hand": ("left_hand", tuple(range(len(HAND_LANDMARKS)))),
    "right_hand": ("right_hand", tuple(range(len(HAND_LANDMARKS)))),
    "pose": ("pose", _POSE),
    "lips": ("face", _LIPS),
    "face_outline": ("face", _FACE_OUTLINE),
}
"""Group of a layout: the part it is taken from, and the index there of each of its landmarks."""

assert [len(GROUP_INDICES[group][1]) for group in ("pose", "lips", "face_outline")] == [
    len(POSE_LANDMARKS),
    len(LIP_LANDMARKS),
    len(FACE_OUTLINE_LANDMARKS),
], "a group and its indices differ in length"
