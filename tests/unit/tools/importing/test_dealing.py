from collections import Counter
from typing import Any

import pytest

from signloom.corpus.manifest import Clip
from signloom.errors import UserError
from signloom_tools.importing.dealing import deal_clips, few_takes, shuffled_takes
from signloom_tools.importing.recipe import warn_of_leaks

SHARES = (80.0, 10.0, 10.0)


def take(text: str, number: int, signer: str = "anna", split: str = "train") -> Clip:
    return Clip(
        clip_id=f"{signer}_{text}_{number}", video=None, text=text, signer=signer, split=split
    )


def dealt(clips: list[Clip], by: str) -> tuple[list[Clip], str]:
    splits, how = deal_clips(clips, SHARES, by)
    imported: list[Any] = [
        take(clip.text, int(clip.clip_id.split("_")[-1]), clip.signer, splits[clip.clip_id])
        for clip in clips
    ]
    return imported, how


def test_takes_of_one_signer_are_dealt_in_the_order_of_recording() -> None:
    """Takes of one sitting lay in all splits, and scores were those of the films of train."""
    clips = [take(text, number) for text in ("no", "yes") for number in range(12)]
    dealt_clips, how = dealt(clips[::-1], "auto")
    assert how == "order"
    for text in ("no", "yes"):
        series = sorted(
            (int(c.clip_id.split("_")[-1]), c.split) for c in dealt_clips if c.text == text
        )
        assert [split for _, split in series] == ["train"] * 10 + ["dev", "test"]
    assert shuffled_takes(dealt_clips) == 0
    shuffled, _ = dealt(clips, "clip")
    assert shuffled_takes(shuffled) > 0
    warnings = " ".join(warn_of_leaks(shuffled))
    assert "--by order" in warnings
    assert "everything is by one signer" in warnings
    assert "--by order" not in " ".join(warn_of_leaks(dealt_clips))


def test_what_was_recorded_once_or_twice_trains_or_is_dealt_with_the_others() -> None:
    clips = [take("often", number) for number in range(3)]
    clips += [take(f"once{number}", number) for number in range(20)]
    dealt_clips, _ = dealt(clips, "order")
    assert {clip.text for clip in few_takes(clips, 3)} == {f"once{number}" for number in range(20)}
    splits = {clip.text: clip.split for clip in dealt_clips if clip.text != "often"}
    assert [splits[f"once{number}"] for number in range(20)] == (
        ["train"] * 16 + ["dev"] * 2 + ["test"] * 2
    )
    assert Counter(c.split for c in dealt_clips if c.text == "often") == {
        "train": 1,
        "dev": 1,
        "test": 1,
    }


def test_enough_signers_are_dealt_and_few_are_an_error_where_asked_for() -> None:
    many = [take("yes", number, f"s{number % 5}") for number in range(20)]
    assert dealt(many, "auto")[1] == "signer"
    few = [take("yes", number, f"s{number % 2}") for number in range(20)]
    assert dealt(few, "auto")[1] == "order"
    with pytest.raises(UserError, match=r"found 2 signers for 3 splits.*--by order"):
        deal_clips(few, SHARES, "signer")


def test_no_sentence_of_test_is_in_train_however_it_is_written() -> None:
    texts = [f"i take {number} tea" for number in range(10)]
    clips = [take(text, n, f"s{n}") for text in texts for n in range(3)]
    clips += [take(f"I take {number} tea!", 9, "s9") for number in range(10)]
    dealt_clips, how = dealt(clips, "sentence")
    splits = {
        clip.text.lower().strip("!"): {c.split for c in dealt_clips if c.text == clip.text}
        for clip in dealt_clips
    }
    assert how == "sentence"
    assert all(len(text_splits) == 1 for text_splits in splits.values())
    for text in texts:
        assert len({c.split for c in dealt_clips if c.text.lower().strip("!") == text}) == 1
    assert {clip.split for clip in dealt_clips} == {"train", "dev", "test"}


def test_test_sentences_that_train_has_are_told_before_training() -> None:
    known_clips = [
        take("i go home", n, f"s{n}", split) for n, split in enumerate(("train", "dev", "test"))
    ]
    assert "train has every sentence of test" in " ".join(warn_of_leaks(known_clips))
    new = [*known_clips, take("you go home", 8, "s8", "test")]
    assert "1 known, 1 of new words in old frames" in " ".join(warn_of_leaks(new))
