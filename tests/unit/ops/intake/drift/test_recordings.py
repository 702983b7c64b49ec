"""What is measured of recordings and sentences: skin of known colours, words counted by hand."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.manifest import Clip
from signloom_ops.intake.drift.recordings import (
    check_texts,
    measure_redness,
    unseen_by_others,
)
from signloom_tools.video_writer import VideoWriter
from tests.tiny import lose
from tests.unit.ops.intake.drift.world import FPS, OPTIONS, wave

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
    found = measure_redness(film(tmp_path / "a.mp4", sequence), sequence, 4)
    assert found == pytest.approx((200 - 110) / 450, abs=0.03)
    swapped = film(tmp_path / "b.mp4", sequence, skin=(110, 140, 200))
    assert measure_redness(swapped, sequence, 4) == pytest.approx(-(200 - 110) / 450, abs=0.03)


def test_a_segment_is_looked_at_where_it_lies(tmp_path: Path) -> None:
    sequence = wave(1, seconds=1.0)
    clip = film(tmp_path / "a.mp4", sequence, start_s=1.0)
    assert measure_redness(clip, sequence, 4) == pytest.approx(0.2, abs=0.03)
    whole = dataclasses.replace(clip, start_s=None)
    assert (measure_redness(whole, sequence, 4) or 0) < 0  # the wall


def test_hands_that_come_late_are_waited_for(tmp_path: Path) -> None:
    sequence = wave(1, seconds=4.0)
    clip = film(tmp_path / "a.mp4", sequence)
    late = sequence
    for group in sequence.layout.group_names:
        late = lose(late, group, slice(0, 80))
    assert measure_redness(clip, late, 4) == pytest.approx(0.2, abs=0.03)


def test_without_a_video_or_landmarks_nothing_is_said(tmp_path: Path) -> None:
    sequence = wave(1, seconds=1.0)
    clip = film(tmp_path / "a.mp4", sequence)
    gone = sequence
    for group in sequence.layout.group_names:
        gone = lose(gone, group, slice(None))
    assert measure_redness(clip, gone, 4) is None
    assert measure_redness(dataclasses.replace(clip, video=None), sequence, 4) is None
    (tmp_path / "a.mp4").write_bytes(b"no video any more")
    assert measure_redness(clip, sequence, 4) is None
    (tmp_path / "a.mp4").unlink()
    assert measure_redness(clip, sequence, 4) is None


def clips(*texts: str, name: str = "old", split: str = "train") -> list[Clip]:
    return [
        Clip(clip_id=f"{name}{i}", video=None, text=text, signer=name, split=split)
        for i, text in enumerate(texts)
    ]


OLD = clips("le chat dort", "le chat mange", "un chien dort", "un chien mange", "le chien dort")


def test_what_stands_in_one_row_only_is_what_another_row_would_bring() -> None:
    assert unseen_by_others([["a", "b"], ["a", "c", "c"]]) == pytest.approx(3 / 5)
    assert unseen_by_others([]) == 0


def test_new_words_are_counted_beyond_what_is_expected() -> None:
    new = clips("le chat vole", "le coq dort", name="new")
    found = {one.check: one for one in check_texts(OLD, new, {}, OPTIONS)}["new_words"]
    assert found.figures["share"] == pytest.approx(2 / 6)
    assert found.figures["expected"] == 0  # every old word stands in two clips or more
    assert "vole, coq" in found.what
    assert found.clips == ("new0", "new1")
    rare = [*OLD, *clips("le hibou hulule", name="rare")]
    found = {one.check: one for one in check_texts(rare, new, {}, OPTIONS)}["new_words"]
    assert found.figures["expected"] == pytest.approx(2 / 18)
    assert found.statistic == pytest.approx(2 / 6 - 2 / 18, abs=1e-4)


def test_the_vocabulary_is_that_of_training_clips() -> None:
    test = clips("le coq vole", name="test", split="test")
    new = clips("le coq vole", name="new")
    found = {one.check: one for one in check_texts([*OLD, *test], new, {}, OPTIONS)}["new_words"]
    assert found.figures["share"] == pytest.approx(2 / 3)


def test_another_script_stops() -> None:
    old = clips("我喜欢你", "今天我很好", "你喜欢今天", "你很好", "今天你喜欢我", name="zh")
    new = clips("הכלב ישן", name="new")
    levels = {one.check: one.level for one in check_texts(old, new, {}, OPTIONS)}
    assert levels["new_words"] == "stop"  # of Chinese each character is a word
    assert levels["byte_tokens"] == "stop"


def test_without_durations_no_timing_is_judged() -> None:
    found = {one.check: one for one in check_texts(OLD, clips("le chat dort"), {}, OPTIONS)}
    assert found["pace"].statistic is found["pairing"].statistic is None
    assert found["pace"].level == "ok"
