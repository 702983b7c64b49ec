import dataclasses
from collections import Counter
from pathlib import Path

import cv2
import numpy as np
import pytest

from signloom.config import load_section
from signloom_demo.draw import VIDEOS
from signloom_demo.grammar import text_of
from signloom_demo.render import Camera
from signloom_tools.evaluate.study_page import render_study
from studies.faces.page import build_page
from studies.faces.study import (
    MANNERS,
    FacesOptions,
    clauses,
    find_manner,
    in_manner,
    move_face,
    plan_films,
)
from studies.films import Film, draw_film, hold
from tests.tiny import ROOT

STUDY = load_section(ROOT / "studies/faces/params.yaml", "study", FacesOptions)
SMALL = dataclasses.replace(STUDY, signers={"train": 2, "test": 1})


def test_a_sentence_tells_its_manner() -> None:
    for clause in clauses():
        texts = [text_of(in_manner(clause, manner)) for manner in MANNERS]
        assert [find_manner(text) for text in texts] == list(MANNERS)
    films = plan_films(SMALL)
    for signer in {film.signer.name for film in films}:
        counts = Counter(find_manner(film.text) for film in films if film.signer.name == signer)
        assert counts == {manner: len(clauses()) // 3 for manner in MANNERS}


def test_films_depend_on_their_seed_alone() -> None:
    first, again = plan_films(SMALL), plan_films(SMALL)
    other = plan_films(dataclasses.replace(SMALL, seed=2))
    assert [(film.clip_id, film.faces) for film in first] == [
        (film.clip_id, film.faces) for film in again
    ]
    assert [film.faces for film in first] != [film.faces for film in other]


@pytest.mark.parametrize("manner", MANNERS)
def test_a_face_asks_and_denies_while_the_hands_sign(manner: str) -> None:
    faces = move_face(MANNERS[manner], 30, np.random.default_rng(1))
    rest, middle = faces[0], faces[18]
    assert rest.lids in (0.0, -1.0)  # or a blink
    change = middle.brows - rest.brows
    assert np.sign(round(change, 3)) == {"said": 0, "asked": 1, "denied": -1}[manner]
    assert (abs(middle.gaze - rest.gaze) > 0.5) == (manner == "denied")
    assert {face.lids for face in faces} >= {-1.0}


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Film], Path]:
    """A film of each manner of one test signer, tiny."""
    corpus = tmp_path_factory.mktemp("films")
    (corpus / VIDEOS).mkdir()
    drawn = []
    for film in plan_films(SMALL):
        if film.split == "test" and find_manner(film.text) not in {
            find_manner(one.text) for one in drawn
        }:
            assert film.performance is not None
            small = dataclasses.replace(
                film, camera=Camera(width=128, height=128), faces=film.faces[14:16],
                performance=hold(film.performance, 2),
            )  # fmt: skip
            draw_film(small, corpus)
            drawn.append(small)
    return drawn, corpus


def test_a_film_has_a_frame_for_each_face(films: tuple[list[Film], Path]) -> None:
    drawn, corpus = films
    assert len(drawn) == 3
    for film in drawn:
        capture = cv2.VideoCapture(str(corpus / VIDEOS / f"{film.clip_id}.mp4"))
        assert capture.get(cv2.CAP_PROP_FRAME_COUNT) == 2
        assert capture.get(cv2.CAP_PROP_FRAME_WIDTH) == 128
        capture.release()


def test_the_page_says_what_each_group_is_worth(films: tuple[list[Film], Path]) -> None:
    trained = [
        {
            "groups": name, "seed": seed, "bleu4": 40.0 + seed, "wer": 30.0, "exact": 33.0,
            "manner": 99.5 if name == "brows" else 33.0,
            "by_manner": dict.fromkeys(MANNERS, 50.0), "clips": 60,
        }
        for name in ("none", "brows") for seed in (1, 2)
    ]  # fmt: skip
    page = render_study(build_page(*films, {"brows": 0.97}, trained))
    assert "none: 33 %, 33 %; brows: 100 %, 33 %" in page
    assert "brows 0.97" in page
    assert "41.5 (41.0 to 42.0)" in page
    assert "data:image/jpeg;base64" in page
