"""Films with the landmarks that were found in them."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from signloom.corpus.landmarks import LandmarkSequence
from signloom.detection.video import Video
from signloom.errors import ClipError
from signloom_tools.skeleton_video import (
    blank_pictures,
    draw_skeleton,
    even_pictures,
    write_skeleton,
)
from tests import tiny
from tests.videos import FPS, encode_video, number_of, write_video


def absent(frames: int, fps: float) -> LandmarkSequence:
    nothing = tiny.sequence(frames=frames, fps=fps)
    points = np.full_like(nothing.points, np.nan)
    return dataclasses.replace(nothing, points=points, present=np.zeros_like(nothing.present))


def read(path: Path) -> tuple[float, list[np.ndarray]]:
    with Video(path) as video:
        return video.fps, [frame.rgb for frame in video.frames()]


def test_a_film_has_the_frames_of_its_video_in_their_order(tmp_path: Path) -> None:
    source = write_video(tmp_path / "in.mp4", frames=40)
    out = tmp_path / "films/out.webm"
    write_skeleton(out, even_pictures(source, FPS), absent(40, FPS))
    fps, frames = read(out)
    assert fps == FPS
    assert [number_of(frame) for frame in frames] == list(range(40))
    with pytest.raises(ClipError, match="changed"):
        write_skeleton(out, even_pictures(source, FPS), absent(41, FPS))
    assert list(out.parent.iterdir()) == [out]  # nothing half written is left


def test_frames_at_a_varying_rate_come_as_evenly_as_the_landmarks(tmp_path: Path) -> None:
    times_s = [*(n / 25 for n in range(20)), *(1 + n / 5 for n in range(10))]
    source = encode_video(tmp_path / "in.mp4", times_s)
    fps = (len(times_s) - 1) / times_s[-1]
    sequence = absent(round(times_s[-1] * fps) + 1, fps)
    write_skeleton(tmp_path / "out.webm", even_pictures(source, fps), sequence)
    _, frames = read(tmp_path / "out.webm")
    assert len(frames) == len(sequence.points)
    numbers = [number_of(frame) for frame in frames]
    assert numbers == sorted(numbers)
    assert numbers[-1] == len(times_s) - 1


def test_landmarks_without_a_video_are_drawn_on_paper(tmp_path: Path) -> None:
    sequence = tiny.sequence(frames=12)
    write_skeleton(tmp_path / "out.webm", blank_pictures(sequence), sequence)
    fps, frames = read(tmp_path / "out.webm")
    assert (fps, len(frames)) == (sequence.fps, 12)
    assert frames[0].shape == (480, 640, 3)
    assert (frames[0] < 200).any()  # a skeleton on white
    assert (frames[0] > 230).mean() > 0.8


def test_absent_hands_are_not_drawn_and_lines_keep_to_the_landmarks() -> None:
    sequence = tiny.sequence()
    blank = np.full((240, 320, 3), 255, np.uint8)
    both_hands, one_hand = blank.copy(), blank.copy()
    draw_skeleton(both_hands, sequence, 0)
    draw_skeleton(one_hand, tiny.lose(sequence, "left_hand", slice(None)), 0)
    rows, columns = np.nonzero((both_hands != one_hand).any(axis=2))
    hand = sequence.points[0, sequence.layout.slice("left_hand"), :2] * [320, 240]
    assert len(rows)
    for pixels, place in ((columns, hand[:, 0]), (rows, hand[:, 1])):
        assert pixels.min() == pytest.approx(place.min(), abs=4)
        assert pixels.max() == pytest.approx(place.max(), abs=4)
