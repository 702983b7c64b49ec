import dataclasses

import numpy as np
import pytest

from signloom.corpus.features import (
    FALLBACK_SHOULDER_WIDTH,
    compute_features,
    feature_width,
    fill_gaps,
    normalise,
    resample,
)
from signloom.corpus.landmarks import HANDS_POSE
from tests import tiny

LEFT, RIGHT = HANDS_POSE.slice("left_hand"), HANDS_POSE.slice("right_hand")


@pytest.mark.parametrize("hand_origin", ["wrist", "shoulders"])
@pytest.mark.parametrize("switches", [(True, True, True), (False, False, False)])
def test_the_width_is_known_before(hand_origin: str, switches: tuple[bool, bool, bool]) -> None:
    names = ("body", "differences", "presence")
    changes = dict(zip(names, switches, strict=True))
    options = dataclasses.replace(tiny.FEATURES, hand_origin=hand_origin, **changes)
    matrix = compute_features(tiny.sequence(), options)
    assert matrix.shape == (12, feature_width(options, HANDS_POSE))
    assert matrix.dtype == np.float32


def test_the_plain_hands_are_the_documents_126_numbers() -> None:
    options = dataclasses.replace(
        tiny.FEATURES, hand_origin="shoulders", body=False, differences=False, presence=False
    )
    clip = tiny.sequence()
    expected = normalise(clip)[:, :42].reshape(12, 126)
    np.testing.assert_array_equal(compute_features(clip, options), expected)


def test_normalising_by_hand() -> None:
    points = normalise(tiny.sequence())
    # 0.24 of a picture 4/3 as wide as high lie between the shoulders of the tiny signer.
    left = points[:, HANDS_POSE.index("pose", "left_shoulder"), :2]
    right = points[:, HANDS_POSE.index("pose", "right_shoulder"), :2]
    np.testing.assert_allclose(left, np.tile([[0.5, 0]], (12, 1)), atol=1e-6)
    np.testing.assert_allclose(right, np.tile([[-0.5, 0]], (12, 1)), atol=1e-6)
    clip = tiny.sequence()
    wrist = clip.points[0, LEFT.start]
    expected_y = (wrist[1] - 0.45) / (0.24 * 4 / 3)
    np.testing.assert_allclose(points[0, LEFT.start, 1], expected_y, rtol=1e-5)


def test_features_do_not_see_where_and_how_large_the_signer_is() -> None:
    clip = tiny.sequence()
    moved = clip.points * np.float32(0.7) + np.array([0.1, 0.2, 0.0], dtype=np.float32)
    before = compute_features(clip, tiny.FEATURES)
    after = compute_features(dataclasses.replace(clip, points=moved), tiny.FEATURES)
    np.testing.assert_allclose(before, after, atol=2e-5)  # float32 after division


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
    assert not filled.present[7:11, 0].any()
    np.testing.assert_array_equal(filled.points[:, RIGHT], clip.points[:, RIGHT])


def test_a_gap_at_the_end_stays() -> None:
    lost = tiny.lose(tiny.sequence(), "left_hand", slice(10, 12))
    assert not fill_gaps(lost, max_gap_s=9.0).present[10:, 0].any()


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
    points = normalise(clip)
    expected = (clip.points[0, LEFT.start, 1] - 0.5) / FALLBACK_SHOULDER_WIDTH
    np.testing.assert_allclose(points[0, LEFT.start, 1], expected, rtol=1e-5)
    assert np.isfinite(compute_features(clip, tiny.FEATURES)).all()


def test_one_frame_is_enough() -> None:
    assert len(compute_features(tiny.sequence(frames=1), tiny.FEATURES)) == 1


@pytest.mark.parametrize("change", [{"fps": 0.0}, {"max_gap_s": -1.0}])
def test_impossible_options_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        dataclasses.replace(tiny.FEATURES, **change)
