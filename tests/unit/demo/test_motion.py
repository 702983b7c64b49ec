from dataclasses import replace

import numpy as np
import pytest

from signloom_demo.lexicon import LEXICON
from signloom_demo.motion import NO_SIGN, perform
from signloom_demo.render import Camera
from signloom_demo.scene import pose_arms, true_joints
from signloom_demo.signer import DEV_SIGNERS, TEST_SIGNERS, TRAIN_SIGNERS, Signer

EVERYONE = (*TRAIN_SIGNERS, *DEV_SIGNERS, *TEST_SIGNERS)
CAMERA = Camera(width=320, height=240)
RIGHT_HANDED = TRAIN_SIGNERS[0]


def joints_of(glosses: list[str], signer: Signer, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    performance = perform(glosses, signer, 15.0, np.random.default_rng(seed))
    return true_joints(pose_arms(performance, signer), CAMERA), performance.in_sign


def test_signs_come_in_order_between_rests() -> None:
    glosses = ["MOI", "PAIN", "MANGER"]
    performance = perform(glosses, RIGHT_HANDED, 15.0, np.random.default_rng(0))
    signs = performance.sign
    assert signs[0] == signs[-1] == NO_SIGN
    signed = signs[signs != NO_SIGN]
    assert (np.diff(signed) >= 0).all()
    assert set(signed) == {0, 1, 2}
    assert performance.in_sign[:, 0].tolist() == (signs != NO_SIGN).tolist()
    assert performance.in_sign[:, 1].tolist() == (signs == 1).tolist()  # only PAIN takes two


@pytest.mark.parametrize("gloss", LEXICON)
def test_signing_hands_stay_in_the_picture_and_are_large_enough(gloss: str) -> None:
    for signer in EVERYONE:
        joints, in_sign = joints_of([gloss], signer, seed=len(gloss))
        sides = in_sign if not signer.left_handed else in_sign[:, ::-1]
        # joints are signer's left, right; in_sign is dominant, other
        signing = joints[sides[:, ::-1]]
        assert signing.min() > 0.01
        assert signing.max() < 0.99
        pixels = joints * [CAMERA.width, CAMERA.height]
        size = 2 * np.linalg.norm(pixels[:, :, 9] - pixels[:, :, 0], axis=-1).max()
        assert size >= 0.1 * CAMERA.width


def test_hands_move_smoothly_and_rest_side_by_side() -> None:
    for signer in EVERYONE:
        joints, _ = joints_of(["DEMAIN", "MARCHE", "NOUS", "POMME", "ACHETER"], signer)
        steps = np.linalg.norm(np.diff(joints[:, :, 0], axis=0), axis=-1)
        assert steps.max() < 0.25  # of the picture, a frame
        left, right = joints[0]
        assert left[:, 0].min() > right[:, 0].max()  # signer's left is the picture's right


def test_left_handed_signers_mirror_the_sign() -> None:
    left_handed = replace(RIGHT_HANDED, left_handed=True)
    right, _ = joints_of(["BONJOUR"], RIGHT_HANDED)
    left, _ = joints_of(["BONJOUR"], left_handed)
    np.testing.assert_allclose(left[:, 0, :, 0], 1 - right[:, 1, :, 0], atol=1e-12)
    np.testing.assert_allclose(left[:, 0, :, 1], right[:, 1, :, 1], atol=1e-12)


def test_the_other_hand_rests_during_long_one_handed_stretches() -> None:
    glosses = ["MAISON", "MOI", "TOI", "EAU", "BOIRE", "MAISON"]
    performance = perform(glosses, RIGHT_HANDED, 15.0, np.random.default_rng(0))
    height = performance.other.centre[:, 1]
    assert height[performance.sign == 3].min() < -25
    assert height[performance.sign == 5].max() > 0
