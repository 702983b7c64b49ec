"""Landmarks of other tools, and how they become a `LandmarkSequence`."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from signloom.corpus.landmarks import (
    COORDINATES,
    FEATURES,
    GROUP_INDICES,
    Group,
    LandmarkSequence,
    Layout,
    index_of,
)
from signloom.errors import ClipError, UserError
from signloom_tools.importing.file_names import SIZES, without_ending
from signloom_tools.importing.options import SourceDefaults
from signloom_tools.importing.skeletons import FLAT, partial_layout

# Share of hands' points that far outside of the picture; more where the file itself says its size.
_OUTSIDE, _OUTSIDE_OF_STATED, _MARGIN = 0.2, 0.5, 0.1
CORRECT_KEYS = "correct --keys"  # how the hint begins of what is not where they say
_FARTHEST = 4.0  # pictures: most landmarks lie nearer than this, or they are no shares of a picture


def check_memory(size_bytes: int, defaults: SourceDefaults) -> None:
    """Refuse what would take more memory than a person allows.

    Raises:
        ClipError: If it would.
    """
    if size_bytes > defaults.memory_mb * 1_000_000:
        raise ClipError(
            f"its numbers would take {size_bytes / 1_000_000:,.0f} MB of memory, expected at most "
            f"{defaults.memory_mb:,}",
            "cut it into smaller files, or allow more with --memory-mb",
        )


def require_rate_and_size(
    path: Path, defaults: SourceDefaults, stated_sizes: Mapping[str, Any] = MappingProxyType({})
) -> tuple[float, int, int]:
    """Return frame rate, width and height of a source, which may say some of them.

    Raises:
        UserError: If one of them is neither said nor given.
    """
    parts = without_ending(path.as_posix()).split("/")
    names = ("/".join(parts[first:]) for first in range(len(parts)))
    table_sizes = next((defaults.rates[name] for name in names if name in defaults.rates), {})
    fps, width, height = (
        stated_sizes.get(name, table_sizes.get(name, getattr(defaults, name))) for name in SIZES
    )
    if fps is None or width is None or height is None:
        raise UserError(
            f"{path} does not say its frame rate and the size of its picture; give what is right "
            "for all sources, as in --fps 30 --width 640 --height 480, a table of them (--rates), "
            "or what the file calls them, as in --keys fps=video_info.fps"
        )
    return fps, int(width), int(height)


def pick(value: Any, name: str) -> Any:
    """Return what lies in a map, record or list by a name with dots, as info.fps or info.0.

    Raises:
        ClipError: If there is nothing of that name.
    """
    for part in name.split(".") if name else ():
        value = np.asarray(value) if hasattr(value, "__array__") else value
        if isinstance(value, np.ndarray) and value.dtype == object and value.ndim == 0:
            value = value.item()
        try:
            value = value[int(part) if part.isdecimal() and not hasattr(value, "keys") else part]
        except (LookupError, ValueError, TypeError):
            keys = getattr(getattr(value, "dtype", None), "names", None) or value
            shown = ", ".join(map(str, keys)) if isinstance(keys, dict | tuple) else value
            is_list = isinstance(value, np.ndarray | list | tuple)
            place = "; in a list, places are names, from 0 on: info.0" if is_list else ""
            raise ClipError(
                f"it has no {part} of {name} (found {str(shown)[:80]})", f"{CORRECT_KEYS}{place}"
            ) from None
    return value


@dataclass(frozen=True, slots=True, eq=False)
class LandmarkPart:
    """Some landmarks of one of MediaPipe's four parts of a person."""

    points: npt.NDArray[np.float32]
    """Shape (S, N, 3) float32, x and y in image coordinates; NaN or all zero in a frame: the part
    is absent there."""
    indices: tuple[int, ...]  # MediaPipe's index in the part for each of the N landmarks


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForeignClip:
    """One clip of another tool."""

    clip_id: str  # from the file's name, and its number or name within the file
    parts: dict[str, LandmarkPart]
    """Some of left_hand, right_hand, pose and face, at least one, all with S frames."""
    fps: float  # frames a second
    width: int  # of the picture, pixels
    height: int  # likewise
    label: str = ""  # what the source says that was signed, or ""
    skeleton: str = "MediaPipe"  # what the source calls its points
    flat: bool = False  # z is not known
    people: int = 1  # the most in a frame; one of them was followed
    states_size: bool = False  # width and height are the file's own

    def __post_init__(self) -> None:
        """Refuse parts that differ in their frames."""
        frames = {name: len(part.points) for name, part in self.parts.items()}
        if len(set(frames.values())) != 1 or 0 in frames.values():
            counts = ", ".join(f"{name} {count}" for name, count in frames.items())
            raise ClipError(
                f"its frames are: {counts or 'none'}", "give all parts the same number, 1 or more"
            )


ClipSource = tuple[str, Callable[[], ForeignClip]]
"""What readers yield: the name of a clip, and what gives it or raises a `ClipError`; so that one
bad clip does not cost those that follow it in the file."""


def layout_of(clip: ForeignClip, choices: Collection[str] | None) -> Layout:
    """Return the layout that a clip can fill.

    A pose without some landmarks (the `reduce_holistic` of pose-format leaves the nose out), fewer
    lips, and points without depth give a layout of its own, if shoulders or corners are there.

    Args:
        choices: Groups it must have, of `GROUP_CHOICES`. None: `hands`, and `pose` if it is there.

    Raises:
        ClipError: If a group is not there.
    """
    if FEATURES in clip.parts:
        marks = tuple(str(index) for index in clip.parts[FEATURES].indices)
        return Layout(f"{FEATURES}-{COORDINATES * len(marks)}", 1, (Group(FEATURES, marks),))
    chosen = choices or ("hands", *(["pose"] if "pose" in clip.parts else []))
    indices = {name: part.indices for name, part in clip.parts.items()}
    try:
        return partial_layout(chosen, indices, flat=clip.flat)
    except ValueError as error:
        raise ClipError(
            f"it has no {error} (found {', '.join(sorted(clip.parts))})",
            "name what it has, as in --keys left_hand=NAME, or choose what is there with --groups",
        ) from None


def to_sequence(
    clip: ForeignClip, layout: Layout, *, allow_outside: bool = False
) -> LandmarkSequence:
    """Return the clip's landmarks in a layout, rounded to half precision.

    A group is present in a frame where all its landmarks are there and not all are zero. Depths
    that lie beyond a picture's width are moved to where MediaPipe has them: about the wrist of a
    hand, the middle of the hips, or the middle of the group.

    Raises:
        ClipError: If a landmark of the layout is missing, or its numbers cannot be right.
    """
    if FEATURES in clip.parts or layout.name.startswith(FEATURES):
        return _feature_sequence(clip, layout)
    if layout.name.endswith(FLAT) != clip.flat:
        which = ("has no depth", "have") if clip.flat else ("has depth", "have none")
        raise ClipError(f"it {which[0]}, the others {which[1]}", "import it into another corpus")
    points, present = [], []
    for group in layout.groups:
        indices = [_index_of(clip, group.name, mark) for mark in group.landmarks]
        if None in indices:
            mark = group.landmarks[indices.index(None)]
            raise ClipError(
                f"it has no {mark} of the {group.name}, which the first clip has",
                "import it into a corpus of its own, or choose what all have with --groups",
            )
        part = clip.parts[GROUP_INDICES[group.name][0]]
        group_points = part.points[:, np.array(indices)].astype(np.float32)
        is_present = np.isfinite(group_points).all(axis=(1, 2)) & (group_points != 0).any(
            axis=(1, 2)
        )
        points.append(_with_own_depth(group_points, is_present, group))
        present.append(is_present)
    stacked, flags = np.concatenate(points, axis=1), np.stack(present, axis=1)
    hands = [layout.slice(name) for name in layout.group_names if name.endswith("hand")]
    _check_numbers(clip, stacked[..., :2])
    if hands and not allow_outside:
        _check_inside(clip, np.concatenate([stacked[:, hand, :2] for hand in hands], axis=1))
    with np.errstate(over="ignore"):  # what becomes infinite is refused below
        stacked = stacked.astype(np.float16).astype(np.float32)
    try:
        return LandmarkSequence(
            points=stacked,
            present=flags,
            layout=layout,
            fps=clip.fps,
            width=clip.width,
            height=clip.height,
        )
    except ValueError as error:
        raise ClipError(str(error), "correct the file, or leave it out") from None


def _feature_sequence(clip: ForeignClip, layout: Layout) -> LandmarkSequence:
    points = clip.parts[FEATURES].points if FEATURES in clip.parts else np.zeros((1, 0, 3))
    if points.shape[1] != layout.points or not layout.name.startswith(FEATURES):
        raise ClipError(
            f"it has {COORDINATES * points.shape[1]} features, the first clip {layout.name}",
            "import it into a corpus of its own",
        )
    return LandmarkSequence(
        points=points.astype(np.float16).astype(np.float32),
        present=np.ones((len(points), 1), np.bool_),
        fps=clip.fps,
        width=1,
        height=1,
        layout=layout,
    )


def _index_of(clip: ForeignClip, group: str, mark: str) -> int | None:
    """Return the column of a landmark in its part, if it is there."""
    part = clip.parts.get(GROUP_INDICES[group][0])
    index = index_of(group, mark)
    return part.indices.index(index) if part and index in part.indices else None


def _with_own_depth(
    points: npt.NDArray[np.float32], present: npt.NDArray[np.bool_], group: Group
) -> npt.NDArray[np.float32]:
    """Return points (S, N, 3) with NaN where absent and z about the group's own middle."""
    points = np.where(present[:, None, None], points, np.float32(np.nan))
    depths = points[..., 2]
    if not present.any() or np.nanmedian(np.abs(depths)) <= 1:
        return points
    marks = enumerate(group.landmarks)
    middle = [number for number, mark in marks if mark == "wrist" or mark.endswith("_hip")]
    middle = middle or list(range(len(group.landmarks)))
    points[..., 2] = depths - depths[:, middle].mean(axis=1, keepdims=True)
    return points


def _check_inside(clip: ForeignClip, xy: npt.NDArray[np.float32]) -> None:
    """Ask about hands that lie outside of the picture: most often its size is not the true one."""
    finite = xy[np.isfinite(xy).all(axis=2)]
    outside = ((finite < -_MARGIN) | (finite > 1 + _MARGIN)).any(axis=1)
    if len(finite) and outside.mean() > (_OUTSIDE_OF_STATED if clip.states_size else _OUTSIDE):
        (left, top), (right, bottom) = finite.min(axis=0), finite.max(axis=0)
        raise ClipError(
            f"{outside.mean():.0%} of its hands lie outside of the picture of {clip.width}x"
            f"{clip.height} (x from {left:.2f} to {right:.2f} of it, y from {top:.2f} to "
            f"{bottom:.2f}): is that its size?",
            "say --width and --height; if the hands do leave it, --allow-outside",
        )


def _check_numbers(clip: ForeignClip, xy: npt.NDArray[np.float32]) -> None:
    if np.isnan(xy).all():
        return
    far = float(np.nanmedian(np.abs(xy)))
    if far > _FARTHEST:
        raise ClipError(
            f"half of its coordinates are beyond {far:.4g}, expected 0 to 1 in the picture",
            f"divide x by the picture's width ({clip.width}?) and y by its height ({clip.height}?)",
        )
