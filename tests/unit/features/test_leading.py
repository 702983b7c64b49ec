"""Clips turned so that the right hand leads."""

import dataclasses

import numpy as np
import pytest

from signloom.corpus.landmarks import LandmarkSequence
from signloom.features.augment import mirror
from signloom.features.leading import is_left_led
from signloom.features.sources import LandmarkSource
from tests import tiny


def sign(right_cm: float, left_cm: float, *, low: str = "") -> LandmarkSequence:
    """Both hands move up and down by so much; one may rest below the hips all the time."""
    clip = tiny.sequence(1, frames=20)
    layout, points = clip.layout, clip.points.copy()
    wave = np.sin(np.linspace(0, 3 * np.pi, 20))
    for side, x, way in (("left", 0.65, left_cm), ("right", 0.35, right_cm)):
        points[:, layout.index("pose", f"{side}_shoulder")] = (x, 0.3, 0)
        points[:, layout.index("pose", f"{side}_hip")] = (x, 0.8, 0)
        for mark in (
            layout.index("pose", f"{side}_wrist"),
            layout.index(f"{side}_hand", "wrist"),
        ):
            points[:, mark] = (x, 0.9 if side == low else 0.5, 0)
            points[:, mark, 1] += wave * way / 100
    return dataclasses.replace(clip, points=points)


@pytest.mark.parametrize(
    ("clip", "is_turned"),
    [
        (sign(10, 1), False),
        (sign(1, 10), True),
        (sign(10, 10), False),  # alike
        (sign(10, 10.5), False),  # nearly
        (sign(10, 14), False),  # as signs of both hands alike are by chance
        (sign(0, 0, low="left"), False),  # a held sign of one hand
        (sign(0, 0, low="right"), True),
        (tiny.lose(sign(5, 5), "pose", slice(None)), False),
    ],
)
def test_a_clip_is_turned_if_its_left_hand_leads_clearly(
    clip: LandmarkSequence, is_turned: bool
) -> None:
    assert is_left_led(clip) == is_turned
    assert not (is_turned and is_left_led(mirror(clip)))


def test_a_left_handed_signer_is_read_as_a_right_handed_one_in_training_too() -> None:
    features = dataclasses.replace(tiny.FEATURES, right_handed=True)
    reader = LandmarkSource(layout=tiny.sequence().layout, extractor={}).reader(features)
    clip = sign(10, 1)
    for change in (
        reader.rows,
        lambda read: reader.augmented_rows(
            reader.trim(read), tiny.AUGMENT, np.random.default_rng(1), 0.5
        ),
    ):
        np.testing.assert_allclose(change(clip), change(mirror(clip)), atol=1e-5)
    plain = LandmarkSource(layout=clip.layout, extractor={}).reader(tiny.FEATURES)
    assert not np.allclose(plain.rows(clip), plain.rows(mirror(clip)))
