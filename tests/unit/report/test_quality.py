"""Warnings, tables, the worst clips and their pictures, against what was put in by hand."""

from dataclasses import replace
from typing import Any

import pytest

from signloom.corpus.quality import ClipQuality
from signloom.features.targets import Target
from signloom.report.quality import WORST, assess, describe

GOOD = ClipQuality(
    clip_id="good",
    frames=50,
    seconds=2.0,
    fps=25.0,
    width=320,
    height=240,
    left_hand=0.8,
    right_hand=1.0,
    any_hand=1.0,
    pose=1.0,
    lips=None,
    face_outline=None,
    left_hand_gap_s=0.4,
    right_hand_gap_s=0.0,
    any_hand_gap_s=0.0,
    left_hand_jitter=0.1,
    right_hand_jitter=0.2,
    side_swaps=0,
    coincident=0.0,
)
LIPS_ONLY = replace(
    GOOD,
    clip_id="lips",
    lips=0.5,
    **dict.fromkeys(
        (
            "left_hand",
            "right_hand",
            "any_hand",
            "pose",
            "left_hand_gap_s",
            "right_hand_gap_s",
            "any_hand_gap_s",
            "left_hand_jitter",
            "right_hand_jitter",
            "side_swaps",
            "coincident",
        )
    ),
)


def target(clip_id: str, split: str, signer: str) -> Target:
    return Target(
        clip_id=clip_id, split=split, signer=signer, text="a", ids=[0], gloss="", labels=[]
    )


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({}, None),
        ({"any_hand": 0.49}, "few hands"),
        ({"any_hand": 0.5}, None),
        ({"pose": 0.89}, "no body"),
        ({"lips": 0.2}, "no body"),
        ({"any_hand_gap_s": 1.6}, "gap"),
        ({"right_hand_jitter": 1.1}, "jitter"),
        ({"left_hand_jitter": None}, None),
        ({"side_swaps": 3}, "swaps"),
        ({"side_swaps": 2}, None),
        ({"coincident": 0.06}, "coincident"),
        ({"fps": 10.0}, "slow"),
        ({"width": 100}, "small"),
    ],
)
def test_a_clip_beyond_a_limit_is_warned_of(change: dict[str, Any], fault: str | None) -> None:
    assessment = assess([replace(GOOD, **change)], [])
    assert assessment.faults == {"good": [fault] if fault else []}
    assert [warning.name for warning in assessment.warnings] == ([fault] if fault else [])
    assert assessment.flagged == (fault is not None)


def test_what_a_layout_lacks_is_no_fault() -> None:
    assessment = assess([replace(LIPS_ONLY, lips=0.95)], [])
    assert assessment.warnings == []
    assert "hand" not in describe(LIPS_ONLY)
    (row,) = assessment.by_split
    found_hand = row.found["any_hand"]
    assert (found_hand, row.gap_s, row.jitter, row.found["lips"]) == (None, None, None, 0.95)


def test_warnings_count_clips_the_most_frequent_first() -> None:
    rows = [replace(GOOD, clip_id=f"slow{i}", fps=8.0) for i in range(7)]
    rows += [replace(GOOD, clip_id="both", fps=8.0, any_hand_gap_s=3.0), GOOD]
    first, second = assess(rows, []).warnings
    assert (first.name, first.clips, first.named[:2]) == ("slow", 8, ["slow0", "slow1"])
    assert len(first.named) == 5
    assert first.share == pytest.approx(8 / 9)
    assert "fewer than 12 frames a second" in first.text
    assert (second.name, second.named) == ("gap", ["both"])


def test_the_worst_have_the_most_faults_then_show_the_least() -> None:
    rows = [
        replace(GOOD, clip_id="a"),
        replace(GOOD, clip_id="b", left_hand=0.1),
        replace(GOOD, clip_id="c", side_swaps=9, fps=5.0),
        replace(GOOD, clip_id="d", any_hand=0.2, left_hand=0.2, right_hand=0.2),
        replace(GOOD, clip_id="e", any_hand=0.1, left_hand=0.1, right_hand=0.1),
    ]
    assert [row.clip_id for row in assess(rows, []).worst] == ["c", "e", "d", "b", "a"]
    assert len(assess([replace(GOOD, clip_id=str(n)) for n in range(9)], []).worst) == WORST


def test_tables_sum_up_frames_by_split_and_signer() -> None:
    rows = [
        replace(GOOD, clip_id="a", frames=100, seconds=4.0, left_hand=0.5, any_hand_gap_s=2.0),
        replace(
            GOOD,
            clip_id="b",
            frames=300,
            seconds=12.0,
            left_hand=0.9,
            side_swaps=1,
            right_hand_jitter=0.4,
        ),
        replace(GOOD, clip_id="c"),
        replace(GOOD, clip_id="stray"),
    ]
    targets = [target("a", "train", "x"), target("b", "train", "x"), target("c", "dev", "y")]
    assessment = assess(rows, targets)
    train, dev, stray = assessment.by_split
    assert [train.name, dev.name, stray.name] == ["train", "dev", "not in the manifest"]
    assert (train.clips, train.flagged, train.swaps) == (2, 1, 1)
    assert train.minutes == pytest.approx(16 / 60)
    assert train.found["left_hand"] == pytest.approx((0.5 * 100 + 0.9 * 300) / 400)
    assert (train.gap_s, train.found["lips"]) == (2.0, None)
    assert train.jitter == pytest.approx(0.3)  # between 0.2 and 0.4
    # Those with the largest share of warnings first, then by name.
    assert [row.name for row in assessment.by_signer] == ["x", "not in the manifest", "y"]
    assert assessment.signers == 3
    assert assess([], []).by_split == []
