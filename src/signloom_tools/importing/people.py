"""The signer among the people that a detector found, and the clip that their points make."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from signloom.corpus.landmarks import COORDINATES
from signloom.errors import ClipError
from signloom_tools.importing.foreign import ForeignClip, LandmarkPart
from signloom_tools.importing.options import SourceDefaults
from signloom_tools.importing.skeletons import SKELETONS

Points = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class DetectedPerson:
    """Somebody in one frame."""

    points: Points  # shape (K, 3): x, y and score
    identity: Hashable = None  # the tracker's name of the person, if there was one

    @property
    def box(self) -> tuple[Points, float]:
        """Middle and area of what was found, area 0 if nothing was."""
        points = self.points[self.points[:, 2] > 0, :2]
        if not len(points):
            return np.zeros(2, np.float32), 0.0
        low, high = points.min(axis=0), points.max(axis=0)
        return (low + high) / 2, float(np.prod(high - low))


def follow_signer(frames: Sequence[Sequence[DetectedPerson]]) -> Points:
    """Return the points of one person, shape (S, K, 3), score 0 where there is no one.

    Who was tracked and fills most of the pictures; without tracking, the largest person of all
    frames, followed from frame to frame to who is nearest.

    Raises:
        ClipError: If no frame shows a person, or the people have different points.
    """
    counts = {len(person.points) for people in frames for person in people}
    if len(counts) != 1:
        contents = f"people with {sorted(counts)} points" if counts else "nobody in it"
        raise ClipError(f"it has {contents}", "give one detector's points, with a person")
    points = np.zeros((len(frames), counts.pop(), COORDINATES), np.float32)
    areas: dict[Hashable, float] = {}
    for people in frames:
        for person in people:
            areas[person.identity] = areas.get(person.identity, 0.0) + person.box[1]
    if None not in areas:
        signer = max(areas, key=lambda identity: areas[identity])
        for number, people in enumerate(frames):
            for person in people:
                if person.identity == signer:
                    points[number] = person.points
        return points
    sizes = [max((person.box[1] for person in people), default=-1.0) for people in frames]
    start = int(np.argmax(sizes))
    largest = max(frames[start], key=lambda person: person.box[1])
    for order in (range(start, len(frames)), range(start, -1, -1)):
        middle = largest.box[0]
        for number in order:
            if frames[number]:
                nearest = min(
                    frames[number], key=lambda person: float(np.linalg.norm(person.box[0] - middle))
                )
                points[number], middle = nearest.points, nearest.box[0]
    return points


def clip_of_points(
    clip_id: str,
    points: Points,
    scores: Points | None,
    size: tuple[float, int, int],
    defaults: SourceDefaults,
    *,
    people: int = 1,
    label: str = "",
) -> ForeignClip:
    """Return the clip of a detector's points.

    A part is present in a frame where the median of its scores is `min_score` or more. Of a part
    that is present, a point that was not found (score 0) is interpolated in time; one that no frame
    has stands in the middle of the others.

    Args:
        points: Shape (S, K, 2 or more), pixels or shares of the picture; K of `SKELETONS`.
        scores: Shape (S, K); None: the third number of a point, or all are certain.
        size: Frame rate, width and height.
        defaults: The least score.
        people: The most in a frame.
        label: What was signed, if known.

    Raises:
        ClipError: If no known skeleton has this number of points.
    """
    fps, width, height = size
    skeleton = SKELETONS.get(points.shape[1])
    if skeleton is None:
        skeletons = ", ".join(f"{count} ({skeleton.name})" for count, skeleton in SKELETONS.items())
        raise ClipError(f"its frames have {points.shape[1]} points", f"known are {skeletons}")
    xyz = np.zeros((*points.shape[:2], COORDINATES), np.float32)
    xyz[..., : points.shape[2]] = points[..., :COORDINATES]
    if not skeleton.has_depth and scores is None:
        scores = xyz[..., 2] if points.shape[2] > 2 else (xyz[..., :2] != 0).any(axis=2)
    if not skeleton.has_depth:
        point_scores = np.nan_to_num(np.asarray(scores, np.float32)).reshape(points.shape[:2])
        point_scores = np.where(np.isfinite(xyz).all(axis=2), point_scores, 0)
        xyz[..., 2] = 0
        magnitudes = np.abs(xyz[..., :2][point_scores > 0])
        if magnitudes.size and np.median(magnitudes) > _MOST_SHARE:
            xyz[..., :2] /= np.array([width, height], np.float32)
    parts = {}
    for part, columns in skeleton.parts.items():
        part_points = xyz[:, list(columns)]
        if not skeleton.has_depth:
            part_points = _part(part_points, point_scores[:, list(columns)], defaults.min_score)
        parts[part] = LandmarkPart(part_points, tuple(columns.values()))
    return ForeignClip(
        clip_id=clip_id,
        parts=parts,
        fps=fps,
        width=width,
        height=height,
        label=label,
        skeleton=skeleton.name,
        people=people,
        flat=not skeleton.has_depth or points.shape[2] < COORDINATES,
    )


_MOST_SHARE = 2.0  # coordinates whose median is beyond are pixels


def _part(points: Points, scores: Points, least: float) -> Points:
    """Return points (S, N, 3), NaN where the part is absent, with every point where it is not."""
    is_present = (np.median(scores, axis=1) >= least) & (scores > 0).any(axis=1)
    result = np.where(is_present[:, None, None], points, np.float32(np.nan))
    frames = np.arange(len(points))
    is_found = (scores > 0) & is_present[:, None]
    for column in np.flatnonzero((~is_found & is_present[:, None]).any(axis=0)):
        is_known = is_found[:, column]
        lost = is_present & ~is_known
        if is_known.any():
            for axis in (0, 1):
                result[lost, column, axis] = np.interp(
                    frames[lost], frames[is_known], points[is_known, column, axis]
                )
        else:
            weights = is_found[lost][..., None]
            total = (points[lost] * weights).sum(axis=1)
            result[lost, column] = total / np.maximum(weights.sum(axis=1), 1)
    return result
