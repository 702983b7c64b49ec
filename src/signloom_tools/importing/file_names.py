"""Endings of landmark files by format, and the sizes that such files state."""

PACKED = (".h5", ".hdf5", ".mat")
FORMATS = {
    "pose": (".pose",),
    "kaggle": (".parquet", ".csv"),
    "numpy": (".npz", ".npy", *PACKED),
    "keypoints": (".json", ".pkl", ".pickle"),
    "features": (".pt", ".pth", ".npy", ".npz", *PACKED, ".parquet", ".pkl", ".pickle"),
}
"""Names of the formats, and what their files end in."""

SIZES: dict[str, type[float] | type[int]] = {"fps": float, "width": int, "height": int}


def without_ending(name: str) -> str:
    """Return a file's name without the ending of landmark files; names may have other dots."""
    every = (end for ends in FORMATS.values() for end in ends)
    ending = next((end for end in every if name.lower().endswith(end)), "")
    return name[: len(name) - len(ending)]
