"""The colour of skin: where red and blue were exchanged, it is blue."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.manifest import Clip
from signloom.detection.video import Video
from signloom.errors import ClipError
from signloom.features.features import HANDS

_FRAMES = 5  # of a clip whose skin is measured
_LOOKED = 60  # frames from the first with a landmark that are decoded: two seconds
_PALM = (0, 5, 17)  # wrist, knuckles of index and little finger: skin lies between them
_HAND_PATCH = 0.25  # half a side of the square that is measured, palm lengths
_FACE_PATCH = 0.06  # likewise, shoulder widths around the nose


def measure_redness(clip: Clip, sequence: LandmarkSequence) -> float | None:
    """Return the median of (red - blue) / (red + green + blue) where skin is.

    Skin of every tone is redder than it is blue. Where it is not, red and blue were exchanged when
    the video was made (a frame written in another order than the writer expects), or the light is
    blue.

    Args:
        clip: A clip with a video or without.
        sequence: Its landmarks.

    Returns:
        -1 to 1, about 0.1 to 0.3 for skin; None without a video, or without landmarks in it.
    """
    if clip.video is None or not clip.video.is_file():
        return None
    seen = np.flatnonzero(sequence.present.any(axis=1))
    if not len(seen):
        return None
    first = seen[0]
    seen = seen[: np.searchsorted(seen, first + _LOOKED)]
    wanted = {int(index) for index in seen[np.linspace(0, len(seen) - 1, _FRAMES).astype(int)]}
    found = []
    try:
        with Video(clip.video) as video:
            for index, frame in enumerate(video.frames(clip.start_s, clip.end_s)):
                if index in wanted:
                    found += [_redness(patch) for patch in _skin(frame.rgb, sequence, index)]
                if index >= max(wanted):
                    break
    except ClipError:  # was read once, for its landmarks; what is gone since cannot be judged
        return None
    return float(np.median(found)) if found else None


def _skin(
    rgb: npt.NDArray[np.uint8], sequence: LandmarkSequence, index: int
) -> Iterator[npt.NDArray[np.uint8]]:
    """Cut the palms and the nose out of a frame, as far as they are inside of it."""
    layout = sequence.layout
    height, width = rgb.shape[:2]
    points = sequence.points[index, :, :2] * np.array([width, height], np.float32)
    squares = []
    for hand in HANDS:
        if hand in layout.group_names and sequence.present[index, layout.group(hand)]:
            marks = points[layout.slice(hand)]
            palm = float(np.linalg.norm(marks[9] - marks[0]))
            squares.append((marks[list(_PALM)].mean(axis=0), _HAND_PATCH * palm))
    if "pose" in layout.group_names and sequence.present[index, layout.group("pose")]:
        nose, left, right = (
            points[layout.index("pose", name)]
            for name in ("nose", "left_shoulder", "right_shoulder")
        )
        squares.append((nose, _FACE_PATCH * float(np.linalg.norm(left - right))))
    for middle, radius in squares:
        x, y, r = int(middle[0]), int(middle[1]), max(int(radius), 1)
        patch = rgb[max(y - r, 0) : max(y + r, 0), max(x - r, 0) : max(x + r, 0)]
        if patch.size:
            yield patch


def _redness(patch: npt.NDArray[np.uint8]) -> float:
    red, green, blue = patch.reshape(-1, 3).mean(axis=0)
    return float((red - blue) / max(red + green + blue, 1.0))
