"""Every layout is drawn with what it has."""

import re

import numpy as np
import pytest

from signloom.corpus.landmarks import GROUP_CHOICES, build_layout
from signloom.report.palette import BLUE, GREY, ORANGE, PURPLE
from signloom.report.skeletons import SIZE, draw_pictures
from tests import tiny


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
