"""Pictures, numbered in a folder or alone, and how they become a video file of the same pixels."""

import contextlib
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from signloom.config import FrameRate, parse_number
from signloom.errors import ClipError, UserError, name_problem

if TYPE_CHECKING:  # it loads slowly
    from av.container import InputContainer
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

SUFFIXES = (".png", ".jpg", ".jpeg")
OTHER_SUFFIXES = (".webp", ".bmp", ".tif", ".tiff", ".ppm")  # which become PNG
PACKED_SUFFIX = ".mov"  # it counts time in frames, and takes PNG and JPEG as they are
_FEWEST = 2  # pictures in a folder; one alone is a cover or a thumbnail
_ANY_FPS = 25.0  # of a picture alone
_MOST_BYTES = 2**28  # of a picture
_MOST_GAPS = 3  # numbers may span this many times the pictures that are there
_KINDS = {b"\x89PNG": ("png", "rgb24"), b"\xff\xd8\xff": ("mjpeg", "yuvj420p")}


@dataclass(frozen=True, slots=True)
class PictureFolder:
    """A clip as pictures."""

    path: Path  # the folder, or the file of a picture that is a clip alone
    fps: float  # frames a second
    missing: tuple[int, ...] = ()
    """Numbers that are left out between the first picture and the last."""

    @property
    def length_s(self) -> float:
        """Seconds that its pictures take."""
        numbers = [number for number, _ in number_pictures(self.path)]
        step = math.gcd(*(number - numbers[0] for number in numbers)) or 1
        return ((numbers[-1] - numbers[0]) // step + 1) / self.fps

    def pack(self, target: Path) -> None:
        """Write the video file, in which no pixel changes: PNG and JPEG are taken as they are.

        Where a number is left out, the picture before it stays longer. The bytes of the file
        depend on those of the pictures, their numbers and the frame rate only.

        Args:
            target: Ends in `PACKED_SUFFIX`, unless only the caller reads it.

        Raises:
            ClipError: If a picture cannot be read, or some are of another kind.
        """
        import av  # here, since it loads slowly

        numbers, files = zip(*number_pictures(self.path), strict=True)
        step = math.gcd(*(number - numbers[0] for number in numbers)) or 1
        rate = Fraction(self.fps).limit_denominator(1001)
        kind = _kind(files[0], _read(files[0]))
        if len(files) == 1:
            _decode(files[0])
        with av.open(
            f"file:{target.absolute()}", "w", format="mov", options={"fflags": "+bitexact"}
        ) as container:
            stream = container.add_stream(kind[0], rate=rate)
            assert isinstance(stream, av.VideoStream)
            stream.width, stream.height = _size(files[0])
            stream.pix_fmt = kind[1]
            for number, file in zip(numbers, files, strict=True):
                content = _read(file)
                if _kind(file, content) != kind:
                    raise ClipError(
                        f"{files[0].name} and {file.name} are pictures of two kinds",
                        "write them all as PNG, or all as JPEG",
                    )
                packet = av.Packet(content)
                packet.stream, packet.time_base, packet.is_keyframe = stream, 1 / rate, True
                packet.pts = packet.dts = (number - numbers[0]) // step
                packet.duration = 1
                container.mux(packet)


def open_pictures(folder: Path, fps: float | str | None) -> PictureFolder:
    """Look at a folder of pictures, or a picture that is a clip alone; none is opened.

    Args:
        folder: Or the file of the picture, which needs no frame rate.
        fps: Frames a second, as a number or as a table has it; nothing: it is not given.

    Raises:
        ClipError: If the pictures have no order, or there is no frame rate.
    """
    numbers = [number for number, _ in number_pictures(folder)]
    fps = fps or (_ANY_FPS if len(numbers) == 1 else None)
    if not fps:
        raise ClipError(
            "it is a folder of pictures, which has no frame rate",
            "say how many a second, as in --fps 25 or in a column fps",
        )
    try:
        rate = parse_number(str(fps), FrameRate)
    except UserError as error:
        raise ClipError(f"its frame rate: {error}", "correct it") from None
    step = math.gcd(*(number - numbers[0] for number in numbers)) or 1
    expected = range(numbers[0], numbers[-1], step)
    if len(expected) > _MOST_GAPS * len(numbers):
        raise ClipError(
            f"its {len(numbers)} pictures are numbered {numbers[0]} to {numbers[-1]}",
            "number them one by one",
        )
    return PictureFolder(folder, rate, tuple(sorted(set(expected) - set(numbers))))


def is_picture_folder(names: Iterable[str]) -> bool:
    """Return whether files of these names in one folder are pictures enough to be a clip."""
    endings = Counter(
        PurePath(name).suffix.lower() in SUFFIXES for name in filter(is_picture, names)
    )
    return max(endings.values(), default=0) >= _FEWEST


def number_pictures(folder: Path) -> list[tuple[int, Path]]:
    """Return the pictures of a folder in the order of their numbers: img9 before img10.

    The number is the one run of digits in which the names differ; a picture that is a clip alone
    has 0.

    Raises:
        ClipError: If it has too few, or their names differ in something else.
    """
    is_alone = not folder.is_dir()
    files = [folder] if is_alone else _pictures(folder)
    if len(files) < _FEWEST and not is_alone:
        raise ClipError(
            f"a folder with {len(files)} pictures is no video", f"give one with {_FEWEST} or more"
        )
    if bad := next((problem for file in files if (problem := name_problem(file))), None):
        raise ClipError(bad.reason, bad.hint)
    for file in files:
        if not file.is_file():  # a pipe is never at its end, and links may lead to each other
            raise ClipError(f"{file.name} is no file", "leave it out, or bring the picture itself")
        if file.stat().st_size > _MOST_BYTES:
            reason = f"{file.name} has more than {_MOST_BYTES:,} bytes, which no picture takes"
            raise ClipError(reason, "write it again, or leave it out")
    if is_alone:
        return [(0, folder)]
    shapes = {re.sub("[0-9]+", "#", file.stem): file.name for file in files}
    columns = list(zip(*(re.findall("[0-9]+", file.stem) for file in files), strict=False))
    differing = [column for column in columns if len(set(column)) > 1]
    if len(shapes) > 1 or len(differing) != 1:
        two = list(shapes.values())[:2] if len(shapes) > 1 else [files[0].name, files[-1].name]
        raise ClipError(
            f"the names of its pictures differ in more than a number ({', '.join(two)})",
            "name them alike, as in 0001.png, and take away what is no frame",
        )
    numbered = sorted(zip(map(int, differing[0]), files, strict=True))
    for (number, file), (next_number, second) in itertools.pairwise(numbered):
        if number == next_number:
            raise ClipError(
                f"two of its pictures have the number {number} ({file.name}, {second.name})",
                "leave one of them",
            )
    return numbered


def describe_gaps(folders: Iterable[PictureFolder]) -> str:
    """Say which folder lacks pictures, and how many others; empty if none does."""
    lacking = [folder for folder in folders if folder.missing]
    if not lacking:
        return ""
    first = lacking[0]
    more = f" and {len(first.missing) - 1} more" if len(first.missing) > 1 else ""
    more_folders = f"; so do {len(lacking) - 1} other folders" if len(lacking) > 1 else ""
    return (
        f"{first.path.name}: number {first.missing[0]}{more} of its pictures is missing, and the "
        f"one before stays longer{more_folders}"
    )


def _pictures(folder: Path) -> list[Path]:
    files = sorted(path for path in folder.iterdir() if is_picture(path.name))
    # Thumbnails of the web are .webp, among frames as PNG or JPEG.
    return [file for file in files if file.suffix.lower() in SUFFIXES] or files


def is_picture(name: str) -> bool:
    """Return whether a file of this name is taken for a picture."""
    return name.lower().endswith(SUFFIXES + OTHER_SUFFIXES) and not name.startswith(".")


def _kind(file: Path, content: bytes) -> tuple[str, str]:
    """Return codec and format of the pixels, by the first bytes."""
    for start, kind in _KINDS.items():
        if content.startswith(start):
            return kind
    raise ClipError(f"{file.name} is no PNG and no JPEG", "write it again, or leave it out")


def _read(file: Path) -> bytes:
    """Return the bytes of a PNG or JPEG; of other kinds, a PNG of the same pixels."""
    if file.suffix.lower() in SUFFIXES:
        return file.read_bytes()
    import av

    picture = _decode(file)
    encoder = av.CodecContext.create("png", "w")
    assert isinstance(encoder, av.VideoCodecContext)
    encoder.width, encoder.height, encoder.pix_fmt = picture.width, picture.height, "rgb24"
    encoder.time_base = Fraction(1)
    packets = [*encoder.encode(picture.reformat(format="rgb24")), *encoder.encode(None)]
    return b"".join(map(bytes, packets))


def _decode(file: Path) -> "VideoFrame":
    """Return a picture; of a torn JPEG, whose lower part a decoder makes up, it is an error."""
    with _open(file) as (container, stream):
        if file.suffix.lower() in SUFFIXES:  # of TIFF, FFmpeg knows few tags
            stream.codec_context.options = {"err_detect": "explode"}
        return next(container.decode(stream))


def _size(file: Path) -> tuple[int, int]:
    with _open(file) as (_, stream):
        return stream.width, stream.height


@contextlib.contextmanager
def _open(file: Path) -> Iterator[tuple["InputContainer", "VideoStream"]]:
    import av

    from signloom.detection.video import MAX_PIXELS

    damages = (av.FFmpegError, IndexError, StopIteration)
    with contextlib.suppress(*damages), av.open(f"file:{file.absolute()}") as container:
        stream = container.streams.video[0]
        if stream.width * stream.height > MAX_PIXELS:
            raise ClipError(
                f"{file.name} is {stream.width}x{stream.height}, expected at most "
                f"{MAX_PIXELS / 1e6:.0f} million pixels",
                "make it smaller",
            )
        if stream.width and stream.height:
            yield container, stream
            return
    raise ClipError(f"{file.name} is a damaged picture", "copy it again")
