"""Clips that nobody cut: what is around the signing, and how it is drawn."""

from dataclasses import replace

import numpy as np
import pytest

from signloom_demo.motion import NO_SIGN, perform
from signloom_demo.render import Camera
from signloom_demo.scene import pose_arms, true_joints
from signloom_demo.signer import TRAIN_SIGNERS
from signloom_demo.uncut import CUT, MOST_WAIT_S, TOUCH_S, Manner, draw_manner, walk

FPS = 15.0
GLOSSES = ["BONJOUR", "MAISON", "MOI"]
SIGNER = TRAIN_SIGNERS[0]


def signed(manner: Manner = CUT) -> tuple[np.ndarray, np.ndarray]:
    """Return the position in the sentence and the height of the dominant hand, frame by frame."""
    performance = perform(GLOSSES, SIGNER, FPS, np.random.default_rng(4), manner)
    return performance.sign, performance.dominant.centre[:, 1]


def test_a_wait_adds_rest_and_changes_no_sign() -> None:
    sign, height = signed()
    later, heights = signed(Manner(before_s=1.0, after_s=2.0))
    first, start = int(np.argmax(later >= 0)), int(np.argmax(sign >= 0))
    assert first - start == 15
    assert len(later) - len(sign) == 45
    assert (later >= 0).sum() == (sign >= 0).sum()
    assert np.ptp(heights[: first - 5]) < 4  # cm: at rest
    assert height.min() == pytest.approx(heights.min(), abs=3)


@pytest.mark.parametrize(
    "manner",
    [
        Manner(before_s=3 * TOUCH_S + 0.3, scratch_before=True),
        Manner(after_s=3 * TOUCH_S + 0.3, scratch_after=True),
    ],
)
def test_a_hand_that_scratches_the_head_signs_nothing(manner: Manner) -> None:
    sign, height = signed(manner)
    outside = sign == NO_SIGN
    away = np.flatnonzero(outside & (height > 25))
    assert len(away) > 3
    inside = np.flatnonzero(~outside)
    assert (away < inside[0]).all() if manner.scratch_before else (away > inside[-1]).all()


def test_hands_sink_between_two_signs() -> None:
    sign, height = signed(Manner(lower_after=0, lower_s=0.5))
    between = slice(int(np.flatnonzero(sign == 0)[-1]), int(np.flatnonzero(sign == 1)[0]))
    assert height[between].min() < -20
    assert list(dict.fromkeys(sign[sign >= 0])) == [0, 1, 2]


def test_a_film_that_begins_late_and_ends_early_has_every_sign_and_no_rest() -> None:
    sign, _ = signed(Manner(late_s=0.0, early_s=0.0))
    assert (sign[0], sign[-1]) == (0, 2)
    assert len(sign) < len(signed()[0])


def test_who_walks_in_is_beside_the_picture_first_and_in_place_before_the_first_sign() -> None:
    manner = Manner(before_s=1.5, walk_s=1.2, walk_from=-1)
    performance = perform(GLOSSES, SIGNER, FPS, np.random.default_rng(4), manner)
    beside = walk(manner, len(performance.sign), FPS)
    arms, camera = pose_arms(performance, SIGNER), Camera(width=320, height=240)
    joints = true_joints(arms, camera, beside)
    assert joints[0, :, :, 0].max() < 0.1
    first = int(np.argmax(performance.sign >= 0))
    assert not beside[first:].any()
    np.testing.assert_array_equal(joints[first:], true_joints(arms, camera)[first:])


def test_a_turned_camera_sees_along_its_rays_what_it_projects_there() -> None:
    camera = Camera(width=64, height=48, shift_x=3.0, zoom=0.9, tilt_deg=7.0)
    rays = camera.rays().astype(float).T.reshape(48, 64, 3)
    for row, column in ((0, 0), (10, 50), (47, 63)):
        pixel = camera.project(camera.position + 150 * rays[row, column])
        assert pixel == pytest.approx((column + 0.5, row + 0.5), abs=1e-3)
    level = replace(camera, tilt_deg=0.0).project(np.array([10.0, 0.0, 0.0]))
    assert camera.project(np.array([10.0, 0.0, 0.0]))[1] != pytest.approx(level[1])


@pytest.mark.parametrize("signs", [1, 2, 5])
def test_whatever_is_drawn_every_sign_is_shown_in_order(signs: int) -> None:
    combinations = set()
    for seed in range(60):
        rng = np.random.default_rng(seed)
        manner = draw_manner(rng, signs)
        sign = perform((GLOSSES * 2)[:signs], SIGNER, FPS, rng, manner).sign
        assert list(dict.fromkeys(sign[sign >= 0].tolist())) == list(range(signs))
        assert max(manner.before_s, manner.after_s) <= MOST_WAIT_S
        combinations.add((manner.scratch_before, manner.walk_s > 0, manner.late_s is None))
    assert len(combinations) == 4
