"""Text in any script comes in, pictures of its lines go out; needs a font that has its letters.

Pillow shapes with Raqm and orders with FriBiDi, so Arabic letters join and right-to-left lines
run from the right. One font serves the whole text: what it lacks is refused, never drawn as boxes.
"""

import importlib.util
import logging
import unicodedata
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont, features

from signloom.config import UserError

Overlay = npt.NDArray[np.uint8]  # shape (height, width, 4): red, green, blue, opacity

_SAID, _UNSAID, _BOX = (255, 255, 255, 255), (150, 150, 150, 255), (0, 0, 0, 170)
_LINE_HEIGHT = 1.35  # font sizes
_LEAST_PX = 9
_NOWHERE = "\uffff"  # a noncharacter: every font draws it as what it lacks

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

    def draw(self, said: int) -> Overlay:
        """Draw the text, bright as far as it has been said.

        Args:
            said: How many characters are bright; a word that has begun is bright as a whole.
        """
        height = len(self._lines) * self._line_px + self._line_px // 2
        picture = Image.new("RGBA", (self._width, height), _BOX)
        pen = ImageDraw.Draw(picture)
        for row, (start, end) in enumerate(self._lines):
            line, y = self._text[start:end], row * self._line_px + self._line_px // 4
            bright = whole_words(line, said - start)
            if bright < len(line):
                self._put(pen, line, line, y, _UNSAID)
            if bright:
                # A part of a line that runs both ways would not lie where the whole has it.
                part = line if runs_both_ways(line) else line[:bright]
                self._put(pen, part, line, y, _SAID)
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


def whole_words(line: str, said: int) -> int:
    """Return how many characters of a line are bright; without spaces, letter by letter."""
    if said <= 0:
        return 0
    space = line.find(" ", said) if " " in line else said
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
