"""NumPy archives of MediaPipe landmarks, in the shapes that tutorials and projects save.

- A clip a `.npz`: `left_hand`, `right_hand` (S, 21, 3), `pose` (S, 33, 3 or 4), `face` (S, 468 or
  478, 3), any of them, and `fps`, `width`, `height`.
- Many clips in one `.npz`: `frames` (all frames, W), `offsets` (clips + 1), and `labels` if known.
- A matrix (S, W), or clips of one length (clips, S, W), as `.npy` or alone in a `.npz`.

A row of W numbers is one of `ROWS`.
"""

import math
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
import numpy.typing as npt

from signloom.corpus.landmarks import COORDINATES, PART_POINTS
from signloom.errors import ClipError
from signloom.importing.foreign import ClipSource, ForeignClip, Part, SourceDefaults, check_memory
from signloom.importing.kaggle import require

Array = npt.NDArray[np.generic]
T = TypeVar("T")

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
    with path.open("rb") as file:  # NumPy would leave a torn file open
        yield from _read_clips(path, _Archive(path, file, defaults), defaults)


def _read_clips(path: Path, arrays: "_Archive", defaults: SourceDefaults) -> Iterator[ClipSource]:
    said = {key: kind(arrays.read(key)) for key, kind in _SIZES.items() if key in arrays}
    fps, width, height = require(path, defaults, said)
    for clip_id, parts, label in _clips(path, arrays):
        if isinstance(parts, ClipError):
            yield clip_id, partial(_refuse, parts)
            continue
        yield (
            clip_id,
            partial(
                ForeignClip, clip_id=clip_id, parts=parts, fps=fps, width=width, height=height,
                label=label,
            ),
        )  # fmt: skip


def _refuse(error: ClipError) -> ForeignClip:
    raise error


class _Archive:
    """The arrays of an open file by name; each is read when it is asked for.

    What nobody asks for may be damaged, or hold what is never read, such as objects.

    Attributes:
        shapes: Shape and kind of numbers of every array that has a readable header.
    """

    def __init__(self, path: Path, file: IO[bytes], defaults: SourceDefaults) -> None:
        self._file, self._defaults, self._taken_bytes = file, defaults, 0
        try:
            self._zip = zipfile.ZipFile(file) if zipfile.is_zipfile(file) else None
            names = self._zip.namelist() if self._zip else [path.stem]
        except Exception as error:  # a torn archive raises anything
            raise _unreadable(path.name, error) from None
        self._names = {name.removesuffix(".npy"): name for name in names}
        self.shapes: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {}
        for name in self._names:
            try:
                self.shapes[name] = self._read(name, _read_header)
            except Exception as error:
                if not self._zip:
                    raise _unreadable(path.name, error) from None
                # Of an archive it is told where the array is needed.

    def __contains__(self, name: str) -> bool:
        """Say whether there is an array of this name, whole or damaged."""
        return name in self._names

    def read(self, name: str) -> Array:
        """Return an array.

        Raises:
            ClipError: If it is damaged, or takes more memory than a person allows.
        """
        try:
            shape, kind = self._read(name, _read_header)
            # Numbers become four bytes each, texts are what they are.
            self._taken_bytes += math.prod(shape) * max(4, kind.itemsize)
            check_memory(self._taken_bytes, self._defaults)
            return self._read(name, partial(np.lib.format.read_array, allow_pickle=False))
        except ClipError:
            raise
        except Exception as error:
            raise _unreadable(self._names[name], error) from None

    def _read(self, name: str, read: Callable[[IO[bytes]], T]) -> T:
        if self._zip:
            with self._zip.open(self._names[name]) as member:
                return read(member)
        self._file.seek(0)
        return read(self._file)


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return what an array's first bytes say of it, without the rest."""
    layouts: Any = np.lib.format  # which has no types
    is_first = layouts.read_magic(file) == (1, 0)
    read = layouts.read_array_header_1_0 if is_first else layouts.read_array_header_2_0
    shape, _, kind = read(file)
    return shape, kind


def _unreadable(name: str, error: Exception) -> ClipError:
    reason = " ".join(f"{name} is not a readable NumPy array ({error})".split())
    return ClipError(reason, "save it again, as numbers and texts, not objects")


def _clips(path: Path, arrays: _Archive) -> Iterator[tuple[str, dict[str, Part] | ClipError, str]]:
    """Yield clip id, parts and label of each clip of an archive, or what is wrong with labels."""
    if parts := {name: _part(name, arrays.read(name)) for name in PART_POINTS if name in arrays}:
        yield path.stem, parts, ""
        return
    matrices = [
        name
        for name, (shape, kind) in arrays.shapes.items()
        if len(shape) in (2, 3) and shape[-1] in ROWS and kind.kind in "fiu"
    ]
    if len(matrices) != 1:
        shapes = ", ".join(
            f"{name} {shape} {kind}" for name, (shape, kind) in arrays.shapes.items()
        )
        raise ClipError(
            f"its arrays are {shapes[:200] or 'none that can be read'}",
            f"name them {', '.join(PART_POINTS)}, or save one with {', '.join(map(str, ROWS))} "
            "numbers a frame; docs/data.md has the shapes",
        )
    matrix = arrays.read(matrices[0]).astype(np.float32, copy=False)
    if matrix.size == 0:
        raise ClipError(f"its {matrices[0]} has no frames", "leave it out")
    if matrix.ndim == 3:
        bounds = np.arange(len(matrix) + 1) * matrix.shape[1]
    elif "offsets" in arrays:
        bounds = _checked_offsets(arrays.read("offsets"), len(matrix))
    else:
        yield path.stem, _split_rows(matrix), ""
        return
    rows, count = matrix.reshape(-1, matrix.shape[-1]), len(bounds) - 1
    labels = np.array([""] * count)
    if "labels" in arrays:
        shape, _ = arrays.shapes.get("labels", (labels.shape, None))
        if shape != labels.shape:
            raise ClipError(
                f"it has labels of the shape {shape} for {count} clips", "save one for each clip"
            )
        try:
            labels = arrays.read("labels")
        except ClipError as error:  # the clips are good without
            yield f"{path.stem}-labels", error, ""
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
    bounds = offsets.astype(np.int64) if offsets.dtype.kind in "iu" else np.zeros(0, np.int64)
    if (
        bounds.ndim != 1
        or not len(bounds)
        or bounds[0] != 0
        or bounds[-1] != frames
        or (np.diff(bounds) < 0).any()
        or len(bounds) > frames + 1
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
