"""Landmarks of other tools, and how they become a `LandmarkSequence`."""

import functools
from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from signloom.config import MEMORY_MB, Count, FrameRate, Side, checked_dataclass
from signloom.corpus.landmarks import (
    GROUP_CHOICES,
    GROUP_INDICES,
    Group,
    LandmarkSequence,
    Layout,
    build_layout,
)
from signloom.errors import ClipError

_FARTHEST = 4.0  # pictures: most landmarks lie nearer than this, or they are no shares of a picture
_NEEDED = {"pose": ("left_shoulder", "right_shoulder")}  # to normalise; others may be left out


def check_memory(size_bytes: int, defaults: "SourceDefaults") -> None:
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


@checked_dataclass
class SourceDefaults:
    """What to take where a source does not say it; None: refuse such sources."""

    fps: FrameRate | None
    width: Side | None
    height: Side | None
    # Most that the numbers of one file may take, 10^6 bytes: a file of some megabytes may unpack
    # to more than any machine has.
    memory_mb: Count = MEMORY_MB


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Some landmarks of one of MediaPipe's four parts of a person."""

    points: npt.NDArray[np.float32]
    """Shape (S, N, 3) float32, x and y in image coordinates; NaN or all zero in a frame: the part
    is absent there."""
    indices: tuple[int, ...]  # MediaPipe's index in the part for each of the N landmarks


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ForeignClip:
    """One clip of another tool."""

    clip_id: str  # from the file's name, and its number or name within the file
    parts: dict[str, Part]
    """Some of left_hand, right_hand, pose and face, at least one, all with S frames."""
    fps: float  # frames a second
    width: int  # of the picture, pixels
    height: int  # likewise
    label: str = ""  # what the source says that was signed, or ""

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

    A pose without some landmarks (the `reduce_holistic` of pose-format leaves the nose out) gives
    a layout of its own, if it has shoulders.

    Args:
        clip: The clip.
        choices: Groups it must have, of `GROUP_CHOICES`. None: `hands`, and `pose` if it is there.

    Raises:
        ClipError: If a group is not there.
    """
    chosen = choices or ("hands", *(["pose"] if "pose" in clip.parts else []))
    plain = build_layout(chosen)
    groups, lacking = [], []
    for group in plain.groups:
        there = tuple(
            mark for mark in group.landmarks if _place(clip, group.name, mark) is not None
        )
        needed = _NEEDED.get(group.name, group.landmarks)
        if not there or not set(needed) <= set(there):
            raise ClipError(
                f"it has no {group.name} (found {', '.join(sorted(clip.parts))})",
                "choose what is there with --groups",
            )
        groups.append(Group(group.name, there))
        lacking += [mark for mark in group.landmarks if mark not in there]
    name = plain.name + (f"-without-{'-'.join(lacking)}" if lacking else "")
    return Layout(name, plain.version, tuple(groups))


def to_sequence(clip: ForeignClip, layout: Layout) -> LandmarkSequence:
    """Return the clip's landmarks in a layout, rounded to half precision.

    A group is present in a frame where all its landmarks are there and not all are zero. Depths
    that lie beyond a picture's width are moved to where MediaPipe has them: about the wrist of a
    hand, the middle of the hips, or the middle of the group.

    Raises:
        ClipError: If a landmark of the layout is missing, or its numbers cannot be right.
    """
    points, present = [], []
    for group in layout.groups:
        places = [_place(clip, group.name, mark) for mark in group.landmarks]
        if None in places:
            mark = group.landmarks[places.index(None)]
            raise ClipError(
                f"it has no {mark} of the {group.name}, which the first clip has",
                "import it into a corpus of its own, or choose what all have with --groups",
            )
        part = clip.parts[GROUP_INDICES[group.name][0]]
        found = part.points[:, np.array(places)].astype(np.float32)
        there = np.isfinite(found).all(axis=(1, 2)) & (found != 0).any(axis=(1, 2))
        points.append(_with_own_depth(found, there, group))
        present.append(there)
    stacked, flags = np.concatenate(points, axis=1), np.stack(present, axis=1)
    _check_numbers(clip, stacked[..., :2])
    with np.errstate(over="ignore"):  # what becomes infinite is refused below
        stacked = stacked.astype(np.float16).astype(np.float32)
    try:
        return LandmarkSequence(
            points=stacked, present=flags, layout=layout,
            fps=clip.fps, width=clip.width, height=clip.height,
        )  # fmt: skip
    except ValueError as error:
        raise ClipError(str(error), "correct the file, or leave it out") from None


def _place(clip: ForeignClip, group: str, mark: str) -> int | None:
    """Return the column of a landmark in its part, if it is there."""
    part = clip.parts.get(GROUP_INDICES[group][0])
    index = _indices_by_name(group)[mark]
    return part.indices.index(index) if part and index in part.indices else None


@functools.cache
def _indices_by_name(group: str) -> dict[str, int]:
    marks = {g.name: g.landmarks for groups in GROUP_CHOICES.values() for g in groups}[group]
    return dict(zip(marks, GROUP_INDICES[group][1], strict=True))


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


def _check_numbers(clip: ForeignClip, xy: npt.NDArray[np.float32]) -> None:
    if np.isnan(xy).all():
        return
    far = float(np.nanmedian(np.abs(xy)))
    if far > _FARTHEST:
        raise ClipError(
            f"half of its coordinates are beyond {far:.4g}, expected 0 to 1 in the picture",
            f"divide x by the picture's width ({clip.width}?) and y by its height ({clip.height}?)",
        )
