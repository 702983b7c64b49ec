"""NumPy archives of MediaPipe landmarks, in the shapes that tutorials and projects save.

- A clip a `.npz`: `left_hand`, `right_hand` (S, 21, 3), `pose` (S, 33, 3 or 4), `face` (S, 468 or
  478, 3), any of them, and `fps`, `width`, `height`.
- Many clips in one `.npz`: `frames` (all frames, W), `offsets` (clips + 1), and `labels` if known.
- A matrix (S, W), or clips of one length (clips, S, W), as `.npy` or alone in a `.npz`.

A row of W numbers is one of `ROWS`.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from signloom.corpus.landmarks import COORDINATES, PART_POINTS
from signloom.errors import ClipError
from signloom.importing.foreign import ClipSource, ForeignClip, Part, SourceDefaults
from signloom.importing.kaggle import require

Array = npt.NDArray[np.generic]

ROWS: dict[int, tuple[tuple[str, int], ...]] = {
    126: (("left_hand", 3), ("right_hand", 3)),
    258: (("pose", 4), ("left_hand", 3), ("right_hand", 3)),
    1662: (("pose", 4), ("face", 3), ("left_hand", 3), ("right_hand", 3)),
}
"""Numbers of a frame: parts, and numbers of a landmark (x, y, z, and the pose's visibility)."""

_SIZES = {"fps": float, "width": int, "height": int}


def read_arrays(path: Path, defaults: SourceDefaults) -> Iterator[ClipSource]:
    """Yield the clips of a `.npy` or `.npz` file. Nothing in it is ever executed (no pickles).

    Args:
        path: The file.
        defaults: Frame rate and picture size where the archive does not say them.

    Raises:
        ClipError: If the file cannot be read or has none of the shapes above.
        UserError: If a default is missing.
    """
    arrays = _load(path)
    said = {key: kind(arrays[key]) for key, kind in _SIZES.items() if key in arrays}
    fps, width, height = require(path, defaults, said)
    for clip_id, parts, label in _clips(path, arrays):
        yield (
            clip_id,
            partial(
                ForeignClip, clip_id=clip_id, parts=parts, fps=fps, width=width, height=height,
                label=label,
            ),
        )  # fmt: skip


def _load(path: Path) -> dict[str, Array]:
    try:
        with path.open("rb") as file:  # np.load would leave a torn file open
            loaded = np.load(file, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                return {path.stem: loaded}
            # A member that is no array comes as bytes.
            return {name: np.asarray(loaded[name]) for name in loaded.files}
    except Exception as error:  # A torn archive raises anything from zipfile, zlib or NumPy.
        reason = " ".join(f"not a readable NumPy file ({error})".split())
        raise ClipError(reason, "save it again, as numbers and texts, not objects") from None


def _clips(path: Path, arrays: Mapping[str, Array]) -> Iterator[tuple[str, dict[str, Part], str]]:
    """Yield clip id, parts and label of each clip of an archive."""
    if parts := {name: _part(name, arrays[name]) for name in PART_POINTS if name in arrays}:
        yield path.stem, parts, ""
        return
    data = [array for name, array in arrays.items() if name not in (*_SIZES, "offsets")]
    matrices = [array for array in data if array.ndim > 1 and array.shape[-1] in ROWS]
    if len(matrices) != 1 or matrices[0].ndim > 3 or matrices[0].dtype.kind not in "fiu":
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ClipError(
            f"its arrays are {shapes or 'none'}",
            f"name them {', '.join(PART_POINTS)}, or save one with {', '.join(map(str, ROWS))} "
            "numbers a frame; docs/data.md has the shapes",
        )
    matrix = matrices[0].astype(np.float32, copy=False)
    if matrix.ndim == 3:
        bounds = np.arange(len(matrix) + 1) * matrix.shape[1]
    elif "offsets" in arrays:
        bounds = _checked_offsets(arrays["offsets"], len(matrix))
    else:
        yield path.stem, _split_rows(matrix), ""
        return
    rows, count = matrix.reshape(-1, matrix.shape[-1]), len(bounds) - 1
    labels = arrays.get("labels", np.array([""] * count))
    if labels.shape != (count,):
        raise ClipError(
            f"it has labels of the shape {labels.shape} for {count} clips", "save one for each clip"
        )
    for number in range(count):
        name = f"{path.stem}-{number + 1:0{len(str(count))}d}"
        yield name, _split_rows(rows[bounds[number] : bounds[number + 1]]), str(labels[number])


def _part(name: str, array: Array) -> Part:
    count = PART_POINTS[name]
    if array.ndim != 3 or array.shape[1] < count or array.shape[2] < COORDINATES:
        raise ClipError(
            f"its {name} has the shape {array.shape}", f"save it as (frames, {count}, 3)"
        )
    if array.dtype.kind not in "fiu":
        raise ClipError(f"its {name} has values of type {array.dtype}", "save it as numbers")
    points = array[:, :count, :COORDINATES].astype(np.float32)
    return Part(points, tuple(range(count)))


def _checked_offsets(offsets: Array, frames: int) -> npt.NDArray[np.int64]:
    bounds = offsets.astype(np.int64)
    if (
        bounds.ndim != 1
        or not len(bounds)
        or bounds[0] != 0
        or bounds[-1] != frames
        or (np.diff(bounds) < 0).any()
    ):
        raise ClipError(
            f"its offsets do not run from 0 to its {frames} frames",
            "save where each clip starts, and at last the number of all frames",
        )
    return bounds


def _split_rows(rows: npt.NDArray[np.float32]) -> dict[str, Part]:
    """Cut rows (S, W) into parts."""
    parts, first = {}, 0
    for name, numbers in ROWS[rows.shape[1]]:
        count = PART_POINTS[name]
        block = rows[:, first : first + count * numbers].reshape(len(rows), count, numbers)
        parts[name] = Part(block[..., :COORDINATES], tuple(range(count)))
        first += count * numbers
    return parts
