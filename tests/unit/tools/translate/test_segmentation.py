"""Where the sentences of a film are found by rest."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from signloom.corpus.landmarks import HANDS_POSE, LandmarkSequence, build_layout
from signloom_tools.translate.segmentation import cut, segment_by_rest
from tests.films import sketch_film
from tests.tiny import lose

SPANS = [(1.0, 3.0), (3.5, 5.0), (8.0, 11.0), (11.6, 12.8)]


@pytest.mark.parametrize("fps", [10.0, 15.0, 25.0, 60.0])
def test_sentences_lie_between_rests_at_every_frame_rate(fps: float) -> None:
    spans = segment_by_rest(sketch_film(SPANS, 14, fps))
    assert spans == [pytest.approx(span, abs=0.2) for span in SPANS]
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))


def test_a_signer_elsewhere_in_the_picture_is_cut_alike() -> None:
    film = sketch_film(SPANS, 14)
    small = replace(film, points=(0.5 * film.points + 0.1).astype(np.float32))
    assert segment_by_rest(small) == segment_by_rest(film)


def test_a_short_rest_cuts_no_sentence_in_two() -> None:
    film = sketch_film(SPANS, 14)
    assert len(segment_by_rest(film, pause_s=1.0)) == 2  # the pauses of 0.5 and 0.6 s
    (span,) = segment_by_rest(film, pause_s=5.0)
    assert span == pytest.approx((1.0, 12.8), abs=0.2)


def test_hands_that_are_out_of_sight_are_at_rest() -> None:
    film = sketch_film(SPANS[:1], 5)
    hands = build_layout(("hands",))
    film = LandmarkSequence(
        points=film.points[:, : hands.points],
        present=film.present[:, :2],
        fps=film.fps,
        width=film.width,
        height=film.height,
        layout=hands,
    )
    for still in (slice(0, 15), slice(45, None)):
        for hand in ("left_hand", "right_hand"):
            film = lose(film, hand, still)
    (span,) = segment_by_rest(film)
    assert span == pytest.approx((1.0, 3.0), abs=0.3)


def test_a_film_without_signing_or_signer_has_no_sentence() -> None:
    film = sketch_film([], 5)
    assert segment_by_rest(film) == []
    for group in HANDS_POSE.group_names:
        film = lose(film, group, slice(None))
    assert segment_by_rest(film) == []
    assert segment_by_rest(cut(film, (0.0, 0.01))) == []


def test_the_part_of_a_film_has_the_frames_of_its_span() -> None:
    film = sketch_film(SPANS, 14)
    part = cut(film, (1.0, 3.0))
    np.testing.assert_array_equal(part.points, film.points[15:45])
    assert len(cut(film, (13.99, 99.0)).points) == 1
