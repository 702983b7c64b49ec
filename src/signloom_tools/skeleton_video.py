"""Films with the landmarks that were found in them."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from signloom.corpus.landmarks import LandmarkSequence
from signloom.detection.video import Box, Picture, Video, crop_frames, even_frames
from signloom.errors import ClipError
from signloom.report.canvas import GREY, PAPER
from signloom.report.skeletons import find_heads, has_head, list_strokes
from signloom_tools.video_writer import VideoWriter

_SUBPIXEL_BITS = 3  # lines are placed to an eighth of a pixel
_BLANK_HEIGHT = 480  # of the picture of a clip without a video, pixels
_MOST_ASPECT = 4.0  # more, either way, is no picture's
_STROKE = 1 / 160  # thickness of a line of width 1, picture heights


def write_skeleton(path: Path, pictures: Iterable[Picture], sequence: LandmarkSequence) -> None:
    """Write pictures with the landmarks drawn in.

    Args:
        path: The .webm file, without sound.
        pictures: One for each frame of the landmarks.

    Raises:
        ClipError: If there are more or fewer pictures.
        UserError: If the file cannot be written.
    """
    pictures = iter(pictures)
    first = next(pictures)
    height, width = (size - size % 2 for size in first.shape[:2])
    with VideoWriter(path, fps=sequence.fps, width=width, height=height) as writer:
        pairs = itertools.zip_longest(
            itertools.chain([first], pictures), range(len(sequence.points))
        )
        for picture, frame in pairs:
            if picture is None or frame is None:
                raise ClipError("the file changed while it was read", "run it again")
            rgb = picture.copy()
            draw_skeleton(rgb, sequence, frame)
            writer.write(np.ascontiguousarray(rgb[:height, :width]))


def even_pictures(
    film: Path, rate: float, *, fps: float = 0.0, crop: Box | None = None
) -> Iterator[Picture]:
    """Yield the pictures of a film at an even rate, as its landmarks have it.

    Args:
        rate: Frames a second of the landmarks.
        fps: Most frames a second that were read; 0: all.
        crop: The part of the picture that was read; None: all.

    Raises:
        ClipError: If the file cannot be read.
    """
    with Video(film) as video:
        times_s = [frame.time_s for frame in video.frames(fps=fps)]
    repeats = np.bincount(even_frames(times_s, rate), minlength=len(times_s))
    with Video(film) as video:
        for frame, count in zip(crop_frames(video.frames(fps=fps), crop), repeats, strict=False):
            yield from itertools.repeat(frame.rgb, count)


def blank_pictures(sequence: LandmarkSequence) -> Iterator[Picture]:
    """Yield empty pictures for the frames of a clip without a video."""
    aspect = float(np.clip(sequence.width / sequence.height, 1 / _MOST_ASPECT, _MOST_ASPECT))
    width = 2 * round(_BLANK_HEIGHT * aspect / 2)
    blank = np.full((_BLANK_HEIGHT, width, 3), _rgb(PAPER), np.uint8)
    return itertools.repeat(blank, len(sequence.points))


def draw_skeleton(rgb: Picture, sequence: LandmarkSequence, frame: int) -> None:
    """Draw the landmarks of a frame into its picture."""
    height, width = rgb.shape[:2]
    points = sequence.points[frame, :, :2].astype(np.float64) * [width, height]
    unit = height * _STROKE
    for stroke in list_strokes(sequence.layout):
        thickness = max(1, round(stroke.width * unit))
        _draw_line(rgb, points[list(stroke.marks)], _rgb(stroke.colour), thickness)
    if has_head(sequence.layout):
        low, high = find_heads(points[None], sequence.layout)[0]
        angles = np.linspace(0, 2 * np.pi, 49)
        ring = np.stack((np.cos(angles), np.sin(angles)), axis=1)
        head = (low + high) / 2 + float(high[0] - low[0]) / 2 * ring
        _draw_line(rgb, head, _rgb(GREY), max(1, round(unit)))


def _draw_line(
    rgb: Picture, points: npt.NDArray[np.float64], colour: tuple[int, int, int], thickness: int
) -> None:
    """Draw a smooth line through points (N, 2), pixels; broken, not bridged, where one is NaN."""
    for part in _unbroken(points):
        pixels = np.rint(part * 2**_SUBPIXEL_BITS).clip(-(2**20), 2**20).astype(np.int32)
        cv2.polylines(rgb, [pixels[:, None]], False, colour, thickness, cv2.LINE_AA, _SUBPIXEL_BITS)


def _unbroken(points: npt.NDArray[np.float64]) -> Sequence[npt.NDArray[np.float64]]:
    """Return the runs of two points or more that are all there."""
    is_finite = np.isfinite(points).all(axis=1)
    runs = np.split(np.arange(len(points)), np.flatnonzero(np.diff(is_finite)) + 1)
    return [points[run] for run in runs if len(run) > 1 and is_finite[run[0]]]


def _rgb(colour: str) -> tuple[int, int, int]:
    red, green, blue = bytes.fromhex(colour.removeprefix("#"))
    return red, green, blue
