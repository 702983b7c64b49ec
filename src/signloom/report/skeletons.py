"""The landmarks of a clip come in, a strip of skeleton pictures goes out as SVG text."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from signloom.corpus.landmarks import LandmarkSequence, Layout
from signloom.report.palette import BLUE, GREY, MUTED, ORANGE, PAPER, PURPLE

SIZE = 100.0  # side of a picture, SVG units
MARGIN = 0.06  # of the side, around the landmarks
HANDS = {"left_hand": ORANGE, "right_hand": BLUE}
FINGERS = ((0, 1, 2, 3, 4), (5, 6, 7, 8), (9, 10, 11, 12), (13, 14, 15, 16), (17, 18, 19, 20))
PALM = (0, 5, 9, 13, 17, 0)
ARMS = (
    "left_wrist", "left_elbow", "left_shoulder", "right_shoulder", "right_elbow", "right_wrist",
)  # fmt: skip
HEAD_RADIUS = 0.28  # shoulder widths, about the nose, where the layout has no outline of the face
# Group to its closed lines: the upper row and the lower one, both from the signer's right to left.
OUTLINES = {
    "lips": (PURPLE, ((range(11), range(11, 20)), (range(20, 31), range(31, 40)))),
    "face_outline": (GREY, ((range(17), range(17, 36)),)),
}

Points = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Picture:
    """One frame."""

    time_s: float
    svg: str
    """A whole SVG file."""


def draw_pictures(sequence: LandmarkSequence, count: int) -> list[Picture]:
    """Draw some frames of a clip, spread evenly over the part in which a hand (or lips) is seen.

    All pictures of a clip share one square crop, so that movement can be followed.

    Args:
        sequence: The clip.
        count: Pictures; fewer if the clip has fewer frames.
    """
    layout = sequence.layout
    speaks = [layout.group(name) for name in (*HANDS, "lips") if name in layout.group_names]
    there = sequence.present[:, speaks].any(axis=1)
    seen = np.flatnonzero(there) if there.any() else np.arange(len(there))
    frames = np.unique(np.linspace(seen[0], seen[-1], count).round().astype(int))
    pixels = sequence.points[..., :2].astype(np.float64) * [sequence.width, sequence.height]
    units = _crop(pixels[frames], layout)
    return [
        Picture(
            time_s=float(frame / sequence.fps),
            svg=f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE:g} {SIZE:g}">'
            f"{''.join(_draw_frame(points, layout))}</svg>",
        )
        for frame, points in zip(frames, units, strict=True)
    ]


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
    tops = [centre - radius for points in pixels for centre, radius in _head(points, layout)]
    corners = np.concatenate((pixels[:, shown].reshape(-1, 2), np.array(tops).reshape(-1, 2)))
    corners = corners[np.isfinite(corners).all(axis=1)]
    if not len(corners):
        return pixels
    low, high = corners.min(axis=0), corners.max(axis=0)
    scale = SIZE * (1 - 2 * MARGIN) / max(float((high - low).max()), 1.0)
    return np.asarray((pixels - (low + high) / 2) * scale + SIZE / 2)


def _head(points: Points, layout: Layout) -> list[tuple[Points, float]]:
    """Centre (the nose) and radius of a circle for the head; none where the layout has better."""
    if "pose" not in layout.group_names or "face_outline" in layout.group_names:
        return []
    left, right = (points[layout.index("pose", f"{side}_shoulder")] for side in ("left", "right"))
    nose = points[layout.index("pose", "nose")]
    return [(nose, HEAD_RADIUS * float(np.linalg.norm(left - right)))]


def _draw_frame(points: Points, layout: Layout) -> Iterator[str]:
    """Yield the lines of one frame; what is absent, or not in the layout, is left out."""
    if "pose" in layout.group_names:
        yield _line(points[[layout.index("pose", name) for name in ARMS]], GREY, width=1.6)
    for nose, radius in _head(points, layout):
        if np.isfinite([*nose, radius]).all():
            yield (
                f'<circle cx="{nose[0]:.1f}" cy="{nose[1]:.1f}" r="{radius:.1f}" '
                f'fill="none" stroke="{GREY}" stroke-width="1.6"/>'
            )
    for name, (colour, rows) in OUTLINES.items():
        if name in layout.group_names:
            marks = points[layout.slice(name)]
            for upper, lower in rows:
                closed = [*upper, *reversed(lower), upper[0]]
                yield _line(marks[closed], colour, width=1.2)
    for name, colour in HANDS.items():
        if name in layout.group_names:
            hand = points[layout.slice(name)]
            yield _line(hand[list(PALM)], colour, width=1.2)
            for finger in FINGERS:
                yield _line(hand[list(finger)], colour, width=1.2)


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
