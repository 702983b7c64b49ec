"""Live sessions: frames in, a sentence whenever the hands rest."""

import math
import secrets
import struct
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from signloom.config import MAX_FPS, MIN_FPS
from signloom.corpus.landmarks import LandmarkSequence
from signloom.detection.detector import Detector
from signloom.detection.video import decode_jpeg, even_frames
from signloom_ops.app.takes import TakeError
from signloom_tools.importing.pictures import PACKED_SUFFIX, open_pictures
from signloom_tools.translate.segmentation import PAD_S, PAUSE_S, cut, segment_by_rest

MOST_S = 30.0  # a longer sentence is cut there
KEPT_S = 1.0  # of rest before a sentence
MAX_BATCH = 30  # frames of a request
MOST_GAP_S = 5.0  # between two pictures: after a longer pause all begins anew
_LEAST_FRAMES = 5  # before anything is looked for


@dataclass(slots=True)
class _Frames:
    """The frames of a sentence that is being signed."""

    times_s: list[float] = field(default_factory=list)
    points: list[Any] = field(default_factory=list)
    present: list[Any] = field(default_factory=list)
    jpegs: list[bytes] = field(default_factory=list)

    def drop_before(self, time_s: float) -> None:
        first = next((n for n, t in enumerate(self.times_s) if t >= time_s), len(self.times_s))
        for values in (self.times_s, self.points, self.present, self.jpegs):
            del values[:first]


class Live:
    """One person before the camera.

    Attributes:
        id: Frames of another session are refused.
        is_signing: Whether hands were busy within the last pause.
    """

    def __init__(self, detector: Detector) -> None:
        """Take what finds the landmarks."""
        detector.reset()
        self.id = secrets.token_hex(8)
        self._detector, self._frames = detector, _Frames()
        self.is_signing = False
        self._size = (0, 0)
        self._last: tuple[list[bytes], float] | None = None  # the pictures of the last sentence

    def add(self, frames: Sequence[tuple[float, bytes]]) -> LandmarkSequence | None:
        """Look at the next frames.

        Args:
            frames: Seconds since the session began, ascending, and JPEG pictures of one size.

        Returns:
            A sentence that came to its end with them.

        Raises:
            TakeError: If a picture cannot be read, has another size or comes too late.
        """
        buffer = self._frames
        for time_s, jpeg in frames:
            self._detect(time_s, jpeg)
        if len(buffer.times_s) < _LEAST_FRAMES:
            return None
        sequence, begun_s = self._sequence(), buffer.times_s[0]
        spans = segment_by_rest(sequence)
        # The span has some of the rest behind it already.
        rested_s = sequence.seconds - spans[-1][1] if spans else math.inf
        self.is_signing = rested_s < PAUSE_S - PAD_S
        if not spans:
            buffer.drop_before(buffer.times_s[-1] - KEPT_S)
            return None
        start_s, end_s = spans[0]
        if len(spans) == 1 and self.is_signing and sequence.seconds - start_s < MOST_S:
            return None
        pictures = [
            jpeg
            for time_s, jpeg in zip(buffer.times_s, buffer.jpegs, strict=True)
            if begun_s + start_s <= time_s <= begun_s + end_s
        ]
        self._last = (pictures, sequence.fps)
        buffer.drop_before(begun_s + end_s)
        return cut(sequence, spans[0])

    def _detect(self, time_s: float, jpeg: bytes) -> None:
        """Find the landmarks of a frame and keep them."""
        buffer = self._frames
        rgb = decode_jpeg(jpeg)
        size = (rgb.shape[1], rgb.shape[0])
        if self._size not in ((0, 0), size):
            raise TakeError(f"a picture of {size}, the first had {self._size}")
        if buffer.times_s and time_s <= buffer.times_s[-1]:
            raise TakeError("frames come in the order of their times")
        if buffer.times_s and time_s - buffer.times_s[-1] > MOST_GAP_S:
            buffer.drop_before(time_s)
        self._size = size
        points, present = self._detector.detect(rgb, time_s)
        buffer.times_s.append(time_s)
        buffer.points.append(points)
        buffer.present.append(present)
        buffer.jpegs.append(jpeg)

    def write_last(self, folder: Path) -> Path | None:
        """Write the film of the last sentence into a folder; None if there is none."""
        if self._last is None or not self._last[0]:
            return None
        pictures, fps = self._last
        with tempfile.TemporaryDirectory(dir=folder) as pictures_folder:
            for number, jpeg in enumerate(pictures):
                (Path(pictures_folder) / f"{number:06}.jpg").write_bytes(jpeg)
            film = folder / f"live{PACKED_SUFFIX}"
            open_pictures(Path(pictures_folder), round(fps, 3)).pack(film)
        return film

    def _sequence(self) -> LandmarkSequence:
        buffer = self._frames
        rate = (len(buffer.times_s) - 1) / (buffer.times_s[-1] - buffer.times_s[0])
        fps = min(max(rate, MIN_FPS), MAX_FPS)  # pauses, and pictures that come together
        even = even_frames(buffer.times_s, fps)
        points = np.stack(buffer.points)[even].astype(np.float16).astype(np.float32)
        width, height = self._size
        return LandmarkSequence(
            points=points,
            present=np.stack(buffer.present)[even],
            fps=fps,
            width=width,
            height=height,
            layout=self._detector.layout,
        )


def unpack_frames(body: bytes) -> list[tuple[float, bytes]]:
    """Return the frames of a request: for each a time (float64), a length (uint32), its bytes.

    Raises:
        TakeError: If the lengths do not fit.
    """
    frames: list[tuple[float, bytes]] = []
    offset = 0
    while offset < len(body):
        if len(body) - offset < 12 or len(frames) >= MAX_BATCH:
            raise TakeError("expected frames: time, length, bytes")
        time_s, length = struct.unpack_from("<dI", body, offset)
        offset += 12
        if not np.isfinite(time_s) or length > len(body) - offset:
            raise TakeError("expected frames: time, length, bytes")
        frames.append((time_s, body[offset : offset + length]))
        offset += length
    return frames
