"""Odd and broken files, real ones: the right frames, or an error that says why and what to do.

docs/extraction.md says the same for users.
"""

import os
import struct
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
import pytest
from av.video.reformatter import Colorspace
from PIL import Image

from signloom.detection.video import Frame, Video, even_frames, find_traits, measure_fps
from signloom.errors import ClipError
from signloom_tools.importing.new_corpus import VideoFolder
from tests import videos
from tests.tiny import ROOT

TWO_SECONDS = [number / 25 for number in range(50)]
FOUR_SECONDS = [number / 25 for number in range(100)]


def read(path: Path, start_s: float | None = None, end_s: float | None = None) -> list[Frame]:
    with Video(path) as video:
        frames = list(video.frames(start_s, end_s))
    assert all(before.time_s < after.time_s for before, after in pairwise(frames))
    return frames


def numbers(path: Path, start_s: float | None = None, end_s: float | None = None) -> list[int]:
    return [videos.number_of(frame.rgb) for frame in read(path, start_s, end_s)]


# Files that are odd and must be right.


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("a.mp4", "libx264"),
        ("a.mp4", "libx265"),
        ("a.mov", "libx264"),
        ("a.mkv", "libx264"),
        ("a.webm", "libvpx"),
        ("a.webm", "libvpx-vp9"),
        ("a.mp4", "libsvtav1"),
        ("a.avi", "mjpeg"),
        ("a.ts", "libx264"),
        ("a.flv", "libx264"),
        ("a.wmv", "wmv2"),
    ],
)
def test_every_usual_container_gives_each_frame_at_its_time(
    tmp_path: Path, name: str, codec: str
) -> None:
    path = videos.encode_constant(tmp_path / name, codec)
    frames = read(path)
    assert [videos.number_of(frame.rgb) for frame in frames] == list(range(50))
    np.testing.assert_allclose([frame.time_s for frame in frames], TWO_SECONDS, atol=1e-3)
    assert numbers(path, 0.4, 0.8) == list(range(10, 20))


@pytest.mark.parametrize(
    ("name", "codec", "late"),
    [
        # The first frame of an .avi with B-frames is late by as many frames as it reorders.
        ("a.avi", "mpeg4", 1),
        ("a.avi", "libx264", 2),
        ("a.mpg", "mpeg2video", 0),
        ("a.mpg", "mpeg1video", 0),
        ("a.h264", "libx264", 0),
    ],
)
def test_frames_without_times_of_their_own_are_counted(
    tmp_path: Path, name: str, codec: str, late: int
) -> None:
    path = videos.encode_constant(tmp_path / name, codec, frames=120)
    frames = read(path)
    assert [videos.number_of(frame.rgb) for frame in frames] == list(range(120))
    times = [frame.time_s - late / 25 for frame in frames]
    np.testing.assert_allclose(times, np.arange(120) / 25, atol=1e-3)
    assert numbers(path, 4.0, 4.4) == list(range(100 - late, 110 - late))  # after a seek


def test_joined_transport_streams_go_on_where_the_clock_starts_again(tmp_path: Path) -> None:
    part = videos.encode_constant(tmp_path / "part.ts", "libx264").read_bytes()
    (tmp_path / "joined.ts").write_bytes(part + part)
    frames = read(tmp_path / "joined.ts")
    assert [videos.number_of(frame.rgb) for frame in frames] == [*range(50), *range(50)]
    np.testing.assert_allclose([f.time_s for f in frames], np.arange(100) / 25, atol=1e-3)


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "webm"])
def test_at_a_varying_rate_every_tick_shows_what_was_on_screen(tmp_path: Path, suffix: str) -> None:
    steps = [1 / 60] * 60 + [1 / 15] * 60 + [0.5] + [1 / 30] * 40
    times_s = [float(time) for time in np.cumsum([0.0, *steps])]
    codec = "libvpx" if suffix == "webm" else "libx264"
    path = videos.encode_video(
        tmp_path / f"phone.{suffix}", times_s, codec=codec, rate=30, options={}
    )
    with Video(path) as video:
        frames = list(video.frames())
        fps = measure_fps([frame.time_s for frame in frames], video.fps)
    assert [videos.number_of(frame.rgb) for frame in frames] == list(range(len(times_s)))
    frame_times = [frame.time_s for frame in frames]
    np.testing.assert_allclose(frame_times, times_s, atol=1e-3)  # Matroska counts milliseconds
    even = even_frames(frame_times, fps)
    ticks = np.arange(len(even)) / fps
    assert abs(ticks[-1] - times_s[-1]) < 1 / fps
    # No other frame is nearer to the tick than the one that stands for it.
    distance = np.abs(np.array(times_s)[even] - ticks)
    nearest = np.abs(np.array(times_s)[:, None] - ticks).min(axis=0)
    np.testing.assert_allclose(distance, nearest, atol=2e-3)


@pytest.mark.parametrize("suffix", ["mp4", "mov", "mkv"])
@pytest.mark.parametrize(
    ("rotation", "edge"), [(90, "bottom"), (180, "right"), (270, "top"), (0, "left")]
)
def test_a_note_to_turn_the_picture_is_followed(
    tmp_path: Path, suffix: str, rotation: int, edge: str
) -> None:
    path = tmp_path / f"phone.{suffix}"
    videos.encode_video(path, TWO_SECONDS[:3], rotation=rotation)
    for frame in read(path):
        size = (64, 96) if rotation in (0, 180) else (96, 64)
        assert frame.rgb.shape == (*size, 3)
        assert blue_edge(frame.rgb) == edge  # the blue bar was on the left


def blue_edge(rgb: npt.NDArray[np.uint8]) -> str:
    edges = {"left": rgb[:, 2:8], "right": rgb[:, -8:-2], "top": rgb[2:8], "bottom": rgb[-8:-2]}
    return max(edges, key=lambda name: float(edges[name][..., 2].mean()))


@pytest.mark.parametrize(
    ("aspect", "rotation", "expected"),
    [
        (Fraction(16, 15), 0, (64, 102)),  # PAL on an old television
        (Fraction(64, 45), 0, (64, 137)),  # PAL on a wide one
        (Fraction(8, 9), 0, (72, 96)),  # NTSC; no pixel gets lost
        (Fraction(4, 3), 90, (128, 64)),  # a quarter turn takes the stretch with it
        (Fraction(1, 1), 0, (64, 96)),
        (Fraction(99, 1), 0, (64, 96)),  # nobody's pixels
    ],
)
def test_pixels_become_square(
    tmp_path: Path, aspect: Fraction, rotation: int, expected: tuple[int, int]
) -> None:
    path = tmp_path / "television.mp4"
    videos.encode_video(path, TWO_SECONDS[:3], pixel_aspect=aspect, rotation=rotation)
    frames = read(path)
    assert {frame.rgb.shape for frame in frames} == {(*expected, 3)}
    if not rotation:
        assert [videos.number_of(frame.rgb) for frame in frames] == [0, 1, 2]


def test_portrait_and_4k_and_120_frames_a_second(tmp_path: Path) -> None:
    portrait = videos.encode_video(tmp_path / "p.mp4", TWO_SECONDS[:3], size=(270, 480))
    assert {frame.rgb.shape for frame in read(portrait)} == {(480, 270, 3)}
    big = videos.encode_video(tmp_path / "b.mp4", TWO_SECONDS[:3], size=(3840, 2160))
    assert {frame.rgb.shape for frame in read(big)} == {(2160, 3840, 3)}
    assert numbers(big) == [0, 1, 2]
    times_s = [number / 120 for number in range(240)]
    fast = videos.encode_video(tmp_path / "f.mp4", times_s, rate=120)
    frames = read(fast)
    assert [videos.number_of(frame.rgb) for frame in frames] == list(range(240))
    frame_times = [frame.time_s for frame in frames]
    assert measure_fps(frame_times, 120.0) == 120
    assert even_frames(frame_times, 120.0).tolist() == list(range(240))
    assert numbers(fast, 1.0, 1.05) == list(range(120, 126))


@pytest.mark.parametrize(
    ("name", "codec", "pixels", "size"),
    [
        ("a.mp4", "libx265", "yuv420p10le", (96, 64)),  # as phones record HDR
        ("a.mkv", "ffv1", "gray", (96, 64)),
        ("a.mov", "qtrle", "argb", (96, 64)),
        ("a.mp4", "libx264", "yuv444p", (96, 64)),
        ("a.mov", "prores_ks", "yuv422p10le", (96, 64)),
        ("a.mkv", "ffv1", "yuv420p", (97, 65)),
    ],
)
def test_deep_grey_and_transparent_pixels_and_odd_sizes_become_plain_pictures(
    tmp_path: Path, name: str, codec: str, pixels: str, size: tuple[int, int]
) -> None:
    options = {"x265-params": "log-level=none"} if codec == "libx265" else {}
    path = videos.encode_video(
        tmp_path / name, TWO_SECONDS[:5], codec=codec, pixels=pixels, options=options, size=size
    )
    frames = read(path)
    assert {frame.rgb.shape for frame in frames} == {(size[1], size[0], 3)}
    assert [videos.number_of(frame.rgb) for frame in frames] == list(range(5))


def test_colours_are_those_that_the_video_says_it_has(tmp_path: Path) -> None:
    colours = []
    for colorspace in (Colorspace.ITU601, Colorspace.ITU709):
        path = tmp_path / f"{colorspace.name}.mp4"
        with av.open(str(path), "w") as out:
            stream = out.add_stream("libx264", rate=25, options={"qp": "0"})
            stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
            stream.codec_context.colorspace = 1 if colorspace == Colorspace.ITU709 else 6
            green = np.full((64, 64, 3), (0, 200, 0), np.uint8)
            frame = av.VideoFrame.from_ndarray(green).reformat(
                format="yuv420p", dst_colorspace=colorspace
            )
            out.mux([*stream.encode(frame), *stream.encode(None)])
        colours.append(read(path)[0].rgb[32, 32])
    for colour in colours:
        np.testing.assert_allclose(colour, (0, 200, 0), atol=3)


def test_a_frame_that_an_avi_leaves_out_does_not_end_it(tmp_path: Path) -> None:
    path = tmp_path / "dropped.avi"
    times_s = [number / 25 for number in range(60) if not 10 <= number < 13]
    videos.encode_video(path, times_s, codec="mjpeg", pixels="yuvj420p", options={})
    frames = read(path)
    assert [videos.number_of(frame.rgb) for frame in frames] == list(range(57))
    np.testing.assert_allclose([frame.time_s for frame in frames], times_s, atol=1e-3)


def test_a_stream_that_was_cut_out_begins_with_its_first_whole_frame(tmp_path: Path) -> None:
    raw = videos.encode_constant(tmp_path / "whole.ts", "mpeg2video", frames=100).read_bytes()
    (tmp_path / "cut.ts").write_bytes(raw[len(raw) // 3 // 188 * 188 :])
    indices = numbers(tmp_path / "cut.ts")
    assert indices == list(range(indices[0], 100))
    assert indices[0] < 60


def test_an_animated_picture_is_a_video(tmp_path: Path) -> None:
    frames = read(videos.encode_animation(tmp_path / "a.gif", frames=6))
    assert [videos.number_of(frame.rgb) for frame in frames] == list(range(6))
    np.testing.assert_allclose([frame.time_s for frame in frames], np.arange(6) / 10, atol=1e-3)


def test_one_frame_is_a_video_and_a_picture_is_not(tmp_path: Path) -> None:
    assert numbers(videos.encode_video(tmp_path / "one.mp4", [0.0])) == [0]
    pictures = [Image.new("RGB", (32, 32), colour) for colour in ("red", "blue")]
    pictures[0].save(tmp_path / "moving.webp", save_all=True, append_images=pictures[1:])
    if int(av.__version__.split(".")[0]) < 19:
        with pytest.raises(ClipError, match="an animated"):
            Video(tmp_path / "moving.webp")
    else:
        assert len(read(tmp_path / "moving.webp")) == 2
    for kind in ("png", "jpg", "bmp", "webp"):
        with pytest.raises(ClipError, match=r"^a picture, not a video; put the video in its"):
            read(videos.write_picture(tmp_path / f"{kind}.mp4", kind))


@pytest.mark.parametrize(
    "name",
    [
        "with space.mp4",
        "-dash.mp4",
        "--help",
        "größe é.mp4",
        "per%03dcent%s.mp4",
        "a#b?c&d.mp4",
        unicodedata.normalize("NFC", "Éléonore.mp4"),
        unicodedata.normalize("NFD", "Éléonore.mp4"),
        "日本手話 🤟🏽.mp4",
        "עברית.mp4",
        "quote'\"s.mp4",
        "no_suffix",
        "MOVIE.MP4",
        "x" * 251 + ".mp4",
        "file:a.mp4",
        "concat:a|b.mp4",
        "*?[a].mp4",
        "new\nline.mp4",
        os.fsdecode(b"caf\xe9.mp4"),
    ],
)
def test_odd_names_are_names(tmp_path: Path, name: str) -> None:
    path = videos.write_video(tmp_path / "plain.mp4", frames=3).rename(tmp_path / name)
    assert numbers(path) == [0, 1, 2]
    (tmp_path / "link.mp4").symlink_to(path)  # as DVC keeps big files
    assert numbers(tmp_path / "link.mp4") == [0, 1, 2]


@pytest.mark.parametrize("suffix", ["mp4", "mov", "mkv", "avi"])
def test_a_title_that_is_not_utf_8_costs_no_frame(tmp_path: Path, suffix: str) -> None:
    # With a cover, for which the film is opened a second time.
    path = videos.encode_beside(tmp_path / f"titled.{suffix}", codec_beside="mjpeg")
    raw = path.read_bytes()
    assert b"Lavf" in raw  # FFmpeg's own tag
    path.write_bytes(raw.replace(b"Lavf", b"L\xe4\xffv"))
    assert numbers(path) == list(range(50))


@pytest.mark.parametrize("claimed_s", [0.4, 4.2, 0.0])
def test_a_header_that_is_wrong_about_the_length_costs_no_frame(
    tmp_path: Path, claimed_s: float
) -> None:
    path = videos.encode_video(tmp_path / "a.mkv", FOUR_SECONDS)
    assert len(read(videos.set_matroska_seconds(path, claimed_s))) == 100


@pytest.mark.parametrize("suffix", ["mkv", "webm", "mp4", "avi"])
def test_times_win_over_a_header_that_is_wrong_about_the_rate(tmp_path: Path, suffix: str) -> None:
    codec = {"webm": "libvpx", "avi": "mpeg4"}.get(suffix, "libx264")
    path = videos.encode_video(
        tmp_path / f"a.{suffix}", TWO_SECONDS, codec=codec, rate=60, options={}
    )
    with Video(path) as video:
        times_s = [frame.time_s for frame in video.frames()]
        # The last frame of this .mp4 lasts 1/60 s, which its header counts in.
        assert measure_fps(times_s, video.fps) == pytest.approx(25.0, rel=0.013)
    assert even_frames(times_s, 25.0).tolist() == list(range(50))


@pytest.mark.parametrize("is_main", [True, False])
@pytest.mark.parametrize("suffix", ["mp4", "mov", "mkv", "avi"])
def test_a_lone_picture_before_the_film_is_no_film(
    tmp_path: Path, suffix: str, is_main: bool
) -> None:
    path = tmp_path / f"cover.{suffix}"
    videos.encode_beside(path, codec_beside="mjpeg", main=is_main)
    assert numbers(path) == list(range(50))
    assert find_traits(path) == {"stream": 1}


@pytest.mark.parametrize(
    ("suffix", "sound"), [("mov", "pcm_s16le"), ("mkv", "flac"), ("ts", "mp2")]
)
def test_time_begins_with_the_sound_as_players_count(
    tmp_path: Path, suffix: str, sound: str
) -> None:
    path = videos.encode_beside(tmp_path / f"late.{suffix}", late_s=3.0, codec_beside=sound)
    frames = read(path)
    # A transport stream and MP2 have a delay of their own, of a few hundredths of a second.
    assert frames[0].time_s == pytest.approx(3.0, abs=0.1)
    assert find_traits(path) == {"begins_s": pytest.approx(frames[0].time_s)}
    assert [videos.number_of(frame.rgb) for frame in frames] == list(range(50))
    start_s = frames[0].time_s + 1
    assert numbers(path, start_s) == list(range(25, 50))
    assert numbers(path, 0.5, start_s) == list(range(25))
    with Video(path) as video:
        assert video.duration_s == pytest.approx(frames[0].time_s + 2, abs=0.1)
        assert video.count_frames() == pytest.approx(50, abs=2)


@pytest.mark.parametrize("transfer", ["smpte2084", "arib-std-b67"])
def test_a_film_in_hdr_looks_like_the_same_in_sdr(tmp_path: Path, transfer: str) -> None:
    # A grey as BT.2100 writes it when the white of SDR has 203 nits: its curves by the textbook.
    shown = np.array([0.2, 0.5, 0.8])
    light = shown**2.4
    if transfer == "smpte2084":
        power = (light * 203 / 10_000) ** 0.1593017578125
        signal = ((0.8359375 + 18.8515625 * power) / (1 + 18.6875 * power)) ** 78.84375
    else:
        scene = light ** (1 / 1.2) * 0.265
        bright = 0.17883277 * np.log(np.maximum(12 * scene - 0.28466892, 1e-9)) + 0.55991073
        signal = np.where(scene <= 1 / 12, np.sqrt(3 * scene), bright)
    path = tmp_path / "hdr.mkv"
    with av.open(str(path), "w") as out:
        tags = f"log-level=none:qp=0:colorprim=bt2020:transfer={transfer}:colormatrix=bt2020nc"
        stream = out.add_stream("libx265", rate=25, options={"x265-params": tags})
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p10le"
        frame = av.VideoFrame(96, 64, "yuv420p10le")
        bars = np.repeat(np.rint(64 + 876 * signal), 32).astype("<u2")
        for plane, row in zip(frame.planes, (bars, *[np.full(48, 512, "<u2")] * 2), strict=True):
            padded = np.pad(row, (0, plane.line_size // 2 - len(row)))
            plane.update(np.tile(padded, (plane.height, 1)).tobytes())
        out.mux([*stream.encode(frame), *stream.encode(None)])
    pixels = read(path)[0].rgb[32, [16, 48, 80]]
    np.testing.assert_allclose(pixels, np.tile(255 * shown[:, None], 3), atol=2)
    assert find_traits(path).keys() == {"hdr"}


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("00012.MTS", "libx264"),
        ("a.mxf", "mpeg2video"),
        ("a.vob", "mpeg2video"),
        ("a.3g2", "libx264"),
        ("a.f4v", "libx264"),
        ("a.qt", "libx264"),
        ("a.nut", "mjpeg"),
    ],
)
def test_files_of_camcorders_and_discs_are_films(tmp_path: Path, name: str, codec: str) -> None:
    muxers = {".mts": "mpegts", ".f4v": "mp4", ".qt": "mov"}
    path = tmp_path / name
    encoded = tmp_path / f"made.{muxers.get(path.suffix.lower(), path.suffix[1:])}"
    encoded = encoded.with_suffix(".ts") if encoded.suffix == ".mpegts" else encoded
    videos.encode_constant(encoded, codec).rename(path)
    assert VideoFolder(tmp_path).find(path.stem)[0] == Path(name)
    assert numbers(path) == list(range(50))


def test_pictures_that_start_after_the_sound_are_not_called_damaged(tmp_path: Path) -> None:
    late = [1 + time_s for time_s in TWO_SECONDS]  # Matroska counts its duration from 0
    for suffix in ("mkv", "mp4"):
        frames = read(videos.encode_video(tmp_path / f"late.{suffix}", late))
        assert [videos.number_of(frame.rgb) for frame in frames] == list(range(50))
        assert frames[0].time_s == 0  # times are those of the pictures


# Files that cannot be right: each says why, and what to do.


def write_text(path: Path) -> Path:
    path.write_text("not a video\n" * 100)
    return path


def write_empty(path: Path) -> Path:
    path.write_bytes(b"")
    return path


def write_part(suffix: str, share: float, **options: object) -> Callable[[Path], Path]:
    """The first part of a file of four seconds."""

    def write(path: Path) -> Path:
        codec = "libvpx" if suffix == "webm" else "libx264"
        container = {"movflags": "faststart"} if options.get("faststart") else {}
        source_path = path.with_suffix(f".whole.{suffix}")
        videos.encode_video(source_path, FOUR_SECONDS, codec=codec, container=container)
        raw = source_path.read_bytes()
        path.write_bytes(raw[: int(share * len(raw))])
        return path

    return write


def write_hole(path: Path) -> Path:
    times_s = [*TWO_SECONDS, *(27 + time_s for time_s in TWO_SECONDS)]
    return videos.encode_video(path, times_s)


def write_lying_duration(path: Path) -> Path:
    return videos.set_matroska_seconds(videos.encode_video(path, FOUR_SECONDS), 40.0)


BROKEN = [
    ("missing.mp4", lambda path: path, "the file is missing", "restore it or remove the row"),
    ("empty.mp4", write_empty, "the file is empty (0 bytes)", "copy it again"),
    ("text.mp4", write_text, "no video that can be decoded", "play it to see"),
    ("sound.mp4", videos.write_audio, "(not a video, audio only, damaged or unknown", "play it"),
    ("song.mp3", videos.write_cover, "no video that can be decoded", "play it to see"),
    ("index_at_the_end.mp4", videos.write_cut_off, "no video that can be decoded", "play it"),
    ("fast.mp4", lambda path: videos.write_fps(path, 90000, 1), "frames a second", "-r 25"),
    ("half.mp4", write_part("mp4", 0.6, faststart=True), "s of 4.00 s: truncated", "copy the file"),
    (
        "start.mp4",
        write_part("mp4", 0.1, faststart=True),
        "no frame can be decoded from 0 s on (codec h264)",
        "copy it again",
    ),
    ("half.mkv", write_part("mkv", 0.5), "s of 4.00 s: truncated", "copy the file"),
    ("half.webm", write_part("webm", 0.5), "s of 4.00 s: truncated", "copy the file"),
    ("half.avi", videos.write_truncated, "truncated or damaged", "copy the file"),
    ("long.mkv", write_lying_duration, "decoding stops at 4.00 s of 40.00 s", "an end_s before"),
    ("paused.mp4", write_hole, "to 27.00 s: damaged times, or the recording", "on one side"),
]


@pytest.mark.parametrize(("name", "write", "reason", "hint"), BROKEN)
def test_what_cannot_be_read_says_why_and_what_to_do(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    name: str,
    write: Callable[[Path], Path],
    reason: str,
    hint: str,
) -> None:
    path = write(tmp_path / name)
    capfd.readouterr()  # an encoder may speak
    with pytest.raises(ClipError) as caught:
        read(path)
    assert reason in caught.value.problem.reason
    assert hint in caught.value.problem.hint
    assert not set("\t\n") & set(str(caught.value))  # it becomes a field of a table
    assert capfd.readouterr().err == ""  # FFmpeg's own remarks stay away


@pytest.mark.parametrize("write", [videos.write_late_edit_list, videos.write_lasting_frame])
def test_a_whole_film_that_promises_too_much_is_kept_and_counted(
    tmp_path: Path, write: Callable[[Path], Path]
) -> None:
    """25 counted, 22 decoded without error: dictionaries' clips were rejected as truncated."""
    path = write(tmp_path / "a.mp4")
    with Video(path) as video:
        assert len(list(video.frames())) == 22
        assert video.missing_frames == 3
    with Video(path) as video:
        assert len(list(video.frames(0.0, 0.4))) == 10
        assert video.missing_frames == 0


@pytest.mark.parametrize("codec", ["libx264", "mpeg4"])
@pytest.mark.parametrize("tail", [b"", b"\0", b"\x9b"])
def test_a_film_that_lost_its_end_is_not_taken_for_a_whole_one(
    tmp_path: Path, codec: str, tail: bytes
) -> None:
    content = videos.encode_video(
        tmp_path / "a.mp4",
        TWO_SECONDS,
        codec=codec,
        options={},
        container={"movflags": "faststart"},
    ).read_bytes()
    for share in (0.6, 0.8):
        end = int(share * len(content))
        (tmp_path / "cut.mp4").write_bytes(content[:end] + tail * (len(content) - end))
        with pytest.raises(ClipError, match="truncated or damaged"):
            read(tmp_path / "cut.mp4")


def test_a_picture_of_absurd_size_is_rejected_before_it_takes_memory(tmp_path: Path) -> None:
    raw = bytearray(videos.encode_animation(tmp_path / "a.gif", 3).read_bytes())
    for size, reason in (
        ((16000, 16000), "its picture is 16000x16000, expected at most"),
        ((65000, 16), "its picture is 65000x16, expected at most 16384 pixels a side"),
        ((30000, 30000), "no frame can be decoded"),  # FFmpeg itself does not believe it
    ):
        struct.pack_into("<HH", raw, 6, *size)
        (tmp_path / "big.gif").write_bytes(raw)
        with pytest.raises(ClipError, match=reason):
            read(tmp_path / "big.gif")


def test_a_folder_with_umlauts_is_read_under_an_ascii_locale(tmp_path: Path) -> None:
    """OpenCV ended the process there."""
    (tmp_path / "grün").mkdir()
    videos.encode_constant(tmp_path / "grün/a.mp4", "libx264", frames=10)
    code = (
        "import os; from pathlib import Path; from signloom.detection.video import Video\n"
        f"path = Path(os.fsdecode({os.fsencode(tmp_path / 'grün/a.mp4')!r}))\n"
        "print(len(list(Video(path).frames())))"
    )
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONPATH": "src"}
    process = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, check=True
    )
    assert process.stdout.strip() == b"10"


def test_a_damaged_end_may_be_left_out(tmp_path: Path) -> None:
    half = write_part("mp4", 0.6, faststart=True)(tmp_path / "half.mp4")
    assert numbers(half, 0.0, 1.0) == list(range(25))
    assert len(read(write_part("mp4", 0.97, faststart=True)(tmp_path / "nearly.mp4"))) >= 90


def test_a_transport_stream_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    raw = videos.encode_constant(tmp_path / "whole.ts", "libx264", frames=100).read_bytes()
    (tmp_path / "half.ts").write_bytes(raw[: len(raw) // 2])
    indices = numbers(tmp_path / "half.ts")
    assert 30 < len(indices) < 70  # it does not say how long it is
    assert indices[:30] == list(range(30))


def test_damage_in_the_middle_is_noticed_where_the_decoder_gives_up(tmp_path: Path) -> None:
    raw = bytearray(videos.encode_video(tmp_path / "a.mp4", FOUR_SECONDS).read_bytes())
    data = raw.index(b"mdat") + 4
    raw[data + 3000 : data + 4000] = bytes(1000)
    (tmp_path / "scratched.mp4").write_bytes(raw)
    with pytest.raises(ClipError, match="truncated or damaged"):
        read(tmp_path / "scratched.mp4")
    raw = bytearray((tmp_path / "a.mp4").read_bytes())
    raw[data + 3000 : data + 3010] = bytes(10)
    (tmp_path / "scratched.mp4").write_bytes(raw)
    assert len(read(tmp_path / "scratched.mp4")) == 100  # concealed: docs/extraction.md says so


@pytest.mark.parametrize(
    ("start_s", "end_s", "reason", "hint"),
    [
        (2.0, None, "start_s 2 is not before the end of the video, 2.00 s", "correct start_s"),
        (1.0, 4.0, "the segment 1 to 4 s runs past the end of the video, 2.00 s", "correct end_s"),
        (1.01, 1.03, "no frame is shown from 1.01 to 1.03 s", "correct start_s and end_s"),
    ],
)
def test_a_segment_outside_the_video_is_refused(
    tmp_path: Path, start_s: float, end_s: float | None, reason: str, hint: str
) -> None:
    path = videos.write_video(tmp_path / "two_seconds.mp4", frames=50)
    with pytest.raises(ClipError) as caught:
        read(path, start_s, end_s)
    assert reason in caught.value.problem.reason
    assert hint in caught.value.problem.hint


@pytest.mark.parametrize(
    ("name", "codec"),
    [("a.webm", "libvpx"), ("a.webm", "libvpx-vp9"), ("a.mkv", "libx264"), ("a.mp4", "mpeg4")],
)
@pytest.mark.parametrize("sizes", [((192, 128), (384, 256)), ((384, 256), (96, 64))])
def test_a_size_that_changes_within_the_stream_is_noticed(
    tmp_path: Path, name: str, codec: str, sizes: tuple[tuple[int, int], tuple[int, int]]
) -> None:
    path = videos.encode_sizes(tmp_path / name, codec, sizes, frames=20)
    (width, height), (later_width, later_height) = sizes
    changes = f"from {width}x{height} to {later_width}x{later_height} at 0.80 s"
    with pytest.raises(ClipError, match=f"the size of the picture changes {changes}"):
        read(path)
    assert numbers(path, 0.0, 0.8) == list(range(20))


@pytest.mark.parametrize(
    ("matrix", "mirrored"),
    [((-1, 0, 0, 1), True), ((1, 0, 0, -1), True), ((0, 1, 1, 0), True), ((0, 1, -1, 0), False)],
)
def test_a_mirror_image_is_refused(
    tmp_path: Path, matrix: tuple[int, int, int, int], mirrored: bool
) -> None:
    a, b, c, d = (number << 16 for number in matrix)
    path = tmp_path / "selfie.mp4"
    videos.encode_video(path, TWO_SECONDS, matrix=(a, b, 0, c, d, 0, 0, 0, 1 << 30))
    if not mirrored:
        assert len(read(path)) == 50
        return
    with pytest.raises(ClipError, match="the header asks for a mirror image"):
        read(path)


@pytest.mark.parametrize("start", ["#EXTM3U\n../outside.ts\n", "ffconcat version 1.0\nfile /a\n"])
def test_a_playlist_is_no_video(tmp_path: Path, start: str) -> None:
    path = tmp_path / "list.mp4"
    path.write_text(start)
    with pytest.raises(ClipError, match="a playlist"):
        Video(path)
