"""Shares, gaps and jitter against numbers worked out by hand."""

from pathlib import Path

import numpy as np
import pytest

from signloom.corpus.landmarks import HANDS_POSE, LandmarkSequence
from signloom.corpus.quality import ClipQuality, longest_run, measure_quality, write_quality

LEFT = HANDS_POSE.index("left_hand", "wrist")
SHOULDERS = [HANDS_POSE.index("pose", f"{side}_shoulder") for side in ("left", "right")]


def still_clip(frames: int = 10) -> LandmarkSequence:
    """Nothing moves; the shoulders are 0.2 picture widths, 80 pixels, apart."""
    points = np.full((frames, HANDS_POSE.points, 3), 0.5, np.float32)
    points[:, SHOULDERS[0], 0] = 0.6
    points[:, SHOULDERS[1], 0] = 0.4
    return LandmarkSequence(
        points=points, present=np.ones((frames, 3), bool), fps=10.0, width=400, height=100,
        layout=HANDS_POSE,
    )  # fmt: skip


def hide(clip: LandmarkSequence, group: str, frames: slice) -> None:
    clip.present[frames, HANDS_POSE.group(group)] = False
    clip.points[frames, HANDS_POSE.slice(group)] = np.nan


def test_shares_count_frames() -> None:
    clip = still_clip()
    hide(clip, "left_hand", slice(0, 4))
    hide(clip, "right_hand", slice(2, 10))
    row = measure_quality("a", clip)
    assert (row.left_hand, row.right_hand, row.any_hand, row.pose) == (0.6, 0.2, 0.8, 1.0)
    assert (row.frames, row.seconds, row.fps) == (10, 1.0, 10.0)


def test_the_longest_gap_is_without_any_hand_and_counts_the_ends() -> None:
    clip = still_clip()
    hide(clip, "left_hand", slice(7, 10))
    hide(clip, "right_hand", slice(1, 10))
    assert measure_quality("a", clip).longest_gap_s == pytest.approx(0.3)


def test_jitter_is_in_shoulder_widths_and_square_pixels() -> None:
    clip = still_clip()
    hide(clip, "right_hand", slice(None))
    clip.points[::2, LEFT, 1] += 0.1  # 10 pixels up and down: second differences of 20 pixels
    assert measure_quality("a", clip).jitter == pytest.approx(20 / 80)
    moving = still_clip()
    moving.points[:, LEFT, 0] += np.arange(10) * 0.02
    assert measure_quality("a", moving).jitter == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("group", ["pose", "hands"])
def test_jitter_is_unknown_without_shoulders_or_hands(group: str) -> None:
    clip = still_clip()
    for name in ("left_hand", "right_hand") if group == "hands" else ("pose",):
        hide(clip, name, slice(None))
    assert measure_quality("a", clip).jitter is None


def test_a_clip_of_one_frame_has_a_row() -> None:
    row = measure_quality("a", still_clip(frames=1))
    assert (row.frames, row.jitter, row.longest_gap_s) == (1, None, 0.0)


@pytest.mark.parametrize(
    ("flags", "expected"), [("", 0), ("0", 0), ("1", 1), ("110111", 3), ("1110", 3), ("0001", 1)]
)
def test_longest_run(flags: str, expected: int) -> None:
    assert longest_run(np.array([flag == "1" for flag in flags], dtype=bool)) == expected


def test_the_table_is_plain_text(tmp_path: Path) -> None:
    rows = [measure_quality("a", still_clip()), measure_quality("b", still_clip(frames=1))]
    write_quality(tmp_path / "quality.tsv", rows)
    header, first, second = (tmp_path / "quality.tsv").read_text(encoding="utf-8").splitlines()
    assert header.split("\t")[:4] == ["clip_id", "frames", "seconds", "fps"]
    assert len(header.split("\t")) == len(ClipQuality.__dataclass_fields__)
    assert first == "a\t10\t1.0000\t10.0000\t400\t100" + 4 * "\t1.0000" + 2 * "\t0.0000"
    assert second.endswith("\t0.0000\t")  # no jitter: empty
