import dataclasses

import numpy as np
import pytest

from signloom.corpus.augment import augment, mirror, mirrored_points
from signloom.corpus.features import compute_features
from signloom.corpus.landmarks import HANDS_POSE
from tests import tiny

LEFT, RIGHT = HANDS_POSE.slice("left_hand"), HANDS_POSE.slice("right_hand")


def test_everything_off_changes_nothing() -> None:
    clip = tiny.sequence()
    same = augment(clip, tiny.NO_AUGMENT, np.random.default_rng(0))
    np.testing.assert_allclose(same.points, clip.points, atol=1e-6)
    np.testing.assert_array_equal(same.present, clip.present)


def test_the_same_generator_gives_the_same_clip() -> None:
    clip = tiny.lose(tiny.sequence(), "right_hand", slice(3, 5))
    first, second, other = (
        augment(clip, tiny.AUGMENT, np.random.default_rng(seed)) for seed in (5, 5, 6)
    )
    np.testing.assert_array_equal(first.points, second.points)
    assert not np.array_equal(first.points[0], other.points[0], equal_nan=True)


def test_mirroring_twice_is_identity() -> None:
    clip = tiny.lose(tiny.sequence(), "left_hand", slice(3, 5))
    twice = mirror(mirror(clip))
    np.testing.assert_allclose(twice.points, clip.points, atol=1e-6)
    np.testing.assert_array_equal(twice.present, clip.present)


def test_mirroring_swaps_the_sides() -> None:
    clip = tiny.lose(tiny.sequence(), "left_hand", slice(0, 12))
    other = mirror(clip)
    np.testing.assert_array_equal(other.present[:, :2], [[True, False]] * 12)
    np.testing.assert_allclose(other.points[:, LEFT, 0], 1 - clip.points[:, RIGHT, 0])
    np.testing.assert_array_equal(other.points[:, LEFT, 1:], clip.points[:, RIGHT, 1:])
    # The left shoulder of a signer who faces the camera is on the right of the picture.
    shoulder = HANDS_POSE.index("pose", "left_shoulder")
    assert (other.points[:, shoulder, 0] > 0.5).all()


def test_each_landmark_has_one_partner() -> None:
    partners = np.array(mirrored_points(HANDS_POSE))
    np.testing.assert_array_equal(partners[partners], np.arange(HANDS_POSE.points))
    assert partners[HANDS_POSE.index("pose", "nose")] == HANDS_POSE.index("pose", "nose")


def test_stretching_changes_the_length_within_its_limit() -> None:
    options = dataclasses.replace(tiny.NO_AUGMENT, stretch=0.5)
    clip = tiny.sequence(frames=40)
    lengths = {
        len(augment(clip, options, np.random.default_rng(seed)).points) for seed in range(50)
    }
    assert min(lengths) >= 26
    assert max(lengths) <= 60
    assert len(lengths) > 10


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


def test_hiding_keeps_absent_and_nan_together() -> None:
    options = dataclasses.replace(tiny.NO_AUGMENT, hand_drop=1.0, time_mask=1.0, max_span=0.5)
    hidden = 0
    for seed in range(20):
        changed = augment(tiny.sequence(), options, np.random.default_rng(seed))
        hidden += (~changed.present).sum()  # LandmarkSequence itself checks the NaNs
    assert hidden > 0


def test_augmented_clips_still_make_features() -> None:
    clip = tiny.lose(tiny.sequence(), "pose", slice(0, 12))
    for seed in range(20):
        changed = augment(clip, tiny.AUGMENT, np.random.default_rng(seed))
        assert np.isfinite(compute_features(changed, tiny.FEATURES)).all()


@pytest.mark.parametrize("change", [{"stretch": -0.1}, {"mirror": 1.5}, {"max_span": -0.1}])
def test_impossible_options_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        dataclasses.replace(tiny.AUGMENT, **change)
