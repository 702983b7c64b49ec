"""Which shard a clip belongs to: a function of the clip's name and the set of clips alone.

Extendible hashing (Fagin et al., 1979): a clip's place is the start of its name's SHA-256, a shard
holds a range of places, and a range with too many frames is halved. So a clip that is added
touches one range and leaves all other files as they are.
"""

import bisect
import hashlib
from collections.abc import Collection, Mapping, Sequence

_BITS = 32  # of a place; clips that share one stay together


def place(clip_id: str) -> int:
    """Return where a clip lies among 2^32 places."""
    return int.from_bytes(hashlib.sha256(clip_id.encode()).digest()[: _BITS // 8], "big")


def assign_shards(clip_frames: Mapping[str, int], frames_per_shard: int) -> dict[int, list[str]]:
    """Deal clips out to shards.

    Args:
        clip_frames: Frames of each clip.
        frames_per_shard: A range with more frames (and two clips or more) is halved.

    Returns:
        The sorted clip ids of each shard, by the lower bound of its range, which ascends. A range
        without a clip has no shard.
    """
    shards: dict[int, list[str]] = {}

    def deal(low: int, size: int, clips: list[tuple[int, str]]) -> None:
        ids = [clip_id for _, clip_id in clips]
        frames = sum(clip_frames[clip_id] for clip_id in ids)
        if len(clips) > 1 and frames > frames_per_shard and size > 1:
            middle = low + size // 2
            cut = bisect.bisect_left(clips, (middle, ""))
            deal(low, size // 2, clips[:cut])
            deal(middle, size // 2, clips[cut:])
        elif clips:
            shards[low] = sorted(ids)

    deal(0, 2**_BITS, sorted((place(clip_id), clip_id) for clip_id in clip_frames))
    return shards


def find_shards(clip_ids: Collection[str], bounds: Sequence[int]) -> dict[int, set[str]]:
    """Return which of the shards can hold which of the clips.

    Args:
        clip_ids: Any clips; one below the first range is in no shard and left out.
        bounds: The ascending lower bounds of all shards of a folder.
    """
    found: dict[int, set[str]] = {}
    for clip_id in clip_ids:
        number = bisect.bisect_right(bounds, place(clip_id)) - 1
        if number >= 0:
            found.setdefault(bounds[number], set()).add(clip_id)
    return found


def shard_name(bound: int) -> str:
    """Return the file name of the shard whose range starts at `bound`."""
    return f"shard-{bound:0{_BITS // 4}x}.parquet"


def shard_bound(name: str) -> int:
    """Inverse of `shard_name`.

    Raises:
        ValueError: If it is no shard's name.
    """
    digits = name.removeprefix("shard-").removesuffix(".parquet")
    try:
        bound = int(digits, 16)
    except ValueError:
        bound = -1
    if bound < 0 or shard_name(bound) != name:
        raise ValueError(f"{name!r} is no shard's name, such as {shard_name(0)!r}")
    return bound
