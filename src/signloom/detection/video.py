"""Video files: decoded into upright RGB frames with their times."""

import contextlib
import functools
import itertools
import math
import struct
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import av
import numpy as np
import numpy.typing as npt
from av.container import InputContainer
from av.sidedata.sidedata import SideData
from av.sidedata.sidedata import Type as SideDataType
from av.stream import Disposition
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter
from av.video.stream import VideoStream

from signloom.config import MAX_FPS, MAX_SIDE, MIN_FPS
from signloom.errors import ClipError

# What decodes: the frames of another version may differ.
DECODER = (
    f"pyav {av.__version__} libavcodec {'.'.join(map(str, av.library_versions['libavcodec']))}"
)
MIN_COVERED = 0.9  # share of the promised seconds that must be there; less is a damaged file
# A film with fewer is whole if every packet that its container counts is there, the demuxer calls
# none corrupt and the decoder refuses none. Measured: of 1,650 damaged films (11 codecs and
# containers; cut at 50 to 99 % of their bytes, or zeros or noise from there on) none is taken for
# whole by this; films whose header promises too much (edit lists, last frames that last) all are,
# .mkv, .webm and .flv apart, which count no packets. The 66 films of KSL-77 and MSL-150 lack none.
# Below this share of its frames a person should look.
MIN_WHOLE = 0.5
MAX_PIXELS = 7680 * 4320  # 8K; a picture takes three bytes a pixel, several times over
_MAX_SIDE = 16_384  # OpenCV warps pictures of less than 32,767 pixels a side
_SEEK_FROM_S = 2.0  # below, decoding from the start is cheaper than seeking
_SEEK_MARGIN_S = 1.0  # seeking lands on a key frame near the target: aim before it
_READ_ON_S = 10.0  # to the next segment, where the container lists no key frames
_MOST_KEPT_BYTES = 256_000_000  # of pictures that two segments share
_TIME_STEP_S = 5e-4  # containers round times to milliseconds: half of one is "the same time"
_MOST_PIXELS_LIVE = 2_000_000
_LEAST_SIDE = 16  # pixels, of a picture from a camera or a box
_LONGEST_LAST_S = 0.5  # that a last picture is taken to be shown
_UNEVEN_S = 0.1  # a frame this far from its tick of an even clock is at a varying rate
_LIVE = {"analyzeduration": "500000"}  # microseconds of a pipe that are read for its header
_SAME_RATE = 0.02  # relative; headers round
_MAX_HOLE_S = 10.0  # between two frames; more are damaged times, or a recording that paused
_MAX_STRETCH = 4.0  # of pixels that are not square; more is a damaged header
_COVERS = Disposition.attached_pic | Disposition.timed_thumbnails | Disposition.still_image
_PROGRESSIVE = (0, 1)  # FFmpeg's field orders: unknown, progressive; the others are interlaced
_PQ, _HLG = 16, 18  # transfer characteristics of HDR, ITU-T H.273
_WHITE_NITS = 203.0  # of a picture in SDR that is shown as HDR, ITU-R BT.2408
_WHITE_HLG = 0.265  # the same as HLG's scene light
_KNEE = 0.8  # of white: highlights above are compressed
_BT2020_TO_BT709 = np.array(  # linear light, a column a colour, ITU-R BT.2407
    [[1.6605, -0.1246, -0.0182], [-0.5876, 1.1329, -0.1006], [-0.0728, -0.0083, 1.1187]],
    np.float32,
)
_SHOWN = np.rint(255 * (np.arange(1 << 16) / 0xFFFF) ** (1 / 2.4)).astype(np.uint8)  # by light

# Titles may be in any encoding. PyAV 18 refuses what is not UTF-8 unless it gets this option; PyAV
# 19 takes any bytes and has no such option.
_ANY_TITLE: dict[str, Any] = (
    {"metadata_errors": "replace"} if int(av.__version__.split(".")[0]) < 19 else {}
)

_CONVERT = "convert it: ffmpeg -i IN -c:v libx264 OUT.mp4"
DEINTERLACE = "run ffmpeg -i IN -vf bwdif -c:v libx264 OUT.mp4"

T = TypeVar("T")
Box = tuple[float, float, float, float]
"""Left, top, right and bottom: up to 1 shares of the picture, else pixels."""
Picture = npt.NDArray[np.uint8]  # shape (height, width, 3), red first


def _keep_unknown(kinds: type[SideDataType], number: int) -> SideDataType:
    """Let PyAV read frames with side data that FFmpeg knows and it does not, as EXIF of photos."""
    kind = object.__new__(kinds)
    kind._name_ = kind._value_ = str(number)  # type: ignore[assignment]
    return kind


SideDataType._missing_ = classmethod(_keep_unknown)  # type: ignore[assignment]  # else it raises


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """One picture."""

    time_s: float  # seconds from the start of the file
    rgb: Picture  # shape (height, width, 3) uint8, red first, turned upright, with square pixels


class Video:
    """An open video file.

    Time is counted as players do: from where the first of sound and picture begins.

    Attributes:
        fps: Frames a second by the header.
        begins_s: When the first picture is shown; 0 unless sound begins before it.
        duration_s: When the last one ends by the header; None where the header has no duration.
        missing_frames: After the last frame: how many the file promises that are not in it,
            where it is whole and they are more than a tenth.

    Raises:
        ClipError: If there is no video in the file that can be decoded, or its picture is too big.
    """

    def __init__(self, path: Path | IO[bytes]) -> None:
        self._path = path
        self._is_damaged = False  # whether decoding ended there
        self._is_torn = False  # whether the demuxer calls a packet corrupt
        self._packets = 0  # read in a row from the file's start
        self.missing_frames = 0
        # Decoded already, for segments that follow each other: what the last one left to the next.
        self._reader: Iterator[tuple[float, VideoFrame]] | None = None
        self._last_s = -math.inf
        self._kept: deque[tuple[float, VideoFrame]] = deque()
        self._kept_from_s = math.inf
        self._is_even = True  # whether all times are the container's
        self._wanted_from_s = 0.0  # earlier pictures are not shown
        self._reformatter = VideoReformatter()  # one for all frames: it computes tables
        self._container, self._stream = _open(path)
        self.fps = float(self._stream.guessed_rate or 0)
        if not MIN_FPS <= self.fps <= MAX_FPS:
            self.close()
            raise ClipError(
                f"the header says {self.fps:g} frames a second",
                "convert it: ffmpeg -i IN -c:v libx264 -r 25 OUT.mp4",
            )
        tick = self._stream.time_base or Fraction(1)
        self._tick_s, self._start = float(tick), self._stream.start_time or 0
        zero_s = max(self._container.start_time or 0, 0) / av.time_base
        late = round((self._start * self._tick_s - zero_s) / self._tick_s)
        self.begins_s = late * self._tick_s if late * self._tick_s > _TIME_STEP_S else 0.0
        self._start -= late if self.begins_s else 0
        self._sdr = _sdr_table(self._stream.codec_context.color_trc)
        stretch = float(self._stream.sample_aspect_ratio or 1)  # width of a pixel by its height
        has_square = abs(stretch - 1) <= _SAME_RATE or not 1 / _MAX_STRETCH < stretch < _MAX_STRETCH
        self._stretch = 1.0 if has_square else stretch
        width, height = self._shown_size(self._stream.width, self._stream.height)
        if width * height > MAX_PIXELS or max(width, height) > _MAX_SIDE:
            self.close()
            raise ClipError(
                f"its picture is {width}x{height}, expected at most {_MAX_SIDE} pixels a side and "
                f"{MAX_PIXELS / 1e6:.0f} million in all (8K)",
                "make it smaller: ffmpeg -i IN -vf scale=1280:-2 -c:v libx264 OUT.mp4",
            )
        self._most_kept = max(1, _MOST_KEPT_BYTES // (2 * width * height + 1))
        # An .avi has a constant rate and no presentation times.
        self._is_avi = self._container.format.name == "avi"
        self.duration_s, self._uncounted_s = self._find_duration()

    def _find_duration(self) -> tuple[float | None, float]:
        """Return seconds by the header, and how many of them come before the first frame."""
        if self._is_avi and self._stream.frames:  # of a cut one, the demuxer shortens the duration
            return self._stream.frames * self._tick_s, 0.0
        if self._stream.duration:
            return self.begins_s + self._stream.duration * self._tick_s, 0.0
        if self._container.duration:  # Matroska's, which counts from before the first frame
            return self._container.duration / av.time_base, max(self._start * self._tick_s, 0.0)
        return None, 0.0

    def find_end_s(self, least_s: float) -> float | None:
        """Return when the last picture ends; None where the header has no duration.

        By the header, or where that is before `least_s`, by the packets: at a varying rate, the
        header of an .mp4 adds up steps in the order of decoding, and the last pictures follow.
        """
        if self.duration_s is None or self.duration_s >= least_s or self._is_avi:
            return self.duration_s
        return max(self.duration_s, self._last_packet_s)

    @functools.cached_property
    def _last_packet_s(self) -> float:
        """When the last packet is no longer shown; 0 where that cannot be known."""
        times: list[int] = []
        if isinstance(self._path, Path) and self.duration_s is not None:
            container, stream = _open(self._path)
            with container, contextlib.suppress(av.FFmpegError):
                near_s = max(self.duration_s - _SEEK_MARGIN_S, 0.0)
                container.seek(self._start + round(near_s / self._tick_s), stream=stream)
                times += [p.pts for p in container.demux(stream) if p.pts is not None]
        if len(times) < 2:
            return 0.0
        before_s, last_s = ((ticks - self._start) * self._tick_s for ticks in sorted(times)[-2:])
        return last_s + min(last_s - before_s, _LONGEST_LAST_S)

    def __enter__(self) -> "Video":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._container.close()

    def count_frames(self, start_s: float | None = None, end_s: float | None = None) -> int:
        """Return about how many frames a segment has by the header, 0 if it has no duration.

        Raises:
            ClipError: If the segment lies outside the video.
        """
        start_s = start_s or 0.0
        least_s = start_s + (MIN_COVERED * (end_s - start_s) if end_s else _TIME_STEP_S)
        duration_s = self.find_end_s(least_s)
        if duration_s is None:
            return 0 if end_s is None else round((end_s - start_s) * self.fps)
        stop_s = duration_s if end_s is None else min(end_s, duration_s)
        if start_s >= stop_s:
            raise ClipError(
                f"start_s {start_s:g} is not before the end of the video, {duration_s:.2f} s",
                "correct start_s in the manifest",
            )
        if end_s is not None and stop_s - start_s < MIN_COVERED * (end_s - start_s):
            raise ClipError(
                f"the segment {start_s:g} to {end_s:g} s runs past the end of the video, "
                f"{duration_s:.2f} s",
                "correct end_s in the manifest",
            )
        return round((stop_s - min(max(start_s, self.begins_s), stop_s)) * self.fps)

    def frames(
        self,
        start_s: float | None = None,
        end_s: float | None = None,
        keep_from_s: float = math.inf,
        fps: float = 0.0,
    ) -> Iterator[Frame]:
        """Yield the frames shown from `start_s` (included) to `end_s` (excluded), once.

        Segments that are read one after another, in the order of their starts, are decoded in one
        go; what lies between them is decoded or sought over, whichever is less work.

        Args:
            start_s: Seconds from the start of the file; None: from the first frame.
            end_s: Likewise; None: to the last frame.
            keep_from_s: Start of the next segment: frames from there on that are decoded for this
                one are kept for that one.
            fps: Most frames a second, as `thin` chooses them; 0: all.

        Raises:
            ClipError: If the segment lies outside the video, has no frame or frames of two sizes,
                or after the last frame if less than `MIN_COVERED` of what was promised was there.
        """
        for time_s, picture in thin(self._shown(start_s or 0.0, end_s, keep_from_s), fps):
            yield Frame(time_s, self._upright(picture))

    def _shown(
        self, start_s: float, end_s: float | None, keep_from_s: float
    ) -> Iterator[tuple[float, VideoFrame]]:
        """Yield time and decoded picture of the frames of a segment; raises as `frames`."""
        self.count_frames(start_s, end_s)
        self.missing_frames = 0
        covered_s, step_s = start_s, 0.0
        count, size = 0, None
        pictures = self._pictures(start_s, keep_from_s)
        for time_s, picture in pictures:
            if end_s is not None and time_s >= end_s - _TIME_STEP_S:
                if size is None:
                    raise ClipError(
                        f"no frame is shown from {start_s:g} to {end_s:g} s",
                        "correct start_s and end_s in the manifest",
                    )
                pictures.close()  # now, not when it is garbage-collected
                return  # the stream goes on, so nothing is missing
            if size and time_s > covered_s + _MAX_HOLE_S:
                raise ClipError(
                    f"no frame from {covered_s:.2f} to {time_s:.2f} s: damaged times, or the "
                    "recording paused",
                    "cut the hole out, or give the clip a start_s and end_s on one side of it",
                )
            size = size or (picture.width, picture.height)
            if size != (picture.width, picture.height):
                raise ClipError(
                    f"the size of the picture changes from {size[0]}x{size[1]} to "
                    f"{picture.width}x{picture.height} at {time_s:.2f} s",
                    f"give the clip an end_s before that, or {_CONVERT}",
                )
            after_s = time_s + 1 / self.fps
            step_s = after_s - covered_s if count else (picture.duration or 0) * self._tick_s
            covered_s = after_s
            count += 1
            yield time_s, picture
        if size is None:
            raise ClipError(
                f"no frame can be decoded from {start_s:g} s on "
                f"(codec {self._stream.codec_context.name})",
                f"play it: if it is whole, {_CONVERT}; if not, copy it again",
            )
        # In the dark, telephones slow down: the last picture stays as long as the one before.
        longer_s = max(min(step_s, _LONGEST_LAST_S) - 1 / self.fps, 0.0)
        self._check_covered(start_s, end_s, covered_s + longer_s, count)

    def _pictures(
        self, start_s: float, keep_from_s: float
    ) -> Generator[tuple[float, VideoFrame], None, None]:
        """Yield time and decoded picture of all frames from `start_s` on, in order."""
        self._wanted_from_s = min(start_s, keep_from_s)
        reader = self._go_on(start_s) or self._seek(start_s)
        pictures, self._kept, self._kept_from_s = (
            self._kept,
            deque(maxlen=self._most_kept),
            keep_from_s,
        )
        try:
            while picture := pictures.popleft() if pictures else next(reader, None):
                self._last_s = max(self._last_s, picture[0])
                if picture[0] >= keep_from_s - _TIME_STEP_S:
                    self._kept.append(picture)
                if picture[0] >= start_s - _TIME_STEP_S:
                    yield picture
        finally:
            self._kept.extend(pictures)

    def _go_on(self, start_s: float) -> Iterator[tuple[float, VideoFrame]] | None:
        """Return what reads on from where the last segment ended; None: seeking is better."""
        if self._reader is None or not self._is_even:
            return None
        is_whole = len(self._kept) < self._most_kept or self._kept[0][0] <= start_s
        if self._kept and is_whole and self._kept_from_s <= start_s:
            return self._reader  # all that is needed of what was decoded is there
        if start_s <= self._last_s + _TIME_STEP_S:
            return None
        index = self._stream.index_entries
        target = self._start + round((start_s - _SEEK_MARGIN_S) / self._tick_s)
        entry = index.search_timestamp(target) if len(index) else -1
        if entry < 0:
            return self._reader if start_s - self._last_s < _READ_ON_S else None
        key_s = (index[entry].timestamp - self._start) * self._tick_s
        return self._reader if key_s <= self._last_s else None

    def _seek(self, start_s: float) -> Iterator[tuple[float, VideoFrame]]:
        """Return what reads from at or before a time, as if nothing had been read before."""
        self._kept.clear()
        self._last_s = -math.inf
        if start_s > _SEEK_FROM_S:
            target_s = start_s - _SEEK_MARGIN_S
            with contextlib.suppress(av.FFmpegError):
                target = self._start + round(target_s / self._tick_s)
                self._container.seek(target, stream=self._stream)
            self._reader = self._timed(first_s=None)
            self._packets = -(1 << 62)  # how many there were before is unknown
            self._last_s, _ = next(self._reader, (math.inf, None))
            if self._last_s < start_s - _TIME_STEP_S:
                return self._reader
            # Sparse key frames or a broken index: decode from the first frame on.
            self._reader, self._last_s = None, -math.inf
        if self._reader is not None or start_s > _SEEK_FROM_S:
            self.close()
            self._container, self._stream = _open(self._path)
            self._packets = 0
        self._reader = self._timed(first_s=self.begins_s)
        return self._reader

    def _timed(self, first_s: float | None) -> Iterator[tuple[float, VideoFrame]]:
        """Yield time and picture of what the decoder gives, each later than the one before.

        Some containers do not time each frame (.mpg, .avi with B-frames, raw .h264), and joined
        streams start at 0 again: such a frame comes one frame after the one before.

        Args:
            first_s: Time of the first frame if it has none; None: then end.
        """
        last_s = -math.inf
        for picture in self._decoded():
            ticks = picture.dts if self._is_avi or picture.pts is None else picture.pts
            time_s = -math.inf if ticks is None else (ticks - self._start) * self._tick_s
            if time_s <= last_s:
                self._is_even = False
                if last_s == -math.inf:
                    if first_s is None:
                        return
                    time_s = first_s
                else:
                    time_s = last_s + 1 / self.fps
            yield time_s, picture
            last_s = time_s

    def _decoded(self) -> Iterator[VideoFrame]:
        """Yield the decoder's pictures up to the first damage, if any; note it."""
        has_begun = False
        try:
            for packet in self._container.demux(self._stream):
                self._packets += packet.dts is not None or packet.size > 0
                self._is_torn = self._is_torn or packet.is_corrupt
                if packet.pts is not None and not self._is_avi:
                    # In a pause, pictures to which no other refers need not be decoded.
                    time_s = (packet.pts - self._start) * self._tick_s
                    is_early = time_s < self._wanted_from_s - _SEEK_MARGIN_S
                    self._stream.codec_context.skip_frame = "NONREF" if is_early else "DEFAULT"
                if packet.size == 0:  # a dropped frame in an .avi; the decoder would take it for
                    continue  # the end
                try:
                    pictures = self._stream.decode(packet)
                except av.FFmpegError:
                    if has_begun:
                        raise
                    continue  # a stream that was cut out begins with what no decoder can use
                has_begun = has_begun or bool(pictures)
                yield from pictures
        except av.FFmpegError:
            self._is_damaged = True
        with contextlib.suppress(av.FFmpegError):
            yield from self._stream.decode(None)

    def _upright(self, picture: VideoFrame) -> Picture:
        """Return a picture in RGB, turned as its metadata says, with square pixels."""
        width, height = self._shown_size(picture.width, picture.height)
        # One thread: a worker a core decodes at the same time as the others.
        pixels = "rgb24" if self._sdr is None else "rgb48le"
        converted = self._reformatter.reformat(picture, width, height, pixels, threads=1)
        rgb = cast(Picture, converted.to_ndarray())
        if self._sdr is not None:
            rgb = _SHOWN[np.clip(self._sdr[rgb] @ _BT2020_TO_BT709, 0, 0xFFFF).astype(np.uint16)]
        side_data = picture.side_data
        if side_data and (matrix := side_data.get("DISPLAYMATRIX")) is not None:
            a, b, _, c, d = struct.unpack_from("=5i", cast(SideData, matrix))
            if a * d < b * c:
                raise ClipError(
                    "the header asks for a mirror image, in which left and right may be swapped",
                    f"{_CONVERT}, and look that the signer's right hand is on the left of the "
                    "picture",
                )
            if picture.rotation % 90 == 0:
                rgb = np.ascontiguousarray(np.rot90(rgb, picture.rotation // 90))
        return rgb

    def _shown_size(self, width: int, height: int) -> tuple[int, int]:
        """Return the size with square pixels, as players show old television, losing no pixel."""
        return round(width * max(self._stretch, 1.0)), round(height * max(1 / self._stretch, 1.0))

    def _check_covered(
        self, start_s: float, end_s: float | None, covered_s: float, count: int
    ) -> None:
        stop_s = self.duration_s if end_s is None else end_s
        from_s = max(start_s, self.begins_s)
        covered = covered_s - from_s + self._uncounted_s
        if stop_s is None and not self._is_damaged:
            return
        if stop_s is not None and covered >= MIN_COVERED * (stop_s - from_s):
            return
        # Only from the start on, as if the segment had been read alone.
        has_all = start_s <= _SEEK_FROM_S and 0 < self._stream.frames <= self._packets
        if stop_s is not None and has_all and not (self._is_damaged or self._is_torn):
            promised = round((stop_s - from_s) * self.fps)
            if count >= MIN_WHOLE * promised:
                self.missing_frames = promised - count
                return
        of = "" if stop_s is None else f" of {stop_s:.2f} s"
        raise ClipError(
            f"decoding stops at {covered_s:.2f} s{of}: truncated or damaged",
            "copy the file again from its source, or give the clip an end_s before that",
        )


def crop_frames(frames: Iterable[Frame], box: Box | None) -> Iterator[Frame]:
    """Yield frames cut to a box; None: as they are.

    Raises:
        ClipError: If less than half of the box, or a line of it, lies in the picture.
    """
    if box is None:
        yield from frames
        return
    for frame in frames:
        height, width = frame.rgb.shape[:2]
        corners = np.reshape(box, (2, 2)) * ([width, height] if max(box) <= 1 else 1)
        low, high = inside = np.rint(np.clip(corners, 0, [width, height])).astype(int)
        is_there = 2 * np.prod(high - low) >= np.prod(corners[1] - corners[0])
        if min(high - low) < _LEAST_SIDE or not is_there:
            raise ClipError(
                f"its box {' '.join(f'{side:g}' for side in box)} (left, top, right, bottom) is "
                f"not in the picture of {width}x{height} pixels",
                "correct it: pixels of the upright picture, or shares of it up to 1",
            )
        rows, columns = (slice(*inside[:, axis]) for axis in (1, 0))
        yield Frame(frame.time_s, np.ascontiguousarray(frame.rgb[rows, columns]))


def decode_jpeg(content: bytes) -> Picture:
    """Return a JPEG picture as a camera's page sends it, red first.

    Raises:
        ClipError: If it is none, larger than 2 million pixels, or a line.
    """
    try:
        (picture,) = av.CodecContext.create("mjpeg", "r").decode(av.Packet(content))
    except (av.FFmpegError, ValueError):
        raise ClipError("it is no JPEG picture", "send JPEG pictures") from None
    assert isinstance(picture, VideoFrame)
    size = f"{picture.width} x {picture.height}"
    if picture.width * picture.height > _MOST_PIXELS_LIVE:
        raise ClipError(f"a picture of {size} pixels is too large", "send smaller ones")
    if (
        max(picture.width, picture.height) > MAX_SIDE
        or min(picture.width, picture.height) < _LEAST_SIDE
    ):
        raise ClipError(f"a picture of {size} pixels is a line", "send pictures of a camera")
    return cast(Picture, picture.to_ndarray(format="rgb24"))


def measure_fps(times_s: Sequence[float], header_fps: float) -> float:
    """Return the header's frame rate, or the measured one where they differ by more than 2 %.

    Browsers and phones write headers that are wrong, and frames at a varying rate.
    """
    span_s = times_s[-1] - times_s[0]
    if span_s <= 0:
        return header_fps
    measured = (len(times_s) - 1) / span_s
    return header_fps if abs(measured / header_fps - 1) <= _SAME_RATE else measured


def thin(shown: Iterable[tuple[float, T]], fps: float) -> Iterator[tuple[float, T]]:
    """Yield of each tick of an even clock what is shown nearest to it, if anything is.

    Args:
        shown: Seconds, and what is shown from then on; in order, the clock starts at the first.
        fps: Ticks a second; 0: yield all.
    """
    if not fps:
        yield from shown
        return
    start_s, last_s, gap_s, tick_s = 0.0, 0.0, 0.0, 0.0
    best: tuple[float, T] | None = None
    for frame in shown:
        time_s, _ = frame
        start_s = start_s if best else time_s
        last_s, gap_s = time_s, time_s - last_s
        its_tick_s = start_s + round((time_s - start_s) * fps) / fps
        if best and its_tick_s != tick_s:
            yield best
        elif best and abs(best[0] - tick_s) <= abs(time_s - tick_s):
            continue
        best, tick_s = frame, its_tick_s
    # Not the last frame for a tick behind it, to which the next one would have been nearer.
    if best and best[0] >= tick_s - gap_s / 2:
        yield best


def even_frames(times_s: Sequence[float], fps: float) -> npt.NDArray[np.int64]:
    """Return which frame is taken for each tick of an even clock.

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


def _open(path: Path | IO[bytes]) -> tuple[InputContainer, VideoStream]:
    start = _first_bytes(path) if isinstance(path, Path) else b""
    if start.startswith((b"#EXTM3U", b"ffconcat")):
        raise ClipError("a playlist, which names other files, is not a video", _CONVERT)
    try:
        # `file:`: a name may look like a protocol.
        name: Any = f"file:{path.absolute()}" if isinstance(path, Path) else path
        options = {} if start else _LIVE
        container = av.open(name, options=options, **_ANY_TITLE)
    except av.FFmpegError:
        raise _no_video() from None
    stream = _choose_stream(container)
    is_picture = container.format.name.endswith("_pipe") or container.format.name == "image2"
    if is_picture or stream is None or stream.codec_context is None:
        container.close()
        if start[8:16] == b"WEBPVP8X" and start[20] & 2:  # its flag of animation
            raise ClipError("an animated .webp, which is not decoded", "make it a .gif or .mp4")
        if is_picture:
            raise ClipError("a picture, not a video", "put the video in its place")
        raise _no_video()
    # A picture may grow in the middle, to more memory than there is.
    stream.codec_context.options = {"max_pixels": str(2 * MAX_PIXELS)}
    stream.codec_context.thread_count = 1  # a worker a core decodes at the same time as the others
    return container, stream


def _first_bytes(path: Path) -> bytes:
    if not path.is_file():
        raise ClipError("the file is missing", "restore it or remove the row from the manifest")
    if path.stat().st_size == 0:
        raise ClipError("the file is empty (0 bytes)", "copy it again from its source")
    try:
        with path.open("rb") as file:
            return file.read(32).lstrip()
    except OSError as error:
        raise ClipError(
            f"the file cannot be opened ({error.strerror})", "restore it and its permissions"
        ) from None


def _choose_stream(container: InputContainer) -> VideoStream | None:
    """Return the film's stream: the default one, as players do, and never a cover."""
    streams = [
        s for s in container.streams.video if not s.disposition & _COVERS and s.codec_context
    ]

    def moves(stream: VideoStream) -> bool:
        """Whether it has a second picture; a lone one is a cover that is not marked as such."""
        if stream.frames or not Path(container.name.removeprefix("file:")).is_file():
            return stream.frames != 1  # a pipe is read once
        with av.open(container.name, **_ANY_TITLE) as again:
            packets = (packet for packet in again.demux(again.streams[stream.index]) if packet.size)
            return len(list(itertools.islice(packets, 2))) == 2

    if len(streams) > 1:
        streams = sorted(
            streams, key=lambda s: (not moves(s), not s.disposition & Disposition.default)
        )
    return streams[0] if streams else None


def find_traits(path: Path) -> dict[str, float]:
    """Return what few films have: `stream` (not the first), `begins_s`, `hdr`, `interlaced`."""
    try:
        with Video(path) as video:
            streams, codec = video._container.streams.video, video._stream.codec_context
            first = next(s for s in streams if not s.disposition & Disposition.attached_pic)
            traits = {
                "stream": video._stream.index * (video._stream.index != first.index),
                "begins_s": round(video.begins_s, 6),
                "hdr": 0 if video._sdr is None else codec.color_trc,
                "interlaced": int(codec.field_order not in _PROGRESSIVE),
            }
    except ClipError:
        return {}
    return {name: value for name, value in traits.items() if value}


@functools.cache
def _sdr_table(transfer: int) -> npt.NDArray[np.float32] | None:
    """Return light by 16 bits of HDR (ITU-R BT.2100), 65535 is white, (65536,); None: no HDR."""
    signal = np.arange(1 << 16) / 0xFFFF
    if transfer == _PQ:
        power = signal ** (1 / 78.84375)
        light = np.maximum(power - 0.8359375, 0) / (18.8515625 - 18.6875 * power)
        light = light ** (1 / 0.1593017578125) * 10_000 / _WHITE_NITS
    elif transfer == _HLG:
        bright = (np.exp((signal - 0.55991073) / 0.17883277) + 0.28466892) / 12
        light = (np.where(signal <= 0.5, signal**2 / 3, bright) / _WHITE_HLG) ** 1.2
    else:
        return None
    room = 1 - _KNEE
    shown = np.where(light < _KNEE, light, 1 - room * np.exp((_KNEE - light) / room))
    return (0xFFFF * shown).astype(np.float32)


def _no_video() -> ClipError:
    return ClipError(
        "no video that can be decoded (not a video, audio only, damaged or unknown codec)",
        f"play it to see; {_CONVERT}",
    )
