"""Shares, gaps, jitter, swaps and coincidence against numbers worked out by hand."""

from dataclasses import fields
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from signloom.corpus.landmarks import HANDS_POSE, LandmarkSequence, Layout, build_layout
from signloom.corpus.quality import (
    ClipQuality,
    count_side_swaps,
    measure_quality,
    read_quality,
    write_quality,
)
from signloom.errors import UserError

WIDTH, HEIGHT = 400, 100  # pixels
PALM = 40.0  # pixels, of `still_clip`


def still_clip(frames: int = 10, layout: Layout = HANDS_POSE) -> LandmarkSequence:
    """Nothing moves; the left hand lies 80 pixels to the viewer's right of the right one."""
    points = np.full((frames, layout.points, 3), 0.5, np.float32)
    if "left_hand" in layout.group_names:
        points[:, layout.slice("left_hand"), 0] = 0.6
        points[:, layout.slice("right_hand"), 0] = 0.4
        for side in ("left", "right"):
            points[:, layout.index(f"{side}_hand", "wrist"), 1] = 0.9
    return LandmarkSequence(
        points=points,
        present=np.ones((frames, len(layout.groups)), bool),
        fps=10.0,
        width=WIDTH,
        height=HEIGHT,
        layout=layout,
    )


def hide(clip: LandmarkSequence, group: str, frames: slice) -> None:
    clip.present[frames, HANDS_POSE.group(group)] = False
    clip.points[frames, HANDS_POSE.slice(group)] = np.nan


def test_shares_count_frames() -> None:
    clip = still_clip()
    hide(clip, "left_hand", slice(0, 4))
    hide(clip, "right_hand", slice(2, 10))
    row = measure_quality("a", clip)
    assert (row.left_hand, row.right_hand, row.any_hand, row.pose) == (0.6, 0.2, 0.8, 1.0)
    assert (row.frames, row.seconds, row.fps, row.width, row.height) == (10, 1.0, 10.0, 400, 100)


def test_gaps_are_the_longest_and_count_the_ends() -> None:
    clip = still_clip()
    hide(clip, "left_hand", slice(7, 10))
    hide(clip, "right_hand", slice(1, 3))
    hide(clip, "right_hand", slice(4, 9))
    row = measure_quality("a", clip)
    assert row.left_hand_gap_s == pytest.approx(0.3)
    assert row.right_hand_gap_s == pytest.approx(0.5)
    assert row.any_hand_gap_s == pytest.approx(0.2)


def test_jitter_is_of_each_hand_in_palm_lengths_and_square_pixels() -> None:
    clip = still_clip()
    hand = HANDS_POSE.slice("left_hand")
    clip.points[::2, hand, 1] += 0.1  # 10 pixels up and down: second differences of 20 pixels
    row = measure_quality("a", clip)
    assert row.left_hand_jitter == pytest.approx(20 / PALM)
    assert row.right_hand_jitter == pytest.approx(0.0, abs=1e-5)
    moving = still_clip()
    moving.points[:, hand, 0] += np.arange(10, dtype=np.float32)[:, None] * 0.02
    assert measure_quality("a", moving).left_hand_jitter == pytest.approx(0.0, abs=1e-5)


def test_jitter_needs_three_frames_running() -> None:
    clip = still_clip()
    hide(clip, "left_hand", slice(2, None, 3))
    row = measure_quality("a", clip)
    assert row.left_hand_jitter is None
    assert row.right_hand_jitter == 0
    assert measure_quality("a", still_clip(frames=2)).right_hand_jitter is None


def test_a_clip_of_one_frame_or_without_any_hand_has_a_row() -> None:
    row = measure_quality("a", still_clip(frames=1))
    assert (row.frames, row.any_hand_gap_s, row.side_swaps, row.coincident) == (1, 0.0, 0, 0.0)
    clip = still_clip()
    for hand in ("left_hand", "right_hand"):
        hide(clip, hand, slice(None))
    row = measure_quality("a", clip)
    assert (row.any_hand, row.any_hand_gap_s, row.left_hand_jitter) == (0.0, 1.0, None)
    assert (row.side_swaps, row.coincident) == (0, 0.0)


def test_two_sides_on_one_hand_coincide_and_hands_that_touch_do_not() -> None:
    clip = still_clip()
    left, right = (HANDS_POSE.slice(f"{side}_hand") for side in ("left", "right"))
    offset = np.array([0.2 * PALM / WIDTH, 0, 0], np.float32)
    clip.points[2:5, right] = clip.points[2:5, left] + offset
    clip.points[7, right] = clip.points[7, left] + 2 * offset
    assert measure_quality("a", clip).coincident == pytest.approx(0.3)


@pytest.mark.parametrize(
    "groups", [("hands",), ("lips",), ("pose", "face_outline"), ("hands", "pose", "lips")]
)
def test_what_a_layout_lacks_is_unknown(groups: tuple[str, ...]) -> None:
    layout = build_layout(groups)
    row = measure_quality("a", still_clip(layout=layout))
    shares = {
        "left_hand": "hands",
        "right_hand": "hands",
        "any_hand": "hands",
        "pose": "pose",
        "lips": "lips",
        "face_outline": "face_outline",
    }
    for name, group in shares.items():
        assert getattr(row, name) == (1.0 if group in groups else None)
    assert row.side_swaps == (0 if "hands" in groups else None)
    assert (row.coincident is None) == ("hands" not in groups)


def wrists(left: list[float | None], right: list[float | None]) -> npt.NDArray[np.float32]:
    """Wrists on a level, by their place from left to right in palm lengths; None: absent."""
    x = np.array([left, right], np.float32).T
    return np.stack([x, np.where(np.isnan(x), x, 1)], axis=2).astype(np.float32)


N = None
CROSSING = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]  # a palm length a frame is a fast sign at 25 frames/s


@pytest.mark.parametrize(
    ("name", "left", "right", "expected"),
    [
        ("apart", [0, 0, 0], [5, 5, 5], 0),
        ("exchanged and kept so", [0, 0, 5, 5], [5, 5, 0, 0], 1),
        ("exchanged for a frame", [0, 0, 5, 0, 0], [5, 5, 0, 5, 5], 2),
        ("exchanged in motion", [0, 0.5, 4.5, 4.3], [5, 5, 1, 1.2], 1),
        ("crossing", CROSSING, CROSSING[::-1], 0),
        ("resting on each other", [2, 2.4, 2, 2.4], [2.4, 2, 2.4, 2], 0),
        ("one leaves, the other comes elsewhere", [0, 0, N, N], [N, N, 5, 5], 0),
        ("one hand under the other's name", [0, 0.2, N, N], [N, N, 0.4, 0.5], 1),
        ("its name back and forth", [0, N, 0, N], [N, 0, N, 0], 3),
        ("one is lost, its name goes to the other", [0, 0, 5, 5], [5, 5, N, N], 1),
        ("one is lost", [0, 0, 0, 0], [5, 5, N, N], 0),
        ("one comes, the names are exchanged", [0, 0, 5, 5], [N, N, 0, 0], 1),
        ("one comes", [0, 0, 0, 0], [N, N, 5, 5], 0),
        ("one is lost where it touched the other", [0, 0, 0], [0.5, 0.5, N], 0),
        ("a single frame", [0], [5], 0),
    ],
)
def test_side_swaps(
    name: str, left: list[float | None], right: list[float | None], expected: int
) -> None:
    assert count_side_swaps(wrists(left, right)) == expected, name
    assert count_side_swaps(wrists(right, left)) == expected, f"{name}, mirrored"


def test_the_table_is_read_back_sorted_and_without_our_code(tmp_path: Path) -> None:
    lips = build_layout(("lips",))
    rows = [
        measure_quality("b", still_clip(frames=1)),
        measure_quality("c", still_clip(layout=lips)),
        measure_quality("a", still_clip()),
    ]
    path = tmp_path / "quality.parquet"
    write_quality(path, rows)
    assert read_quality(path) == [rows[2], rows[0], rows[1]]
    first = path.read_bytes()
    write_quality(path, rows[::-1])
    assert path.read_bytes() == first
    table = pq.read_table(path)
    assert table.column_names == [field.name for field in fields(ClipQuality)]
    assert table["left_hand"].to_pylist() == [1.0, 1.0, None]
    assert table.schema.metadata[b"signloom.quality_version"] == b"1"


def test_a_missing_damaged_or_other_table_is_named(tmp_path: Path) -> None:
    path = tmp_path / "quality.parquet"
    with pytest.raises(UserError, match=r"does not exist; run `dvc repro extract`"):
        read_quality(path)
    path.write_bytes(b"PAR1 and no more")
    with pytest.raises(UserError, match="is damaged"):
        read_quality(path)
    pq.write_table(pa.table({"clip_id": ["a"]}), path)
    with pytest.raises(UserError, match="version none, this Signloom reads 1"):
        read_quality(path)
