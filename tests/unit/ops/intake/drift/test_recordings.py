"""What is measured of recordings and sentences: skin of known colours, words counted by hand."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.manifest import Clip
from signloom_ops.intake.drift.colour import measure_redness
from signloom_ops.intake.drift.comparison import Comparison
from signloom_ops.intake.drift.recordings import (
    measure_new_words,
    measure_pace,
    measure_pairing,
    unseen_by_others,
)
from signloom_tools.video_writer import VideoWriter
from tests.tiny import lose
from tests.unit.ops.intake.drift.world import FPS, wave

SKIN, WALL = (200, 140, 110), (60, 70, 120)  # a brown on a blue wall


def film(
    path: Path, sequence: LandmarkSequence, skin: tuple[int, int, int] = SKIN, start_s: float = 0.0
) -> Clip:
    """Paint the hands and the head of each frame, after as much of the wall alone."""
    with VideoWriter(path, fps=FPS, width=sequence.width, height=sequence.height) as video:
        empty = np.full((sequence.height, sequence.width, 3), WALL, np.uint8)
        for _ in range(round(start_s * FPS)):
            video.write(empty)
        for points in sequence.points:
            frame = empty.copy()
            for x, y in points[:, :2] * (sequence.width, sequence.height):
                frame[max(int(y) - 9, 0) : int(y) + 9, max(int(x) - 9, 0) : int(x) + 9] = skin
            video.write(frame)
    return Clip(
        clip_id=path.stem, video=path, text="oui", signer="anna", split="train",
        start_s=start_s or None,
    )  # fmt: skip


def test_skin_is_redder_than_blue_and_exchanged_channels_show(tmp_path: Path) -> None:
    sequence = wave(1, seconds=1.0)
    found = measure_redness(film(tmp_path / "a.mp4", sequence), sequence)
    assert found == pytest.approx((200 - 110) / 450, abs=0.03)
    swapped = film(tmp_path / "b.mp4", sequence, skin=(110, 140, 200))
    assert measure_redness(swapped, sequence) == pytest.approx(-(200 - 110) / 450, abs=0.03)


def test_colour_is_measured_where_and_while_a_signer_is_seen(tmp_path: Path) -> None:
    sequence = wave(1, seconds=4.0)
    clip = film(tmp_path / "a.mp4", sequence, start_s=1.0)
    assert measure_redness(clip, sequence) == pytest.approx(0.2, abs=0.03)
    whole = dataclasses.replace(clip, start_s=None)
    first_s = dataclasses.replace(
        sequence, points=sequence.points[:25], present=sequence.present[:25]
    )
    assert (measure_redness(whole, first_s) or 0) < 0  # the wall
    late = gone = sequence
    for group in sequence.layout.group_names:
        late, gone = lose(late, group, slice(0, 80)), lose(gone, group, slice(None))
    assert measure_redness(clip, late) == pytest.approx(0.2, abs=0.03)
    assert measure_redness(clip, gone) is None
    assert measure_redness(dataclasses.replace(clip, video=None), sequence) is None
    (tmp_path / "a.mp4").write_bytes(b"no video any more")
    assert measure_redness(clip, sequence) is None


def clips(*texts: str, name: str = "old", split: str = "train") -> list[Clip]:
    return [
        Clip(clip_id=f"{name}{i}", video=None, text=text, signer=name, split=split)
        for i, text in enumerate(texts)
    ]


OLD = clips("le chat dort", "le chat mange", "un chien dort", "un chien mange", "le chien dort")


def compare(old: list[Clip], *new: str) -> Comparison:
    """Clips of which nothing but their texts is known."""
    return Comparison(
        new=clips(*new, name="new"), old=old, quality={}, movements={}, redness={}
    )  # fmt: skip


def test_an_item_of_one_row_is_what_another_row_would_bring() -> None:
    assert unseen_by_others([["a", "b"], ["a", "c", "c"]]) == pytest.approx(3 / 5)
    assert unseen_by_others([]) == 0


def test_new_words_are_counted_beyond_what_is_expected() -> None:
    found = measure_new_words(compare(OLD, "le chat vole", "Le coq dort !"))
    assert found.figures["share"] == pytest.approx(2 / 6)
    assert found.figures["expected"] == 0  # every old word stands in two clips or more
    assert "vole, coq" in found.what
    assert found.clips == ["new0", "new1"]
    rare = [*OLD, *clips("le hibou hulule", name="rare")]
    found = measure_new_words(compare(rare, "le chat vole", "le coq dort"))
    assert found.figures["expected"] == pytest.approx(2 / 18)
    assert found.statistic == pytest.approx(2 / 6 - 2 / 18)


def test_the_vocabulary_is_that_of_training_clips() -> None:
    test = clips("le coq vole", name="test", split="test")
    assert measure_new_words(compare([*OLD, *test], "le coq vole")).statistic == 2 / 3


def test_in_a_script_without_spaces_each_character_is_a_word() -> None:
    old = clips("我喜欢你", "今天我很好", "你喜欢今天", "你很好", "今天你喜欢我", name="zh")
    assert measure_new_words(compare(old, "我很喜欢今天")).statistic == 0
    assert measure_new_words(compare(old, "הכלב ישן")).statistic == 1


def test_without_durations_no_timing_is_measured() -> None:
    batch = compare(OLD, "le chat dort")
    assert measure_pace(batch).statistic is measure_pairing(batch).statistic is None
