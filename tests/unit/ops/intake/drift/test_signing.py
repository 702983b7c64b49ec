"""What is measured of a clip, against clips whose movement is known."""

import math

import numpy as np
import pytest

from signloom.corpus.landmarks import HANDS_POSE, build_layout
from signloom.features.augment import mirror
from signloom_ops.intake.drift.movement import Movement, measure_movement
from tests.tiny import clip, lose
from tests.unit.ops.intake.drift.world import FPS, wave


def test_a_waving_hand_is_measured_in_shoulder_widths() -> None:
    sequence = wave(1, seconds=4.0)
    wrist = sequence.points[:, HANDS_POSE.index("right_hand", "wrist"), :2]
    movement = measure_movement(sequence)
    way = (
        np.linalg.norm(np.diff(wrist, axis=0), axis=1).mean() * FPS / 0.3
    )  # shoulders are 0.3 wide
    assert movement.speed == pytest.approx(math.log2(way), abs=1e-3)
    assert movement.preference is not None
    assert 0.3 < movement.preference < 0.7


def test_a_mirror_image_differs_in_the_preferred_hand_alone() -> None:
    sequence = wave(2)
    movement, mirrored = measure_movement(sequence), measure_movement(mirror(sequence))
    assert mirrored.speed == pytest.approx(movement.speed, abs=1e-3)
    assert mirrored.preference == pytest.approx(-(movement.preference or 0), abs=1e-3)


def test_what_is_not_there_is_not_measured() -> None:
    sequence = wave(5)
    handless = lose(lose(sequence, "left_hand", slice(None)), "right_hand", slice(None))
    assert measure_movement(handless) == Movement()
    flickering = lose(
        lose(sequence, "left_hand", slice(0, None, 2)), "right_hand", slice(1, None, 2)
    )
    assert measure_movement(flickering).speed is None
    assert measure_movement(clip(build_layout(["lips"]))) == Movement()
