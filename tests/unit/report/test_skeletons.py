"""Skeletons: every layout is drawn with what it has, and moved by what the page's script gets."""

import base64
import dataclasses
import re

import numpy as np
import pytest

from signloom.corpus.landmarks import GROUP_CHOICES, HANDS_POSE, LandmarkSequence, build_layout
from signloom.report.canvas import BLUE, GREY, ORANGE, PURPLE
from signloom.report.skeletons import (
    ABSENT,
    MAX_FRAMES,
    SIZE,
    STEPS,
    build_player,
    crop,
    draw_moments,
    to_pixels,
)
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
    (picture,) = draw_moments(tiny.clip(build_layout(groups), frames=1), [0.0])
    assert set(re.findall(r'stroke="(#\w+)"', picture.svg)) == colours
    # A circle stands for a head of which nothing better is known.
    assert ("<circle" in picture.svg) == ("pose" in groups and "face_outline" not in groups)
    numbers = [float(n) for n in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", picture.svg)[0]]
    assert all(0 <= number <= SIZE for number in numbers)


def test_lips_are_two_closed_lines_through_forty_points() -> None:
    clip = tiny.clip(build_layout(("lips",)), frames=1)
    (picture,) = draw_moments(clip, [0.0])
    paths = re.findall(r'd="([^"]+)"', picture.svg)
    points = [re.findall(r"[ML](\S+ [^ML]+)", path) for path in paths]
    assert [len(path) for path in points] == [21, 21]
    assert all(path[0] == path[-1] for path in points)
    assert len({point for path in points for point in path}) == 40


def test_moments_are_the_frames_next_to_them() -> None:
    clip = tiny.clip(build_layout(("hands",)), frames=30)
    times = [picture.time_s * clip.fps for picture in draw_moments(clip, [-1.0, 0.0, 0.52, 99.0])]
    np.testing.assert_allclose(times, [0, 0, np.rint(0.52 * clip.fps), 29])


def test_pictures_show_what_was_found_and_nothing_else() -> None:
    pictures = draw_moments(sequence(0), [0.0, 0.2, 0.4, 0.56, 0.76])
    assert all("nan" not in picture.svg for picture in pictures)
    assert pictures[1].svg.count("<path") == 1 + 6  # frame 5 has no left hand
    assert pictures[0].svg.count("<path") == 1 + 12
    numbers = [float(x) for x in re.findall(r"[ML]([\d.-]+) ", "".join(p.svg for p in pictures))]
    assert min(numbers) >= 0
    assert max(numbers) <= 100


def test_a_clip_without_any_landmark_gives_empty_pictures() -> None:
    points = np.full((4, HANDS_POSE.points, 3), np.nan, dtype=np.float32)
    nothing = LandmarkSequence(points=points, present=np.zeros((4, 3), dtype=np.bool_), fps=25.0,
                               width=320, height=240)  # fmt: skip
    assert all("<path" not in picture.svg for picture in draw_moments(nothing, [0.0, 0.1]))


def unpack(track: str, marks: int) -> np.ndarray:
    return np.frombuffer(base64.b64decode(track), "<u2").reshape(-1, marks, 2)


def test_the_track_holds_every_frame_where_the_pictures_have_it() -> None:
    clip = sequence(3)
    player = build_player(clip, name="a", label="b")
    track = unpack(player.track, player.marks)
    assert (len(track), player.frames, player.fps) == (20, 20, 25.0)
    units = crop(to_pixels(clip), clip.layout)
    # Of hands and pose: what the lines go through, in the layout's order, then the head.
    used = [mark for mark, name in enumerate(clip.layout.landmark_names)
            if not name.endswith(("_hip", "nose"))]  # fmt: skip
    assert player.marks == len(used) + 2
    known = np.isfinite(units[:, used]).all(axis=2)
    np.testing.assert_allclose(
        track[:, :-2][known] / STEPS, units[:, used][known], atol=0.5 / STEPS
    )
    assert (track[:, :-2][~known] == ABSENT).all()
    nose = units[:, clip.layout.index("pose", "nose")]
    np.testing.assert_allclose(track[:, -2:].mean(axis=1) / STEPS, nose, atol=1 / STEPS)


def test_the_first_picture_shows_a_hand_and_has_every_line() -> None:
    clip = tiny.lose(
        tiny.clip(build_layout(("hands", "pose")), frames=30), "left_hand", slice(0, 30)
    )
    player = build_player(clip, name="a", label="<b>")
    assert player.svg.count("<path") == 1 + 12
    assert player.svg.count(' d=""') == 6  # the lost hand's
    assert 'aria-label="&lt;b&gt;"' in player.svg
    marks = [int(mark) for found in re.findall(r'data-marks="([^"]+)"', player.svg)
             for mark in found.split()]  # fmt: skip
    assert sorted(set(marks)) == list(range(player.marks))


@pytest.mark.parametrize("group", GROUP_CHOICES)
def test_every_layout_can_be_played(group: str) -> None:
    player = build_player(tiny.clip(build_layout((group,)), frames=5), name="a", label="b")
    track = unpack(player.track, player.marks)
    assert len(track) == 5
    assert track[track != ABSENT].max() <= SIZE * STEPS


@pytest.mark.parametrize(
    ("fps", "frames", "stride"), [(30.0, 90, 1), (60.0, 90, 2), (25.0, 1900, 4)]
)
def test_fast_and_long_clips_are_thinned(fps: float, frames: int, stride: int) -> None:
    clip = dataclasses.replace(tiny.clip(build_layout(("hands",)), frames=frames), fps=fps)
    player = build_player(clip, name="a", label="b")
    assert player.frames == -(-frames // stride) <= MAX_FRAMES
    assert player.fps == fps / stride
    assert 0 <= player.first < player.frames
