import dataclasses

import numpy as np
import pytest

from pipeline.studies.lip_reading.mouths import (
    LAYOUT,
    REST,
    LipCorpusOptions,
    Speaker,
    draw_lip_corpus,
    lip_points,
    sentences,
    speak,
    spell,
)
from signloom.corpus.landmarks import LIP_LANDMARKS
from signloom.features.augment import mirrored_points
from signloom.features.features import compute_features
from signloom.features.tokenizer import Tokenizer, normalise_text
from tests import tiny

SPEAKER = Speaker(
    name="a", mouth=80.0, thickness=0.15, place=(320.0, 300.0), tilt=0.0, tempo=1.0,
    articulation=1.0, sway=0.0, jitter=0.0, loss=0.0,
)  # fmt: skip


def place(points: np.ndarray, name: str) -> np.ndarray:
    return points[LIP_LANDMARKS.index(name)]


def gap(points: np.ndarray) -> float:
    """How far the lips are apart, in mouth widths."""
    return float(place(points, "lower_inner")[1] - place(points, "upper_inner")[1])


def width(points: np.ndarray) -> float:
    right, left = place(points, "right_outer_corner"), place(points, "left_outer_corner")
    return float(left[0] - right[0])


def shape(opened: float = 0, spread: float = 0, rounded: float = 0, tuck: float = 0) -> np.ndarray:
    return lip_points(np.array([opened, spread, rounded, tuck], dtype=np.float64), 0.15)


def test_shapes_look_as_they_are_called() -> None:
    assert gap(shape()) == 0
    assert gap(shape(0.9)) > 0.4
    assert width(shape(spread=1)) > 1.1 * width(shape()) > 1.5 * width(shape(rounded=1))
    assert place(shape(rounded=1), "upper_outer")[2] < place(shape(), "upper_outer")[2] < 0
    assert gap(shape(0.5, tuck=1)) < 0.5 * gap(shape(0.5))


def test_a_mouth_is_symmetric_and_its_lines_do_not_cross() -> None:
    points = shape(0.6, 0.2)
    mirrored = points[mirrored_points(LAYOUT)] * [-1, 1, 1]
    np.testing.assert_allclose(points, mirrored, atol=1e-12)
    rows = ["upper_outer", "upper_inner", "lower_inner", "lower_outer"]  # from the nose down
    for side in ("", "left_", "right_"):
        names = [f"{side}{row}{'_2' if side else ''}" for row in rows]
        heights = [float(place(points, name)[1]) for name in names]
        assert heights == sorted(heights)


def test_letters_that_look_alike_are_spelt_alike() -> None:
    assert spell("بَ") == spell("مَ")  # both lips pressed
    assert spell("تُ") == spell("دُ")
    assert spell("بَ") != spell("تَ")
    assert spell("فِ") != spell("بِ")


def test_signs_of_arabic_by_hand() -> None:
    assert [hold.mouth for hold in spell("")] == [REST, REST]
    pressed = spell("بْ")[1:-1]
    assert len(pressed) == 1  # sukun: no vowel
    assert spell("بّ")[1].length == 2  # shadda: held twice as long
    assert len(spell("بً")) - 2 == 3  # tanwin: the letter, a vowel, n
    with pytest.raises(ValueError, match="no mouth shape for 'x'"):
        spell("x")


def test_every_sentence_can_be_spoken_and_is_its_own() -> None:
    told = sentences()
    assert len(told) == len(set(told)) == 240
    assert all(len(spell(text)) > 10 for text in told)


@pytest.mark.parametrize("vocabulary", ["pruned", "full"])
def test_vowelled_arabic_survives_the_tokenizer(vocabulary: str) -> None:
    told = [normalise_text(text) for text in sentences()]
    tokenizer = Tokenizer.build(told[:20], vocabulary)
    for text in told:
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert any("ّ" in text and "ً" in text for text in told)


def test_a_mouth_moves_as_its_sentence_is_spelt() -> None:
    clip = speak("بَابَا", SPEAKER, np.random.default_rng(1))
    gaps = np.array([gap(points) for points in clip.points])
    peaks = (gaps[1:-1] > gaps[:-2]) & (gaps[1:-1] >= gaps[2:]) & (gaps[1:-1] > gaps.max() / 2)
    assert peaks.sum() == 2  # twice open, closed before each
    assert 0.5 < clip.seconds < 2


def test_features_see_the_sentence_and_not_the_speaker() -> None:
    features = dataclasses.replace(tiny.FEATURES, fps=25.0, groups=("lips",))
    other = dataclasses.replace(SPEAKER, mouth=50.0, place=(260.0, 250.0))
    one, same = (
        compute_features(speak("هُوَ", who, np.random.default_rng(2)), features)
        for who in (SPEAKER, other)
    )
    np.testing.assert_allclose(one, same, atol=0.03)  # half precision of a mouth 50 pixels wide


def test_the_corpus_depends_on_its_seed_alone_and_speakers_stay_in_their_split() -> None:
    options = LipCorpusOptions(seed=3, speakers={"train": 2, "test": 1}, clips_per_speaker=4)
    first, again = draw_lip_corpus(options), draw_lip_corpus(options)
    for (clip, lips), (same, same_lips) in zip(first, again, strict=True):
        assert clip == same
        np.testing.assert_array_equal(lips.points, same_lips.points)
    assert [clip.clip_id for clip, _ in first] == sorted(clip.clip_id for clip, _ in first)
    assert {(clip.signer, clip.split) for clip, _ in first} == {
        ("train-1", "train"), ("train-2", "train"), ("test-1", "test"),
    }  # fmt: skip
    other = draw_lip_corpus(dataclasses.replace(options, seed=4))
    assert [clip.text for clip, _ in other] != [clip.text for clip, _ in first]
