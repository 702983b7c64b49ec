"""Reading video files as upright RGB frames with their times, and writing them."""

import functools
import math
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import cv2
import numpy as np
import numpy.typing as npt

from signloom.errors import UserError

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


DECODER = f"opencv {cv2.__version__}"  # its frames may differ from those of another version
MIN_FPS, MAX_FPS = 1.0, 1000.0
MIN_COVERED = 0.9  # share of the promised seconds that must be there; less is a damaged file
_SEEK_FROM_S = 2.0  # below, decoding from the start is cheaper than seeking
_SEEK_MARGIN_S = 1.0  # seeking lands on a key frame near the target: aim before it
_TIME_STEP_S = 5e-4  # times are read in milliseconds, half of one is "the same time"
_UNEVEN_S = 0.1  # a frame this far from its place on an even clock is at a varying rate
_SAME_RATE = 0.02  # relative; headers round
_MAX_HOLE_S = 10.0  # between two frames; more are damaged times, or a recording that paused
_MAX_STRETCH = 4.0  # of pixels that are not square; more is a damaged header
_NO_TIME_S = -1e6  # FFmpeg's mark for a frame without a time is far below

# Read by OpenCV when it first uses FFmpeg, whose remarks on bad files would break up our output;
# the reason in `VideoError` says enough.
os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")

_CONVERT = "convert it: ffmpeg -i IN -c:v libx264 OUT.mp4"


class VideoError(ValueError):
    """A video, or a segment of one, that cannot be read."""

    def __init__(self, reason: str, mend: str) -> None:
        super().__init__(reason, mend)
        self.reason = reason
        self.mend = mend

    def __str__(self) -> str:
        """Reason and mend as one phrase."""
        return f"{self.reason}; {self.mend}"


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """One picture.

    Attributes:
        time_s: Seconds from the start of the file.
        rgb: Shape (height, width, 3) uint8, red first, turned upright, with square pixels.
    """

    time_s: float
    rgb: npt.NDArray[np.uint8]


class Video:
    """An open video file.

    Attributes:
        fps: Frames a second by the header.
        duration_s: Seconds by the header, None where the header does not say.

    Raises:
        VideoError: If there is no video in the file that can be decoded.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._capture = _open_capture(path)
        self.fps = self._get(cv2.CAP_PROP_FPS)
        if not MIN_FPS <= self.fps <= MAX_FPS:  # NaN fails both
            self.close()
            raise VideoError(
                f"the header says {self.fps:g} frames a second",
                "convert it: ffmpeg -i IN -c:v libx264 -r 25 OUT.mp4",
            )
        count = self._get(cv2.CAP_PROP_FRAME_COUNT)
        # A header without a count gives 0 or a huge negative number.
        self.duration_s = count / self.fps if math.isfinite(count) and count > 0 else None
        self._late_s = 0.0  # time of the first frame in the file's own count
        self._is_timeless = False  # whether the first frame has no time

    def __enter__(self) -> "Video":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._capture.release()

    def count_frames(self, start_s: float | None = None, end_s: float | None = None) -> int:
        """Return about how many frames a segment has by the header, 0 if it does not say.

        Raises:
            VideoError: If the segment lies outside the video.
        """
        start_s = start_s or 0.0
        if self.duration_s is None:
            return 0 if end_s is None else round((end_s - start_s) * self.fps)
        stop_s = self.duration_s if end_s is None else min(end_s, self.duration_s)
        if start_s >= stop_s:
            raise VideoError(
                f"start_s {start_s:g} is not before the end of the video, {self.duration_s:.2f} s",
                "correct start_s in the manifest",
            )
        if end_s is not None and stop_s - start_s < MIN_COVERED * (end_s - start_s):
            raise VideoError(
                f"the segment {start_s:g} to {end_s:g} s runs past the end of the video, "
                f"{self.duration_s:.2f} s",
                "correct end_s in the manifest",
            )
        return round((stop_s - start_s) * self.fps)

    def frames(self, start_s: float | None = None, end_s: float | None = None) -> Iterator[Frame]:
        """Yield the frames shown from `start_s` (included) to `end_s` (excluded), once.

        Args:
            start_s: Seconds from the start of the file; None: from the first frame.
            end_s: Likewise; None: to the last frame.

        Raises:
            VideoError: If the segment lies outside the video or has no frame, or after the last
                frame if less than `MIN_COVERED` of what was promised was there, or it stood still.
        """
        start_s = start_s or 0.0
        self.count_frames(start_s, end_s)
        covered_s = start_s
        frames = 0
        watch = StillWatch()
        for frame in self._decode(start_s):
            if end_s is not None and frame.time_s >= end_s - _TIME_STEP_S:
                covered_s = end_s  # the stream goes on, so nothing is missing
                break
            if frames and frame.time_s > covered_s + _MAX_HOLE_S:
                raise VideoError(
                    f"no frame from {covered_s:.2f} to {frame.time_s:.2f} s: damaged times, or the "
                    "recording paused",
                    "cut the hole out, or give the clip a start_s and end_s on one side of it",
                )
            covered_s = frame.time_s + 1 / self.fps
            frames += 1
            watch.add(frame.rgb, frame.time_s, self._get(cv2.CAP_PROP_FRAME_TYPE) == ord("I"))
            yield frame
        if frames == 0:
            raise self._no_frame(start_s, end_s, covered_s)
        if frames == 1 and self._is_timeless:
            raise VideoError("a picture, not a video", "put the video in its place")
        self._check_covered(start_s, end_s, covered_s)
        if (still_s := watch.still_since_s()) is not None:
            raise VideoError(
                f"the picture stands still from {still_s:.2f} s on: its size changes, or it froze",
                f"give the clip an end_s before that, or {_CONVERT}",
            )

    def _decode(self, start_s: float) -> Iterator[Frame]:
        """Yield all frames from `start_s` on, each later than the one before."""
        time_s = None
        if start_s > _SEEK_FROM_S:
            self._capture.set(cv2.CAP_PROP_POS_MSEC, (start_s - _SEEK_MARGIN_S) * 1000)
            found = self._capture.grab()
            time_s = self._time_s(None)
            if not found or self._is_timeless or time_s >= start_s - _TIME_STEP_S:
                # Sparse key frames or a broken index: go there on foot.
                self._capture.release()
                self._capture = _open_capture(self._path)
                time_s = None
        while self._capture.grab():
            time_s = self._time_s(time_s)
            if time_s < start_s - _TIME_STEP_S:
                continue
            decoded, bgr = self._capture.retrieve()
            if not decoded:
                return
            rgb = cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB)
            yield Frame(time_s, self._with_square_pixels(np.asarray(rgb, np.uint8)))

    def _time_s(self, last_s: float | None) -> float:
        """Return the time of the frame just grabbed, `last_s` being that of the one before.

        Some containers do not time each frame (.mpg, .avi with B-frames, raw .h264), and joined
        streams start at 0 again: such a frame comes one frame after the one before.
        """
        found = self._get(cv2.CAP_PROP_POS_MSEC) / 1000
        if last_s is not None:
            return found if found > last_s else last_s + 1 / self.fps
        self._is_timeless = found < _NO_TIME_S
        if self._is_timeless:
            return 0.0
        self._late_s = max(self._get(cv2.CAP_PROP_PTS) / self.fps - found, 0.0)
        return found

    def _get(self, key: int) -> float:
        return float(self._capture.get(key))

    def _with_square_pixels(self, rgb: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """Stretch the frames of old television formats as a player does, losing no pixel."""
        over, under = self._get(cv2.CAP_PROP_SAR_NUM), self._get(cv2.CAP_PROP_SAR_DEN)
        stretch = over / under if over > 0 and under > 0 else 1.0
        if self._get(cv2.CAP_PROP_ORIENTATION_META) in (90, 270):
            stretch = 1 / stretch  # the note is on the frame as it is stored
        if abs(stretch - 1) <= _SAME_RATE or not 1 / _MAX_STRETCH <= stretch <= _MAX_STRETCH:
            return rgb
        height, width = rgb.shape[:2]
        size = (round(width * max(stretch, 1.0)), round(height * max(1 / stretch, 1.0)))
        return np.asarray(cv2.resize(rgb, size, interpolation=cv2.INTER_LINEAR), np.uint8)

    def _no_frame(self, start_s: float, end_s: float | None, covered_s: float) -> VideoError:
        if end_s is not None and covered_s == end_s:
            reason = f"no frame is shown from {start_s:g} to {end_s:g} s"
            return VideoError(reason, "correct start_s and end_s in the manifest")
        code = int(self._get(cv2.CAP_PROP_FOURCC)) & 0xFFFFFFFF
        codec = code.to_bytes(4, "little").decode("ascii", "replace").strip("\0 ")
        reason = f"no frame can be decoded from {start_s:g} s on (codec {codec or 'unknown'})"
        return VideoError(reason, f"play it: if it is whole, {_CONVERT}; if not, copy it again")

    def _check_covered(self, start_s: float, end_s: float | None, covered_s: float) -> None:
        stop_s = end_s if end_s is not None else self.duration_s
        # Times count from the first frame; the duration of some containers counts from before it.
        covered = covered_s - start_s + self._late_s
        if stop_s is None or covered >= MIN_COVERED * (stop_s - start_s):
            return
        raise VideoError(
            f"decoding stops at {covered_s:.2f} s of {stop_s:.2f} s: truncated or damaged",
            "copy the file again from its source, or give the clip an end_s before that",
        )


def measure_fps(times_s: Sequence[float], header_fps: float) -> float:
    """Return the header's frame rate, or the measured one where they differ by more than 2 %.

    Browsers and phones write headers that are wrong, and frames at a varying rate.
    """
    span_s = times_s[-1] - times_s[0]
    if span_s <= 0:
        return header_fps
    measured = (len(times_s) - 1) / span_s
    return header_fps if abs(measured / header_fps - 1) <= _SAME_RATE else measured


def even_frames(times_s: Sequence[float], fps: float) -> npt.NDArray[np.int64]:
    """Return which frame stands for each tick of an even clock.

    Phones slow their frames down in the dark; what follows takes frames to be evenly spaced.

    Args:
        times_s: Of every frame, ascending.
        fps: Ticks a second.

    Returns:
        Indices into the frames, shape (ticks,): 0, 1, 2, ... where no frame is more than
        `_UNEVEN_S` away from its tick.
    """
    times = np.asarray(times_s) - times_s[0]
    if np.abs(times - np.arange(len(times)) / fps).max() <= _UNEVEN_S:
        return np.arange(len(times))
    ticks = np.arange(round(times[-1] * fps) + 1) / fps
    return np.searchsorted((times[1:] + times[:-1]) / 2, ticks)


def _open_capture(path: Path) -> cv2.VideoCapture:
    _prepare_library()
    if not path.is_file():
        raise VideoError("the file is missing", "restore it or remove the row from the manifest")
    if path.stat().st_size == 0:
        raise VideoError("the file is empty (0 bytes)", "copy it again from its source")
    with path.open("rb") as file:
        start = file.read(16).lstrip()
    if start.startswith((b"#EXTM3U", b"ffconcat")):
        raise VideoError("a playlist, which names other files, is not a video", _CONVERT)
    if is_mirrored(path):
        raise VideoError(
            "the header asks for a mirror image, in which left and right may be swapped",
            f"{_CONVERT}, and look that the signer's right hand is on the left of the picture",
        )
    # One thread: a worker a core decodes beside the others. The FFmpeg back end by name: others
    # would take a name with a % in it for a series of pictures.
    capture = cv2.VideoCapture(str(path.absolute()), cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])
    if not capture.isOpened():
        raise VideoError(
            "no video that can be decoded (not a video, audio only, damaged or unknown codec)",
            f"play it to see; {_CONVERT}",
        )
    # Off by default in OpenCV 4.11: a phone's portrait video would lie on its side.
    capture.set(cv2.CAP_PROP_ORIENTATION_AUTO, 1)
    return capture


@functools.cache
def _prepare_library() -> None:
    # OpenCV 5 has moved it.
    home = cv2 if hasattr(cv2, "setLogLevel") else cv2.utils.logging  # type: ignore[attr-defined]
    home.setLogLevel(0)
    cv2.setNumThreads(1)


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
