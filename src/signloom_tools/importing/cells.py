"""Values in the cells of tables: texts, times and boxes."""

import math
import re
import unicodedata

_MOST_SHARE = 2.0  # boxes of shares reach a little beyond the picture; of pixels, much further
# Marks without a shape: in texts they part what looks the same. Not the joiners of Persian, Hindi.
_INVISIBLE = dict.fromkeys(
    (
        0xAD,
        0x180E,
        0x200B,
        0x200E,
        0x200F,
        *range(0x202A, 0x202F),
        0x2060,
        *range(0x2066, 0x206A),
        0xFEFF,
    )
)
_CLOCK = re.compile(r"(?:(\d{1,6}):)?(\d{1,2}):(\d{1,2})(?:[.,](\d{1,9}))?")
_NUMBER = re.compile(r"(?:(?<!\d)-)?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?")  # 10-20 are two
BOX_ORDER = "left top right bottom"  # WLASL's pixels, OpenASL's shares of the picture
MS_ASL_BOX_ORDER, COCO_BOX_ORDER = "top left bottom right", "left top width height"


def clean(text: str) -> str:
    """Return a text or name as it is seen: accents composed, single spaces, no invisible marks."""
    if text.isascii():
        return " ".join(text.split())
    return unicodedata.normalize("NFC", " ".join(text.translate(_INVISIBLE).split()))


def parse_time(text: str) -> float | None:
    """Return the seconds of `3.25`, `3,25` or `00:00:03.250`; None if it is no time."""
    if clock := _CLOCK.fullmatch(text):
        hours, minutes, seconds, fraction = clock.groups()
        minutes = 60 * int(hours or 0) + int(minutes)
        return round(60 * minutes + float(f"{seconds}.{fraction or 0}"), 6)
    try:
        number = float(text.replace(",", "."))
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in text else None


def read_box(text: str, order: str = BOX_ORDER) -> str:
    """Return a box as a manifest has it, of four numbers in an order, or of FFmpeg's W:H:X:Y."""
    numbers = [float(number) for number in _NUMBER.findall(text.lower())]
    if len(numbers) != 4:
        return text
    order = "width height left top" if text.count(":") == 3 else order
    sides = dict(zip(order.split(), numbers, strict=True))
    if "width" in sides:
        sides["right"] = sides["left"] + sides["width"]
        sides["bottom"] = sides["top"] + sides["height"]
    most = 1.0 if max(numbers) < _MOST_SHARE else math.inf
    return " ".join(f"{min(max(sides[name], 0.0), most):g}" for name in BOX_ORDER.split())
