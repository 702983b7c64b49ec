"""Words, tokens and timing against sentences counted by hand."""

import pytest

from signloom.corpus.manifest import Clip
from signloom.intake.drift.recordings import check_texts, split_words, unseen_by_others
from tests.unit.intake.drift.world import OPTIONS


def clips(*texts: str, name: str = "old", split: str = "train") -> list[Clip]:
    return [
        Clip(clip_id=f"{name}{i}", video=None, text=text, signer=name, split=split)
        for i, text in enumerate(texts)
    ]


OLD = clips("le chat dort", "le chat mange", "un chien dort", "un chien mange", "le chien dort")


def test_words_have_no_case_and_no_punctuation() -> None:
    assert split_words("Où vas-tu, l’AMI ?") == ["où", "vas", "tu", "l", "ami"]
    assert split_words("!?") == []


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


def test_another_script_stops_where_there_are_no_words_to_count() -> None:
    old = clips("我喜欢你", "今天我很好", "你喜欢今天", "你很好", "今天你喜欢我", name="zh")
    new = clips("הכלב ישן", name="new")
    levels = {one.check: one.level for one in check_texts(old, new, {}, OPTIONS)}
    assert levels["new_words"] == "ok"  # each old sentence is one word that no other has
    assert levels["byte_tokens"] == "stop"


def test_without_durations_no_timing_is_judged() -> None:
    found = {one.check: one for one in check_texts(OLD, clips("le chat dort"), {}, OPTIONS)}
    assert found["pace"].statistic is found["pairing"].statistic is None
    assert found["pace"].level == "ok"
