"""A folder of numbered pictures becomes a video file of the same pictures, or says why not."""

import contextlib
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from signloom.detection.video import Video
from signloom.errors import ClipError
from signloom_tools.importing.pictures import describe_gaps, is_picture_folder, open_pictures
from tests.attack import inputs
from tests.videos import encode_animation, number_of, numbered_frame, write_picture, write_pictures


def pack(folder: Path, fps: float = 25.0) -> Path:
    packed = folder.with_suffix(".mov")
    open_pictures(folder, fps).pack(packed)
    return packed


def numbers(path: Path) -> list[int]:
    with Video(path) as video:
        return [number_of(frame.rgb) for frame in video.frames()]


@pytest.mark.parametrize("name", ["img{}.png", "a-2024-{:04d}.PNG", "x1y{}.jpg", "fn{:06d}-0.png"])
def test_pictures_come_in_the_order_of_their_numbers(tmp_path: Path, name: str) -> None:
    """Names in the order of the alphabet would put img10 before img2."""
    folder = write_pictures(tmp_path / "clip", name, range(7, 13))
    (folder / "._img1.png").touch()  # what macOS leaves
    assert numbers(pack(folder)) == list(range(7, 13))


def test_packing_changes_no_pixel_and_no_time_and_gives_the_same_bytes_again(
    tmp_path: Path,
) -> None:
    folder = write_pictures(tmp_path / "clip")
    packed = pack(folder, 29.97)
    with Video(packed) as video:
        frames = list(video.frames())
        assert video.fps == pytest.approx(29.97)
    assert [frame.time_s for frame in frames] == pytest.approx(np.arange(5) / 29.97, abs=1e-9)
    for number, frame in enumerate(frames):
        np.testing.assert_array_equal(frame.rgb, numbered_frame(number)[..., ::-1])
    before = packed.read_bytes()
    assert pack(folder, 29.97).read_bytes() == before
    shutil.copy(folder / "1.png", folder / "2.png")
    assert pack(folder, 29.97).read_bytes() != before


@pytest.mark.parametrize("ending", ["webp", "bmp", "tif"])
def test_pictures_of_other_kinds_are_read(tmp_path: Path, ending: str) -> None:
    folder = write_pictures(tmp_path / "clip", f"{{}}.{ending}")
    assert is_picture_folder(path.name for path in folder.iterdir())
    assert numbers(pack(folder)) == list(range(5))
    (folder / f"3.{ending}").write_bytes(b"no picture")
    with pytest.raises(ClipError, match=f"3.{ending} is a damaged picture"):
        pack(folder)
    write_pictures(tmp_path / "frames").joinpath(f"7.{ending}").write_bytes(b"a thumbnail")
    assert numbers(pack(tmp_path / "frames")) == list(range(5))


def test_a_picture_alone_is_a_film_of_one_frame(tmp_path: Path) -> None:
    picture = write_picture(tmp_path / "A.jpg", "jpg")
    assert numbers(pack(picture)) == [5]


@pytest.mark.parametrize("ending", ["jpg", "png", "webp"])
def test_a_torn_picture_alone_is_refused(tmp_path: Path, ending: str) -> None:
    """A decoder would make up the lower part of a JPEG."""
    picture = write_picture(tmp_path / f"A.{ending}", ending)
    picture.write_bytes(picture.read_bytes()[:-100])
    with pytest.raises(ClipError, match=f"A.{ending} is a damaged picture"):
        pack(picture)


@pytest.mark.parametrize("ending", ["png", "webp"])
def test_a_picture_of_too_many_pixels_is_refused_by_its_size(tmp_path: Path, ending: str) -> None:
    picture = tmp_path / f"A.{ending}"
    Image.new("L", (6000, 6000)).save(picture)
    with pytest.raises(ClipError, match=f"A.{ending} is 6000x6000, expected at most 33 million"):
        pack(picture)


@pytest.mark.parametrize(("orientation", "shape"), [(1, (64, 96, 3)), (6, (96, 64, 3))])
def test_photos_of_a_telephone_are_turned_as_their_exif_says(
    tmp_path: Path, orientation: int, shape: tuple[int, ...]
) -> None:
    photo, exif = tmp_path / "A.jpg", Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(numbered_frame(5)).save(photo, exif=exif)
    with Video(pack(photo)) as video:
        assert [frame.rgb.shape for frame in video.frames()] == [shape]


def test_a_mirrored_photo_is_refused(tmp_path: Path) -> None:
    photo, exif = tmp_path / "A.jpg", Image.Exif()
    exif[0x0112] = 2
    Image.fromarray(numbered_frame(5)).save(photo, exif=exif)
    with pytest.raises(ClipError, match="asks for a mirror image"):
        numbers(pack(photo))


def test_a_picture_that_lacks_is_told_and_the_one_before_stays(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path / "clip", numbers=[1, 2, 5, 6])
    pictures = open_pictures(folder, "25")
    assert pictures.missing == (3, 4)
    assert "clip: number 3 and 1 more of its pictures is missing" in describe_gaps([pictures])
    with Video(pack(folder)) as video:
        assert [frame.time_s for frame in video.frames()] == pytest.approx([0, 0.04, 0.16, 0.2])
    every_second = open_pictures(write_pictures(tmp_path / "half", numbers=[2, 4, 6]), 25)
    assert every_second.missing == ()
    assert describe_gaps([every_second]) == ""


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["1.png", "01.png"], "two of its pictures have the number 1"),
        (["1.png", "2.png", "cover.png"], "differ in more than a number"),
        (["a1b1.png", "a2b2.png"], "differ in more than a number"),
        (["left1.png", "right1.png"], "differ in more than a number"),
        (["1.png", "2000000.png"], "are numbered 1 to 2000000"),
        (["1.png"], "a folder with 1 pictures"),
    ],
)
def test_pictures_without_an_order_are_refused_in_words(
    tmp_path: Path, names: list[str], words: str
) -> None:
    for name in names:
        write_picture(tmp_path / name, "png")
    if words.startswith("are numbered"):
        write_picture(tmp_path / "4.png", "png")
    with pytest.raises(ClipError, match=words):
        open_pictures(tmp_path, 25)
    assert is_picture_folder(names) == (len(names) > 1)


@pytest.mark.parametrize("fps", [None, "", "fast", "0", 5000])
def test_pictures_without_a_frame_rate_are_refused_in_words(
    tmp_path: Path, fps: str | float | None
) -> None:
    with pytest.raises(ClipError, match="frame rate"):
        open_pictures(write_pictures(tmp_path / "clip"), fps)


def test_pictures_of_two_kinds_or_sizes_or_none_are_refused_in_words(tmp_path: Path) -> None:
    kinds = write_pictures(tmp_path / "kinds")
    write_picture(kinds / "3.png", "jpg")
    with pytest.raises(ClipError, match=r"0\.png and 3\.png are pictures of two kinds"):
        pack(kinds)
    none = write_pictures(tmp_path / "none")
    (none / "0.png").write_bytes(b"GIF89a")
    with pytest.raises(ClipError, match="is no PNG and no JPEG"):
        pack(none)
    torn = write_pictures(tmp_path / "torn")
    (torn / "0.png").write_bytes(b"\x89PNG and no more")
    with pytest.raises(ClipError, match="damaged picture"):
        pack(torn)
    sizes = write_pictures(tmp_path / "sizes")
    cv2.imwrite(str(sizes / "3.png"), cv2.resize(numbered_frame(3), (96, 40)))
    with pytest.raises(ClipError, match="the size of the picture changes"):
        numbers(pack(sizes))


@pytest.mark.parametrize("name", inputs.PICTURES)
def test_bad_pictures_make_a_video_or_an_error_in_words(tmp_path: Path, name: str) -> None:
    inputs.PICTURES[name](tmp_path / "bad")
    with contextlib.suppress(ClipError):
        assert pack(tmp_path / "bad").is_file()


def test_an_animation_is_a_video(tmp_path: Path) -> None:
    with Video(encode_animation(tmp_path / "a.gif", frames=12)) as video:
        assert (video.fps, len(list(video.frames()))) == (10, 12)
