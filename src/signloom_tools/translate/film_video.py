"""Films of clips with skeleton and subtitles.

Pillow shapes with Raqm and orders with FriBiDi, so Arabic letters join and right-to-left lines
run from the right. One font serves the whole text: what it lacks is refused, never drawn as boxes.
"""

import bisect
import functools
import importlib.util
import itertools
import logging
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont, features

from signloom.corpus.landmarks import LandmarkSequence
from signloom.detection.video import Picture, Video, crop_frames, even_frames
from signloom.errors import UserError
from signloom.report.canvas import GREY, PAPER
from signloom.report.skeletons import find_heads, has_head, list_strokes
from signloom.translation.confidence import NOT_UNDERSTOOD
from signloom_tools.translate.films import FilmSentence
from signloom_tools.translate.inputs import GivenClip
from signloom_tools.translate.timed import TimedToken
from signloom_tools.video_writer import VideoWriter

Overlay = npt.NDArray[np.uint8]  # shape (height, width, 4): red, green, blue, opacity

_SUBPIXEL_BITS = 3  # lines are placed to an eighth of a pixel
_BRIGHT, _DIM, _BOX = (255, 255, 255, 255), (150, 150, 150, 255), (0, 0, 0, 170)
_LINE_HEIGHT = 1.35  # font sizes
_LEAST_PX = 9
_NOWHERE = "\uffff"  # a noncharacter: every font draws it as what it lacks
_BLANK_HEIGHT = 480  # of the picture of a clip without a video, pixels
_MOST_ASPECT = 4.0  # more, either way, is no picture's
_STROKE = 1 / 160  # thickness of a line of width 1, picture heights

logger = logging.getLogger(__name__)


class Lettering:
    """Draws a text as wide as a picture.

    Args:
        text: One sentence.
        width: Of the picture, pixels.
        height: Likewise; the text takes at most a third of it, if it can.
        font: A .ttf or .otf file; None: DejaVu Sans (Latin, Greek, Cyrillic, Arabic, Hebrew,
            Armenian, Georgian; no Chinese, Japanese, Korean, Devanagari or Thai).

    Raises:
        UserError: If the font cannot be read or lacks a letter of the text.
    """

    def __init__(self, text: str, *, width: int, height: int, font: Path | None) -> None:
        self._text, self._width = text, width
        self._is_rtl = is_right_to_left(text)
        if self._is_rtl and not features.check("fribidi"):
            logger.warning("right-to-left text is drawn in the wrong order: install libfribidi")
        self._path = font or _default_font()
        size = max(_LEAST_PX, round(height * 0.065))
        while True:
            self._font = _open_font(self._path, size)
            self._lines = self._wrap()
            if size <= _LEAST_PX or len(self._lines) * size * _LINE_HEIGHT <= height / 3:
                break
            size -= 1
        self._line_px = round(size * _LINE_HEIGHT)
        if lacking := missing_letters(text, self._font):
            raise UserError(
                f"the font {self._path.name} has no {' '.join(lacking)}; give one that has with "
                "--font FILE.ttf"
            )

    def draw(self, reached: int) -> Overlay:
        """Draw the text, bright as far as the signing has come.

        Args:
            reached: How many characters are bright; a word that has begun is bright as a whole.
        """
        height = len(self._lines) * self._line_px + self._line_px // 2
        picture = Image.new("RGBA", (self._width, height), _BOX)
        pen = ImageDraw.Draw(picture)
        for row, (start, end) in enumerate(self._lines):
            line, y = self._text[start:end], row * self._line_px + self._line_px // 4
            bright = whole_words(line, reached - start)
            if bright < len(line):
                self._put(pen, line, line, y, _DIM)
            if bright:
                # A part of a line that runs both ways would not lie where the whole has it.
                part = line if runs_both_ways(line) else line[:bright]
                self._put(pen, part, line, y, _BRIGHT)
        return np.asarray(picture)

    def _put(
        self, pen: ImageDraw.ImageDraw, part: str, line: str, y: int, colour: tuple[int, ...]
    ) -> None:
        """Draw the beginning of a line where it lies in the whole, centred line."""
        edge = (self._width + (1 if self._is_rtl else -1) * self._length(line)) / 2
        pen.text(
            (edge, y), part, font=self._font, fill=colour, anchor="ra" if self._is_rtl else "la",
            direction=self._direction,
        )  # fmt: skip

    @property
    def _direction(self) -> str | None:
        if not features.check("raqm"):
            return None
        return "rtl" if self._is_rtl else "ltr"

    def _length(self, text: str) -> float:
        return self._font.getlength(text, direction=self._direction)

    def _wrap(self) -> list[tuple[int, int]]:
        """Return where each line starts and ends in the text; words break only if too long."""
        lines, start, limit = [], 0, 0.94 * self._width
        while start < len(self._text):
            end = len(self._text)
            while end > start + 1 and self._length(self._text[start:end]) > limit:
                space = self._text.rfind(" ", start + 1, end)
                end = space if space > start else end - 1
            lines.append((start, end))
            start = end + (self._text[end : end + 1] == " ")
        return lines


def is_right_to_left(text: str) -> bool:
    """Return whether the first letter that has a direction runs to the left."""
    kinds = (unicodedata.bidirectional(letter) for letter in text)
    return next((kind != "L" for kind in kinds if kind in ("L", "R", "AL")), False)


def runs_both_ways(text: str) -> bool:
    """Return whether a text has parts that run to the left and parts that run to the right."""
    kinds = {unicodedata.bidirectional(letter) for letter in text}
    return bool(kinds & {"R", "AL"}) and bool(kinds & {"L", "EN", "AN"})


def whole_words(line: str, reached: int) -> int:
    """Return how many characters of a line are bright; without spaces, letter by letter."""
    if reached <= 0:
        return 0
    space = line.find(" ", reached) if " " in line else reached
    return len(line) if space < 0 else min(space, len(line))


def missing_letters(text: str, font: ImageFont.FreeTypeFont) -> list[str]:
    """Return the letters of a text that a font would draw as boxes."""
    box = bytes(font.getmask(_NOWHERE))
    letters = [c for c in dict.fromkeys(text) if unicodedata.category(c)[0] not in "CZM"]
    return [letter for letter in letters if bytes(font.getmask(letter)) == box]


def _default_font() -> Path:
    """Return DejaVu Sans, which Matplotlib carries; found without importing it."""
    spec = importlib.util.find_spec("matplotlib")
    if spec is None or spec.origin is None:
        raise UserError("Matplotlib, whose font is used, is not installed; give one with --font")
    return Path(spec.origin).parent / "mpl-data/fonts/ttf/DejaVuSans.ttf"


def _open_font(path: Path, size: int) -> ImageFont.FreeTypeFont:
    try:
        return ImageFont.truetype(path, size)
    except OSError as error:
        raise UserError(f"{path} is not a font that can be read ({error})") from None


def write_film(
    path: Path, clip: GivenClip, sentences: Sequence[FilmSentence], *, font: Path | None
) -> None:
    """Write a clip with the landmarks that were found and its translation below.

    A whole sentence is shown from its start; a word turns bright when the model looks at
    its place, or all of them at once where the tokens have no times.

    Args:
        path: The .webm or .mp4 file; the sound of the video is left out.
        clip: The clip.
        sentences: What to show, in the order of time, no two at once; above it what their check
            says in a word.
        font: As in `Lettering`.

    Raises:
        UserError: If the font lacks a letter, or the file cannot be written.
    """
    sequence = clip.sequence
    pictures = _video_frames(clip) if clip.is_video else _blank_frames(sequence)
    first = next(pictures)
    height, width = first.shape[:2]
    letters = "".join(sorted({letter for one in sentences for letter in one.text}))
    Lettering(letters, width=width, height=height, font=font)  # raises before hours of work
    waiting = iter(sentences)
    shown = next(waiting, None)
    draw = None
    with VideoWriter(path, fps=sequence.fps, width=width, height=height) as writer:
        for frame, rgb in enumerate(itertools.chain([first], pictures)):
            draw_skeleton(rgb, sequence, frame)
            time_s = frame / sequence.fps
            while shown and time_s >= shown.end_s:
                shown, draw = next(waiting, None), None
            if shown and time_s >= shown.start_s:
                draw = draw or _subtitle_drawer(shown, width, height, font)
                if (overlay := draw(time_s)) is not None:
                    lay_over(rgb, overlay)
            writer.write(rgb)


def _subtitle_drawer(
    sentence: FilmSentence, width: int, height: int, font: Path | None
) -> Callable[[float], Overlay | None]:
    """Return a function of the time, seconds, that draws a sentence, each state of it once."""
    text, note = sentence.text, sentence.check.word
    if sentence.check.unlike:
        note = f"{NOT_UNDERSTOOD}: {note}"
    lettering = Lettering(text, width=width, height=height, font=font) if text.strip() else None
    above = [Lettering(note, width=width, height=height, font=None).draw(0)] if note else []
    bright_at = count_bright(text, sentence.tokens)

    @functools.lru_cache(maxsize=1)  # words turn bright one after another
    def overlay(count: int) -> Overlay | None:
        parts = above + ([lettering.draw(count)] if lettering else [])
        return np.concatenate(parts) if parts else None

    return lambda time_s: overlay(bright_at(time_s))


def draw_skeleton(rgb: Picture, sequence: LandmarkSequence, frame: int) -> None:
    """Draw the landmarks of a frame into its picture."""
    height, width = rgb.shape[:2]
    points = sequence.points[frame, :, :2].astype(np.float64) * [width, height]
    unit = height * _STROKE
    for stroke in list_strokes(sequence.layout):
        thickness = max(1, round(stroke.width * unit))
        line = points[list(stroke.marks)]
        draw_line(rgb, line, colour=_rgb(stroke.colour), thickness=thickness)
    if has_head(sequence.layout):
        low, high = find_heads(points[None], sequence.layout)[0]
        draw_circle(
            rgb, (low + high) / 2, float(high[0] - low[0]) / 2,
            colour=_rgb(GREY), thickness=max(1, round(unit)),
        )  # fmt: skip


def draw_line(
    rgb: Picture, points: npt.NDArray[np.float64], *, colour: tuple[int, int, int], thickness: int
) -> None:
    """Draw a smooth line through points, into the frame; broken, not bridged, where one is absent.

    Args:
        rgb: The frame, which is changed.
        points: Shape (N, 2), x and y in pixels; NaN where absent.
        colour: Red, green, blue.
        thickness: Pixels.
    """
    for part in _unbroken(points):
        pixels = np.rint(part * 2**_SUBPIXEL_BITS).clip(-(2**20), 2**20).astype(np.int32)
        cv2.polylines(rgb, [pixels[:, None]], False, colour, thickness, cv2.LINE_AA, _SUBPIXEL_BITS)


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


def lay_over(rgb: Picture, overlay: Overlay) -> None:
    """Blend an overlay into the lower edge of a picture of the same width."""
    overlay = overlay[-len(rgb) :]
    below = rgb[-len(overlay) :]
    share = overlay[..., 3:].astype(np.float32) / 255
    below[:] = (below * (1 - share) + overlay[..., :3] * share).round().astype(np.uint8)


def _video_frames(clip: GivenClip) -> Iterator[Picture]:
    """Yield the pictures that belong to the frames of the landmarks."""
    with Video(clip.packed or clip.source) as video:
        times_s = [frame.time_s for frame in video.frames()]
    repeats = np.bincount(even_frames(times_s, clip.sequence.fps), minlength=len(times_s))
    with Video(clip.packed or clip.source) as video:
        for frame, count in zip(crop_frames(video.frames(), clip.box), repeats, strict=True):
            height, width = (size - size % 2 for size in frame.rgb.shape[:2])
            yield from (frame.rgb[:height, :width].copy() for _ in range(count))


def _blank_frames(sequence: LandmarkSequence) -> Iterator[Picture]:
    aspect = float(np.clip(sequence.width / sequence.height, 1 / _MOST_ASPECT, _MOST_ASPECT))
    width = 2 * round(_BLANK_HEIGHT * aspect / 2)
    for _ in sequence.points:
        yield np.full((_BLANK_HEIGHT, width, 3), _rgb(PAPER), np.uint8)


def count_bright(text: str, tokens: Sequence[TimedToken] | None) -> Callable[[float], int]:
    """Return a function of the time, seconds: how many characters are bright.

    Signs come in another order than words: a word is bright when it and all before it have begun.
    One without a sign is bright with the word before it.
    """
    if not tokens:
        return lambda time_s: len(text)
    begun_s = list(itertools.accumulate((token.start_s or 0.0 for token in tokens), max))
    ends = list(itertools.accumulate(len(token.text) for token in tokens))

    def count(time_s: float) -> int:
        begun = bisect.bisect_right(begun_s, time_s)
        return len(text) if begun == len(tokens) else [0, *ends][begun]

    return count


def _rgb(colour: str) -> tuple[int, int, int]:
    red, green, blue = bytes.fromhex(colour.removeprefix("#"))
    return red, green, blue
