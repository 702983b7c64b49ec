"""Live translation: where a sentence ends, and frames that are none."""

import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from signloom.corpus.landmarks import HANDS_POSE
from signloom.detection.detector import Detector, DetectorOptions
from signloom.detection.video import Video
from signloom.errors import ClipError
from signloom_ops.app.live import MAX_BATCH, Live, unpack_frames
from signloom_ops.app.takes import TakeError
from tests.films import jpeg

FPS = 15.0
NAMES = HANDS_POSE.landmark_names


class Marionette(Detector):
    """Shows a person whose hands are up where the picture is bright, and down where it is dark."""

    sees = ("hands", "pose")

    def __init__(self) -> None:
        self.layout = HANDS_POSE
        self.resets = 0

    @staticmethod
    def packaged_models(options: DetectorOptions) -> tuple[str, ...]:
        return ()

    def reset(self) -> None:
        self.resets += 1

    def find(self, rgb: npt.NDArray[np.uint8], time_s: float) -> Mapping[str, Any]:
        raise NotImplementedError

    def detect(
        self, rgb: npt.NDArray[np.uint8], time_s: float
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
        points = np.full((HANDS_POSE.points, 3), 0.5, np.float32)
        is_up = rgb.mean() > 128
        for side, x in (("left", 0.6), ("right", 0.4)):
            places = {"shoulder": 0.3, "hip": 0.9, "wrist": 0.35 if is_up else 0.88}
            for part, y in places.items():
                if (name := f"pose.{side}_{part}") in NAMES:
                    points[NAMES.index(name)] = (x, y, 0)
            hand = HANDS_POSE.slice(f"{side}_hand")
            # Fingers that spell: a hand of which nothing moves is a picture that stands still.
            points[hand] = (x, places["wrist"], 0)
            if is_up:
                points[hand, 0] += 0.03 * np.sin(4 * math.pi * time_s + np.arange(21))
        return points, np.ones(len(HANDS_POSE.groups), np.bool_)


DARK, BRIGHT = jpeg(20), jpeg(230)


def play(live: Live, pictures: list[bytes], batch: int = 4) -> list[tuple[float, float]]:
    """Send pictures and return the sentences: when each was told, and how long it is."""
    ends = []
    for first in range(0, len(pictures), batch):
        numbers = range(first, min(first + batch, len(pictures)))
        ended = live.add([(10.0 + number / FPS, pictures[number]) for number in numbers])
        if ended is not None:
            ends.append((numbers[-1] / FPS, ended.seconds))
    return ends


def test_hands_at_rest_end_a_sentence_soon_after() -> None:
    pictures = [DARK] * 20 + [BRIGHT] * 30 + [DARK] * 20 + [BRIGHT] * 15 + [DARK] * 20
    detector = Marionette()
    ends = play(Live(detector), pictures)
    assert detector.resets == 1
    assert len(ends) == 2
    for (when, seconds), (end, signed) in zip(ends, ((50, 30), (85, 15)), strict=True):
        assert 0 < when - end / FPS < 1.0
        assert abs(seconds - signed / FPS) < 0.8


def test_rest_and_a_twitch_are_no_sentence_and_take_no_memory() -> None:
    live = Live(Marionette())
    assert play(live, [DARK] * 60 + [BRIGHT] * 2 + [DARK] * 60) == []
    assert len(live._frames.jpegs) < 2 * FPS
    assert not live.is_signing


def test_who_never_rests_is_translated_all_the_same() -> None:
    ((when, seconds), *_) = play(Live(Marionette()), [DARK] * 10 + [BRIGHT] * 480, batch=10)
    assert when < 33.0
    assert seconds > 28.0


def test_the_last_sentence_can_be_kept_as_a_film(tmp_path: Path) -> None:
    live = Live(Marionette())
    assert live.write_last(tmp_path) is None
    ((_, seconds),) = play(live, [DARK] * 20 + [BRIGHT] * 30 + [DARK] * 15)
    film = live.write_last(tmp_path)
    assert film is not None
    with Video(film) as video:
        times = [frame.time_s for frame in video.frames(None, None)]
    assert abs(len(times) / FPS - seconds) < 0.2
    assert [path.name for path in tmp_path.iterdir()] == [film.name]


def test_frames_that_are_none_are_refused() -> None:
    live = Live(Marionette())
    with pytest.raises(ClipError, match="no JPEG picture"):
        live.add([(0.0, b"GIF89a")])
    live.add([(1.0, DARK)])
    with pytest.raises(TakeError, match="a picture of"):
        live.add([(2.0, jpeg(20, (32, 48)))])
    with pytest.raises(TakeError, match="order of their times"):
        live.add([(1.0, DARK)])
    with pytest.raises(ClipError, match="too large"):
        live.add([(3.0, jpeg(20, (2000, 1500)))])


def test_a_request_holds_whole_frames_and_not_too_many() -> None:
    def pack(time_s: float, length: int, content: bytes) -> bytes:
        return struct.pack("<dI", time_s, length) + content

    assert unpack_frames(pack(1.5, 3, b"abc") + pack(2.5, 0, b"")) == [(1.5, b"abc"), (2.5, b"")]
    for body in (b"x", pack(1.0, 9, b"abc"), pack(float("nan"), 1, b"a"), pack(1.0, 0, b"") * 31):
        with pytest.raises(TakeError, match="expected frames"):
            unpack_frames(body)
    assert MAX_BATCH == 30


@pytest.mark.parametrize("size", [(65_500, 1), (1, 400), (8, 8)])
def test_a_picture_that_is_a_line_is_refused_and_the_session_lives(size: tuple[int, int]) -> None:
    live = Live(Marionette())
    with pytest.raises(ClipError, match="is a line"):
        live.add([(0.0, jpeg(20, size))])
    assert play(live, [DARK] * 20 + [BRIGHT] * 30 + [DARK] * 20)


@pytest.mark.parametrize("pause_s", [3.0, 4.9, 60.0, 1e300])
def test_a_pause_between_two_pictures_does_not_end_the_session(pause_s: float) -> None:
    live = Live(Marionette())
    for number in range(8):
        live.add([(number * pause_s, DARK)])
    last_s = 7 * pause_s
    if pause_s < 100:
        live.add([(last_s + 100 + number / FPS, BRIGHT) for number in range(30)])
        assert live.add([(last_s + 102 + number / FPS, DARK) for number in range(20)])


def test_pictures_that_come_all_at_once_do_not_end_the_session() -> None:
    live = Live(Marionette())
    live.add([(number * 1e-6, DARK) for number in range(20)])
    assert play(live, [DARK] * 20 + [BRIGHT] * 30 + [DARK] * 20)
