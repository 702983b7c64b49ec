"""Endings of landmark files by format, and the sizes that such files state."""

from pathlib import PurePath

MOST_GAPS = 10  # numbers of frames may span this many times the frames that are there
PACKED = (".h5", ".hdf5", ".mat")
FORMATS = {
    "pose": (".pose",),
    "kaggle": (".parquet", ".csv"),
    "numpy": (".npz", ".npy", *PACKED),
    "keypoints": (".json", ".json.gz", ".pkl", ".pickle"),
    "features": (".pt", ".pth", ".npy", ".npz", *PACKED, ".parquet", ".pkl", ".pickle"),
}
"""Names of the formats, and what their files end in."""

SIZES: dict[str, type[float] | type[int]] = {"fps": float, "width": int, "height": int}


def ending_of(name: str) -> str:
    """Return what a file's name ends in, lower-cased; `.json.gz` is one ending."""
    return ".json.gz" if name.lower().endswith(".json.gz") else PurePath(name).suffix.lower()


def without_ending(name: str) -> str:
    """Return a file's name without the ending of landmark files; names may have other dots."""
    every = {end for ends in FORMATS.values() for end in ends}
    ending = ending_of(name)
    return name[: len(name) - len(ending)] if ending in every else name
