"""RGB frames come in one by one, an .mp4 file goes out; lines are drawn on frames on the way."""

import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import cv2
import numpy as np
import numpy.typing as npt

from signloom.config import UserError

Picture = npt.NDArray[np.uint8]  # shape (height, width, 3), red first

# MPEG-4 part 2: the one codec that every wheel of OpenCV encodes into .mp4.
_CODEC = "mp4v"
_SUBPIXEL_BITS = 3  # lines are placed to an eighth of a pixel


class VideoWriter:
    """Writes a video without sound, whole or not at all: the file appears when all went well.

    Args:
        path: The .mp4 file; its folder is made if need be.
        fps: Frames a second.
        width: Pixels of each frame, even.
        height: Likewise.

    Raises:
        UserError: If the file cannot be written.
    """

    def __init__(self, path: Path, *, fps: float, width: int, height: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._size = path, (height, width)
        self._temporary = path.with_name(f".{path.stem}.{os.getpid()}.tmp.mp4")
        code = cv2.VideoWriter_fourcc(*_CODEC)  # type: ignore[attr-defined]
        self._writer = cv2.VideoWriter(
            str(self._temporary.absolute()), cv2.CAP_FFMPEG, code, fps, (width, height)
        )
        if not self._writer.isOpened():
            self._temporary.unlink(missing_ok=True)
            raise UserError(
                f"{path}: no video of {width}x{height} at {fps:g} frames/s can be written there; "
                "check that the folder is writable"
            )

    def __enter__(self) -> "VideoWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._writer.release()
        if kind is None:
            self._temporary.replace(self._path)
        self._temporary.unlink(missing_ok=True)

    def write(self, rgb: Picture) -> None:
        """Append a frame.

        Raises:
            ValueError: If it has another size than the video.
        """
        if rgb.shape[:2] != self._size:
            raise ValueError(f"the frame is {rgb.shape[:2]}, expected {self._size}")
        self._writer.write(cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR))


def draw_line(
    rgb: Picture,
    points: npt.NDArray[np.float64],
    *,
    colour: tuple[int, int, int],
    thickness: int,
) -> None:
    """Draw a smooth line through points, into the frame; broken, not bridged, where one is absent.

    Args:
        rgb: The frame, which is changed.
        points: Shape (N, 2), x and y in pixels; NaN where absent.
        colour: Red, green, blue.
        thickness: Pixels.
    """
    for part in _unbroken(points):
        place = np.rint(part * 2**_SUBPIXEL_BITS).clip(-(2**20), 2**20).astype(np.int32)
        cv2.polylines(rgb, [place[:, None]], False, colour, thickness, cv2.LINE_AA, _SUBPIXEL_BITS)


def draw_circle(
    rgb: Picture,
    centre: npt.NDArray[np.float64],
    radius: float,
    *,
    colour: tuple[int, int, int],
    thickness: int,
) -> None:
    """Draw a circle's line into the frame; arguments as those of `draw_line`."""
    angles = np.linspace(0, 2 * np.pi, 49)
    ring = centre + radius * np.stack((np.cos(angles), np.sin(angles)), axis=1)
    draw_line(rgb, ring, colour=colour, thickness=thickness)


def _unbroken(points: npt.NDArray[np.float64]) -> Sequence[npt.NDArray[np.float64]]:
    """Return the runs of two points or more that are all there."""
    there = np.isfinite(points).all(axis=1)
    runs = np.split(np.arange(len(points)), np.flatnonzero(np.diff(there)) + 1)
    return [points[run] for run in runs if len(run) > 1 and there[run[0]]]
