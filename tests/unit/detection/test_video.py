"""Frames come out in order, red first, at their times; test_bad_input.py has the odd files."""

import math
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
from av.video.frame import VideoFrame

from signloom.detection import video
from signloom.detection.video import Video, even_frames, measure_fps, thin
from tests import videos


def numbers(path: Path, start_s: float | None = None, end_s: float | None = None) -> list[int]:
    with Video(path) as opened:
        return [videos.number_of(frame.rgb) for frame in opened.frames(start_s, end_s)]


@pytest.fixture(scope="module")
def long_video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return videos.write_video(tmp_path_factory.mktemp("video") / "long.mp4", frames=120)


@pytest.mark.parametrize(
    ("start_s", "end_s", "expected"),
    [
        (None, 0.4, range(10)),
        (0.4, None, range(10, 120)),
        (0.4, 0.8, range(10, 20)),
        (0.39, 0.81, range(10, 21)),  # every frame shown at or after the start, before the end
        (3.2, 3.6, range(80, 90)),  # far enough to seek
        (4.76, None, [119]),
        (4.0, 4.85, range(100, 120)),  # ends a little after the video, as hand-made cuts do
    ],
)
def test_a_segment_holds_the_frames_from_start_to_before_end(
    long_video: Path, start_s: float | None, end_s: float | None, expected: range
) -> None:
    assert numbers(long_video, start_s, end_s) == list(expected)


@pytest.mark.parametrize("name", ["a.mp4", "a.mov", "a.mkv", "a.ts"])
@pytest.mark.parametrize("b_frames", [0, 2])
@pytest.mark.parametrize("start_s", [1.0, 1.5, 1.7])
def test_the_last_pictures_of_a_film_that_slows_down_are_there(
    tmp_path: Path, name: str, b_frames: int, start_s: float
) -> None:
    times = [number / 24 for number in range(24)] + [1 + number / 8 for number in range(8)]
    options = {"preset": "ultrafast", "bf": str(b_frames), "b_strategy": "0"}
    path = videos.encode_video(tmp_path / name, times, rate=24, options=options)
    with Video(path) as opened:
        shown = [frame.time_s for frame in opened.frames(start_s, 2.0)]
    assert shown == pytest.approx([time_s for time_s in times if time_s >= start_s], abs=1e-3)


FILMS = [
    ("a.mp4", "libx264"),
    ("a.mkv", "libx264"),
    ("a.avi", "mpeg4"),
    ("a.mpg", "mpeg2video"),
    ("a.webm", "libvpx-vp9"),
    ("a.ts", "libx264"),
    ("a.mp4", "mpeg4"),
]


@pytest.mark.parametrize(("name", "codec"), FILMS)
def test_segments_read_one_after_another_are_those_read_alone(
    tmp_path: Path, name: str, codec: str
) -> None:
    path = videos.encode_constant(tmp_path / name, codec, frames=250)
    order = np.random.default_rng(0)
    for padding_s in (0.0, 0.9):  # the second time neighbours overlap
        starts = np.cumsum(order.uniform(0.1, 1.6, 9)).round(3)
        segments = [(max(0.0, s - padding_s), s + 0.4 + padding_s) for s in starts if s < 8.5]
        with Video(path) as opened:
            all_frames = list(opened.frames())
        with Video(path) as opened:
            for index, (start_s, end_s) in enumerate(segments):
                after = segments[index + 1][0] if index + 1 < len(segments) else math.inf
                frames = list(opened.frames(start_s, end_s, after))
                with Video(path) as alone:
                    expected = list(alone.frames(start_s, end_s))
                assert [frame.time_s for frame in frames] == [frame.time_s for frame in expected]
                if not name.endswith(".avi"):  # with B-frames it shows a segment early
                    expected = [f for f in all_frames if start_s - 5e-4 <= f.time_s < end_s - 5e-4]
                for frame, expected_frame in zip(frames, expected, strict=True):
                    assert frame.time_s == expected_frame.time_s
                    np.testing.assert_array_equal(frame.rgb, expected_frame.rgb)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The times of all pictures that are decoded, in the order in which they are."""
    times = []
    decode = Video._decoded

    def count(opened: Video) -> Iterator[VideoFrame]:
        for picture in decode(opened):
            times.append(picture.pts)
            yield picture

    monkeypatch.setattr(Video, "_decoded", count)
    return times


@pytest.mark.parametrize("overlap_s", [0.0, 0.5])
def test_no_frame_of_a_film_is_decoded_twice(
    tmp_path: Path, decoded: list[int], overlap_s: float
) -> None:
    path = videos.encode_constant(tmp_path / "a.mp4", "libx264", frames=250)
    with Video(path) as opened:
        for number in range(9):
            list(opened.frames(number, number + 0.6 + overlap_s, number + 1.0))
    assert len(decoded) == len(set(decoded)) <= 250


def test_a_long_pause_is_sought_over(tmp_path: Path, decoded: list[int]) -> None:
    path = videos.encode_video(
        tmp_path / "a.mp4", [number / 25 for number in range(250)], options={"g": "25"}
    )
    with Video(path) as opened:
        for start_s in (0.0, 9.0):
            assert len(list(opened.frames(start_s, start_s + 0.4, 9.0))) == 10
    assert len(decoded) < 80


def test_more_is_not_kept_for_the_next_segment_than_memory_has_room_for(
    long_video: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(video, "_MOST_KEPT_BYTES", 5 * 2 * videos.WIDTH * videos.HEIGHT)
    with Video(long_video) as opened:
        for start_s, expected in ((2.4, range(60, 110)), (2.8, range(70, 120)), (3.2, [80])):
            end_s = 3.24 if start_s == 3.2 else start_s + 2.0
            frames = opened.frames(start_s, end_s, start_s + 0.4)
            assert [videos.number_of(frame.rgb) for frame in frames] == list(expected)
            assert len(opened._kept) <= 5


def test_a_relative_path_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    videos.write_video(tmp_path / "-a.mp4", frames=2)
    monkeypatch.chdir(tmp_path)
    assert numbers(Path("-a.mp4")) == [0, 1]


def test_expected_frames_follow_from_the_header(long_video: Path) -> None:
    with Video(long_video) as opened:
        assert opened.fps == videos.FPS
        assert opened.duration_s == pytest.approx(4.8)
        assert opened.count_frames() == 120
        assert opened.count_frames(1.0, 2.0) == 25
        assert opened.count_frames(4.0, 4.85) == 20


def test_a_seek_that_lands_too_late_starts_over(
    long_video: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if the next key frame were a second after the start of the segment.
    monkeypatch.setattr(video, "_SEEK_MARGIN_S", -1.0)
    assert numbers(long_video, 3.2, 3.6) == list(range(80, 90))


def test_the_measured_frame_rate_replaces_a_wrong_header() -> None:
    times_s = [number / 30 for number in range(60)]
    assert measure_fps(times_s, header_fps=29.97) == 29.97
    assert measure_fps(times_s, header_fps=1000.0) == pytest.approx(30.0)
    assert measure_fps([0.0], header_fps=25.0) == 25.0
    assert math.isclose(measure_fps([0.0, 0.0], header_fps=25.0), 25.0)


def test_frames_at_one_rate_are_left_alone() -> None:
    times = [0.5 + round(i / 29.97, 3) for i in range(300)]  # as containers round them
    np.testing.assert_array_equal(even_frames(times, fps=30.0), np.arange(300))
    assert even_frames([0.2], fps=25.0).tolist() == [0]


def test_of_each_tick_the_nearest_frame_is_looked_at() -> None:
    def thinned(times_s: Iterable[float], fps: float) -> list[float]:
        return [time_s for time_s, _ in thin(((t, None) for t in times_s), fps)]

    even = [7 + number / 30 for number in range(9)]
    assert thinned(even, 15) == even[::2]
    assert thinned(even, 0) == even
    assert thinned(even, 30) == even
    assert thinned(even, 60) == even  # no more than there are
    assert thinned([0.0, 0.04, 0.08, 0.12, 0.16, 0.2], 15) == [0.0, 0.08, 0.12, 0.2]
    assert thinned([0.0, 0.5, 0.51, 2.0], 15) == [0.0, 0.51, 2.0]  # a varying rate
    assert thinned(even[:8], 15) == even[:7:2]  # the next frame would be nearer to the next tick
    assert thinned([0.0], 15) == [0.0]
    assert thinned([], 15) == []
