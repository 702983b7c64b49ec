"""Every layout is drawn with what it has, and nothing else."""

import re

import numpy as np
import pytest

from signloom.corpus.landmarks import GROUP_CHOICES, HANDS_POSE, LandmarkSequence, build_layout
from signloom.report.canvas import BLUE, GREY, ORANGE, PURPLE
from signloom.report.skeletons import SIZE, draw_moments, draw_pictures, join_pictures
from tests import tiny
from tests.report_project import sequence


@pytest.mark.parametrize(
    ("groups", "colours"),
    [
        (("hands",), {ORANGE, BLUE}),
        (("lips",), {PURPLE}),
        (("face_outline",), {GREY}),
        (("pose",), {GREY}),
        (tuple(GROUP_CHOICES), {ORANGE, BLUE, PURPLE, GREY}),
    ],
)
def test_each_group_has_its_colour(groups: tuple[str, ...], colours: set[str]) -> None:
    (picture,) = draw_pictures(tiny.clip(build_layout(groups), frames=1), 1)
    assert set(re.findall(r'stroke="(#\w+)"', picture.svg)) == colours
    # A circle stands for a head of which nothing better is known.
    assert ("<circle" in picture.svg) == ("pose" in groups and "face_outline" not in groups)
    numbers = [float(n) for n in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", picture.svg)[0]]
    assert all(0 <= number <= SIZE for number in numbers)


def test_lips_are_two_closed_lines_through_forty_points() -> None:
    clip = tiny.clip(build_layout(("lips",)), frames=1)
    (picture,) = draw_pictures(clip, 1)
    paths = re.findall(r'd="([^"]+)"', picture.svg)
    points = [re.findall(r"[ML](\S+ [^ML]+)", path) for path in paths]
    assert [len(path) for path in points] == [21, 21]
    assert all(path[0] == path[-1] for path in points)
    assert len({point for path in points for point in path}) == 40


def test_frames_are_taken_where_lips_are_seen() -> None:
    clip = tiny.lose(tiny.clip(build_layout(("lips",)), frames=30), "lips", slice(0, 20))
    times = [picture.time_s for picture in draw_pictures(clip, 3)]
    np.testing.assert_allclose(times, [2.0, 2.4, 2.9])


def test_moments_are_the_frames_next_to_them() -> None:
    clip = tiny.clip(build_layout(("hands",)), frames=30)
    times = [picture.time_s * clip.fps for picture in draw_moments(clip, [-1.0, 0.0, 0.52, 99.0])]
    np.testing.assert_allclose(times, [0, 0, np.rint(0.52 * clip.fps), 29])


def test_pictures_show_what_was_found_and_nothing_else() -> None:
    pictures = draw_pictures(sequence(0), 5)
    assert len(pictures) == 5
    assert [round(picture.time_s, 2) for picture in pictures] == [0.0, 0.2, 0.4, 0.56, 0.76]
    assert all("nan" not in picture.svg for picture in pictures)
    assert pictures[1].svg.count("<path") == 1 + 6  # frame 5 has no left hand
    assert pictures[0].svg.count("<path") == 1 + 12
    numbers = [float(x) for x in re.findall(r"[ML]([\d.-]+) ", "".join(p.svg for p in pictures))]
    assert min(numbers) >= 0
    assert max(numbers) <= 100
    assert join_pictures(pictures).count("<g ") == 5


def test_a_clip_without_any_landmark_gives_empty_pictures() -> None:
    points = np.full((4, HANDS_POSE.points, 3), np.nan, dtype=np.float32)
    nothing = LandmarkSequence(points=points, present=np.zeros((4, 3), dtype=np.bool_), fps=25.0,
                               width=320, height=240)  # fmt: skip
    assert len(draw_pictures(nothing, 8)) == 4
    assert all("<path" not in picture.svg for picture in draw_pictures(nothing, 8))
