"""The quality table: figures on how well each clip was detected.

The rows of a corpus make one Parquet table; docs/extraction.md says what each figure means.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from signloom.corpus.landmarks import LandmarkSequence
from signloom.tables import Records, read_parquet, write_parquet

FORMAT_VERSION = 1
HANDS = ("left_hand", "right_hand")
SAME_HAND = 0.25  # palm lengths between two hands, joint by joint; less is one hand seen twice
SAME_PLACE = 1.0  # palm lengths that a wrist may move from one frame to the next

_VERSION_KEY = b"signloom.quality_version"
_HINT = "run `dvc repro extract`"


@dataclass(frozen=True, kw_only=True, slots=True)
class ClipQuality:
    """How well the landmarks of one clip were detected; one row of quality.parquet.

    None: the layout lacks the group, or there is too little to measure.
    """

    clip_id: str
    frames: int
    seconds: float
    fps: float
    """Frames a second."""
    width: int
    """Pixels, of the upright picture."""
    height: int
    """Pixels, of the upright picture."""
    left_hand: float | None
    """Share of the frames with the signer's left hand, 0 to 1."""
    right_hand: float | None
    """Share of the frames with the signer's right hand, 0 to 1."""
    any_hand: float | None
    """Share of the frames with a hand, 0 to 1; 0: nothing can be learned from the clip."""
    pose: float | None
    """Share of the frames with the upper body, 0 to 1."""
    lips: float | None
    """Share of the frames with the lips, 0 to 1."""
    face_outline: float | None
    """Share of the frames with the outline of the face, 0 to 1."""
    left_hand_gap_s: float | None
    """Longest run of frames without the left hand, seconds, the clip's ends included."""
    right_hand_gap_s: float | None
    """Longest run of frames without the right hand, likewise."""
    any_hand_gap_s: float | None
    """Longest run of frames without any hand, likewise."""
    left_hand_jitter: float | None
    """Median second difference of the left wrist from frame to frame, in palm lengths.
    Smooth movement is near 0. None without three frames running."""
    right_hand_jitter: float | None
    """The same for the right wrist."""
    side_swaps: int | None
    """Frames in which a hand goes on where the other hand was; see `count_side_swaps`."""
    coincident: float | None
    """Share of the frames in which both sides lie on one hand, 0 to 1."""
    missing_frames: int = 0
    """Frames that the video's file promises and does not have, though it is whole; 0 where they
    are less than a tenth."""


def measure_quality(clip_id: str, sequence: LandmarkSequence) -> ClipQuality:
    """Measure how well one clip of any layout was detected."""
    shares = dict(zip(sequence.layout.group_names, sequence.present.mean(axis=0), strict=True))
    names = (*HANDS, "pose", "lips", "face_outline")
    groups: dict[str, Any] = {
        name: float(shares[name]) if name in shares else None for name in names
    }
    return ClipQuality(
        clip_id=clip_id,
        frames=len(sequence.points),
        seconds=sequence.seconds,
        fps=sequence.fps,
        width=sequence.width,
        height=sequence.height,
        **groups,
        **(_measure_hands(sequence) if shares.keys() >= set(HANDS) else _NO_HANDS),
        missing_frames=sequence.missing_frames,
    )


def longest_absence(is_present: npt.NDArray[np.bool_]) -> int:
    """Return the length of the longest run of False in an array of shape (S,)."""
    frames = np.concatenate(([-1], np.flatnonzero(is_present), [len(is_present)]))
    return int((frames[1:] - frames[:-1]).max()) - 1


def count_side_swaps(wrists: npt.NDArray[np.float32]) -> int:
    """Count the frames in which a hand goes on where the other hand was.

    From one frame to the next, one side takes over from the other if its wrist comes to less than
    `SAME_PLACE` from where the other's was, while neither stays: each has moved by more than
    `SAME_PLACE` and by more than twice that distance, or was or is not there. An exchange of both
    sides counts once, the way back once more. Hands that meet, cross or rest on each other stay
    near their own last places and do not count.

    Args:
        wrists: Shape (S, 2, 2): frames, left and right, x and y in palm lengths; NaN where absent.
    """
    after, before = wrists[1:], wrists[:-1]
    # Comparisons with NaN are false: a hand that was or is not there has moved from no place.
    own_moves = _length(after - before)  # (S - 1, 2)
    swapped_moves = _length(after - before[:, ::-1])
    stays = own_moves <= np.fmax(SAME_PLACE, 2 * swapped_moves)
    other_stays = own_moves[:, ::-1] <= np.fmax(SAME_PLACE, 2 * swapped_moves)
    swapped = (swapped_moves < SAME_PLACE) & ~stays & ~other_stays
    return int(np.count_nonzero(swapped[:, 0] | swapped[:, 1]))


def write_quality(path: Path, rows: Iterable[ClipQuality]) -> None:
    """Write quality.parquet, a row a clip, sorted by clip id."""
    ordered = [asdict(row) for row in sorted(rows, key=lambda row: row.clip_id)]
    write_parquet(path, pa.Table.from_pylist(ordered, schema=_SCHEMA))


def read_quality(path: Path) -> Sequence[ClipQuality]:
    """Read quality.parquet, sorted by clip id.

    Raises:
        UserError: If the file is missing, damaged or of another version.
    """
    table = read_parquet(path, FORMAT_VERSION, hint=_HINT, key=_VERSION_KEY)
    return Records(table, ClipQuality)


def _build_schema() -> pa.Schema:
    string, integer, number = pa.string(), pa.int32(), pa.float64()
    types: dict[Any, tuple[pa.DataType, bool]] = {
        str: (string, False),
        int: (integer, False),
        int | None: (integer, True),
        float: (number, False),
        float | None: (number, True),
    }
    columns = [(field.name, *types[field.type]) for field in fields(ClipQuality)]
    metadata = {_VERSION_KEY: str(FORMAT_VERSION)}
    return pa.schema([pa.field(*column) for column in columns], metadata=metadata)


_SCHEMA = _build_schema()
_NO_HANDS: dict[str, Any] = dict.fromkeys(
    (
        "any_hand",
        "left_hand_gap_s",
        "right_hand_gap_s",
        "any_hand_gap_s",
        "left_hand_jitter",
        "right_hand_jitter",
        "side_swaps",
        "coincident",
    )
)


def _measure_hands(sequence: LandmarkSequence) -> dict[str, Any]:
    layout = sequence.layout
    left, right = (sequence.present[:, layout.group(hand)] for hand in HANDS)
    # Pixels, so that a step to the side counts like one upwards; (S, 21, 2) of each hand.
    size = np.array([sequence.width, sequence.height], np.float32)
    hands = [sequence.points[:, layout.slice(hand), :2] * size for hand in HANDS]
    palm = _palm_length(hands)
    wrists = np.stack([hand[:, 0] for hand in hands], axis=1) / palm
    apart = _length(hands[0] - hands[1]).mean(axis=1)  # NaN without either
    return {
        "any_hand": float((left | right).mean()),
        "left_hand_gap_s": longest_absence(left) / sequence.fps,
        "right_hand_gap_s": longest_absence(right) / sequence.fps,
        "any_hand_gap_s": longest_absence(left | right) / sequence.fps,
        "left_hand_jitter": _jitter(wrists[:, 0]),
        "right_hand_jitter": _jitter(wrists[:, 1]),
        "side_swaps": count_side_swaps(wrists),
        "coincident": float((apart < SAME_HAND * palm).mean()),
    }


def _palm_length(hands: list[npt.NDArray[np.float32]]) -> np.float32:
    """Median distance from the wrist to the knuckle of the middle finger, pixels; 1 or more."""
    palms = np.concatenate([_length(hand[:, 9] - hand[:, 0]) for hand in hands])
    # A hand of less than a pixel is no measure of anything.
    return np.maximum(_median(palms) or np.float32(1), np.float32(1))


def _jitter(wrist: npt.NDArray[np.float32]) -> float | None:
    bends = _median(_length(wrist[2:] - 2 * wrist[1:-1] + wrist[:-2]))
    return None if bends is None else float(bends)


def _median(values: npt.NDArray[np.float32]) -> np.float32 | None:
    """The middle value of those that are not NaN, or None; numpy's takes ten times as long."""
    ordered = np.sort(values[values >= 0])
    return ordered[len(ordered) // 2] if len(ordered) else None


def _length(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Lengths of vectors along the last axis, of 2; in half the time of numpy's norm."""
    x, y = vectors[..., 0], vectors[..., 1]
    return np.sqrt(x * x + y * y)
