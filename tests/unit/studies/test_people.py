"""Drawn people who sign single signs, and what can be told from their clips."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from signloom.config import load_params
from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.manifest import IMPORTED_SHARDS, Clip
from signloom.corpus.shards import read_shards
from signloom.features.leading import is_left_led
from signloom.paths import PARAMS
from signloom.translation.familiarity import describe_sign_postures, measure_posture
from signloom_demo.lexicon import LEXICON
from signloom_tools.importing.corpus_warnings import warn_of_exchanged
from studies.people.study import PeopleOptions, draw_corpus, draw_person, draw_take
from tests import tiny


@pytest.fixture
def options(tmp_path: Path) -> PeopleOptions:
    return PeopleOptions(
        corpus=tmp_path, signs=4, takes=2, dev_people=0, test_people=1, left_handed=0.0
    )


def test_more_people_are_the_same_people_and_others(options: PeopleOptions) -> None:
    options = dataclasses.replace(options, signs=2, takes=1)
    few, many = (draw_corpus(options, people, seed=1) for people in (1, 2))
    assert {clip.signer for clip in many[0]} == {"train0", "train1", "test0"}
    assert len(many[0]) == 6
    assert len(many[1]) == 3 * (len(LEXICON) - 2)
    name = few[0][0].clip_id
    first, second = (
        read_shards(folder / IMPORTED_SHARDS, [name])[name] for _, _, folder in (few, many)
    )
    np.testing.assert_array_equal(first.points, second.points)


@pytest.mark.parametrize("left_handed", [0.0, 1.0])
def test_signs_of_one_hand_are_turned_of_left_handed_people_alone(left_handed: float) -> None:
    rng = np.random.default_rng(1)
    person = draw_person("p", rng, left_handed)
    takes = {sign: draw_take(person, sign, rng) for sign in LEXICON}
    turned = {sign for sign, take in takes.items() if is_left_led(take)}
    one_handed = {sign for sign, form in LEXICON.items() if not form.other}
    alike = {sign for sign, form in LEXICON.items() if form.other == form.dominant}
    assert one_handed >= turned - {"PAIN", "CAFE", "LIRE"} == (one_handed if left_handed else set())
    assert not turned & alike


def test_init_names_who_exchanged_two_signs(options: PeopleOptions) -> None:
    taught, _, folder = draw_corpus(dataclasses.replace(options, takes=3), 5, seed=1)
    first, second = sorted({clip.text for clip in taught})[:2]
    other = {first: second, second: first}
    wrong = [
        dataclasses.replace(clip, text=other.get(clip.text, clip.text))
        if clip.signer == "train3"
        else clip
        for clip in taught
    ]
    params = load_params(tiny.ROOT / PARAMS)
    recipe = {"tokenize_targets": {"ctc": "texts"}, "features": {"right_handed": True}}
    assert warn_of_exchanged(taught, folder, params, recipe) == []
    (warning,) = warn_of_exchanged(wrong, folder, params, recipe)
    assert warning.startswith(f"warning: signer train3: `{first}` and `{second}` seem exchanged")
    assert warn_of_exchanged(wrong, folder / "films", params, recipe) == []
    sentences = {**recipe, "tokenize_targets": {"ctc": "characters"}}
    assert warn_of_exchanged(wrong, folder, params, sentences) == []


@pytest.mark.slow
def test_other_people_in_dev_say_how_far_the_clips_of_others_lie(options: PeopleOptions) -> None:
    """Quick twin: tests/unit/translation/test_confidence.py."""
    taught, unknown, folder = draw_corpus(
        dataclasses.replace(options, signs=12, takes=3, dev_people=2, test_people=2), 3, seed=1
    )
    sequences = read_shards(folder / IMPORTED_SHARDS, [c.clip_id for c in (*taught, *unknown)])

    def show(clips: list[Clip], split: str) -> list[tuple[LandmarkSequence, str]]:
        return [(sequences[c.clip_id], c.text) for c in clips if c.split == split]

    takes, names = zip(*show(taught, "train"), strict=True)
    signers = [clip.signer for clip in taught if clip.split == "train"]
    named: dict[str, list[float]] = {}
    for name, strangers in (("train", []), ("dev", show(taught, "dev"))):
        posture = describe_sign_postures(takes, names, signers, strangers)
        assert posture
        for clips in (show(taught, "test"), show(unknown, "test")):
            postures = (measure_posture(clip, posture.part_counts) for clip, _ in clips)
            rows = np.stack([row for row in postures if row is not None])
            is_within = posture.distances(rows) <= posture.limit
            named.setdefault(name, []).append(float(np.mean(is_within)))
    assert named["train"][1] > 0.9
    assert named["dev"][0] > 0.5
    assert named["dev"][1] < 0.3
