"""The landmarks of a clip come in, a skeleton that moves in the page goes out.

The first picture is drawn here, in the page's variables of colour, with the landmarks that each
line goes through beside it; `player.js` draws the lines again for each frame. So the page needs
no canvas, follows the theme, and shows a picture where scripts do not run.
"""

import base64
import html
import math
from dataclasses import dataclass

import numpy as np

from signloom.corpus.landmarks import LandmarkSequence, Layout
from signloom.report.palette import inline_svg
from signloom.report.skeletons import (
    HANDS,
    HEAD_STYLE,
    SIZE,
    START,
    Points,
    crop,
    find_frames,
    find_heads,
    has_head,
    list_strokes,
    place_circle,
    to_pixels,
)  # fmt: skip

MAX_FPS = 30.0
MAX_FRAMES = 600  # a longer clip shows fewer frames a second
STEPS = 20  # of the track's numbers in one SVG unit
ABSENT = 0xFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Player:
    """One clip as `player.js` takes it."""

    svg: str  # one frame, its paths and circles with `data-marks`
    track: str  # base64 of x and y of each frame's marks, little-endian 16 bit
    fps: float
    marks: int  # points of a frame
    frames: int
    first: int  # the frame that is drawn


def build_player(sequence: LandmarkSequence, *, name: str, label: str) -> Player:
    """Prepare a clip for the page.

    Args:
        sequence: The clip.
        name: Unique on the page; letters, digits and hyphens.
        label: What a person who cannot see it must know.
    """
    stride = max(
        math.ceil(sequence.fps / MAX_FPS - 0.01), math.ceil(len(sequence.points) / MAX_FRAMES)
    )
    hands = [group for group in HANDS if group in sequence.layout.group_names]
    seen = find_frames(sequence, hands or sequence.layout.group_names)
    points = crop(to_pixels(sequence)[::stride], sequence.layout)
    first = min(round(int(seen[len(seen) // 2]) / stride), len(points) - 1)
    strokes = list_strokes(sequence.layout)
    used = sorted({mark for stroke in strokes for mark in stroke.marks})
    shown = points[:, used]
    if has_head(sequence.layout):
        shown = np.concatenate((shown, find_heads(points, sequence.layout)), axis=1)
    return Player(
        svg=inline_svg(_draw(points[first], sequence.layout, used), name, html.escape(label)),
        track=_pack(shown),
        fps=sequence.fps / stride,
        marks=shown.shape[1],
        frames=len(points),
        first=first,
    )


def _draw(points: Points, layout: Layout, used: list[int]) -> str:
    """Draw one frame; every line is there, also those with nothing to show yet."""
    place = {mark: number for number, mark in enumerate(used)}
    parts = [
        f'<path data-marks="{" ".join(str(place[mark]) for mark in stroke.marks)}" '
        f'd="{stroke.path(points)}" {stroke.style}/>'
        for stroke in list_strokes(layout)
    ]
    if has_head(layout):
        corners = np.nan_to_num(find_heads(points[None], layout)[0])
        marks = f'data-marks="{len(used)} {len(used) + 1}"'
        parts.append(f"<circle {marks} {place_circle(*corners)} {HEAD_STYLE}/>")
    return f"{START}{''.join(parts)}</svg>"


def _pack(points: Points) -> str:
    """Write points, shape (N, M, 2) in SVG units, as text."""
    known = np.isfinite(points).all(axis=2, keepdims=True)
    steps = np.rint(np.where(known, points, 0) * STEPS).clip(0, SIZE * STEPS)
    packed = np.where(known, steps, ABSENT).astype("<u2")
    return base64.b64encode(packed.tobytes()).decode()
