"""The landmarks of a clip come in, a strip of skeleton pictures goes out as SVG text."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from signloom.corpus.landmarks import LandmarkSequence, Layout
from signloom.report.palette import BLUE, GREY, MUTED, ORANGE, PAPER, PURPLE, RED

SIZE = 100.0  # side of a picture, SVG units
MARGIN = 0.06  # of the side, around the landmarks
HANDS = {"left_hand": ORANGE, "right_hand": BLUE}
FINGERS = ((0, 1, 2, 3, 4), (5, 6, 7, 8), (9, 10, 11, 12), (13, 14, 15, 16), (17, 18, 19, 20))
PALM = (0, 5, 9, 13, 17, 0)
ARMS = (
    "left_wrist", "left_elbow", "left_shoulder", "right_shoulder", "right_elbow", "right_wrist",
)  # fmt: skip
HEAD_RADIUS = 0.28  # shoulder widths, about the nose, where the layout has no outline of the face
CLOSED_LINES = {
    "lips": ((*range(11), *range(19, 10, -1), 0), (*range(20, 31), *range(39, 30, -1), 20)),
    "face_outline": ((*range(17), *range(35, 16, -1), 0),),
}
BAR_HEIGHT = 5.0  # of a hand in the bars of `draw_presence`, SVG units

Points = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Picture:
    """One frame."""

    time_s: float
    svg: str
    """A whole SVG file."""
    missing: tuple[str, ...] = ()
    """Hands that the layout has and the frame has not, as `left hand`."""


def draw_pictures(sequence: LandmarkSequence, count: int, *, whole: bool = False) -> list[Picture]:
    """Draw some frames of a clip, spread evenly.

    All pictures of a clip share one square crop, so that movement can be followed.

    Args:
        sequence: The clip.
        count: Pictures; fewer if the clip has fewer frames.
        whole: Spread them over the whole clip and mark hands that are missing; otherwise over the
            part in which a hand is seen.
    """
    layout = sequence.layout
    seen = np.arange(len(sequence.points))
    speaking = [name for name in (*HANDS, "lips") if name in layout.group_names]
    there = sequence.present[:, [layout.group(name) for name in speaking]]
    if not whole and there.any():
        seen = np.flatnonzero(there.any(axis=1))
    frames = np.unique(np.linspace(seen[0], seen[-1], count).round().astype(int))
    pixels = sequence.points[..., :2].astype(np.float64) * [sequence.width, sequence.height]
    units = _crop(pixels[frames], layout)
    pictures = []
    for frame, points in zip(frames, units, strict=True):
        lost = [
            name for column, name in enumerate(speaking)
            if whole and name in HANDS and not there[frame, column]
        ]  # fmt: skip
        lines = (*_draw_frame(points, layout), *map(_draw_lost, lost))
        pictures.append(
            Picture(
                time_s=float(frame / sequence.fps),
                svg=f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE:g} {SIZE:g}">'
                f"{''.join(lines)}</svg>",
                missing=tuple(name.replace("_", " ") for name in lost),
            )
        )
    return pictures


def draw_presence(sequence: LandmarkSequence) -> str:
    """Draw a bar a hand along the time of a clip: its colour where it was found, red where not.

    Returns:
        A whole SVG file, empty for a layout without hands; to be stretched to any width.
    """
    layout, parts = sequence.layout, []
    frames = len(sequence.points)
    for row, name in enumerate(name for name in HANDS if name in layout.group_names):
        there = sequence.present[:, layout.group(name)]
        edges = [0, *(np.flatnonzero(np.diff(there)) + 1), frames]
        for start, stop in pairwise(edges):
            colour = HANDS[name] if there[start] else RED
            inset = 0 if there[start] else BAR_HEIGHT / 4  # told apart without colours too
            parts.append(
                f'<rect x="{start}" y="{row * (BAR_HEIGHT + 1) + inset:g}" width="{stop - start}" '
                f'height="{BAR_HEIGHT - 2 * inset:g}" fill="{colour}"/>'
            )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {frames} {2 * BAR_HEIGHT + 1:g}" '
        f'preserveAspectRatio="none">{"".join(parts)}</svg>'
    )


def join_pictures(pictures: list[Picture]) -> str:
    """Set pictures side by side in one SVG file, with their times below."""
    width, height = SIZE * len(pictures), SIZE + 14
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}">',
        f'<rect width="{width:g}" height="{height:g}" fill="{PAPER}"/>',
    ]
    for place, picture in enumerate(pictures):
        body = picture.svg[picture.svg.index(">") + 1 : picture.svg.rindex("</svg>")]
        parts.append(
            f'<g transform="translate({place * SIZE:g} 0)">{body}<text x="{SIZE / 2:g}" '
            f'y="{SIZE + 10:g}" font-size="8" text-anchor="middle" font-family="sans-serif" '
            f'fill="{MUTED}">{picture.time_s:.1f} s</text></g>'
        )
    return "".join((*parts, "</svg>\n"))


def _crop(pixels: Points, layout: Layout) -> Points:
    """Move pixels, shape (N, P, 2), into the square picture with equal scale on both axes."""
    # Hips are often a guess far below the picture; they are neither shown nor given room.
    shown = [mark for mark, name in enumerate(layout.landmark_names) if not name.endswith("_hip")]
    heads = [_head(points, layout) for points in pixels] if _has_head(layout) else []
    tops = [centre - radius for centre, radius in heads]
    corners = np.concatenate((pixels[:, shown].reshape(-1, 2), np.reshape(tops, (-1, 2))))
    corners = corners[np.isfinite(corners).all(axis=1)]
    if not len(corners):
        return pixels
    low, high = corners.min(axis=0), corners.max(axis=0)
    scale = SIZE * (1 - 2 * MARGIN) / max(float((high - low).max()), 1.0)
    return np.asarray((pixels - (low + high) / 2) * scale + SIZE / 2)


def _has_head(layout: Layout) -> bool:
    return "pose.nose" in layout.landmark_names and "face_outline" not in layout.group_names


def _head(points: Points, layout: Layout) -> tuple[Points, float]:
    """Centre (the nose) and radius of the head; NaN where the pose is absent."""
    left, right = (points[layout.index("pose", f"{side}_shoulder")] for side in ("left", "right"))
    nose = points[layout.index("pose", "nose")]
    return nose, HEAD_RADIUS * float(np.linalg.norm(left - right))


def _draw_frame(points: Points, layout: Layout) -> Iterator[str]:
    """Yield the lines of one frame; what is absent is left out."""
    if "pose" in layout.group_names:
        yield _line(points[[layout.index("pose", name) for name in ARMS]], GREY, width=1.6)
    if _has_head(layout):
        nose, radius = _head(points, layout)
        if np.isfinite([*nose, radius]).all():
            yield (
                f'<circle cx="{nose[0]:.1f}" cy="{nose[1]:.1f}" r="{radius:.1f}" '
                f'fill="none" stroke="{GREY}" stroke-width="1.6"/>'
            )
    for name, lines in CLOSED_LINES.items():
        if name in layout.group_names:
            colour = PURPLE if name == "lips" else GREY
            for line in lines:
                yield _line(points[layout.slice(name)][list(line)], colour, width=1.0)
    for name, colour in HANDS.items():
        if name in layout.group_names:
            hand = points[layout.slice(name)]
            yield _line(hand[list(PALM)], colour, width=1.2)
            for finger in FINGERS:
                yield _line(hand[list(finger)], colour, width=1.2)


def _draw_lost(hand: str) -> str:
    """A crossed letter in the lower corner on the viewer's side of that hand."""
    x = SIZE - 10 if hand == "left_hand" else 10
    y = SIZE - 10
    return (
        f'<text x="{x:g}" y="{y + 4:g}" font-size="12" text-anchor="middle" '
        f'font-family="sans-serif" fill="{HANDS[hand]}">{hand[0].upper()}</text>'
        f'<path d="M{x - 8:g} {y + 8:g}L{x + 8:g} {y - 8:g}" stroke="{RED}" stroke-width="2"/>'
    )


def _line(points: Points, colour: str, *, width: float) -> str:
    """A line through points; broken, not bridged, where one is absent."""
    parts, pen_down = [], False
    for x, y in points:
        if np.isfinite(x) and np.isfinite(y):
            parts.append(f"{'L' if pen_down else 'M'}{x:.1f} {y:.1f}")
            pen_down = True
        else:
            pen_down = False
    if not parts:
        return ""
    return (
        f'<path d="{"".join(parts)}" fill="none" stroke="{colour}" stroke-width="{width:g}" '
        'stroke-linecap="round" stroke-linejoin="round"/>'
    )
