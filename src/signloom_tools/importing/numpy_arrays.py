"""Arrays of MediaPipe landmarks (NumPy, HDF5, MATLAB) in the shapes that people save.

- A clip a `.npz`: `left_hand`, `right_hand` (S, 21, 3), `pose` (S, 33, 3 or 4), `face` (S, 468 or
  478, 3), any of them, and `fps`, `width`, `height`.
- Many clips in one `.npz`: `frames` (all frames, W), `offsets` (clips + 1), and `labels` if known.
- A matrix (S, W), or clips of one length (clips, S, W), as `.npy` or alone in a `.npz`; or a row a
  frame, each a `.npy` of its own in a folder a clip.
- Points (S, K, 2 or more) of one of `SKELETONS`, with `scores` (S, K) if known.
- Any of these in a `.h5` or `.mat`: alone, or a group or an array for each clip.

A row of W numbers is one of `ROWS`.
"""

import io
import math
import posixpath
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, TypeVar

import numpy as np
import numpy.typing as npt

from signloom.corpus.landmarks import COORDINATES, PART_POINTS
from signloom.errors import ClipError, UserError
from signloom_tools.importing import keypoints
from signloom_tools.importing.file_names import PACKED, SIZES
from signloom_tools.importing.foreign import (
    ClipSource,
    ForeignClip,
    LandmarkPart,
    check_memory,
    pick,
    require_rate_and_size,
)
from signloom_tools.importing.options import SourceDefaults
from signloom_tools.importing.people import clip_of_points
from signloom_tools.importing.pickles import unpickle
from signloom_tools.importing.skeletons import SKELETONS

Array = npt.NDArray[np.generic]
T = TypeVar("T")

PART_NAMES = {
    **{name: name for name in PART_POINTS},
    "lh": "left_hand", "left": "left_hand", "lefthand": "left_hand", "hand_left": "left_hand",
    "rh": "right_hand", "right": "right_hand", "righthand": "right_hand",
    "hand_right": "right_hand", "body": "pose",
}  # fmt: skip
"""What people call the files and folders of the parts."""
_SPELT = {
    "keypoints": keypoints.POINTS,
    "scores": keypoints.SCORES,
    **{part: [name for name in PART_NAMES if PART_NAMES[name] == part] for part in PART_POINTS},
}
_OF_ONE = ("keypoints", "frames", "features", "feature", "sign")  # arrays of one clip
ONE_HAND = 63
MOST = 1e6  # of a coordinate, pixels
_MATLAB = {"double", "single", *(f"{sign}int{2**n}" for sign in ("", "u") for n in range(3, 7))}
ROWS: dict[int, tuple[tuple[str, int], ...]] = {
    ONE_HAND: (("right_hand", 3),),
    126: (("left_hand", 3), ("right_hand", 3)),
    258: (("pose", 4), ("left_hand", 3), ("right_hand", 3)),
    1662: (("pose", 4), ("face", 3), ("left_hand", 3), ("right_hand", 3)),
}
"""Numbers of a frame: parts, and numbers of a landmark (x, y, z, and the pose's visibility). With
one hand it is unknown which it is: most sign with the right one."""


def read_arrays(path: Path, defaults: SourceDefaults) -> Iterator[ClipSource]:
    """Yield the clips of a `.npy`, `.npz`, `.h5` or `.mat` file. None of it is executed.

    Raises:
        ClipError: If the file cannot be read or has none of the shapes above.
        UserError: If a default is missing, or a library for the file.
    """
    if path.suffix.lower() not in PACKED:
        with path.open("rb") as file:  # NumPy would leave a torn file open
            yield from _read_clips(path, path.stem, Archive(path, file, defaults), defaults)
        return
    for name, arrays in read_packed(path, defaults):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:  # numpy.savez has names of its own
            for key, array in arrays.items():
                with archive.open(f"{key}.npy", "w", force_zip64=True) as member:
                    np.save(member, array, allow_pickle=False)
        try:
            yield from _read_clips(path, name, Archive(path, packed, defaults), defaults)
        except ClipError as error:  # those that follow are good
            yield name, partial(_refuse, error)


def read_part_files(
    path: Path, files: Mapping[str, Path], defaults: SourceDefaults
) -> Iterator[ClipSource]:
    """Yield the one clip of some `.npy` files, the points of a part each.

    Raises:
        ClipError: If a file cannot be read, or has not the points of its part.
        UserError: If a default is missing.
    """
    parts = {}
    for name, file in files.items():
        with file.open("rb") as opened:
            parts[name] = _part(name, Archive(file, opened, defaults).read(file.stem))
    fps, width, height = require_rate_and_size(path, defaults)
    clip = partial(ForeignClip, clip_id=path.name, fps=fps, width=width, height=height)
    yield path.name, partial(clip, parts=parts)


def read_packed(path: Path, defaults: SourceDefaults) -> Iterator[tuple[str, dict[str, Array]]]:
    """Yield name and arrays of each clip of an HDF5 or MATLAB file: a group, or an array of many.

    Rate and size are numbers or attributes, of the clip or of the file. Links are not followed.

    Raises:
        ClipError: If it cannot be read, or takes more memory than a person allows.
        UserError: If h5py or SciPy is not installed.
    """
    sizes = {defaults.keys.get(key, key) for key in SIZES}
    array_names = {*PART_POINTS, *_OF_ONE, *defaults.keys.values(), *keypoints.POINTS} - sizes
    clips = dict[str, dict[str, Any]]()
    try:
        with _open_packed(path, sizes, defaults) as groups:
            for folder, arrays in groups.items():
                stated = {key: value for key, value in groups.get("", {}).items() if key in sizes}
                stated |= {key: value for key, value in arrays.items() if key in sizes}
                matrices = {key: array for key, array in arrays.items() if key not in sizes}
                if array_names & matrices.keys() or len(matrices) == 1:
                    clips[folder] = stated | matrices
                else:
                    clips |= {
                        f"{folder}/{key}": {**stated, "points": matrices[key]} for key in matrices
                    }
            common = posixpath.commonpath(clips) if clips else ""
            for name, arrays in clips.items():
                sizes_bytes = (
                    array.size * max(4, array.dtype.itemsize) for array in arrays.values()
                )
                check_memory(sum(sizes_bytes), defaults)
                loaded = {key: np.asarray(array) for key, array in arrays.items()}
                yield name.removeprefix(common).strip("/") or path.stem, loaded
    except ImportError as error:
        raise UserError(f"{path}: it needs {error.name}: pip install {error.name}") from None
    except ClipError:
        raise
    except Exception as error:  # a torn file raises anything
        reason = " ".join(f"not a readable {path.suffix} file ({error})".split())
        raise ClipError(reason, "save it again, or its arrays as .npz") from None


@contextmanager
def _open_packed(
    path: Path, sizes: set[str], defaults: SourceDefaults
) -> Iterator[dict[str, dict[str, Any]]]:
    """Give the arrays of numbers in a file by group and name, unread where they may be."""
    if path.suffix.lower() == ".mat":
        import scipy.io

        # SciPy inflates whole blocks of compressed bytes, even of what it skips; 4 is uncompressed.
        most = 4096 if scipy.io.matlab.matfile_version(path)[0] else 2**40
        with path.open("rb") as f:
            short = SimpleNamespace(seek=f.seek, tell=f.tell, read=lambda n: f.read(min(n, most)))
            listed = scipy.io.whosmat(short)  # a struct or a cell is (1, 1), of any size
            skipped = {name for name, _, kind in listed if kind not in _MATLAB}
            names = [name for name, _, _ in listed if name not in skipped]
            check_memory(8 * sum(math.prod(s) for k, s, _ in listed if k in names), defaults)
            loaded = scipy.io.loadmat(short, variable_names=names)
        yield {"": {k: loaded[k] for k in names if np.asarray(loaded[k]).dtype.kind in "fiu"}}
        return
    import h5py

    groups: dict[str, dict[str, Any]] = defaultdict(dict)

    def add(name: str, node: Any) -> None:
        if "pandas_type" in node.attrs:
            raise ClipError(
                "it holds a table of pandas, whose names are pickles",
                "save its numbers: numpy.save(FILE, table.to_numpy())",
            )
        if isinstance(node, h5py.Group):
            attributes = {key: np.asarray(node.attrs[key]) for key in sizes if key in node.attrs}
            groups[name] |= {
                key: value for key, value in attributes.items() if not value.dtype.hasobject
            }
        elif isinstance(node, h5py.Dataset) and node.size is not None and node.dtype.kind in "fiu":
            if node.external or node.is_virtual:
                raise ClipError(f"its {name} lies in other files", "copy its numbers into this one")
            check_memory(math.prod(node.chunks or ()) * node.dtype.itemsize, defaults)  # read whole
            groups[posixpath.dirname(name)][posixpath.basename(name)] = node

    with h5py.File(path, "r") as file:
        add("", file)
        file.visititems(add)
        yield groups


def read_array_frames(
    path: Path, files: Sequence[Path | None], defaults: SourceDefaults
) -> Iterator[ClipSource]:
    """Yield the one clip of some `.npy` files, a row of W numbers each, in order; None: no row.

    Raises:
        ClipError: If a file cannot be read, or they differ in W.
        UserError: If a default is missing.
    """
    rows = []
    for file in filter(None, files):
        with file.open("rb") as opened:
            rows.append(Archive(file, opened, defaults).read(file.stem).reshape(-1))
    lengths = sorted({len(row) for row in rows})
    if len(lengths) > 1 or lengths[0] not in ROWS:
        raise ClipError(
            f"its frames have {', '.join(map(str, lengths))} numbers",
            f"save {' or '.join(map(str, ROWS))} a frame",
        )
    fps, width, height = require_rate_and_size(path, defaults)
    matrix = np.full((len(files), lengths[0]), np.nan, np.float32)
    matrix[[file is not None for file in files]] = np.stack(rows)
    parts = _split_rows(matrix)
    yield (
        path.name,
        partial(ForeignClip, clip_id=path.name, parts=parts, fps=fps, width=width, height=height),
    )


def is_frame(file: Path) -> bool | None:
    """Return whether a `.npy` file holds one frame, by its header; None: it has none."""
    try:
        with file.open("rb") as opened:
            shape, _ = _read_header(opened)
    except (OSError, ValueError):
        return None
    return math.prod(shape) in ROWS and math.prod(shape[:-1]) == 1


def _read_clips(
    path: Path, name: str, arrays: "Archive", defaults: SourceDefaults
) -> Iterator[ClipSource]:
    if arrays.shapes and all(kind.hasobject for _, kind in arrays.shapes.values()):  # maps, lists
        within = {key: arrays.read(key).tolist() for key in arrays.shapes}
        alone = next(iter(within.values()))
        content = within if len(within) > 1 else alone
        yield from keypoints.find_clips(path, name, content, defaults)
        return
    # Of many clips, each may have a rate of its own.
    stated_sizes = {key: np.ravel(arrays.read(key)) for key in SIZES if key in arrays}
    for number, (clip_id, shown, label) in enumerate(_clips(name, arrays)):
        clip_sizes = {
            key: _own(key, values, number, clip_id == name) for key, values in stated_sizes.items()
        }
        size = fps, width, height = require_rate_and_size(path, defaults, clip_sizes)
        if isinstance(shown, ClipError):
            yield clip_id, partial(_refuse, shown)
        elif isinstance(shown, dict):
            yield (
                clip_id,
                partial(
                    ForeignClip,
                    clip_id=clip_id,
                    parts=shown,
                    fps=fps,
                    width=width,
                    height=height,
                    label=label,
                ),
            )
        else:
            yield clip_id, partial(clip_of_points, clip_id, *shown, size, defaults, label=label)


def _own(key: str, values: Array, number: int, is_alone: bool) -> float:
    """Return what an archive says of its clip of that number, or of all."""
    if len(values) != 1 and (is_alone or number >= len(values)):
        raise ClipError(f"its {key} are {len(values)} numbers", "save one, or one a clip")
    return SIZES[key](values[0 if len(values) == 1 else number])


def _refuse(error: ClipError) -> ForeignClip:
    raise error


class Archive:
    """The arrays of an open file by name; each is read when it is asked for.

    What is not asked for may be damaged, or hold what is never read, such as objects.

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
        self._inner: dict[str, tuple[str, str]] = {}  # ours: their array, and what lies in it
        for ours, theirs in defaults.keys.items():
            name, _, inner = theirs.partition(".")
            if theirs in self._names:
                self._names[ours] = self._names.pop(theirs)
            elif name in self._names:
                self._inner[ours] = name, inner
        for ours, spelt in _SPELT.items():
            theirs = next((name for name in spelt if name in self._names), ours)
            if self._zip and ours not in self and theirs in self._names:
                self._names[ours] = self._names.pop(theirs)
        self.shapes: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {}
        for name in self._names:
            try:
                self.shapes[name] = self._read(name, _read_header)
            except Exception as error:
                if not self._zip:
                    raise _unreadable(path.name, error) from None
                # Of an archive it is told where the array is needed.
            if not self._zip and not self.shapes[name][1].hasobject:
                shape, kind = self.shapes[name]
                end = file.tell() + math.prod(shape) * kind.itemsize
                if file.seek(0, io.SEEK_END) > end:
                    raise ClipError(
                        f"it holds more behind its first array, of the shape {shape}",
                        "numpy.savez(FILE, left_hand=..., right_hand=..., pose=...) names several",
                    )

    def __contains__(self, name: str) -> bool:
        """Say whether there is an array of this name, whole or damaged."""
        return name in self._names or name in self._inner

    def read(self, name: str) -> Array:
        """Return an array.

        Raises:
            ClipError: If it is damaged, or takes more memory than a person allows.
        """
        if name in self._inner:
            holder, inner = self._inner[name]
            return np.asarray(pick(self.read(holder), inner))
        try:
            shape, kind = self._read(name, _read_header)
            # Numbers become four bytes each, texts are what they are.
            self._taken_bytes += math.prod(shape) * max(4, kind.itemsize)
            check_memory(self._taken_bytes, self._defaults)
            if kind.hasobject and self._defaults.allow_pickle:  # behind the header
                return np.asarray(self._read(name, partial(_read_objects, self._defaults)))
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


def _read_objects(defaults: SourceDefaults, file: IO[bytes]) -> Any:
    _read_header(file)
    return unpickle(file, defaults)


def _unreadable(name: str, error: Exception) -> ClipError:
    reason = " ".join(f"{name} is not a readable NumPy array ({error})".split())
    return ClipError(
        reason,
        "save it again, as numbers and texts, not objects; --allow-pickle "
        "reads maps and lists, and runs none of their code",
    )


_Found = dict[str, LandmarkPart] | tuple[npt.NDArray[np.float32], Any] | ClipError
"""Parts, or points with their scores, or what is wrong with labels."""


def _bounded(name: str, numbers: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return numbers as float32; NaN, where nothing was found, is one of them.

    Raises:
        ClipError: If one is too large to be a coordinate.
    """
    with np.errstate(over="ignore"):
        bounded = numbers.astype(np.float32, copy=False)
    if not (np.isnan(bounded) | (np.abs(bounded) <= MOST)).all():
        raise ClipError(
            f"a number of its {name} is {np.nanmax(np.abs(bounded)):g}",
            f"a coordinate is at most {MOST:g} (pixels, or shares of the picture); write NaN where "
            "nothing was found",
        )
    return bounded


def _clips(name: str, arrays: Archive) -> Iterator[tuple[str, _Found, str]]:
    """Yield clip id, what it shows and label of each clip of an archive."""
    if parts := {name: _part(name, arrays.read(name)) for name in PART_POINTS if name in arrays}:
        yield name, parts, ""
        return
    array_name = _find_matrix(arrays)
    matrix = _bounded(array_name, arrays.read(array_name))
    if matrix.size == 0:
        raise ClipError(f"its {array_name} has no frames", "leave it out")
    if _is_points(matrix.shape):
        scores = arrays.read("scores").astype(np.float32) if "scores" in arrays else None
        yield from _points(name, matrix, scores)
        return
    if matrix.ndim == 3:
        bounds = np.arange(len(matrix) + 1) * matrix.shape[1]
    elif "offsets" in arrays:
        bounds = _checked_offsets(arrays.read("offsets"), len(matrix))
    else:
        yield name, _split_rows(matrix), ""
        return
    rows, count = matrix.reshape(-1, matrix.shape[-1]), len(bounds) - 1
    labels: Sequence[Any] = [""] * count
    if "labels" in arrays:
        try:
            stored_labels = arrays.read("labels")
        except ClipError as error:  # the clips are good without
            yield f"{name}-labels", error, ""
        else:
            if stored_labels.shape != (count,):
                raise ClipError(
                    f"it has labels of the shape {stored_labels.shape} for {count} clips",
                    "save one for each clip",
                )
            labels = [*stored_labels]
    for number, label in enumerate(labels):
        clip = _split_rows(rows[bounds[number] : bounds[number + 1]])
        clip_id = f"{name}-{number + 1:0{len(str(count))}d}"
        yield clip_id, clip, "" if label is None else str(label)


def _find_matrix(arrays: Archive) -> str:
    """Return the name of the array that holds landmarks.

    Raises:
        ClipError: If there is none, or several.
    """
    names = [
        name
        for name, (shape, kind) in arrays.shapes.items()
        if kind.kind in "fiu"
        and ((len(shape) in (2, 3) and shape[-1] in ROWS) or _is_points(shape))
        # Of one hand among others, names say which it is.
        and (shape[-1] != ONE_HAND or len({*arrays.shapes} - {*SIZES}) == 1)
    ]
    if len(names) == 1 or "keypoints" in names:
        return names[0] if len(names) == 1 else "keypoints"
    shapes = ", ".join(f"{name} {shape} {kind}" for name, (shape, kind) in arrays.shapes.items())
    raise ClipError(
        f"its arrays are {shapes[:200] or 'none that can be read'}",
        f"name them {', '.join(PART_POINTS)} or keypoints, as in --keys left_hand=lh, or save "
        f"one with {', '.join(map(str, ROWS))} numbers a frame; numbers that are no landmarks "
        "come in by --format features; docs/landmarks.md has the shapes",
    )


def _is_points(shape: tuple[int, ...]) -> bool:
    """Return whether an array holds the points of frames: (S, K, 2 to 4), or of several clips."""
    return len(shape) in (3, 4) and shape[-1] in (2, 3, 4) and shape[-2] in SKELETONS


def _points(
    name: str, points: npt.NDArray[np.float32], scores: npt.NDArray[np.float32] | None
) -> Iterator[tuple[str, _Found, str]]:
    """Cut points (S, K, C), (S, 1, K, C) or (clips, S, K, C) into clips."""
    if points.ndim == 4 and points.shape[1] == 1:  # an axis of persons
        points, scores = points[:, 0], None if scores is None else scores.reshape(len(points), -1)
    if points.ndim == 3:
        yield name, (points, scores), ""
        return
    for number, clip in enumerate(points):
        clip_scores = None if scores is None else scores[number]
        yield f"{name}-{number + 1:0{len(str(len(points)))}d}", (clip, clip_scores), ""


def _part(name: str, array: Array) -> LandmarkPart:
    count = PART_POINTS[name]
    for numbers in (COORDINATES, COORDINATES + 1):
        if array.ndim == 2 and array.shape[1] == count * numbers:
            array = array.reshape(len(array), count, numbers)
    if array.ndim != 3 or array.shape[1] < count or array.shape[2] < COORDINATES:
        raise ClipError(
            f"its {name} has the shape {array.shape}", f"save it as (frames, {count}, 3)"
        )
    if array.dtype.kind not in "fiu":
        raise ClipError(f"its {name} has values of type {array.dtype}", "save it as numbers")
    points = _bounded(name, array[:, :count, :COORDINATES])
    return LandmarkPart(points, tuple(range(count)))


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


def _split_rows(rows: npt.NDArray[np.float32]) -> dict[str, LandmarkPart]:
    """Cut rows (S, W) into parts."""
    parts, first = dict[str, LandmarkPart](), 0
    for name, numbers in ROWS[rows.shape[1]]:
        count = PART_POINTS[name]
        block = rows[:, first : first + count * numbers].reshape(len(rows), count, numbers)
        parts[name] = LandmarkPart(block[..., :COORDINATES], tuple(range(count)))
        first += count * numbers
    if set(parts) == {"right_hand"}:  # readers of hands read two, one of which is never there
        parts["left_hand"] = LandmarkPart(
            np.full_like(parts["right_hand"].points, np.nan), parts["right_hand"].indices
        )
    return parts
