"""Skeletons of clips: moving players.

The first picture is drawn here, in the page's variables of colour, with the landmarks that each
line goes through next to it; `player.js` draws the lines again for each frame. So the page needs
no canvas, follows the theme, and shows a picture where scripts do not run.
"""

import base64
import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from signloom.corpus.landmarks import GROUP_CHOICES, LandmarkSequence, Layout
from signloom.report.canvas import BLUE, GREY, ORANGE, PURPLE, inline_svg

SIZE = 100.0  # side of a picture, SVG units
MARGIN = 0.06  # of the side, around the landmarks
HANDS = {"left_hand": ORANGE, "right_hand": BLUE}
FINGERS = ((0, 1, 2, 3, 4), (5, 6, 7, 8), (9, 10, 11, 12), (13, 14, 15, 16), (17, 18, 19, 20))
PALM = (0, 5, 9, 13, 17, 0)
ARMS = ("left_wrist", "left_elbow", "left_shoulder", "right_shoulder", "right_elbow", "right_wrist")
HEAD_RADIUS = 0.28  # shoulder widths, about the nose, where the layout has no outline of the face
HEAD_STYLE = f'fill="none" stroke="{GREY}" stroke-width="1.6"'
CLOSED_LINES = {
    "lips": ((*range(11), *range(19, 10, -1), 0), (*range(20, 31), *range(39, 30, -1), 20)),
    "face_outline": ((*range(17), *range(35, 16, -1), 0),),
    "brows": tuple(
        (*range(first, first + 5), *range(first + 9, first + 4, -1), first) for first in (1, 11)
    ),
    "eyes": tuple(
        (first, *range(first + 2, first + 9), first + 1, *range(first + 15, first + 8, -1), first)
        for first in (0, 16)
    ),
    "gaze": ((3, 4, 5, 6, 3), (10, 11, 12, 13, 10)),
}
ALL_LANDMARKS = {one.name: one.landmarks for groups in GROUP_CHOICES.values() for one in groups}
START = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE:g} {SIZE:g}">'

# Of the players.
MAX_FPS = 30.0
MAX_FRAMES = 600  # a longer clip shows fewer frames a second
STEPS = 20  # of the track's numbers in one SVG unit
ABSENT = 0xFFFF

Points = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stroke:
    """A line through landmarks."""

    marks: tuple[int, ...]  # their positions in the layout, in the order of drawing
    colour: str
    width: float  # SVG units

    @property
    def style(self) -> str:
        """How it is drawn, as attributes of a path."""
        return (
            f'fill="none" stroke="{self.colour}" stroke-width="{self.width:g}" '
            'stroke-linecap="round" stroke-linejoin="round"'
        )

    def path(self, points: Points) -> str:
        """Return its way through points, shape (P, 2); broken, not bridged, where one is absent."""
        parts, pen_down = [], False
        for x, y in points[list(self.marks)]:
            if np.isfinite(x) and np.isfinite(y):
                parts.append(f"{'L' if pen_down else 'M'}{x:.1f} {y:.1f}")
                pen_down = True
            else:
                pen_down = False
        return "".join(parts)


def find_frames(sequence: LandmarkSequence, groups: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return the frames that show any of these groups; all of them if none does."""
    is_present = sequence.present[:, [sequence.layout.group(name) for name in groups]].any(axis=1)
    return np.flatnonzero(is_present) if is_present.any() else np.arange(len(is_present))


def to_pixels(sequence: LandmarkSequence) -> Points:
    """Return where the landmarks are in the picture, shape (S, P, 2), pixels."""
    return sequence.points[..., :2].astype(np.float64) * [sequence.width, sequence.height]


def crop(pixels: Points, layout: Layout) -> Points:
    """Move landmarks, shape (N, P, 2) in pixels, into one square with equal scale on both axes.

    Returns:
        Shape (N, P, 2), SVG units of a picture, NaN kept.
    """
    # Hips are often a guess far below the picture; they are neither shown nor given room.
    shown = [mark for mark, name in enumerate(layout.landmark_names) if not name.endswith("_hip")]
    heads = find_heads(pixels, layout) if has_head(layout) else np.zeros((0, 2, 2))
    corners = np.concatenate((pixels[:, shown].reshape(-1, 2), heads.reshape(-1, 2)))
    corners = corners[np.isfinite(corners).all(axis=1)]
    if not len(corners):
        return pixels
    low, high = corners.min(axis=0), corners.max(axis=0)
    scale = SIZE * (1 - 2 * MARGIN) / max(float((high - low).max()), 1.0)
    return np.asarray((pixels - (low + high) / 2) * scale + SIZE / 2)


def has_head(layout: Layout) -> bool:
    """Whether a circle is drawn for the head, for want of an outline of the face."""
    return "pose.nose" in layout.landmark_names and "face_outline" not in layout.group_names


def find_heads(points: Points, layout: Layout) -> Points:
    """Return the upper left and lower right corners of the heads, shape (N, 2, 2).

    NaN where the pose is absent.
    """
    left, right = (points[:, layout.index("pose", f"{s}_shoulder")] for s in ("left", "right"))
    nose = points[:, layout.index("pose", "nose")]
    radius = HEAD_RADIUS * np.linalg.norm(left - right, axis=1, keepdims=True)
    return np.stack((nose - radius, nose + radius), axis=1)


def list_strokes(layout: Layout) -> list[Stroke]:
    """Return the lines that make a skeleton of this layout."""
    strokes = []
    if "pose" in layout.group_names:
        arms = tuple(layout.index("pose", name) for name in ARMS)
        strokes.append(Stroke(marks=arms, colour=GREY, width=1.6))
    for name, lines in CLOSED_LINES.items():
        if name in layout.group_names:
            colour = GREY if name == "face_outline" else PURPLE
            strokes += [_stroke(layout, name, line, colour, width=1.0) for line in lines]
    for name, colour in HANDS.items():
        if name in layout.group_names:
            strokes += [_stroke(layout, name, x, colour, width=1.2) for x in (PALM, *FINGERS)]
    return strokes


def place_circle(low: Points, high: Points) -> str:
    """Return the attributes that set a circle between two corners, each of shape (2,)."""
    (x, y), radius = (low + high) / 2, float(high[0] - low[0]) / 2
    return f'cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"'


def _stroke(
    layout: Layout, group: str, line: tuple[int, ...], colour: str, *, width: float
) -> Stroke:
    present_marks = layout.groups[layout.group(group)].landmarks  # imported ones may lack some
    names = [ALL_LANDMARKS[group][mark] for mark in line]
    marks = tuple(layout.index(group, name) for name in names if name in present_marks)
    return Stroke(marks=marks, colour=colour, width=width)


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
        name: Unique on the page; letters, digits and hyphens.
        label: What a person who cannot see it must know.
    """
    stride = max(
        math.ceil(sequence.fps / MAX_FPS - 0.01), math.ceil(len(sequence.points) / MAX_FRAMES)
    )
    hands = [group for group in HANDS if group in sequence.layout.group_names]
    frames = find_frames(sequence, hands or sequence.layout.group_names)
    points = crop(to_pixels(sequence)[::stride], sequence.layout)
    first = min(round(int(frames[len(frames) // 2]) / stride), len(points) - 1)
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
    position = {mark: number for number, mark in enumerate(used)}
    parts = [
        f'<path data-marks="{" ".join(str(position[mark]) for mark in stroke.marks)}" '
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
    is_known = np.isfinite(points).all(axis=2, keepdims=True)
    steps = np.rint(np.where(is_known, points, 0) * STEPS).clip(0, SIZE * STEPS)
    packed = np.where(is_known, steps, ABSENT).astype("<u2")
    return base64.b64encode(packed.tobytes()).decode()
