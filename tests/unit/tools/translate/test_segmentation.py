"""Where the sentences of a film are found by rest, and captions that are moved there."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from signloom.corpus.landmarks import HANDS_POSE, LandmarkSequence, build_layout
from signloom_tools.translate.segmentation import (
    Span,
    align_cues,
    cut,
    segment_by_rest,
    share_found,
)
from tests.films import sketch_film
from tests.tiny import lose

SPANS = [(1.0, 3.0), (3.5, 5.0), (8.0, 11.0), (11.6, 12.8)]


@pytest.mark.parametrize("fps", [10.0, 15.0, 25.0, 60.0])
def test_sentences_lie_between_rests_at_every_frame_rate(fps: float) -> None:
    found = segment_by_rest(sketch_film(SPANS, 14, fps))
    assert len(found) == len(SPANS)
    assert share_found(found, SPANS, within_s=0.2) == 1
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(found))


def test_a_signer_elsewhere_in_the_picture_is_cut_alike() -> None:
    film = sketch_film(SPANS, 14)
    small = replace(film, points=(0.5 * film.points + 0.1).astype(np.float32))
    assert segment_by_rest(small) == segment_by_rest(film)


def test_a_short_rest_cuts_no_sentence_in_two() -> None:
    film = sketch_film(SPANS, 14)
    assert len(segment_by_rest(film, pause_s=1.0)) == 2  # the pauses of 0.5 and 0.6 s
    (whole,) = segment_by_rest(film, pause_s=5.0)
    assert whole == pytest.approx((1.0, 12.8), abs=0.2)


def test_hands_that_are_out_of_sight_are_at_rest() -> None:
    film = sketch_film(SPANS[:1], 5)
    hands = build_layout(("hands",))
    film = LandmarkSequence(
        points=film.points[:, : hands.points], present=film.present[:, :2], fps=film.fps,
        width=film.width, height=film.height, layout=hands,
    )  # fmt: skip
    for rest in (slice(0, 15), slice(45, None)):
        for hand in ("left_hand", "right_hand"):
            film = lose(film, hand, rest)
    (found,) = segment_by_rest(film)
    assert found == pytest.approx((1.0, 3.0), abs=0.3)


def test_who_never_signs_or_is_never_seen_says_nothing() -> None:
    film = sketch_film([], 5)
    assert segment_by_rest(film) == []
    for group in HANDS_POSE.group_names:
        film = lose(film, group, slice(None))
    assert segment_by_rest(film) == []
    assert segment_by_rest(cut(film, (0.0, 0.01))) == []


def test_a_film_that_is_one_sentence_stays_whole() -> None:
    (found,) = segment_by_rest(sketch_film([(0.0, 4.0)], 4))
    assert found == pytest.approx((0.0, 4.0), abs=0.2)


def test_the_part_of_a_film_has_the_frames_of_its_span() -> None:
    film = sketch_film(SPANS, 14)
    part = cut(film, (1.0, 3.0))
    np.testing.assert_array_equal(part.points, film.points[15:45])
    assert len(cut(film, (13.99, 99.0)).points) == 1


def sentences(count: int, seed: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Times of sentences of 2 to 5 s with pauses of 0.5 to 3 s."""
    rng = np.random.default_rng(seed)
    lengths, pauses = rng.uniform(2, 5, count), rng.uniform(0.5, 3, count)
    starts = 10 + np.cumsum(lengths + pauses) - lengths
    return np.stack((starts, starts + lengths), axis=1)


def as_spans(times: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> list[Span]:
    return [(float(start), float(end)) for start, end in times]


@pytest.mark.parametrize("kind", ["late", "drifting", "each by itself", "at another rate"])
@pytest.mark.parametrize("seed", range(3))
def test_captions_that_are_off_by_up_to_five_seconds_come_to_the_signing(
    kind: str, seed: int
) -> None:
    truth, rng = sentences(20, seed), np.random.default_rng(seed)
    off_s = {
        "late": np.full(20, 5.0), "drifting": np.linspace(*rng.uniform(-5, 5, 2), 20),
        "each by itself": rng.uniform(-5, 5, 20), "at another rate": truth[:, 0] / 24,
    }[kind]  # fmt: skip
    found = align_cues(
        as_spans(truth + off_s[:, None]), as_spans(truth + rng.normal(0, 0.05, truth.shape))
    )
    assert share_found(found, as_spans(truth)) == 1


def test_two_captions_of_one_sentence_share_its_time_and_one_of_none_moves_with_the_others() -> (
    None
):
    truth = as_spans(sentences(12, seed=4))
    start, end = truth[5]
    middle = start + 0.4 * (end - start)
    cues = [*truth[:5], (start, middle), (middle, end), *truth[6:]]
    late = [(a + 2.0, b + 2.0) for a, b in cues]
    assert align_cues(late, truth) == [pytest.approx(cue, abs=0.01) for cue in cues]
    missed = [*truth[:3], *truth[4:]]  # the fourth sentence was not found
    (found,) = align_cues(as_spans(np.array(truth) + 2.0), missed)[3:4]
    assert found == pytest.approx(truth[3], abs=0.5)
    assert align_cues([], truth) == []
    assert align_cues(truth, []) == truth
