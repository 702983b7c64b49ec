from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from signloom_demo.face import Expression, brow_line, lid_lines, mouth_lines
from signloom_demo.motion import perform
from signloom_demo.render import Camera
from signloom_demo.scene import HEAD, draw_frames, pose_arms
from signloom_demo.signer import TRAIN_SIGNERS

SIGNER = TRAIN_SIGNERS[0]


def gap(held: Expression) -> float:
    """How far the lips are apart, cm."""
    _, upper, lower, _ = mouth_lines(SIGNER, held)
    return float((upper - lower)[:, 1].max())


def width(held: Expression) -> float:
    return float(np.ptp(mouth_lines(SIGNER, held)[0][:, 0]))


def thickness(held: Expression) -> float:
    """Of the lower lip."""
    _, _, inner, outer = mouth_lines(SIGNER, held)
    return float((inner - outer)[:, 1].max())


def eye(held: Expression) -> float:
    upper, lower = lid_lines(held)
    return float((upper - lower)[:, 1].max())


def brow(held: Expression) -> float:
    return float(brow_line(held)[:, 1].mean())


@pytest.mark.parametrize(
    ("measure", "rising"),
    [
        (gap, [Expression(open=0.0), Expression(open=0.4), Expression(open=0.9)]),
        (width, [Expression(round=1.0), Expression(), Expression(spread=1.0)]),
        (thickness, [Expression(tuck=1.0), Expression()]),
        (eye, [Expression(lids=-1.0), Expression(lids=-0.3), Expression(), Expression(lids=1.0)]),
        (brow, [Expression(brows=-1.0), Expression(), Expression(brows=1.0)]),
    ],
)
def test_a_face_is_held_as_it_is_called(
    measure: Callable[[Expression], float], rising: list[Expression]
) -> None:
    measures = [measure(held) for held in rising]
    assert all(low < high for low, high in pairwise(measures))
    if measure is gap:
        assert measures[0] == 0


def test_a_clip_with_faces_differs_in_the_face_alone() -> None:
    rng = np.random.default_rng
    camera = Camera(width=96, height=96)
    arms = pose_arms(perform(["ELLE"], SIGNER, 8.0, rng(1)), SIGNER)
    frames = len(arms[0].elbow)
    plain, question = (
        np.stack(list(draw_frames(arms, SIGNER, camera, rng(2), [held] * frames)))
        for held in (Expression(), Expression(brows=1.0, open=0.5))
    )
    again = np.stack(list(draw_frames(arms, SIGNER, camera, rng(2), [Expression()] * frames)))
    np.testing.assert_array_equal(plain, again)
    rows, columns = np.nonzero((plain != question).any(axis=(0, 3)))
    x, y = camera.project(HEAD * SIGNER.size)
    assert np.abs(columns - x).max() < 8
    assert np.abs(rows - y).max() < 14
