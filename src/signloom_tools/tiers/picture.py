"""The picture of a film's events: pictures of the film, the speed of the hands, a row a tier."""

import base64
import html
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np

from signloom.detection.video import Box, Picture, Video, crop_frames
from signloom.report.canvas import BLUE, GREEN, GRID, INK, MUTED, ORANGE, PAPER, PURPLE, RED
from signloom.report.skeletons import HANDS
from signloom_tools.tiers.events import BETWEEN, TIERS, Event
from signloom_tools.tiers.files import list_values
from signloom_tools.tiers.signals import SIDES, Signals

# Of the picture, SVG units.
_WIDTH, _LABELS, _MARGIN = 1200, 150, 10
_FRAME, _SPEED, _ROW = 84, 60, 20
_CHARACTER = 6.2  # of a label within an event
_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, RED)
_TICKS_S = (0.5, 1, 2, 5, 10, 30, 60, 300, 600)
_FASTEST = 8.0  # shoulder widths a second
_POINTS = 1000  # of a line, at most


def draw_timeline(
    film: Path, events: Sequence[Event], signals: Signals, *, crop: Box | None = None
) -> bytes:
    """Return an SVG file of a whole film at a glance.

    Raises:
        ClipError: If the film cannot be read.
    """
    seconds = len(signals.values["signing"]) / signals.fps
    scale = (_WIDTH - _LABELS - _MARGIN) / seconds

    def x(time_s: float) -> float:
        return _LABELS + (time_s - signals.start_s) * scale

    body = [*_draw_frames(film, seconds, crop)]
    top = _MARGIN + _FRAME + 8
    body += _draw_speeds(signals, top)
    top += _SPEED + 8
    tiers = [tier for tier in TIERS if any(event.tier == tier for event in events)]
    bottom = top + _ROW * len(tiers)
    tick_s = next((tick for tick in _TICKS_S if seconds / tick <= 20), _TICKS_S[-1])
    for number in range(int(seconds / tick_s) + 1):
        at = x(signals.start_s + number * tick_s)
        body.append(f'<path d="M{at:.1f} {_MARGIN + _FRAME + 8}V{bottom}" stroke="{GRID}"/>')
        text = f"{signals.start_s + number * tick_s:g} s"
        body.append(f'<text x="{at:.1f}" y="{bottom + 14}" fill="{MUTED}">{text}</text>')
    for row, tier in enumerate(tiers):
        low = top + _ROW * row
        body.append(f'<text x="{_MARGIN}" y="{low + 14}" fill="{INK}">{tier}</text>')
        for event in events:
            if event.tier == tier:
                body.append(_draw_event(event, x(event.start_s), x(event.end_s), low))
    height = bottom + 24
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" font-family="sans-serif" font-size="11">'
        f"<title>{html.escape(film.name)}</title>"
        f'<rect width="{_WIDTH}" height="{height}" fill="{PAPER}"/>'
    )
    return "\n".join((head, *body, "</svg>\n")).encode()


def _draw_frames(film: Path, seconds: float, crop: Box | None) -> Iterator[str]:
    """Yield pictures of the film, side by side; each shows its left edge's time."""
    with Video(film) as video:
        first = next(iter(crop_frames(video.frames(), crop))).rgb
    width = _FRAME * first.shape[1] / first.shape[0]
    count = max(1, int((_WIDTH - _LABELS - _MARGIN) / width))
    step = (_WIDTH - _LABELS - _MARGIN) / count
    with Video(film) as video:
        frames = crop_frames(video.frames(fps=count / seconds), crop)
        for number, frame in enumerate(itertools.islice(frames, count)):
            small = cv2.resize(
                frame.rgb, (2 * round(width), 2 * _FRAME), interpolation=cv2.INTER_AREA
            )
            _, encoded = cv2.imencode(".jpg", small[..., ::-1], (cv2.IMWRITE_JPEG_QUALITY, 80))
            data = base64.b64encode(encoded.tobytes()).decode()
            yield (
                f'<image x="{_LABELS + number * step:.1f}" y="{_MARGIN}" width="{width:.1f}" '
                f'height="{_FRAME}" href="data:image/jpeg;base64,{data}"/>'
            )


def _draw_speeds(signals: Signals, top: float) -> Iterator[str]:
    yield f'<text x="{_MARGIN}" y="{top + 14}" fill="{INK}">speed of the hands</text>'
    for row, side in enumerate(SIDES):
        colour = HANDS[f"{side}_hand"]
        place = f'x="{_MARGIN}" y="{top + 30 + 14 * row}"'
        yield f'<text {place} fill="{colour}">{side}</text>'
        speed = np.nan_to_num(signals.values[f"{side}_speed"])
        # The fastest of a few frames: one line is no longer than the picture is wide.
        starts = np.arange(0, len(speed), -(-len(speed) // _POINTS))
        fastest = np.maximum.reduceat(speed, starts)
        across = _LABELS + (_WIDTH - _LABELS - _MARGIN) * starts / len(speed)
        heights = top + _SPEED * (1 - np.minimum(fastest / _FASTEST, 1))
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, heights, strict=True))
        yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.2"/>'


def _draw_event(event: Event, start: float, end: float, top: float) -> str:
    is_between = event.value == BETWEEN.get(event.tier)
    index = list_values(event.tier).index(event.value)
    colour = GRID if is_between else _COLOURS[index % len(_COLOURS)]
    number = "" if np.isnan(event.number) else f", {event.number:.3g} {event.unit}"
    title = f"{event.value}, {event.start_s:.2f} to {event.end_s:.2f} s{number}"
    width = max(end - start, 1.0)
    place = f'x="{start:.1f}" y="{top + 2}" width="{width:.1f}" height="{_ROW - 4}" rx="2"'
    mark = f'<rect {place} fill="{colour}"><title>{title}</title></rect>'
    if width > _CHARACTER * len(event.value) + 4:
        fill = MUTED if is_between else PAPER
        place = f'x="{start + 3:.1f}" y="{top + 14}"'
        mark += f'<text {place} fill="{fill}" pointer-events="none">{event.value}</text>'
    return mark


def mark_pictures(
    pictures: Iterable[Picture], events: Sequence[Event], signals: Signals
) -> Iterator[Picture]:
    """Yield the pictures of a film, at the signals' rate, with what happens written into each."""
    for number, picture in enumerate(pictures):
        time_s = signals.start_s + number / signals.fps
        marked, size = picture.copy(), picture.shape[0] / 720
        seen = [event for event in events if event.start_s <= time_s < event.end_s]
        for row, event in enumerate(seen):
            place = (round(10 * size), round((30 + 28 * row) * size))
            for colour, width in (((0, 0, 0), 5), ((255, 255, 255), 1.6)):
                text, thickness = f"{event.tier}: {event.value}", max(1, round(width * size))
                font = cv2.FONT_HERSHEY_SIMPLEX
                cv2.putText(marked, text, place, font, 0.75 * size, colour, thickness, cv2.LINE_AA)
        yield marked
