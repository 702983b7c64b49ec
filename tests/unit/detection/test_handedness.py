"""Hands keep the signer's sides whatever the detector calls them, and no hand counts twice."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from signloom.corpus.landmarks import HAND_LANDMARKS
from signloom.detection.handedness import FoundHand, HandednessTracker

SIZE = 0.1  # of a hand, picture heights
RIGHT, LEFT, UNSURE = 0.9, 0.1, 0.5


def hand(x: float, right: float, y: float = 0.5) -> FoundHand:
    """A hand with its wrist at x, y and its fingers up."""
    points = np.zeros((len(HAND_LANDMARKS), 3), np.float32)
    points[:, 0] = x
    points[:, 1] = y - SIZE * np.linspace(0, 1, len(HAND_LANDMARKS))
    points[HAND_LANDMARKS.index("middle_mcp"), 1] = y - SIZE / 2
    return FoundHand(points, right)


def sides(
    tracker: HandednessTracker,
    hands: Sequence[FoundHand],
    arms: tuple[float, float] | None = None,
    aspect: float = 1.0,
) -> tuple[float | None, float | None]:
    """Where the left and the right hand are said to be."""
    wrists = None if arms is None else np.array([[x, 0.5] for x in arms], np.float32)
    left, right = tracker.assign(hands, arms=wrists, aspect=aspect)
    return (
        round(float(left.points[0, 0]), 3) if left else None,
        round(float(right.points[0, 0]), 3) if right else None,
    )


def seen(*frames: Sequence[FoundHand]) -> HandednessTracker:
    """A tracker after some frames."""
    tracker = HandednessTracker()
    for hands in frames:
        tracker.assign(hands, arms=None, aspect=1.0)
    return tracker


BOTH = [hand(0.7, LEFT), hand(0.3, RIGHT)]


CROSSING = [[hand(x, LEFT), hand(1 - x, RIGHT, y=0.6)] for x in np.linspace(0.65, 0.45, 5)]
SWAPPED = [hand(0.7, RIGHT), hand(0.3, LEFT)]
ALONE = [[hand(0.3, RIGHT)]] * 10
TWICE = [hand(0.3, 0.6), hand(0.31, 0.95)]
# Promise: frames before, hands of the next one, where its left and its right hand are.
SCENES = {
    "the first frame goes by labels": ([], BOTH, (0.7, 0.3)),
    "a lone right hand": ([], [hand(0.3, RIGHT)], (None, 0.3)),
    "a lone left hand": ([], [hand(0.3, LEFT)], (0.3, None)),
    "no hand": ([], [], (None, None)),
    "two left hands lie as hands do": ([], [hand(0.3, LEFT), hand(0.7, LEFT)], (0.7, 0.3)),
    "two right hands lie as hands do": ([], [hand(0.3, RIGHT), hand(0.7, RIGHT)], (0.7, 0.3)),
    "two left hands stay what they were": (
        CROSSING,
        [hand(0.55, LEFT, y=0.6), hand(0.45, LEFT)],
        (0.45, 0.55),
    ),
    "two right hands stay what they were": (
        CROSSING,
        [hand(0.55, RIGHT, y=0.6), hand(0.45, RIGHT)],
        (0.45, 0.55),
    ),
    "labels that swap do not swap hands": ([BOTH] * 10, SWAPPED, (0.7, 0.3)),
    "nor for a few frames": ([BOTH] * 10 + [SWAPPED] * 4, SWAPPED, (0.7, 0.3)),
    "a hand that comes back is the one that went": (
        [BOTH] * 5 + [[hand(0.3, UNSURE)]] * 10 + [[hand(0.35, UNSURE)]],
        [hand(0.68, RIGHT), hand(0.4, LEFT)],
        (0.68, 0.4),
    ),
    "the other one stayed": (
        [BOTH] * 5 + [[hand(0.3, UNSURE)]] * 10,
        [hand(0.35, UNSURE)],
        (None, 0.35),
    ),
    "a lone hand far from the last one is new": (ALONE, [hand(0.7, LEFT)], (0.7, None)),
    "a hand unseen for ten frames is known": (ALONE + [[]] * 10, [hand(0.3, 0.4)], (None, 0.3)),
    "a hand unseen for long is forgotten": (ALONE + [[]] * 20, [hand(0.3, 0.4)], (0.3, None)),
    "a hand found twice is one, the surer": ([], TWICE, (None, 0.31)),
    "and leaves room for the other": ([], [*TWICE, hand(0.7, LEFT)], (0.7, 0.31)),
    "hands that touch are two": ([], [hand(0.3, LEFT), hand(0.34, RIGHT)], (0.3, 0.34)),
    "the two surest of three are kept": ([], [hand(0.5, 0.55), *BOTH], (0.7, 0.3)),
}


@pytest.mark.parametrize(("before", "hands", "expected"), SCENES.values(), ids=SCENES)
def test_a_hand_has_the_side_that_it_had(
    before: Sequence[Sequence[FoundHand]],
    hands: Sequence[FoundHand],
    expected: tuple[float | None, float | None],
) -> None:
    assert sides(seen(*before), hands) == expected


def test_a_wrong_start_is_put_right() -> None:
    tracker = seen(*[[hand(0.7, RIGHT)]] * 2)
    assert sides(tracker, [hand(0.7, LEFT)]) == (None, 0.7)
    for _ in range(5):
        tracker.assign([hand(0.7, LEFT)], arms=None, aspect=1.0)
    assert sides(tracker, [hand(0.7, LEFT)]) == (0.7, None)


def test_hands_that_cross_keep_their_sides() -> None:
    tracker = HandednessTracker()
    for step in np.linspace(0, 1, 21):
        left, right = 0.7 - 0.4 * step, 0.3 + 0.4 * step
        assigned = sides(tracker, [hand(right, RIGHT, y=0.56), hand(left, LEFT)])
        assert assigned == (round(left, 3), round(right, 3))


def test_arms_say_more_than_labels() -> None:
    assert sides(HandednessTracker(), SWAPPED[:1], arms=(0.7, 0.3)) == (0.7, None)
    tracker = HandednessTracker()
    for _ in range(10):  # arms crossed for long
        assert sides(tracker, SWAPPED, arms=(0.3, 0.7)) == (0.3, 0.7)


def test_ways_are_measured_in_the_picture_not_in_shares_of_it() -> None:
    def after_a_leap(aspect: float) -> tuple[float | None, float | None]:
        tracker = HandednessTracker()
        for _ in range(9):
            sides(tracker, [hand(0.3, RIGHT)], aspect=aspect)
        return sides(tracker, [hand(0.38, LEFT)], aspect=aspect)

    assert after_a_leap(aspect=1.0) == (None, 0.38)  # less than the hand's size: the same hand
    assert after_a_leap(aspect=2.0) == (0.38, None)


def test_a_reset_forgets_the_clip() -> None:
    tracker = seen(*[BOTH] * 5)
    tracker.reset()
    assert sides(tracker, [hand(0.3, 0.4)]) == (0.3, None)


CLIPS = st.lists(
    st.lists(
        st.tuples(st.floats(0.0625, 0.9375, width=16), st.floats(0.015625, 0.984375, width=16)),
        max_size=3,
    ),
    min_size=1,
    max_size=8,
)


def without_ties(frame: list[tuple[float, float]], number: int) -> list[tuple[float, float]]:
    """The same hands, a little elsewhere, so that no two choices weigh the same."""
    shifts = [1e-3 * (1 + number + 2 * index) for index in range(len(frame))]
    return [
        (x + shift, label + shift / 10) for (x, label), shift in zip(frame, shifts, strict=True)
    ]


@given(clip=CLIPS)
def test_in_a_mirror_left_is_right(clip: list[list[tuple[float, float]]]) -> None:
    plain, mirrored = HandednessTracker(), HandednessTracker()
    for number, frame in enumerate(clip):
        hands = without_ties(frame, number)
        left, right = sides(plain, [hand(x, label) for x, label in hands])
        reflected = sides(mirrored, [hand(1 - x, 1 - label) for x, label in hands])
        expected = [None if x is None else pytest.approx(1 - x, abs=2e-3) for x in (right, left)]
        assert list(reflected) == expected


@given(clip=CLIPS)
def test_a_hand_has_one_side_and_its_place_in_the_list_does_not_matter(
    clip: list[list[tuple[float, float]]],
) -> None:
    plain, shuffled = HandednessTracker(), HandednessTracker()
    for number, frame in enumerate(clip):
        hands = [hand(x, label) for x, label in without_ties(frame, number)]
        left, right = plain.assign(hands, arms=None, aspect=1.0)
        assert left is None or left is not right
        assert (left is None) + (right is None) >= 2 - len(hands)
        assert shuffled.assign(hands[::-1], arms=None, aspect=1.0) == (left, right)
