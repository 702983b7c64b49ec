import dataclasses

import numpy as np
import pytest

from signloom.corpus.landmarks import GROUP_CHOICES, HANDS_POSE, build_layout
from signloom.features.augment import (
    AugmentOptions,
    augment,
    augment_rows,
    lose_hands,
    mirror,
    mirrored_points,
)
from tests import tiny

LEFT, RIGHT = HANDS_POSE.slice("left_hand"), HANDS_POSE.slice("right_hand")


def test_everything_off_changes_nothing() -> None:
    clip = tiny.sequence()
    same = augment(clip, tiny.NO_AUGMENT, np.random.default_rng(0))
    np.testing.assert_allclose(same.points, clip.points, atol=1e-6)
    np.testing.assert_array_equal(same.present, clip.present)


def test_mirroring_swaps_the_sides() -> None:
    clip = tiny.lose(tiny.sequence(), "left_hand", slice(0, 12))
    mirrored = mirror(clip)
    np.testing.assert_array_equal(mirrored.present[:, :2], [[True, False]] * 12)
    np.testing.assert_allclose(mirrored.points[:, LEFT, 0], 1 - clip.points[:, RIGHT, 0])
    np.testing.assert_array_equal(mirrored.points[:, LEFT, 1:], clip.points[:, RIGHT, 1:])
    # The left shoulder of a signer who faces the camera is on the right of the picture.
    shoulder = HANDS_POSE.index("pose", "left_shoulder")
    assert (mirrored.points[:, shoulder, 0] > 0.5).all()


def test_each_landmark_has_one_partner() -> None:
    layout = build_layout(tuple(GROUP_CHOICES))
    partners = np.array(mirrored_points(layout))
    np.testing.assert_array_equal(partners[partners], np.arange(layout.points))
    alone = {
        layout.landmark_names[mark] for mark in np.flatnonzero(partners == np.arange(len(partners)))
    }
    assert alone == {
        "pose.nose",
        *(f"lips.{row}_{line}" for row in ("upper", "lower") for line in ("outer", "inner")),
        "face_outline.forehead",
        "face_outline.chin",
        "brows.bridge",
    }


def test_turning_keeps_true_distances() -> None:
    options = dataclasses.replace(tiny.NO_AUGMENT, rotate_deg=30.0)
    clip = tiny.sequence()
    turned = augment(clip, options, np.random.default_rng(1))
    heights = np.array([320 / 240, 1])
    for points in (clip.points, turned.points):
        span = (points[:, LEFT.start, :2] - points[:, RIGHT.start, :2]) * heights
        distance = np.linalg.norm(span, axis=1)
        if points is clip.points:
            expected = distance
    np.testing.assert_allclose(distance, expected, rtol=1e-5)
    assert not np.allclose(turned.points, clip.points, atol=1e-3)


def test_scaling_moves_along_the_picture_s_axes() -> None:
    options = dataclasses.replace(tiny.NO_AUGMENT, scale=0.5)
    clip = tiny.sequence()
    scaled = augment(clip, options, np.random.default_rng(1))
    centre = np.array([0.5, 0.5])
    factors = (scaled.points[..., :2] - centre) / (clip.points[..., :2] - centre)
    for axis in (0, 1):
        np.testing.assert_allclose(factors[..., axis], factors[0, 0, axis], rtol=1e-3)
        assert 1 / 1.5 <= factors[0, 0, axis] <= 1.5
    assert abs(factors[0, 0, 0] - factors[0, 0, 1]) > 0.01


def test_a_hand_is_moved_and_scaled_as_a_whole() -> None:
    clip = tiny.sequence()
    options = dataclasses.replace(tiny.NO_AUGMENT, hand_shift=0.1, hand_scale=0.5)
    moved = augment(clip, options, np.random.default_rng(2))
    offset = moved.points[:, LEFT.start, :2] - clip.points[:, LEFT.start, :2]
    np.testing.assert_allclose(offset, np.broadcast_to(offset[0], offset.shape), atol=1e-5)
    assert np.abs(offset).max() > 0.001
    before = clip.points[:, LEFT] - clip.points[:, LEFT][:, :1]
    after = moved.points[:, LEFT] - moved.points[:, LEFT][:, :1]
    factor = after[:, 1:] / before[:, 1:]
    np.testing.assert_allclose(factor, factor[0, 0, 0], rtol=1e-2)
    np.testing.assert_allclose(moved.points[:, 42:], clip.points[:, 42:], atol=1e-6)


def test_noise_has_the_stated_size_in_picture_heights() -> None:
    options = dataclasses.replace(tiny.NO_AUGMENT, noise=0.01)
    clip = tiny.sequence(frames=200)
    noise = augment(clip, options, np.random.default_rng(3)).points - clip.points
    # 200 x 51 draws an axis: a tenth off is far out.
    np.testing.assert_allclose(noise[..., 0].std() * 320 / 240, 0.01, rtol=0.1)
    np.testing.assert_allclose(noise[..., 1].std(), 0.01, rtol=0.1)


def test_switching_one_change_off_leaves_the_others() -> None:
    clip = tiny.sequence()
    on = dataclasses.replace(tiny.NO_AUGMENT, rotate_deg=30.0, noise=0.01, stretch=0.3, mirror=1.0)
    off = dataclasses.replace(on, stretch=0.0, mirror=0.0, noise=0.0)

    def angle(options: AugmentOptions) -> float:
        changed = augment(clip, options, np.random.default_rng(4)).points[0]
        left, right = (
            changed[HANDS_POSE.index("pose", name), :2] * [320 / 240, 1]
            for name in ("left_shoulder", "right_shoulder")
        )
        return float(np.arctan2(*(left - right)[::-1]))

    assert abs(angle(off)) > 0.05
    assert angle(on) == pytest.approx(angle(off), abs=0.1)  # give or take the noise


def test_features_of_others_are_changed_by_column_and_keep_their_shape() -> None:
    rows = np.random.default_rng(1).normal(5, [1, 10], (40, 2)).astype(np.float32)
    options = dataclasses.replace(tiny.NO_AUGMENT, stretch=0.5, scale=0.2, feature_shift=0.1)
    lengths, factors = set(), []
    for seed in range(40):
        changed_rows = augment_rows(rows, options, np.random.default_rng(seed))
        again = augment_rows(rows, options, np.random.default_rng(seed))
        assert np.array_equal(changed_rows, again)
        lengths.add(len(changed_rows))
        factors.append(changed_rows.std(axis=0) / rows.std(axis=0))
        assert (
            np.abs(changed_rows.mean(axis=0) - rows.mean(axis=0)) < 0.6 * rows.std(axis=0)
        ).all()
    assert min(lengths) < 30 < 50 < max(lengths)
    assert np.ptp(factors, axis=0).min() > 0.2  # each column by a factor of its own
    assert abs(np.corrcoef(np.transpose(factors))[0, 1]) < 0.5
    same = augment_rows(
        rows, dataclasses.replace(tiny.NO_AUGMENT, feature_shift=0.0), np.random.default_rng(1)
    )
    assert np.allclose(same, rows, atol=1e-5)


def test_time_runs_faster_and_slower_within_a_clip_of_features_and_spans_become_its_mean() -> None:
    ramp = np.linspace(0, 1, 100, dtype=np.float32)[:, None]
    bent, masked = (
        dataclasses.replace(tiny.NO_AUGMENT, **changes)
        for changes in ({"stretch": 0.01}, {"time_mask": 0.1, "max_span": 0.3})
    )
    off, shares = [], []
    for seed in range(40):
        warped = augment_rows(ramp, bent, np.random.default_rng(seed), duration=0.5)[:, 0]
        assert (np.diff(warped) >= 0).all()  # time never runs back
        off.append(np.abs(warped - ramp[:, 0]).max())
        warped = augment_rows(ramp, masked, np.random.default_rng(seed), duration=0.5)[:, 0]
        is_changed = ~np.isclose(warped, ramp[:, 0])
        assert np.allclose(warped[is_changed], 0.5)
        shares.append(is_changed.mean())
    assert 0.02 < np.mean(off) < 0.12
    assert max(off) < 0.2
    assert 0.15 < np.mean(shares) < 0.35


def test_hands_are_lost_in_short_runs_of_every_other_clip() -> None:
    clip = tiny.sequence(frames=300)
    options = dataclasses.replace(tiny.NO_AUGMENT, hand_drop=0.4)
    hand = clip.layout.group("left_hand")
    changed = [lose_hands(clip, options, np.random.default_rng(seed)) for seed in range(200)]
    lost = np.array(
        [
            (~changed_clip.present[:, hand]).mean() - (~clip.present[:, hand]).mean()
            for changed_clip in changed
        ]
    )
    assert 0.35 < (lost == 0).mean() < 0.65
    assert 0.1 < lost[lost > 0].mean() < 0.3
    assert lost.max() < 0.6  # a draw of so many runs, not a bound
    body = clip.layout.group("pose")
    assert all(
        (changed_clip.present[:, body] == clip.present[:, body]).all() for changed_clip in changed
    )
