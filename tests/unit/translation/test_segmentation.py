"""Where the sentences of a film are found: by rest, and by what was learnt."""

import itertools
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from signloom.corpus.landmarks import HANDS_POSE, LandmarkSequence, build_layout
from signloom.errors import UserError
from signloom.files import hash_file
from signloom.translation.segmentation import (
    Span,
    align_cues,
    cut,
    segment_by_rest,
    share_found,
)
from signloom.translation.segmenter import (
    Segmenter,
    crop_films,
    find_segmenter,
    join_films,
)
from tests.films import sketch_film
from tests.tiny import lose

SPANS = [(1.0, 3.0), (3.5, 5.0), (8.0, 11.0), (11.6, 12.8)]
MADE_BY = {"detector": "holistic"}


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


def clips(signers: range) -> dict[str, list[LandmarkSequence]]:
    """Short clips that begin and end at rest."""
    return {
        f"signer {one}": [
            sketch_film([(0.1, length)], length + 0.1, seed=10 * one + number)
            for number, length in enumerate((1.5, 2.0, 2.5, 3.0))
        ]
        for one in signers
    }


def train(signers: int, epochs: int) -> tuple[Segmenter, float]:
    """Return a segmenter of some signers, and its loss on another one."""
    found = Segmenter(HANDS_POSE, MADE_BY, None)
    dev = join_films(clips(range(signers, signers + 1)), np.random.default_rng(0))
    train = partial(join_films, clips(range(signers)))
    return found, found.fit(train, dev, seed=1, epochs=epochs)


@pytest.fixture(scope="module")
def segmenter() -> Segmenter:
    """Trained for a moment on one signer."""
    return train(1, epochs=2)[0]


@pytest.mark.slow
def test_what_was_learnt_finds_the_sentences_of_a_new_signer() -> None:
    """Quick twins: the two tests below."""
    film = sketch_film(SPANS, 14, fps=25.0, seed=99)
    found = train(8, epochs=60)[0].segment(film)
    assert share_found(found, SPANS) == 1
    assert len(found) == len(SPANS)


def test_training_lowers_the_loss_of_a_signer_who_is_not_in_it() -> None:
    assert train(1, epochs=20)[1] < 0.9 * train(1, epochs=1)[1]


def test_a_second_beginning_starts_another_sentence(
    segmenter: Segmenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tags at 15 frames/s: B is the beginning of a sentence, I inside, O outside."""
    tags = 15 * "O" + 3 * "B" + 27 * "I" + 3 * "B" + 12 * "I" + 15 * "O" + 2 * "I" + 13 * "O"
    logits = torch.zeros(1, len(tags), 3)
    for frame, tag in enumerate(tags):
        logits[0, frame, "OBI".index(tag)] = 9.0
    monkeypatch.setattr(segmenter._network, "forward", lambda src: logits)
    found = segmenter.segment(sketch_film([], len(tags) / 15))
    assert found == [(1.0, 3.0), (3.0, 4.0)]  # two frames are no sentence


def test_a_segmenter_is_read_as_it_was_written(segmenter: Segmenter, tmp_path: Path) -> None:
    path, checkpoint = tmp_path / "segmenter.safetensors", tmp_path / "checkpoint"
    assert find_segmenter(checkpoint) is None
    segmenter.save(path)
    assert find_segmenter(checkpoint) == path
    again = Segmenter.load(path, MADE_BY)
    film = sketch_film(SPANS, 14, seed=99)
    assert again.segment(film) == segmenter.segment(film)
    again.save(tmp_path / "twin.safetensors")
    assert hash_file(tmp_path / "twin.safetensors") == hash_file(path)
    with pytest.raises(UserError, match=r"detector: hands, not holistic.*train-segmenter"):
        Segmenter.load(path, {"detector": "hands"})
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(UserError, match="no segmenter that can be read"):
        Segmenter.load(path, MADE_BY)


def test_the_same_seed_trains_the_same_segmenter(tmp_path: Path) -> None:
    for name in ("a", "b"):
        one = Segmenter(HANDS_POSE, MADE_BY, None)
        dev = join_films(clips(range(1, 2)), np.random.default_rng(0))
        one.fit(partial(join_films, clips(range(1))), dev, seed=1, epochs=2)
        one.save(tmp_path / name)
    assert hash_file(tmp_path / "a") == hash_file(tmp_path / "b")


def test_a_joined_film_says_where_its_clips_lie() -> None:
    own = clips(range(1))
    (film,) = join_films(own, np.random.default_rng(3))
    lengths = sorted(round(b - a, 6) for a, b in film.spans)
    assert lengths == sorted(round(clip.seconds, 6) for clip in own["signer 0"])
    assert share_found(segment_by_rest(film.sequence, pause_s=0.2), film.spans, 0.4) >= 0.5
    windows = crop_films([film], np.random.default_rng(0))
    assert all(0 <= a < b <= w.sequence.seconds + 0.1 for w in windows for a, b in w.spans)


def test_landmarks_of_a_face_alone_cannot_be_cut() -> None:
    with pytest.raises(UserError, match="needs landmarks of hands or pose"):
        Segmenter(build_layout(("lips",)), MADE_BY, None)
