"""Skeletons: every layout is drawn with what it has, and moved by what the page's script gets."""

import base64
import dataclasses
import re

import numpy as np
import pytest

from signloom.corpus.landmarks import GROUP_CHOICES, HANDS_POSE, LandmarkSequence, build_layout
from signloom.report.skeletons import (
    ABSENT,
    MAX_FRAMES,
    SIZE,
    STEPS,
    build_player,
    crop,
    to_pixels,
)
from tests import tiny
from tests.report_project import sequence


def draw(groups: tuple[str, ...]) -> str:
    """Return the picture from which a skeleton with these landmarks begins to move."""
    return build_player(tiny.clip(build_layout(groups), frames=1), name="a", label="b").svg


@pytest.mark.parametrize(
    ("groups", "colours"),
    [
        (("hands",), {"orange", "blue"}),
        (("lips",), {"purple"}),
        (("face_outline",), {"grey"}),
        (("pose",), {"grey"}),
        (tuple(GROUP_CHOICES), {"orange", "blue", "purple", "grey"}),
    ],
)
def test_each_group_has_its_colour(groups: tuple[str, ...], colours: set[str]) -> None:
    svg = draw(groups)
    assert set(re.findall(r'stroke="var\(--(\w+)\)"', svg)) == colours
    # A circle stands for a head of which nothing better is known.
    assert ("<circle" in svg) == ("pose" in groups and "face_outline" not in groups)


def test_lips_are_two_closed_lines_through_forty_points() -> None:
    paths = re.findall(r' d="([^"]+)"', draw(("lips",)))
    points = [re.findall(r"[ML](\S+ [^ML]+)", path) for path in paths]
    assert [len(path) for path in points] == [21, 21]
    assert all(path[0] == path[-1] for path in points)
    assert len({point for path in points for point in path}) == 40


def test_a_clip_without_any_landmark_gives_an_empty_picture() -> None:
    points = np.full((4, HANDS_POSE.points, 3), np.nan, dtype=np.float32)
    nothing = LandmarkSequence(
        points=points, present=np.zeros((4, 3), dtype=np.bool_), fps=25.0, width=320, height=240
    )
    player = build_player(nothing, name="a", label="b")
    assert player.svg.count(' d=""') == player.svg.count("<path")
    assert (unpack(player.track, player.marks) == ABSENT).all()


def unpack(track: str, marks: int) -> np.ndarray:
    return np.frombuffer(base64.b64decode(track), "<u2").reshape(-1, marks, 2)


def test_the_track_holds_every_frame_where_the_pictures_have_it() -> None:
    clip = sequence(3)
    player = build_player(clip, name="a", label="b")
    track = unpack(player.track, player.marks)
    assert (len(track), player.frames, player.fps) == (20, 20, 25.0)
    units = crop(to_pixels(clip), clip.layout)
    # Of hands and pose: what the lines go through, in the layout's order, then the head.
    used = [
        mark
        for mark, name in enumerate(clip.layout.landmark_names)
        if not name.endswith(("_hip", "nose"))
    ]
    assert player.marks == len(used) + 2
    is_present = np.isfinite(units[:, used]).all(axis=2)
    np.testing.assert_allclose(
        track[:, :-2][is_present] / STEPS, units[:, used][is_present], atol=0.5 / STEPS
    )
    assert (track[:, :-2][~is_present] == ABSENT).all()
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
    marks = [
        int(mark)
        for attribute in re.findall(r'data-marks="([^"]+)"', player.svg)
        for mark in attribute.split()
    ]
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
