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


def test_the_first_frame_goes_by_what_the_detector_says() -> None:
    assert sides(HandednessTracker(), BOTH) == (0.7, 0.3)
    assert sides(HandednessTracker(), [hand(0.3, RIGHT)]) == (None, 0.3)
    assert sides(HandednessTracker(), [hand(0.3, LEFT)]) == (0.3, None)
    assert sides(HandednessTracker(), []) == (None, None)


@pytest.mark.parametrize("label", [LEFT, RIGHT])
def test_two_hands_of_one_label_lie_as_hands_do_where_nothing_came_before(label: float) -> None:
    assert sides(HandednessTracker(), [hand(0.3, label), hand(0.7, label)]) == (0.7, 0.3)


@pytest.mark.parametrize("label", [LEFT, RIGHT])
def test_two_hands_of_one_label_stay_what_they_were(label: float) -> None:
    crossing = [[hand(x, LEFT), hand(1 - x, RIGHT, y=0.6)] for x in np.linspace(0.65, 0.45, 5)]
    tracker = seen(*crossing)
    assert sides(tracker, [hand(0.55, label, y=0.6), hand(0.45, label)]) == (0.45, 0.55)


def test_labels_that_swap_for_a_few_frames_do_not_swap_the_hands() -> None:
    tracker = seen(*[BOTH] * 10)
    for _ in range(5):
        assert sides(tracker, [hand(0.7, RIGHT), hand(0.3, LEFT)]) == (0.7, 0.3)


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
        found = sides(tracker, [hand(right, RIGHT, y=0.56), hand(left, LEFT)])
        assert found == (round(left, 3), round(right, 3))


def test_a_hand_that_comes_back_is_the_one_that_went() -> None:
    tracker = seen(*[BOTH] * 5, *[[hand(0.3, UNSURE)]] * 10)
    assert sides(tracker, [hand(0.35, UNSURE)]) == (None, 0.35)
    assert sides(tracker, [hand(0.68, RIGHT), hand(0.4, LEFT)]) == (0.68, 0.4)


def test_a_lone_hand_far_from_where_one_was_seen_is_a_new_one() -> None:
    tracker = seen(*[[hand(0.3, RIGHT)]] * 10)
    assert sides(tracker, [hand(0.7, LEFT)]) == (0.7, None)


def test_a_hand_that_was_long_unseen_is_forgotten() -> None:
    for frames, expected in ((10, (None, 0.3)), (20, (0.3, None))):
        tracker = seen(*[[hand(0.3, RIGHT)]] * 10, *[[]] * frames)
        assert sides(tracker, [hand(0.3, 0.4)]) == expected


def test_a_hand_that_was_found_twice_is_one_hand() -> None:
    twice = [hand(0.3, 0.6), hand(0.31, 0.95)]
    assert sides(HandednessTracker(), twice) == (None, 0.31)  # the one that is surer of its side
    assert sides(HandednessTracker(), [*twice, hand(0.7, LEFT)]) == (0.7, 0.31)
    assert sides(HandednessTracker(), [hand(0.3, LEFT), hand(0.34, RIGHT)]) == (
        0.3,
        0.34,
    )  # hands touch


def test_no_more_than_the_two_surest_hands_are_kept() -> None:
    assert sides(HandednessTracker(), [hand(0.5, 0.55), *BOTH]) == (0.7, 0.3)


def test_arms_say_more_than_labels() -> None:
    wrong = [hand(0.7, RIGHT), hand(0.3, LEFT)]
    assert sides(HandednessTracker(), wrong[:1], arms=(0.7, 0.3)) == (0.7, None)
    tracker = HandednessTracker()
    for _ in range(10):  # arms crossed for long
        assert sides(tracker, wrong, arms=(0.3, 0.7)) == (0.3, 0.7)


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
        other = sides(mirrored, [hand(1 - x, 1 - label) for x, label in hands])
        expected = [None if x is None else pytest.approx(1 - x, abs=2e-3) for x in (right, left)]
        assert list(other) == expected


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
