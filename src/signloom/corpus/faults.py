"""A file or its frames come in, faults that OpenCV passes over in silence go out."""

import struct
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

_STRIP = 16  # the lowest part of the picture, one in so many of its rows, is watched
_MIN_STILL = 0.1  # share of the frames; a shorter still end is nothing to speak of


class StillWatch:
    """Notices that a picture stops changing because its size changes within the stream.

    OpenCV 4.11 goes on converting with the old size, in every container: a larger picture leaves
    the last one standing, a smaller one fills the upper rows with stripes. Either way the lowest
    rows change up to a key frame and, from it on, never again.
    """

    def __init__(self) -> None:
        self._strip: npt.NDArray[np.uint8] | None = None
        self._has_changed = self._was_key = False
        self._frames = 0
        self._since: tuple[int, float] | None = None

    def add(self, rgb: npt.NDArray[np.uint8], time_s: float, is_key: bool) -> None:
        """See the next frame, shape (height, width, 3); a key frame is coded without others."""
        strip = rgb[-max(1, len(rgb) // _STRIP) :]
        changes = self._strip is None or not np.array_equal(strip, self._strip)
        if changes:
            self._strip = strip.copy()
            self._since = None
        elif is_key and self._has_changed and not self._was_key:
            self._since = (self._frames, time_s)
        self._has_changed, self._was_key = changes, is_key
        self._frames += 1

    def still_since_s(self) -> float | None:
        """Return the time since which the picture stands still, None if it does not."""
        if self._since is None or self._frames - self._since[0] < _MIN_STILL * self._frames:
            return None
        return self._since[1]


def is_mirrored(path: Path) -> bool:
    """Return whether an .mp4 or .mov asks players for a mirror image.

    Some apps do so for front cameras. OpenCV takes the request for a turn by 180 degrees.

    Source: ISO/IEC 14496-12, sections 4.2 (boxes) and 8.3.2 (`tkhd` and its matrix).
    """
    with path.open("rb") as file:
        moov = _read_box(file, b"moov")
    place = moov.find(b"tkhd")
    while place >= 0:
        times = 32 if moov[place + 4] == 1 else 20  # two lengths of the fields before the matrix
        matrix = moov[place + 8 + times + 16 :][:20]
        if len(matrix) == 20:
            a, b, _, c, d = struct.unpack(">5i", matrix)
            if a * d - b * c < 0:
                return True
        place = moov.find(b"tkhd", place + 4)
    return False


def _read_box(file: BinaryIO, name: bytes) -> bytes:
    """Return the content of an outermost box, nothing if there is none."""
    start, end = 0, file.seek(0, 2)
    while start + 8 <= end:
        file.seek(start)
        head = file.read(16)
        size = int.from_bytes(head[:4], "big")
        content = 8
        if size == 1:  # a long box
            size, content = int.from_bytes(head[8:], "big"), 16
        if head[4:8] == name:
            file.seek(start + content)
            return file.read(min(size or end, end) - content)
        if size < content:  # the last one, or not a file of boxes
            break
        start += size
    return b""
