"""The layout says where each landmark stands; a sequence that does not fit it is refused."""

import numpy as np
import numpy.typing as npt
import pytest

from signloom.corpus.landmarks import (
    GROUP_CHOICES,
    HANDS_POSE,
    LandmarkSequence,
    build_layout,
)


def points_of(frames: int) -> npt.NDArray[np.float32]:
    values = np.arange(frames * HANDS_POSE.points * 3, dtype=np.float32)
    return values.reshape(frames, HANDS_POSE.points, 3) / values.size


def sequence_of(
    points: npt.NDArray[np.float32], present: npt.NDArray[np.bool_], fps: float = 25.0
) -> LandmarkSequence:
    return LandmarkSequence(
        points=points, present=present, fps=fps, width=320, height=240, layout=HANDS_POSE
    )


def test_hands_come_first_as_126_numbers_and_landmarks_are_found_by_name() -> None:
    assert HANDS_POSE.points == 51
    assert HANDS_POSE.group_names == ("left_hand", "right_hand", "pose")
    left, right = HANDS_POSE.slice("left_hand"), HANDS_POSE.slice("right_hand")
    assert (left, right) == (slice(0, 21), slice(21, 42))
    assert points_of(1)[:, left.start : right.stop].size == 126
    assert HANDS_POSE.slice("pose") == slice(42, 51)
    assert HANDS_POSE.index("right_hand", "middle_mcp") == 21 + 9
    assert HANDS_POSE.index("pose", "left_shoulder") == 43
    assert HANDS_POSE.landmark_names[30] == "right_hand.middle_mcp"
    with pytest.raises(ValueError, match="no group 'face'; it has left_hand, right_hand, pose"):
        HANDS_POSE.slice("face")
    with pytest.raises(ValueError, match="no landmark 'mouth'; it has nose"):
        HANDS_POSE.index("pose", "mouth")


def test_layouts_hold_their_groups_in_one_order_and_are_named_after_them() -> None:
    everything = build_layout(tuple(GROUP_CHOICES))
    assert everything.name == "hands-pose-lips-face_outline-brows-eyes-gaze"
    assert everything.points == 2 * 21 + 9 + 40 + 36 + 21 + 32 + 14
    assert len(set(everything.landmark_names)) == everything.points
    assert build_layout(("pose", "hands")) == HANDS_POSE
    assert build_layout(("hands",)).group_names == ("left_hand", "right_hand")
    assert build_layout(("lips",)).slice("lips") == slice(0, 40)


@pytest.mark.parametrize("choices", [(), ("hands", "hands"), ("hands", "feet")])
def test_groups_that_make_no_layout_are_refused(choices: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"expected some of hands, pose, .*, eyes, gaze, each"):
        build_layout(choices)


def test_points_are_absent_where_the_group_is() -> None:
    points, present = points_of(4), np.ones((4, 3), bool)
    present[2, 1] = False
    with pytest.raises(ValueError, match="right_hand: points must be finite where present"):
        sequence_of(points, present)
    points[2, HANDS_POSE.slice("right_hand")] = np.nan
    sequence_of(points, present)
    points[3, 50, 2] = np.nan  # half a point
    with pytest.raises(ValueError, match="pose: points must be finite"):
        sequence_of(points, present)
    points[3, 50, 2], points[0, 0, 0] = 0, np.inf
    with pytest.raises(ValueError, match="left_hand: points must be finite"):
        sequence_of(points, present)


@pytest.mark.parametrize(
    ("points", "present", "message"),
    [
        (points_of(3)[:, :50], np.ones((3, 3), bool), r"expected float32 \(S >= 1, \(51, 3\)\)"),
        (points_of(3)[:0], np.ones((0, 3), bool), r"points are float32 \(0, 51, 3\)"),
        (points_of(3), np.ones((4, 3), bool), r"present is bool \(4, 3\)"),
        (points_of(3), np.ones((3, 51), bool), r"present is bool \(3, 51\)"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(
    points: npt.NDArray[np.float32], present: npt.NDArray[np.bool_], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        sequence_of(points, present)


@pytest.mark.parametrize("fps", [0.0, 1e-3, 1e9, -25.0, float("nan"), float("inf")])
def test_an_impossible_frame_rate_is_refused(fps: float) -> None:
    with pytest.raises(ValueError, match="expected 1 to 1000"):
        sequence_of(points_of(2), np.ones((2, 3), bool), fps=fps)
