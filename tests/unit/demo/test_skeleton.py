import numpy as np
import pytest

from signloom_demo.lexicon import HAND_SHAPES, ORIENTATIONS, orientation
from signloom_demo.motion import perform
from signloom_demo.signer import TRAIN_SIGNERS
from signloom_demo.skeleton import (
    FOREARM,
    UPPER_ARM,
    HandTrack,
    hand_frame,
    hand_joints,
    mirror,
    place_arm,
    turn,
)

BONES = [
    *[(0, 1), (1, 2), (2, 3), (3, 4), (0, 5), (5, 6), (6, 7), (7, 8), (0, 9), (9, 10)],
    *[(10, 11), (11, 12), (0, 13), (13, 14), (14, 15), (15, 16), (0, 17), (17, 18)],
    *[(18, 19), (19, 20)],
]


def bone_lengths(joints: np.ndarray) -> np.ndarray:
    return np.stack([np.linalg.norm(joints[:, b] - joints[:, a], axis=1) for a, b in BONES], 1)


def still(name: str) -> HandTrack:
    shape = HAND_SHAPES[name]
    return HandTrack(
        centre=np.zeros((1, 3)),
        frame=orientation("palm")[None],
        flex=shape.flex[None],
        spread=shape.spread[None],
        thumb=shape.thumb[None],
    )


@pytest.mark.parametrize("gloss", ["BONJOUR", "VOULOIR", "DORMIR", "POMME"])
def test_bones_keep_their_lengths_while_signing(gloss: str) -> None:
    performance = perform([gloss, "MAISON"], TRAIN_SIGNERS[0], 15.0, np.random.default_rng(3))
    for track in (performance.dominant, performance.other):
        lengths = bone_lengths(hand_joints(track, 1.0))
        assert np.ptp(lengths, axis=0).max() < 1e-9


def test_arm_bones_keep_their_lengths_even_out_of_reach() -> None:
    shoulder = np.array([-17.0, 7.0, -3.0])
    wrists = np.array([[-20.0, 0.0, 20.0], [0.0, 10.0, 15.0], [-90.0, 60.0, 90.0]])
    elbows, reached = place_arm(shoulder, wrists, 1.0)
    np.testing.assert_allclose(np.linalg.norm(elbows - shoulder, axis=1), UPPER_ARM, rtol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(reached - elbows, axis=1), FOREARM, rtol=1e-9)
    np.testing.assert_allclose(reached[:2], wrists[:2], atol=1e-9)
    assert np.linalg.norm(reached[2] - wrists[2]) > 10
    assert elbows[0, 1] < -5  # hangs below the wrist and the shoulder


def test_raised_right_palm_shows_its_thumb_towards_the_signers_left() -> None:
    joints = hand_joints(still("spread"), 1.0)[0]
    assert joints[12, 1] > joints[9, 1] > joints[0, 1]  # fingers up
    assert joints[4, 0] > joints[20, 0] + 5  # the signer's left is the picture's right
    assert mirror(joints)[4, 0] < mirror(joints)[20, 0]


@pytest.mark.parametrize("name", ORIENTATIONS)
def test_orientations_are_rotations(name: str) -> None:
    frame = orientation(name)
    np.testing.assert_allclose(frame @ frame.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(frame) == pytest.approx(1.0)


def test_turn_goes_evenly_from_start_to_end() -> None:
    start = hand_frame(np.array([0.0, 1.0, 0.0]), np.array([0.0, 0.0, 1.0]))
    quarter = hand_frame(np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0]))
    half = hand_frame(np.array([0.0, -1.0, 0.0]), np.array([0.0, 0.0, 1.0]))
    starts, shares = np.stack([start] * 3), np.array([0.0, 0.5, 1.0])
    turned = turn(starts, np.stack([half] * 3), shares)
    np.testing.assert_allclose(turned[0], start, atol=1e-9)
    np.testing.assert_allclose(turned[2], half, atol=1e-9)
    assert abs(turned[1][:, 1] @ quarter[:, 1]) == pytest.approx(1.0)  # either way round
    np.testing.assert_allclose(turn(starts, starts, shares), starts, atol=1e-9)
