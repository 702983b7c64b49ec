"""`signloom init` chooses parameters that fit the corpus, and says why."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from signloom.config import load_params, load_section
from signloom.corpus.manifest import Clip
from signloom.evaluation.evaluate import EvaluateOptions
from signloom.training.train import read_run_options
from signloom.tune.space import TuneOptions
from signloom_tools.importing.recipe import (
    TO_THE_END,
    Facts,
    choose_recipe,
    choose_values,
    describe_outlook,
    read_facts,
    warn_of_little,
)
from signloom_tools.outlook import plan_trainings
from signloom_tools.presets import adopt
from tests.tiny import ROOT
from tests.videos import write_video

PARAMS = load_params(ROOT / "params.yaml")
SIGNS: dict[str, Any] = {
    "clips": 500, "words": 1.0, "sentences": 500, "known": 1.0, "glosses": False, "seconds": 1.3,
    "spelt": ((1.3, 6),) * 9, "signs_alone": False, "groups": ("hands", "pose"),
}  # fmt: skip
SENTENCES = SIGNS | {"words": 0.0, "known": 0.1, "spelt": ((4.0, 30),) * 9, "seconds": 4.0}


def clip(name: str, text: str, split: str, **more: Any) -> Clip:
    return Clip(clip_id=name, video=None, text=text, signer=split, split=split, **more)


def test_a_recipe_of_sentences_with_glosses_is_that_of_the_demo() -> None:
    values, _ = choose_recipe(Facts(**SENTENCES | {"glosses": True, "clips": 137}), PARAMS)
    for section in ("tokenize_targets", "features", "augment", "model"):
        for key, value in values[section].items():
            assert PARAMS[section].get(key, False) == value
    for key in ("ctc_weight", "max_frames"):
        assert values["train"][key] == PARAMS["train"][key]


def test_a_recipe_of_few_sentences_keeps_a_model_from_learning_them_by_heart() -> None:
    (few, reasons), (many, _) = (
        choose_recipe(Facts(**SENTENCES | {"clips": clips}), PARAMS) for clips in (30, 300)
    )
    assert (few["model"]["dropout"], few["augment"]) == (0.3, {"mirror": 0.1, "hand_drop": 0})
    assert (many["model"]["dropout"], many["augment"]) == (0.1, {"mirror": 0.3, "hand_drop": 0.4})
    assert any("fewer than 50 train clips" in reason for reason in reasons)


def test_few_sentences_are_trained_with_three_seeds_and_own_ones_stay() -> None:
    def seeds(facts: dict[str, Any], numbers: list[int]) -> object:
        params = PARAMS | {"train": PARAMS["train"] | {"seeds": numbers}}
        return choose_recipe(Facts(**facts), params)[0]["train"]["seeds"]

    assert seeds(SENTENCES | {"clips": 140}, [1]) == [1, 2, 3]
    assert seeds(SENTENCES | {"clips": 140}, [4, 5, 6, 7]) == [4, 5, 6, 7]
    assert seeds(SENTENCES, [4]) == [4]
    assert seeds(SIGNS, [4]) == [1, 2, 3]  # however many clips


def test_single_signs_are_read_by_three_seeds_and_nothing_is_mirrored_by_chance() -> None:
    def choose(text: str) -> Any:
        clips = [clip(f"{split}{n}", text, split) for split in ("train", "dev") for n in range(9)]
        return choose_values(clips, Path("c"), PARAMS, signer_disjoint=True)[0]

    signs, sentences = choose("tea"), choose("a cup of tea")
    assert (signs["augment"], signs["features"]["right_handed"], signs["evaluate"]["together"]) == (
        {"mirror": 0.0, "hand_drop": 0.1},
        True,
        True,
    )
    assert sentences["augment"]["mirror"] > 0
    assert not sentences["features"]["right_handed"]
    assert not sentences["evaluate"]["together"]


@pytest.mark.parametrize(
    ("dev", "weights", "signs"), [(100, [0.0, 0.1, 0.3], [0.2, 0.0]), (40, [], [0.2])]
)
def test_only_enough_clips_of_dev_choose_the_weights_of_a_search(
    dev: int, weights: list[float], signs: list[float], tmp_path: Path
) -> None:
    clips = [clip("a", "a b", "train"), *(clip(f"d{n}", "a b", "dev") for n in range(dev))]
    values, reasons = choose_values(clips, tmp_path, PARAMS, signer_disjoint=True, text_only=True)
    path = tmp_path / "params.yaml"
    path.write_text((ROOT / "params.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    adopt(path, values)
    options = load_section(path, "evaluate", EvaluateOptions)
    assert options.grid.internal_lm_weights == tuple(weights)
    assert options.grid.sign_weights == tuple(signs)
    assert options.decoding.internal_lm_weight == 0
    assert load_section(path, "tune", TuneOptions).trials == 0
    assert "tune.trials: 20" in reasons[-1]
    values, reasons = choose_values(
        clips, tmp_path, load_params(path), signer_disjoint=True, text_only=True
    )
    assert ("tune" in values, reasons) == (False, [])  # already switched off


def test_init_says_what_the_outlook_costs_as_it_plans_it() -> None:
    for count in (3, 5, 7):
        signers = [f"s{number}" for number in range(count)]
        clips = [replace(clip(who, "a b", "train"), signer=who) for who in signers]
        assert f"{len(plan_trainings(signers, 3, 1))} small models" in describe_outlook(clips)
    assert "3 signers in train on, not 1" in describe_outlook([clip("a", "a b", "train")])


def test_recombining_is_advised_where_it_was_measured_to_help() -> None:
    def advised(**changes: Any) -> bool:
        _, reasons = choose_recipe(Facts(**SENTENCES | changes), PARAMS)
        return any("--recombine" in reason for reason in reasons)

    assert advised(clips=30, sentences=30, glosses=True)
    assert advised(clips=1500, sentences=150, glosses=True)
    assert not advised(clips=300, sentences=300, glosses=True)
    assert not advised(clips=150, sentences=150, glosses=True, known=1.0)
    assert not advised(clips=30, glosses=False)
    assert not advised(clips=140, glosses=True, signs_alone=True)


def test_signs_without_sentences_are_recognised() -> None:
    facts = SENTENCES | {"glosses": True, "clips": 140}
    quick = PARAMS | {"features": PARAMS["features"] | {"fps": 30}}
    (signs, reasons), (sentences, _) = (
        choose_recipe(Facts(**facts | {"signs_alone": alone}), quick) for alone in (True, False)
    )
    assert [recipe["model"]["family"] for recipe in (signs, sentences)] == [
        "convolution",
        "transformer",
    ]
    assert (signs["model"]["subsampling"], signs["train"]["patience"]) == (4, 0)  # to the end
    assert sentences["train"]["epochs"] > sentences["train"]["patience"] > 0
    assert any("the texts are the glosses" in reason for reason in reasons)


@pytest.mark.parametrize(
    ("clips", "known", "glosses", "is_to_the_end"),
    [
        (14, 0.0, False, True),
        (14, 1.0, False, False),
        (TO_THE_END - 1, 0.0, False, True),
        (TO_THE_END, 0.0, False, False),
        (14, 0.0, True, True),
        (60, 0.0, True, False),
    ],
)
def test_few_clips_whose_dev_sentences_are_new_are_learnt_to_the_end(
    clips: int, known: float, glosses: bool, is_to_the_end: bool
) -> None:
    changes = {"clips": clips, "sentences": clips, "known": known, "glosses": glosses}
    facts = Facts(**SENTENCES | changes)
    recipe, reasons = choose_recipe(facts, PARAMS)
    assert (recipe["train"]["patience"] == 0) == is_to_the_end
    assert any("the last epoch is kept" in reason for reason in reasons) == is_to_the_end


@pytest.mark.parametrize(
    ("facts", "labels", "step", "reason"),
    [
        (SIGNS, "texts", 2, "whole text is one label"),
        (SENTENCES, "characters", 1, "of 9 of 9 train clips have room"),
        (SENTENCES | {"spelt": ((9.0, 30),) * 9}, "characters", 4, "9 of 9 train clips have room"),
        (SENTENCES | {"spelt": ((1.0, 30),) * 9}, "none", 4, "0 of 9 train clips have room even"),
        # 25 of 63 clips fell out of CTC where the one in the middle had room.
        (SENTENCES | {"spelt": ((9.0, 30),) * 38 + ((9.0, 50),) * 25}, "characters", 2, "63 of 63"),
        (SENTENCES | {"spelt": ((9.0, 30),) * 38 + ((1.0, 30),) * 25}, "none", 4, "38 of 63 train"),
        (SENTENCES | {"seconds": None, "spelt": ((None, 30),) * 9}, "characters", 1, "unknown len"),
        (SENTENCES | {"words": 1.0, "known": 0.0, "spelt": ((4.0, 8),)}, "characters", 4, "words,"),
        (SIGNS | {"groups": ("hands",)}, "texts", 2, "centred and scaled by its hands"),
        (SENTENCES | {"glosses": True, "signs_alone": True}, "glosses", 2, "signs in their order"),
    ],
)
def test_ctc_never_asks_for_more_letters_than_a_clip_has_room_for(
    facts: dict[str, Any], labels: str, step: int, reason: str
) -> None:
    values, reasons = choose_recipe(Facts(**facts), PARAMS)
    assert values["tokenize_targets"]["ctc"] == labels
    assert values["model"]["subsampling"] == step
    assert (values["train"]["ctc_weight"] == 0) == (labels == "none")
    assert values["features"]["normalise"] == "body"
    assert any(reason in line for line in reasons)


def test_every_recipe_sets_the_same_keys_so_that_none_stays_of_another_corpus() -> None:
    recipes = [choose_recipe(Facts(**facts), PARAMS)[0] for facts in (SIGNS, SENTENCES)]
    signs, sentences = ({(s, k) for s in recipe for k in recipe[s]} for recipe in recipes)
    assert signs == sentences


@pytest.mark.parametrize("clips", [1, 40, 768, 5000, 10**6])
def test_signs_get_a_valid_recipe_neither_short_nor_endless(clips: int, tmp_path: Path) -> None:
    values, _ = choose_recipe(Facts(**SIGNS | {"clips": clips, "seconds": None}), PARAMS)
    path = tmp_path / "params.yaml"
    path.write_text((ROOT / "params.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    adopt(path, values)
    options = read_run_options(path)
    assert 10 <= options.train.epochs <= 300
    assert options.train.patience == options.model.decoder_layers == 0
    assert (options.model.family, options.model.d_model > 64) == ("convolution", clips > 768)


def test_a_recipe_replaces_the_family_of_earlier_parameters(tmp_path: Path) -> None:
    """What only the family of before reads was left, and the next stage refused it."""
    path = tmp_path / "params.yaml"
    path.write_text((ROOT / "params.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    adopt(path, load_params(ROOT / "presets/keras-lstm.yaml"))
    assert read_run_options(path).model.attention == "none"
    adopt(path, choose_recipe(Facts(**SENTENCES), load_params(path))[0])
    assert read_run_options(path).model.family == "transformer"


def test_facts_are_read_from_the_clips_and_their_videos(tmp_path: Path) -> None:
    write_video(tmp_path / "a.mp4", frames=30, fps=15.0)
    (tmp_path / "torn.mp4").write_bytes(b"no video")
    clips = [
        Clip(clip_id="a", video=tmp_path / "a.mp4", text="tea", signer="x", split="train"),
        Clip(clip_id="b", video=tmp_path / "torn.mp4", text="cup", signer="x", split="train"),
        clip("c", "tea", "dev"),
        clip("d", "a cup of tea", "dev"),
        clip("e", "milk", "test"),
    ]
    facts = read_facts(clips, tmp_path, ())
    assert (facts.clips, facts.words, facts.known, facts.glosses) == (2, 1.0, 0.5, False)
    assert facts.seconds == pytest.approx(2.0, abs=0.1)
    assert facts.are_signs
    assert facts.spelt == ((pytest.approx(2.0, abs=0.1), 3), (None, 3))
    assert read_facts([clip("e", "coffee", "train")], tmp_path, ()).spelt == ((None, 8),)
    timed = [clip("a", "tea", "train", start_s=1.0, end_s=2.5), *clips[2:]]
    assert read_facts(timed, tmp_path, ()).seconds == 1.5


def test_what_too_few_clips_cannot_teach_or_tell_is_said_before_a_training() -> None:
    words = [clip(f"{n}", f"sign{n}", "train") for n in range(199)]
    dev = [clip(f"d{n}", f"other{n}", "dev") for n in range(21)]
    once, unknown, few = warn_of_little([*words, *dev])
    assert once.startswith("199 of 199 signs occur in one clip of train only")
    assert "signloom lookup" in once
    assert unknown.startswith("train shows none of the 21 signs of dev")
    assert few.startswith("dev has 21 clips: a share of them is known to about ±22 points")
    sentences = [clip(f"{n}", f"a{n} b{n} c{n}", "train") for n in range(63)]
    (warning,) = warn_of_little(sentences)
    assert warning.startswith("189 of 189 words occur in one clip of train only")
    enough = [
        clip(f"{n}{split}", f"sign{n % 20}", split)
        for n in range(120)
        for split in ("train", "dev", "test")
    ]
    assert warn_of_little(enough) == []


def test_glosses_that_nobody_can_learn_or_read_are_said_before_a_training() -> None:
    train = [clip(f"{n}", f"wort {n}", "train", gloss=f"ICH SIGN{n}") for n in range(5)]
    dev = [clip("d0", "wort 0", "dev", gloss="ICH NEU"), clip("d1", "wort 1", "dev")]
    warnings = warn_of_little([*train, *dev])
    assert any(warning.startswith("1 of 7 clips have no glosses") for warning in warnings)
    assert any(
        warning.startswith("5 of 6 glosses occur in one clip of train only") for warning in warnings
    )
    assert any(
        warning.startswith("1 of 2 glosses of dev and test occur in no clip of train")
        and "(NEU)" in warning
        for warning in warnings
    )


@pytest.mark.parametrize(
    ("text", "language", "now", "tokenizer"),
    [
        ("他的同学是警察", "zh", "13a", "zh"),
        ("他的同学是警察", "", "13a", "zh"),
        ("他 的 同 学", "zh-Hans", "13a", "zh"),
        ("彼は警察官です", "ja", "13a", "char"),
        ("警察官", "ja", "13a", "char"),
        ("ฉันไปโรงเรียน", "th", "13a", "char"),
        ("ខ្ញុំទៅសាលា", "km", "13a", "char"),
        ("ကျွန်တော်ကျောင်းသွားတယ်", "my", "13a", "char"),
        ("ຂ້ອຍໄປໂຮງຮຽນ", "lo", "13a", "char"),
        ("他的同学是警察", "zh", "char", None),
        ("나는 학교에 간다", "ko", "13a", None),
        ("I say 你好 to you", "en", "13a", None),
        ("je vais", "fr", "zh", "13a"),
        ("je vais", "fr", "none", None),
    ],
)
def test_texts_without_spaces_are_scored_by_characters(
    text: str, language: str, now: str, tokenizer: str | None
) -> None:
    clips = [
        clip(f"c{n}", text, split, language=language or None)
        for n, split in enumerate(("train", "dev"))
    ]
    params = PARAMS | {"evaluate": PARAMS["evaluate"] | {"score": {"tokenizer": now}}}
    values, reasons = choose_values(clips, Path("c"), params, signer_disjoint=True)
    assert values["evaluate"].get("score") == (tokenizer and {"tokenizer": tokenizer})
    assert any("evaluate.score.tokenizer" in reason for reason in reasons) == bool(tokenizer)


def test_words_are_counted_as_the_script_writes_them() -> None:
    texts = ("我去学校了", "学校我去了", "了我去学校")
    assert warn_of_little([clip(text, text, "train") for text in texts]) == []
