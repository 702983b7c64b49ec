"""Feature matrices (S, F) of others, a clip each: NumPy, PyTorch, Parquet, pickles.

What a network saw in each frame, such as the 1,024 numbers that most systems for PHOENIX-2014T
read. A matrix is kept as a group of points of three numbers, the last one filled with zeros.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from signloom.corpus.landmarks import COORDINATES, FEATURES
from signloom.errors import ClipError
from signloom_tools.importing.file_names import PACKED, SIZES
from signloom_tools.importing.foreign import (
    ClipSource,
    ForeignClip,
    LandmarkPart,
    check_memory,
    require_rate_and_size,
)
from signloom_tools.importing.numpy_arrays import Archive, read_packed
from signloom_tools.importing.options import SourceDefaults
from signloom_tools.importing.pickles import load_pickle

_NAMES = ("features", "feature", "sign")  # `sign`: of SignJoey's PHOENIX files
_HALF = float(np.finfo(np.float16).max)


def read_features(path: Path, defaults: SourceDefaults) -> Iterator[ClipSource]:
    """Yield the clips of a file of feature matrices.

    Args:
        path: `.npy`, `.npz`, `.h5` or `.mat` (an array a clip), `.pt` (a tensor, or tensors by
            name), `.parquet` (a row a frame; a column of lists, or columns of numbers, and
            `clip_id` for many clips), or a pickle.
        defaults: The frame rate, and whether pickles may be read.

    Raises:
        ClipError: If it cannot be read.
        UserError: If the frame rate is not given.
    """
    kind = path.suffix.lower()
    if kind in PACKED:
        for name, arrays in read_packed(path, defaults):
            matrices = {key: array for key, array in arrays.items() if key not in SIZES}
            content = matrices if len(matrices) > 1 else next(iter(matrices.values()))
            yield name, partial(_clip, path, name, content, defaults)
        return
    if kind in (".npy", ".npz"):
        with path.open("rb") as file:
            archive = Archive(path, file, defaults)
            for name in archive.shapes:
                clip_id = path.stem if len(archive.shapes) == 1 else name
                yield clip_id, partial(_clip, path, clip_id, archive.read(name), defaults)
        return
    if kind in (".pt", ".pth"):
        content = _load_tensors(path, defaults)
    elif kind == ".parquet":
        content = _load_table(path, defaults)
    else:
        content = load_pickle(path, defaults)
    if isinstance(content, list) and content and isinstance(content[0], dict):
        content = {str(entry.get("name", n)): entry for n, entry in enumerate(content, start=1)}
    is_one = not isinstance(content, dict) or bool(content.keys() & {*_NAMES, *defaults.keys})
    clips = {path.stem: content} if is_one else content
    for name, clip in clips.items():
        yield str(name), partial(_clip, path, str(name), clip, defaults)


def _clip(path: Path, clip_id: str, content: Any, defaults: SourceDefaults) -> ForeignClip:
    label = ""
    if isinstance(content, dict):
        label = str(content.get("text") or content.get("label") or "")
        names = [defaults.keys["features"]] if "features" in defaults.keys else _NAMES
        key = next((name for name in names if name in content), None)
        if key is None:
            keys = ", ".join(map(str, list(content)[:8]))
            raise ClipError(f"its keys are {keys}", "say --keys features=NAME")
        content = content[key]
    matrix = np.asarray(content)
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiu" or not matrix.size:
        raise ClipError(
            f"it has the shape {matrix.shape} of {matrix.dtype}",
            "give numbers in the shape (frames, features)",
        )
    if not np.isfinite(matrix).all() or np.abs(matrix).max() > _HALF:
        raise ClipError(
            "some of its features are no numbers, or too big for half precision",
            "scale them, and leave out what is missing",
        )
    # The picture says nothing here.
    fps, width, height = require_rate_and_size(path, defaults, {"width": 1, "height": 1})
    part = LandmarkPart(
        to_points(matrix.astype(np.float32)), tuple(range(-(-matrix.shape[1] // 3)))
    )
    return ForeignClip(
        clip_id=clip_id,
        parts={FEATURES: part},
        fps=fps,
        width=width,
        height=height,
        label=label,
        skeleton=f"a network, {matrix.shape[1]} features",
    )


def to_points(matrix: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return features (S, F) as points (S, P, 3), the last one filled with zeros."""
    padded = np.pad(matrix, ((0, 0), (0, -matrix.shape[1] % COORDINATES)))
    return padded.reshape(len(matrix), -1, COORDINATES)


def _load_tensors(path: Path, defaults: SourceDefaults) -> Any:
    """Return what a file of PyTorch holds; nothing in it is run."""
    import torch  # here, since it loads slowly

    check_memory(path.stat().st_size, defaults)
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a torn or hostile file raises anything
        reason = " ".join(f"no tensors can be read ({type(error).__name__})".split())
        raise ClipError(reason, "save tensors, or a dict of them, with torch.save") from None


def _load_table(path: Path, defaults: SourceDefaults) -> dict[str, Any]:
    try:
        with pq.ParquetFile(path) as file:
            groups = range(file.metadata.num_row_groups)
            check_memory(sum(file.metadata.row_group(n).total_byte_size for n in groups), defaults)
            check_memory(4 * file.metadata.num_rows * file.metadata.num_columns, defaults)
            table = file.read()
    except (pa.ArrowException, OSError) as error:
        reason = " ".join(f"not a readable Parquet file ({error})".split())
        raise ClipError(reason, "restore it from where it came") from None
    lists = [
        name
        for name in table.column_names
        if pa.types.is_list(table[name].type) or pa.types.is_fixed_size_list(table[name].type)
    ]
    numbers = [name for name in table.column_names if pa.types.is_floating(table[name].type)]
    if lists:
        rows = np.array(table[lists[0]].to_pylist())
    elif numbers:
        rows = np.column_stack([table[name].to_numpy() for name in numbers])
    else:
        columns = ", ".join(table.column_names[:6])
        raise ClipError(f"its columns are {columns}", "give a column of lists, or of floats")
    if "clip_id" not in table.column_names:
        return {path.stem: rows}
    ids = np.array(table["clip_id"].to_pylist(), dtype=str)
    return {name: rows[ids == name] for name in dict.fromkeys(ids)}
