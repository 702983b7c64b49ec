"""What is measured of recordings and sentences: words counted by hand."""

import pytest

from signloom.corpus.manifest import Clip
from signloom_ops.intake.drift.comparison import Comparison
from signloom_ops.intake.drift.recordings import (
    measure_new_words,
    measure_pace,
    measure_pairing,
    unseen_by_others,
)


def clips(*texts: str, name: str = "old", split: str = "train") -> list[Clip]:
    return [
        Clip(clip_id=f"{name}{i}", video=None, text=text, signer=name, split=split)
        for i, text in enumerate(texts)
    ]


OLD = clips("le chat dort", "le chat mange", "un chien dort", "un chien mange", "le chien dort")


def compare(old: list[Clip], *new: str) -> Comparison:
    """Clips of which nothing but their texts is known."""
    return Comparison(new=clips(*new, name="new"), old=old, quality={}, movements={})


def test_an_item_of_one_row_is_what_another_row_would_bring() -> None:
    assert unseen_by_others([["a", "b"], ["a", "c", "c"]]) == pytest.approx(3 / 5)
    assert unseen_by_others([]) == 0


def test_new_words_are_counted_beyond_what_is_expected() -> None:
    finding = measure_new_words(compare(OLD, "le chat vole", "Le coq dort !"))
    assert finding.figures["share"] == pytest.approx(2 / 6)
    assert finding.figures["expected"] == 0  # every old word stands in two clips or more
    assert "vole, coq" in finding.what
    assert finding.clips == ["new0", "new1"]
    rare = [*OLD, *clips("le hibou hulule", name="rare")]
    finding = measure_new_words(compare(rare, "le chat vole", "le coq dort"))
    assert finding.figures["expected"] == pytest.approx(2 / 18)
    assert finding.statistic == pytest.approx(2 / 6 - 2 / 18)


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
