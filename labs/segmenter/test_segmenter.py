"""A network that was taught on sketched signers cuts films of another one."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from labs.segmenter.segmenter import Segmenter, crop_films, join_films
from signloom.corpus.landmarks import HANDS_POSE, LandmarkSequence, build_layout
from signloom.errors import UserError
from signloom.files import hash_file
from signloom.translation.segmentation import segment_by_rest, share_found
from tests.films import sketch_film

SPANS = [(1.0, 3.0), (3.5, 5.0), (8.0, 11.0), (11.6, 12.8)]
MADE_BY = {"detector": "holistic"}


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
    path = tmp_path / "segmenter.safetensors"
    segmenter.save(path)
    again = Segmenter.load(path, MADE_BY)
    film = sketch_film(SPANS, 14, seed=99)
    assert again.segment(film) == segmenter.segment(film)
    again.save(tmp_path / "twin.safetensors")
    assert hash_file(tmp_path / "twin.safetensors") == hash_file(path)
    with pytest.raises(UserError, match=r"detector: hands, not holistic.*labs.segmenter"):
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
