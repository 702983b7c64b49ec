"""Writing of videos without sound."""

import os
from fractions import Fraction
from pathlib import Path
from types import TracebackType

import av
from av.video.frame import VideoFrame
from av.video.reformatter import Colorspace

from signloom.detection.video import Picture
from signloom.errors import UserError

SUFFIX = ".webm"  # every browser plays it, and H.264, whose encoder in PyAV is under the GPL
_FAST = {"deadline": "realtime", "cpu-used": "8", "row-mt": "1", "crf": "30"}


class VideoWriter:
    """Writes a video without sound, whole or not at all: the file appears when all went well.

    Args:
        path: A .webm file (VP9); its folder is made if need be.
        fps: Frames a second.
        width: Pixels of each frame, even.
        height: Pixels of each frame, even.

    Raises:
        UserError: If the file cannot be written.
    """

    def __init__(self, path: Path, *, fps: float, width: int, height: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._size = path, (height, width)
        self._temporary = path.with_name(f".{path.stem}.{os.getpid()}.tmp{path.suffix}")
        try:
            self._container = av.open(
                f"file:{self._temporary.absolute()}",
                "w",
                format="webm",
                options={"fflags": "+bitexact"},  # no random identifiers
            )
            rate = Fraction(fps).limit_denominator(1001)
            self._stream = self._container.add_stream("libvpx-vp9", rate=rate, options=_FAST)
            self._stream.width, self._stream.height = width, height
            self._stream.pix_fmt = "yuv420p"
            # Said, or players take big pictures for the other standard, BT.709.
            self._stream.codec_context.colorspace = Colorspace.ITU601
            self._container.start_encoding()
        except (av.FFmpegError, ValueError) as error:
            self._temporary.unlink(missing_ok=True)
            raise UserError(
                f"{path}: no video of {width}x{height} at {fps:g} frames/s can be written there "
                f"({error}); check that the folder is writable"
            ) from error

    def __enter__(self) -> "VideoWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._container.mux(self._stream.encode(None))
            self._container.close()
            if kind is None:
                self._temporary.replace(self._path)
        finally:
            self._temporary.unlink(missing_ok=True)

    def write(self, rgb: Picture) -> None:
        """Append a frame.

        Raises:
            ValueError: If it has another size than the video.
        """
        if rgb.shape[:2] != self._size:
            raise ValueError(f"the frame is {rgb.shape[:2]}, expected {self._size}")
        self._container.mux(self._stream.encode(VideoFrame.from_ndarray(rgb, format="rgb24")))
