from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from signloom.config import load_section
from signloom_demo.draw import DrawOptions, PlannedClip, plan_clips
from signloom_demo.signs import LEXICON
from tests.tiny import ROOT

OPTIONS = load_section(ROOT / "data/demo/params.yaml", "draw", DrawOptions)
PLAN = plan_clips(OPTIONS)
TINY = replace(OPTIONS, train_signers=2, dev_signers=1, test_signers=1, clips_per_signer=3)


def split(name: str, plan: list[PlannedClip] = PLAN) -> list[PlannedClip]:
    return [clip for clip in plan if clip.split == name]


def signs(plan: list[PlannedClip]) -> Counter[str]:
    return Counter(gloss for clip in plan for gloss in clip.sentence.glosses)


def test_the_corpus_is_as_large_as_promised() -> None:
    assert len(PLAN) >= 160
    assert len({clip.signer.name for clip in PLAN}) >= 6
    assert len(signs(PLAN)) >= 24


def test_no_signer_is_in_two_splits() -> None:
    names = [{clip.signer.name for clip in split(name)} for name in ("train", "dev", "test")]
    assert not names[0] & names[1]
    assert not names[0] & names[2]
    assert not names[1] & names[2]


def test_train_and_test_have_a_left_handed_signer() -> None:
    assert any(clip.signer.left_handed for clip in split("train"))
    assert any(clip.signer.left_handed for clip in split("test"))


def test_every_sign_is_signed_often_in_train_and_by_every_train_signer() -> None:
    train = split("train")
    assert min(signs(train).values()) >= 12
    for name in {clip.signer.name for clip in train}:
        assert signs([clip for clip in train if clip.signer.name == name]).keys() == LEXICON.keys()


@pytest.mark.parametrize("name", ["dev", "test"])
def test_held_out_sentences_use_known_signs_and_words(name: str) -> None:
    train, held_out = split("train"), split(name)
    words = {word for clip in train for word in clip.sentence.text.split()}
    assert signs(held_out).keys() <= signs(train).keys()
    assert {word for clip in held_out for word in clip.sentence.text.split()} <= words


@pytest.mark.parametrize("name", ["dev", "test"])
def test_a_third_of_held_out_sentences_and_more_are_new(name: str) -> None:
    texts = {clip.sentence.text for clip in split("train")}
    glosses = {clip.sentence.glosses for clip in split("train")}
    held_out = split(name)
    new = [clip for clip in held_out if clip.sentence.text not in texts]
    assert len(new) / len(held_out) >= 1 / 3
    assert len(new) / len(held_out) == OPTIONS.unseen_share
    assert not {clip.sentence.glosses for clip in new} & glosses


def test_ids_are_unique_and_a_plan_is_repeatable() -> None:
    assert len({clip.clip_id for clip in PLAN}) == len(PLAN)
    assert [clip.index for clip in PLAN] == list(range(len(PLAN)))
    assert plan_clips(TINY) == plan_clips(TINY)
    assert plan_clips(TINY) != plan_clips(replace(TINY, seed=TINY.seed + 1))


@pytest.mark.parametrize("clips", [1, 3, 8])
@pytest.mark.parametrize("max_signs", [1, 3, 5])
def test_tiny_corpora_have_all_splits(clips: int, max_signs: int) -> None:
    plan = plan_clips(replace(TINY, clips_per_signer=clips, max_signs=max_signs))
    assert Counter(clip.split for clip in plan) == {"train": 2 * clips, "dev": clips, "test": clips}
    assert signs(split("test", plan)).keys() <= signs(split("train", plan)).keys()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train_signers": 8}, "train_signers: found 8, expected at most 7"),
        ({"clips_per_signer": 0}, "clips_per_signer: found 0, expected at least 1"),
        ({"width": 321}, "width: found 321, expected a multiple of 2"),
        ({"unseen_share": 1.5}, "unseen_share: found 1.5, expected at most 1"),
    ],
)
def test_bad_options_are_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(OPTIONS, **change)


def test_dvc_declares_the_folder_that_is_written() -> None:
    assert OPTIONS.out == Path("data/demo/corpus")
    assert f"- {OPTIONS.out.as_posix()}\n" in (ROOT / "data/demo/dvc.yaml").read_text()
