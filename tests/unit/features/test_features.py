import dataclasses
from typing import Any

import numpy as np
import pytest

from signloom.corpus.landmarks import GROUP_CHOICES, HANDS_POSE, build_layout
from signloom.errors import UserError
from signloom.features.features import (
    FALLBACK_SHOULDER_WIDTH,
    compute_features,
    feature_names,
    feature_width,
    fill_gaps,
    hand_columns,
    normalise,
    resample,
)
from tests import tiny

LEFT, RIGHT = HANDS_POSE.slice("left_hand"), HANDS_POSE.slice("right_hand")


@pytest.mark.parametrize(
    ("layout", "groups"),
    [
        ("hands pose", "hands"),
        ("lips", "lips"),
        ("brows eyes gaze", "brows eyes gaze"),
        (" ".join(GROUP_CHOICES), "lips pose"),
        (" ".join(GROUP_CHOICES), " ".join(GROUP_CHOICES)),
    ],
)
def test_every_column_is_known_before_and_has_one_name(layout: str, groups: str) -> None:
    clip = tiny.clip(build_layout(tuple(layout.split())), frames=5)
    plain = dataclasses.replace(tiny.FEATURES, groups=tuple(groups.split()))
    for changes in ({}, {"hand_origin": "body", "presence": False}, {"differences": 2}):
        options = dataclasses.replace(plain, **changes)
        matrix, names = compute_features(clip, options), feature_names(options, clip.layout)
        assert matrix.shape == (5, feature_width(options, clip.layout))
        assert len(names) == len(set(names)) == matrix.shape[1]
        assert matrix.dtype == np.float32
        assert np.isfinite(matrix).all()


PLAIN = dataclasses.replace(
    tiny.FEATURES, groups=("hands",), hand_origin="body", differences=0, presence=False
)


def test_the_plain_hands_are_the_documents_126_numbers() -> None:
    clip = tiny.sequence()
    expected = normalise(clip, "body")[:, :42].reshape(12, 126)
    np.testing.assert_array_equal(compute_features(clip, PLAIN), expected)
    hands = tiny.clip(build_layout(("hands",)))
    assert feature_width(PLAIN, hands.layout) == 126
    # Nothing but the picture's centre and one scale stand between these and MediaPipe's numbers.
    points = compute_features(hands, dataclasses.replace(PLAIN, normalise="picture"))
    points = points.reshape(12, 42, 3) * FALLBACK_SHOULDER_WIDTH / [320 / 240, 1, 320 / 240]
    np.testing.assert_allclose(points + np.array([0.5, 0.5, 0]), hands.points, atol=1e-5)


def test_groups_that_the_landmarks_lack_are_named() -> None:
    options = dataclasses.replace(tiny.FEATURES, groups=("hands", "lips"))
    message = r"features\.groups asks for lips, .* have left_hand, right_hand, pose only; choose"
    with pytest.raises(UserError, match=message):
        compute_features(tiny.sequence(), options)
    with pytest.raises(UserError, match=message):
        feature_width(options, HANDS_POSE)


def test_what_is_not_chosen_is_not_seen() -> None:
    clip = tiny.sequence()
    options = dataclasses.replace(tiny.FEATURES, groups=("hands",))
    features = compute_features(clip, tiny.FEATURES)
    # Hands with the places of their wrists, then their changes, then two bits of three.
    hands = np.concatenate((features[:, :130], features[:, 148:278], features[:, 296:298]), axis=1)
    np.testing.assert_array_equal(compute_features(clip, options), hands)


def test_normalising_by_hand() -> None:
    points = normalise(tiny.sequence(), "body")
    # 0.24 of a picture 4/3 as wide as high lie between the shoulders of the tiny signer.
    left = points[:, HANDS_POSE.index("pose", "left_shoulder"), :2]
    right = points[:, HANDS_POSE.index("pose", "right_shoulder"), :2]
    np.testing.assert_allclose(left, np.tile([[0.5, 0]], (12, 1)), atol=1e-6)
    np.testing.assert_allclose(right, np.tile([[-0.5, 0]], (12, 1)), atol=1e-6)
    clip = tiny.sequence()
    wrist = clip.points[0, LEFT.start]
    expected_y = (wrist[1] - 0.45) / (0.24 * 4 / 3)
    np.testing.assert_allclose(points[0, LEFT.start, 1], expected_y, rtol=1e-5)


@pytest.mark.parametrize(
    "groups",
    ["hands pose", "hands", "lips", "face_outline", "pose lips", "brows", "eyes", "gaze"],
)
def test_features_do_not_see_where_and_how_large_the_signer_is(groups: str) -> None:
    layout = tuple(groups.split())
    clip = tiny.clip(build_layout(layout))
    options = dataclasses.replace(tiny.FEATURES, groups=layout)
    moved = clip.points * np.float32(0.7) + np.array([0.1, 0.2, 0.0], dtype=np.float32)
    moved_clip = dataclasses.replace(clip, points=moved)
    before, after = compute_features(clip, options), compute_features(moved_clip, options)
    np.testing.assert_allclose(before, after, atol=1e-4)  # float32 after division
    picture_options = dataclasses.replace(options, normalise="picture", hand_origin="body")
    if not {"lips", "brows", "eyes", "gaze"}.issuperset(layout):
        change = compute_features(clip, picture_options) - compute_features(
            moved_clip, picture_options
        )
        assert np.abs(change).max() > 0.1


@pytest.mark.parametrize("group", ["lips", "brows", "eyes", "gaze"])
def test_lips_brows_and_eyes_do_not_see_the_head_move(group: str) -> None:
    clip = tiny.clip(build_layout((group,)))
    options = dataclasses.replace(tiny.FEATURES, groups=(group,))
    drift = np.linspace(0, 0.3, 12, dtype=np.float32)[:, None, None]
    moved = dataclasses.replace(clip, points=clip.points + drift)
    np.testing.assert_allclose(
        compute_features(clip, options), compute_features(moved, options), atol=1e-3
    )


def test_a_mouth_is_one_wide_and_lies_where_it_is() -> None:
    clip = tiny.clip(build_layout(("pose", "lips")))
    options = dataclasses.replace(tiny.FEATURES, groups=("lips",), differences=0, presence=False)
    matrix = compute_features(clip, options)
    shape, place = matrix[:, :-2].reshape(12, 40, 3), matrix[:, -2:]
    names = clip.layout.groups[1].landmarks
    corners = [names.index(f"{side}_outer_corner") for side in ("left", "right")]
    widths = np.linalg.norm(shape[:, corners[0], :2] - shape[:, corners[1], :2], axis=1)
    assert np.median(widths) == pytest.approx(1, rel=1e-4)
    np.testing.assert_allclose(shape.mean(axis=1), 0, atol=1e-5)
    lips = normalise(clip, "body")[:, clip.layout.slice("lips"), :2]
    np.testing.assert_allclose(place, lips.mean(axis=1), atol=1e-5)


@pytest.mark.parametrize(
    ("group", "moving", "still"),
    [
        ("brows", "right_upper_brow_3", "bridge"),
        ("eyes", "left_upper_lid_4", "left_outer_corner"),
        ("gaze", "right_iris", "right_inner_corner"),
    ],
)
def test_brow_lid_and_iris_are_measured_by_what_stays(group: str, moving: str, still: str) -> None:
    clip = tiny.clip(build_layout((group,)))
    clip = dataclasses.replace(clip, points=np.repeat(clip.points[:1], 12, axis=0))
    options = dataclasses.replace(tiny.FEATURES, groups=(group,), differences=0, presence=False)
    points = clip.points.copy()
    points[6:, clip.layout.index(group, moving), 1] -= 0.1
    matrix = compute_features(dataclasses.replace(clip, points=points), options)
    change = (matrix[6] - matrix[0]).reshape(-1, 2)
    names = clip.layout.groups[0].landmarks
    assert change[names.index(moving)] == pytest.approx([0, change[:, 1].min()])
    assert change[names.index(still)] == pytest.approx([0, 0])
    assert np.count_nonzero(np.abs(change[:, 1]) > 1e-6) == 1
    assert change[:, 1].min() < 0


def test_changes_by_hand() -> None:
    frames = np.array([0, 1, 4, 9], dtype=np.float32)  # squares: the change of the change is 2
    clip = tiny.clip(build_layout(("hands",)), frames=4)
    clip = dataclasses.replace(clip, points=clip.points[:1] + frames[:, None, None] / 64, fps=20.0)
    options = dataclasses.replace(PLAIN, fps=20.0, normalise="picture", differences=2)
    unit = 1 / 64 / FALLBACK_SHOULDER_WIDTH  # of y, in usual shoulder widths
    change, again = np.split(compute_features(clip, options), 3, axis=1)[1:]
    # Per tenth of a second, so 20 frames/s double a change and quadruple the change of changes.
    np.testing.assert_allclose(change[:, 1], np.array([0, 1, 3, 5]) * unit * 2, rtol=1e-4)
    np.testing.assert_allclose(again[:, 1], np.array([0, 0, 2, 2]) * unit * 4, rtol=1e-4)
    single_frame = dataclasses.replace(clip, points=clip.points[:1], present=clip.present[:1])
    assert not compute_features(single_frame, options)[:, 126:].any()


def test_features_do_not_see_the_shape_of_the_picture() -> None:
    clip = tiny.sequence()
    # The same body in a picture twice as wide: x and z are in picture widths.
    points = clip.points * np.array([0.5, 1, 0.5], dtype=np.float32)
    wide = dataclasses.replace(clip, points=points, width=640)
    np.testing.assert_allclose(
        compute_features(clip, tiny.FEATURES), compute_features(wide, tiny.FEATURES), atol=2e-5
    )


def test_a_lost_hand_is_zero_and_its_bit_is_off() -> None:
    clip = tiny.lose(tiny.sequence(), "left_hand", slice(4, 12))
    matrix = compute_features(clip, tiny.FEATURES)
    assert np.isfinite(matrix).all()
    assert not matrix[4:, :63].any()
    assert matrix[:4, :63].any()
    bits = matrix[:, -3:]
    np.testing.assert_array_equal(bits[:, 0], [1] * 4 + [0] * 8)
    np.testing.assert_array_equal(bits[:, 1:], 1)


def test_a_short_gap_is_bridged_by_a_straight_line_and_a_long_one_is_not() -> None:
    clip = tiny.sequence()
    lost = tiny.lose(tiny.lose(clip, "left_hand", slice(2, 5)), "left_hand", slice(7, 11))
    filled = fill_gaps(lost, max_gap_s=0.3)  # 3 frames of 10 a second
    start, end = clip.points[1, LEFT], clip.points[5, LEFT]
    for step in (1, 2, 3):
        expected = start + (end - start) * step / 4
        np.testing.assert_allclose(filled.points[1 + step, LEFT], expected, atol=1e-6)
    assert filled.present[2:5, 0].all()
    at_the_end = tiny.lose(clip, "left_hand", slice(10, 12))
    assert not fill_gaps(at_the_end, max_gap_s=9.0).present[10:, 0].any()
    assert not filled.present[7:11, 0].any()
    np.testing.assert_array_equal(filled.points[:, RIGHT], clip.points[:, RIGHT])


def test_resampling_keeps_duration_and_straight_lines() -> None:
    clip = tiny.sequence(frames=20)
    ramp = np.linspace(0, 1, 20, endpoint=False, dtype=np.float32)
    clip = dataclasses.replace(
        clip, points=np.broadcast_to(ramp[:, None, None], clip.points.shape).copy(), fps=20.0
    )
    half = resample(clip, 10.0)
    assert half.fps == 10
    np.testing.assert_allclose(half.points[:, 0, 0], ramp[::2], atol=1e-6)
    double = resample(clip, 40.0)
    assert len(double.points) == 40
    np.testing.assert_allclose(double.points[:-1, 0, 0], np.arange(39) / 40, atol=1e-6)
    assert resample(clip, 20.1) is clip


def test_resampling_invents_no_hand() -> None:
    clip = tiny.lose(tiny.sequence(frames=20), "left_hand", slice(10, 20))
    for fps in (7.0, 13.0, 25.0):
        changed = resample(clip, fps)
        last = np.flatnonzero(changed.present[:, 0])[-1] / fps
        assert last <= 1.0  # the hand was there for a second


def test_a_clip_without_shoulders_is_measured_by_the_picture() -> None:
    clip = tiny.lose(tiny.sequence(), "pose", slice(0, 12))
    points = normalise(clip, "body")
    expected = (clip.points[0, LEFT.start, 1] - 0.5) / FALLBACK_SHOULDER_WIDTH
    np.testing.assert_allclose(points[0, LEFT.start, 1], expected, rtol=1e-5)
    assert np.isfinite(compute_features(clip, tiny.FEATURES)).all()


@pytest.mark.parametrize("groups", [tuple(GROUP_CHOICES), ("pose", "lips")])
def test_hand_columns_are_those_named_after_a_hand_or_all_where_none_is(groups: Any) -> None:
    options = dataclasses.replace(PLAIN, groups=groups, differences=1, presence=True)
    layout = build_layout(groups)
    names = [name.rpartition(" ")[2] for name in feature_names(options, layout)]
    hand_names = [names[column] for column in hand_columns(options, layout)]
    assert hand_names == (
        [n for n in names if n.startswith(("left_hand.", "right_hand."))] or names
    )
    assert len(set(hand_columns(options, layout))) == len(hand_names)
