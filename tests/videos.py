"""Small video files, good and bad ones, made on the spot."""

import struct
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
import numpy.typing as npt
from av.stream import Disposition

WIDTH, HEIGHT, FPS = 96, 64, 25.0


def numbered_frame(number: int) -> npt.NDArray[np.uint8]:
    """A BGR frame with a blue bar on the left edge and its number as 8 green or black bars."""
    frame = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    frame[:, :16] = (255, 0, 0)
    for bit in range(8):
        frame[:, 16 + 10 * bit : 26 + 10 * bit, 1] = 255 * (number >> bit & 1)
    return frame


def number_of(rgb: npt.NDArray[np.uint8]) -> int:
    """The number of a decoded upright frame of any size."""
    height, width = rgb.shape[:2]
    middles = [round((21 + 10 * bit) * width / WIDTH) for bit in range(8)]
    return sum(1 << bit for bit, x in enumerate(middles) if rgb[height // 2, x, 1] > 127)


def write_video(path: Path, frames: int = 50, fps: float = FPS, fourcc: str = "mp4v") -> Path:
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*fourcc), fps, (WIDTH, HEIGHT))
    assert writer.isOpened()
    for number in range(frames):
        writer.write(numbered_frame(number))
    writer.release()
    return path


def encode_video(
    path: Path,
    times_s: Iterable[float],
    *,
    codec: str = "libx264",
    rate: int = 25,
    size: tuple[int, int] = (WIDTH, HEIGHT),
    rotation: int = 0,
    matrix: Sequence[int] = (),
    pixel_aspect: Fraction | None = None,
    pixels: str = "yuv420p",
    options: Mapping[str, str] = {"preset": "ultrafast"},
    container: Mapping[str, str] = {},
) -> Path:
    """Numbered frames with these times, in the container that the suffix names.

    Args:
        path: The file.
        times_s: Of each frame; whole numbers of 1/6000 s.
        codec: FFmpeg's name of the encoder.
        rate: Frames a second by the header, whatever the times.
        size: Width and height of the stored picture.
        rotation: Degrees counterclockwise by which a player is told to turn it.
        matrix: Or the nine numbers of the display matrix.
        pixel_aspect: Width over height of a pixel.
        pixels: FFmpeg's name of their format.
        options: Of the encoder.
        container: Options of the container.
    """
    tick = Fraction(1, 6000)
    with av.open(str(path), "w", options=dict(container)) as out:
        stream = out.add_stream(codec, rate=rate, options=dict(options))
        stream.width, stream.height = size
        stream.pix_fmt = pixels
        stream.time_base = stream.codec_context.time_base = tick
        if pixel_aspect:
            stream.codec_context.sample_aspect_ratio = pixel_aspect
        if rotation:
            stream.set_display_rotation(rotation)
        if matrix:
            stream.set_display_matrix(matrix)
        for number, time_s in enumerate(times_s):
            frame = _picture(number, size, round(time_s / tick))
            frame.time_base = tick
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    return path


def encode_constant(path: Path, codec: str, frames: int = 50) -> Path:
    """Numbered frames at 25 a second, which are the ticks of the file too: as old formats want."""
    options = {
        "libx264": {"bf": "3"},
        "mpeg4": {"bf": "2"},
        "mpeg2video": {"bf": "2"},  # B-frames
        "libx265": {"x265-params": "log-level=none"},
        "libvpx-vp9": {"cpu-used": "8"},
    }
    with av.open(str(path), "w") as out:
        stream = out.add_stream(codec, rate=25, options=options.get(codec, {}))
        stream.width, stream.height = 2 * WIDTH, 2 * HEIGHT
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        for number in range(frames):
            out.mux(stream.encode(_picture(number, (2 * WIDTH, 2 * HEIGHT), number)))
        out.mux(stream.encode(None))
    return path


def encode_beside(
    path: Path,
    frames: int = 50,
    *,
    late_s: float = 0.0,
    codec_beside: str = "pcm_s16le",
    main: bool = True,
) -> Path:
    """Numbered frames at 25 a second as the second stream, after sound or a lone picture.

    Args:
        path: The file.
        frames: How many.
        late_s: When the first of them is shown; the other stream begins at 0.
        codec_beside: Encoder of the other stream: sound, or `mjpeg`.
        main: Whether the frames are a default stream; the other one always is.
    """
    with av.open(str(path), "w") as out:
        first = out.add_stream(codec_beside, rate=25 if codec_beside == "mjpeg" else 16_000)
        stream = out.add_stream("libx264", rate=25, options={"preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        first.disposition, stream.disposition = Disposition.default, Disposition(int(main))
        if codec_beside == "mjpeg":
            first.width, first.height, first.pix_fmt = 320, 240, "yuvj420p"
            out.mux([*first.encode(_picture(255, (320, 240), 0)), *first.encode(None)])
        else:
            first.layout = "mono"
            sound = av.AudioFrame.from_ndarray(np.zeros((1, 1152), np.int16), layout="mono")
            sound.sample_rate = 16_000
            for start in range(0, round((late_s + frames / 25) * 16_000), 1152):
                sound.pts = start
                out.mux(first.encode(sound))
        for number in range(frames):
            picture = _picture(number, (WIDTH, HEIGHT), number + round(late_s * 25))
            out.mux(stream.encode(picture))
        out.mux(stream.encode(None))
    return path


def encode_sizes(path: Path, codec: str, sizes: Sequence[tuple[int, int]], frames: int) -> Path:
    """So many numbered frames of each size, in one stream, at 25 frames/s; as video calls do."""
    with av.open(str(path), "w") as out:
        stream = out.add_stream(codec, rate=25)
        (stream.width, stream.height), stream.pix_fmt = sizes[0], "yuv420p"
        stream.time_base = Fraction(1, 25)
        for part, size in enumerate(sizes):
            encoder = av.codec.CodecContext.create(codec, "w") if part else stream.codec_context
            (encoder.width, encoder.height), encoder.pix_fmt = size, "yuv420p"
            encoder.time_base, encoder.framerate = Fraction(1, 25), 25
            pictures = [_picture(n, size, n) for n in range(part * frames, (part + 1) * frames)]
            for picture in (*pictures, None):
                for packet in encoder.encode(picture):
                    packet.stream = stream
                    out.mux(packet)
    return path


def encode_animation(path: Path, frames: int) -> Path:
    """A .gif of numbered frames at 10 a second."""
    with av.open(str(path), "w") as out:
        stream = out.add_stream("gif", rate=10)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "rgb8"
        for number in range(frames):
            picture = _picture(number, (WIDTH, HEIGHT), number)
            out.mux(stream.encode(picture.reformat(format="rgb8")))
        out.mux(stream.encode(None))
    return path


def _picture(number: int, size: tuple[int, int], pts: int) -> av.VideoFrame:
    picture = cv2.resize(numbered_frame(number % 256), size, interpolation=cv2.INTER_NEAREST)
    frame = av.VideoFrame.from_ndarray(picture, format="bgr24")
    frame.pts = pts
    return frame


def write_picture(path: Path, kind: str) -> Path:
    """A picture of this kind (`png`, `jpg`, ...) under a video's name."""
    path.write_bytes(cv2.imencode(f".{kind}", numbered_frame(5))[1].tobytes())
    return path


def write_pictures(folder: Path, name: str = "{}.png", numbers: Iterable[int] = range(5)) -> Path:
    """A folder of numbered frames as pictures; `name` says how their number is written."""
    folder.mkdir(parents=True)
    for number in numbers:
        path = folder / name.format(number)
        path.write_bytes(cv2.imencode(path.suffix, numbered_frame(number))[1].tobytes())
    return folder


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


def write_late_edit_list(path: Path) -> Path:
    """An .mp4 of 25 frames that its player shows from the fourth on, for as long as all 25 last."""
    raw = bytearray(encode_video(path, [number / 25 for number in range(25)]).read_bytes())
    scale, edit = (raw.index(name) + 4 for name in (b"mdhd", b"elst"))
    ticks, start = (struct.unpack_from(">i", raw, at)[0] for at in (scale + 12, edit + 12))
    struct.pack_into(">i", raw, edit + 12, start + round(0.12 * ticks))
    path.write_bytes(raw)
    return path


def write_lasting_frame(path: Path) -> Path:
    """22 frames at 25 a second in an .mp4, the last one shown for four ticks."""
    source_path = encode_video(
        path.with_suffix(".whole.mp4"), [number / 25 for number in range(22)]
    )
    with av.open(str(source_path)) as source, av.open(str(path), "w") as out:
        stream = out.add_stream_from_template(source.streams.video[0])
        packets = [packet for packet in source.demux(video=0) if packet.size]
        packets[-1].duration = 4 * packets[-1].duration
        for packet in packets:
            packet.stream = stream
            out.mux(packet)
    return path


def write_audio(path: Path) -> Path:
    """A second of silence, as .wav data."""
    samples = bytes(2 * 8000)
    header = struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        b"RIFF",
        36 + len(samples),
        b"WAVE",
        b"fmt ",
        16,
        1,
        1,
        8000,
        16000,
        2,
        16,
        b"data",
        len(samples),
    )
    path.write_bytes(header + samples)
    return path


def write_cover(path: Path) -> Path:
    """Sound with a picture of its cover, as .mp3 data."""
    with av.open(str(path), "w", format="mp3") as out:
        sound = out.add_stream("libmp3lame", rate=44100)
        cover = out.add_stream("mjpeg", rate=1)
        cover.width, cover.height, cover.pix_fmt = WIDTH, HEIGHT, "yuvj420p"
        cover.disposition = av.stream.Disposition.attached_pic
        out.mux(cover.encode(_picture(1, (WIDTH, HEIGHT), 0)))
        out.mux(cover.encode(None))
        silence = av.AudioFrame.from_ndarray(np.zeros((1, 1152), np.float32), "fltp", "mono")
        silence.sample_rate, silence.pts = 44100, 0
        out.mux(sound.encode(silence))
        out.mux(sound.encode(None))
    return path


def set_matroska_seconds(path: Path, seconds: float) -> Path:
    """Make the header of an .mkv claim another duration."""
    raw = bytearray(path.read_bytes())
    place = raw.index(b"\x44\x89\x88") + 3  # Duration, 8 bytes, in milliseconds
    raw[place : place + 8] = struct.pack(">d", 1000 * seconds)
    path.write_bytes(raw)
    return path
