import dataclasses

import numpy as np
import pytest
import torch

from signloom_demo.face import Expression
from studies.lip_reading.mouths import (
    REST,
    LipCorpusOptions,
    draw_speaker,
    plan_films,
    sentences,
    speak,
    spell,
)
from studies.lip_reading.visual import COLUMNS, SIDE, UNIT, FrontEnd, cut_mouth, plan_words


def test_letters_are_spelt_as_they_look_on_the_lips() -> None:
    assert spell("بَ") == spell("مَ")  # both lips pressed
    assert spell("تُ") == spell("دُ")
    assert spell("بَ") != spell("تَ")
    assert spell("فِ") != spell("بِ")
    assert [hold.mouth for hold in spell("")] == [REST, REST]
    pressed = spell("بْ")[1:-1]
    assert len(pressed) == 1  # sukun: no vowel
    assert spell("بّ")[1].length == 2  # shadda: held twice as long
    assert len(spell("بً")) - 2 == 3  # tanwin: the letter, a vowel, n
    with pytest.raises(ValueError, match="no mouth shape for 'x'"):
        spell("x")


def test_every_sentence_can_be_spoken_and_is_its_own() -> None:
    texts = sentences()
    assert len(texts) == len(set(texts)) == 180
    assert all(len(spell(text)) > 10 for text in texts)


def test_a_mouth_moves_as_its_sentence_is_spelt() -> None:
    speaker = draw_speaker("a", np.random.default_rng(1))
    faces = speak("بَابَا", speaker, np.random.default_rng(1))
    opened = np.array([face.open for face in faces])
    is_peak = (opened[1:-1] > opened[:-2]) & (opened[1:-1] >= opened[2:])
    assert (is_peak & (opened[1:-1] > opened.max() / 2)).sum() == 2  # closed before each
    assert min(face.lids for face in faces) == -1  # blinks
    rounded = speak("هُوَ", speaker, np.random.default_rng(1))
    assert max(face.round for face in rounded) > 0.5 > max(face.round for face in faces)


def test_films_depend_on_their_seed_alone_and_test_has_people_and_sentences_of_its_own() -> None:
    options = LipCorpusOptions(seed=3, speakers={"train": 3, "test": 2}, clips_per_speaker=20)
    films = plan_films(options)
    assert films == plan_films(options)
    assert films != plan_films(dataclasses.replace(options, seed=4))
    assert [film.clip_id for film in films] == sorted({film.clip_id for film in films})
    assert {(film.signer.name, film.split) for film in films} == {
        ("train-01", "train"),
        ("train-02", "train"),
        ("train-03", "train"),
        ("test-01", "test"),
        ("test-02", "test"),
    }
    texts = {
        split: {film.text for film in films if film.split == split} for split in ("train", "test")
    }
    assert texts["test"] - texts["train"]
    assert texts["test"] & texts["train"]
    # CTC needs a frame for each character, and one more between two alike.
    assert all(len(film.faces) > len(film.text) for film in films)


def test_the_picture_of_a_mouth_shows_how_far_it_is_open() -> None:
    film = plan_words()[0]
    faces = tuple(Expression(open=share) for share in (0.0, 0.4, 0.9))
    mouths = cut_mouth(dataclasses.replace(film, faces=faces))
    assert mouths.shape == (3, SIDE, SIDE)
    middle = mouths[:, SIDE // 2 : SIDE // 2 + 8, SIDE // 2 - 3 : SIDE // 2 + 3]
    dark = (middle < -1.5 * UNIT).mean(axis=(1, 2))
    assert dark[0] < dark[1] < dark[2]


def test_columns_of_a_frame_know_two_frames_around_it_and_no_more() -> None:
    torch.manual_seed(0)
    front = FrontEnd().eval()
    mouths = torch.randn(1, 9, SIDE, SIDE)
    changed = mouths.clone()
    changed[:, 4] += 1
    with torch.inference_mode():
        before, after = front(mouths), front(changed)
    assert before.shape == (1, 9, COLUMNS)
    moved = (before != after).any(dim=-1)[0].tolist()
    assert moved == [False, False, True, True, True, True, True, False, False]
