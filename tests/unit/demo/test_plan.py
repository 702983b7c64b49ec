from collections import Counter
from dataclasses import replace

import pytest

from signloom.config import load_section
from signloom_demo.draw import DrawOptions, PlannedClip, plan_clips
from signloom_demo.lexicon import LEXICON
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


def test_no_signer_is_in_two_splits_and_train_and_test_have_a_left_handed_one() -> None:
    names = [{clip.signer.name for clip in split(name)} for name in ("train", "dev", "test")]
    assert not names[0] & names[1]
    assert not names[0] & names[2]
    assert not names[1] & names[2]
    for name in ("train", "test"):
        assert any(clip.signer.left_handed for clip in split(name))


def test_every_sign_is_signed_often_in_train_and_by_every_train_signer() -> None:
    train = split("train")
    assert min(signs(train).values()) >= 12
    for name in {clip.signer.name for clip in train}:
        assert signs([clip for clip in train if clip.signer.name == name]).keys() == LEXICON.keys()


@pytest.mark.parametrize("name", ["dev", "test"])
def test_held_out_sentences_are_of_known_words_and_a_third_of_them_new(name: str) -> None:
    train, held_out = split("train"), split(name)
    words = {word for clip in train for word in clip.sentence.text.split()}
    assert signs(held_out).keys() <= signs(train).keys()
    assert {word for clip in held_out for word in clip.sentence.text.split()} <= words
    texts = {clip.sentence.text for clip in train}
    new = [clip for clip in held_out if clip.sentence.text not in texts]
    assert len(new) / len(held_out) == OPTIONS.unseen_share >= 1 / 3
    assert not {clip.sentence.glosses for clip in new} & {c.sentence.glosses for c in train}


@pytest.mark.parametrize("clips", [1, 3, 8])
@pytest.mark.parametrize("max_signs", [1, 3, 5])
def test_tiny_corpora_have_all_splits(clips: int, max_signs: int) -> None:
    plan = plan_clips(replace(TINY, clips_per_signer=clips, max_signs=max_signs))
    assert Counter(clip.split for clip in plan) == {"train": 2 * clips, "dev": clips, "test": clips}
    assert signs(split("test", plan)).keys() <= signs(split("train", plan)).keys()


def test_a_plan_depends_on_its_seed_alone() -> None:
    assert len({clip.clip_id for clip in PLAN}) == len(PLAN)
    assert plan_clips(TINY) == plan_clips(TINY)
    assert plan_clips(TINY) != plan_clips(replace(TINY, seed=TINY.seed + 1))
