"""Small video files, good and bad ones, made on the spot."""

import struct
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

WIDTH, HEIGHT, FPS = 96, 64, 25.0


def numbered_frame(number: int) -> npt.NDArray[np.uint8]:
    """A BGR frame with a blue bar on the left edge and its number as 8 green or black bars."""
    frame = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    frame[:, :16] = (255, 0, 0)
    for bit in range(8):
        frame[:, 16 + 10 * bit : 26 + 10 * bit, 1] = 255 * (number >> bit & 1)
    return frame


def number_of(rgb: npt.NDArray[np.uint8]) -> int:
    """The number of a decoded frame."""
    return sum(1 << bit for bit in range(8) if rgb[32, 21 + 10 * bit, 1] > 127)


def write_video(path: Path, frames: int = 50, fps: float = FPS, fourcc: str = "mp4v") -> Path:
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*fourcc), fps, (WIDTH, HEIGHT))
    assert writer.isOpened()
    for number in range(frames):
        writer.write(numbered_frame(number))
    writer.release()
    return path


def write_rotated(path: Path) -> Path:
    """A video that lies on its side, with the note to turn it by 90 degrees clockwise."""
    raw = bytearray(write_video(path).read_bytes())
    matrix = raw.index(b"tkhd") + 4 + 4 + 20 + 8 + 8  # name, flags, times and ids, reserved, ...
    one = 1 << 16  # fixed point
    raw[matrix : matrix + 36] = struct.pack(">9i", 0, one, 0, -one, 0, 0, HEIGHT * one, 0, 1 << 30)
    path.write_bytes(raw)
    return path


def write_truncated(path: Path) -> Path:
    """An .avi whose header promises twice the frames that are there."""
    raw = write_video(path, frames=80, fourcc="MJPG").read_bytes()
    path.write_bytes(raw[: len(raw) // 2])
    return path


def write_cut_off(path: Path) -> Path:
    """An .mp4 that lost its end, and with it its table of contents."""
    raw = write_video(path).read_bytes()
    path.write_bytes(raw[: len(raw) // 2])
    return path


def write_fps(path: Path, timescale: int, step: int) -> Path:
    """An .mp4 whose track says `timescale` ticks a second and `step` ticks a frame."""
    raw = bytearray(write_video(path).read_bytes())
    mdhd, stts = raw.index(b"mdhd") + 4 + 4 + 8, raw.index(b"stts") + 4 + 4 + 4 + 4
    raw[mdhd : mdhd + 4] = struct.pack(">i", timescale)
    raw[stts : stts + 4] = struct.pack(">i", step)
    path.write_bytes(raw)
    return path


def write_audio(path: Path) -> Path:
    """A second of silence, as .wav data."""
    samples = bytes(2 * 8000)
    header = struct.pack(
        "<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(samples), b"WAVE", b"fmt ", 16, 1, 1, 8000, 16000,
        2, 16, b"data", len(samples),
    )  # fmt: skip
    path.write_bytes(header + samples)
    return path
