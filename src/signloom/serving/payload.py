"""Landmarks of a clip as JSON: what served models are asked with; docs/translate.md describes it.

{"fps": 25.0, "width": 640, "height": 480, "frames": [{"left_hand": [[x, y, z], ...], ...}, ...]}
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from signloom.config import UserError
from signloom.corpus.landmarks import COORDINATES, LandmarkSequence, Layout


def to_payload(sequence: LandmarkSequence) -> dict[str, Any]:
    """Return a clip for JSON; groups that are absent in a frame are left out there."""
    layout = sequence.layout
    frames = [
        {
            name: sequence.points[frame, layout.slice(name)].astype(float).tolist()
            for name in layout.group_names
            if sequence.present[frame, layout.group(name)]
        }
        for frame in range(len(sequence.points))
    ]
    return {
        "fps": sequence.fps, "width": sequence.width, "height": sequence.height, "frames": frames
    }  # fmt: skip


def from_payload(clip: Mapping[str, Any], layout: Layout) -> LandmarkSequence:
    """Inverse of `to_payload`; rounds to half precision, as landmarks are stored.

    Args:
        clip: The clip.
        layout: Of the model. Groups that it does not have are refused: it would not look at them.

    Raises:
        UserError: If something is missing, of another shape or no number.
    """
    try:
        frames = list(clip["frames"])
        fps, width, height = float(clip["fps"]), int(clip["width"]), int(clip["height"])
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"a clip needs fps, width, height and a list of frames; found {sorted(clip)} ({error})"
        ) from None
    points = np.full((len(frames), layout.points, COORDINATES), np.nan, np.float32)
    present = np.zeros((len(frames), len(layout.groups)), np.bool_)
    for number, frame in enumerate(frames):
        for name, marks in (frame or {}).items():
            if marks is not None and len(marks):
                place = _place(layout, name, number)
                points[number, place] = _numbers(layout, name, number, marks)
                present[number, layout.group(name)] = True
    with np.errstate(over="ignore"):  # what becomes infinite is refused below
        points = points.astype(np.float16).astype(np.float32)
    try:
        return LandmarkSequence(
            points=points, present=present, fps=fps, width=width, height=height, layout=layout
        )
    except ValueError as error:
        raise UserError(f"a clip cannot be right: {error}") from None


def _place(layout: Layout, name: str, number: int) -> slice:
    if name not in layout.group_names:
        raise UserError(
            f"frame {number}: found a group {name!r}; this model reads "
            f"{', '.join(layout.group_names)}"
        )
    return layout.slice(name)


def _numbers(layout: Layout, name: str, number: int, marks: Any) -> npt.NDArray[np.float64]:
    expected = (len(layout.groups[layout.group(name)].landmarks), COORDINATES)
    try:
        found = np.array([list(mark) for mark in marks], np.float64)
    except (TypeError, ValueError) as error:
        raise UserError(f"frame {number}: {name} is no list of points ({error})") from None
    if found.shape != expected or not np.isfinite(found).all():
        raise UserError(
            f"frame {number}: {name} has the shape {found.shape}, expected {expected} finite "
            "numbers: x, y and z of each landmark; leave the group out where it is absent"
        )
    return found
