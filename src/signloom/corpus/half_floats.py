"""Points become the bytes that a shard stores, and back: half floats, their lower bytes first.

The numbers of one landmark stand together, as neighbours in time are alike; and all upper bytes do,
as they change little. So zstd makes a third of it. Parquet's BYTE_STREAM_SPLIT would do the same to
lists of half floats, but takes twice the time to read, and DuckDB does not know it for them.
"""

import numpy as np
import numpy.typing as npt

_LARGEST = float(np.finfo(np.float16).max)
_SINGLES = (
    np.arange(2**16, dtype="<u2").view("<f2").astype(np.float32)
)  # every half float, in order


def pack_halves(points: npt.NDArray[np.float32]) -> bytes:
    """Return points (S, P, 3), rounded, as uint8 (2, P, 3, S): lower bytes, then upper bytes.

    Raises:
        ValueError: If a number is beyond half precision.
    """
    with np.errstate(over="ignore"):
        halves = points.transpose(1, 2, 0).astype("<f2", order="C")
    if np.isinf(halves).any():
        raise ValueError(f"a coordinate is beyond half precision ({_LARGEST:.0f})")
    return halves.view(np.uint8).reshape(-1, 2).T.tobytes()


def unpack_halves(
    packed: npt.NDArray[np.uint8], shape: tuple[int, int, int]
) -> npt.NDArray[np.float32]:
    """Return the points of a shape (S, P, 3) that `pack_halves` packed."""
    count = len(packed) // 2
    numbers = np.left_shift(packed[count:], 8, dtype=np.uint16)
    np.bitwise_or(numbers, packed[:count], out=numbers)
    tracks = numbers.reshape(-1, shape[0])
    # A look-up is 2 to 3 times as fast as NumPy's conversion; in 16 bits, nothing is out of range.
    return _SINGLES.take(tracks.T, mode="wrap").reshape(shape)


def widen_halves(halves: npt.NDArray[np.float16]) -> npt.NDArray[np.float32]:
    """Return half floats as singles: the same numbers, by the same look-up."""
    return _SINGLES.take(halves.view(np.uint16), mode="wrap")
