import dataclasses

import numpy as np

from studies.positions.page import build_page
from studies.positions.study import Sight, measure_sight, shift_distances, train_positions
from studies.reversal.lab import read_lab
from studies.study_page import render_study
from tests.tiny import MODEL
from tests.unit.studies.lab import LAB

SMALL = dataclasses.replace(MODEL, encoder_layers=1, decoder_layers=1)


def sight(**changes: object) -> Sight:
    options = dataclasses.replace(SMALL, **changes)  # type: ignore[arg-type]
    return measure_sight(options, frames=5, padded_to=7, tokens=4)


def test_real_positions_see_all_real_ones_and_no_padding() -> None:
    view = sight()
    assert view.encoder[:5, :5].all()
    assert not view.encoder[:5, 5:].any()
    assert (view.decoder == np.tril(np.ones((4, 4)))).all()
    assert view.memory[:, :5].all()
    assert not view.memory[:, 5:].any()

    view = sight(causal_encoder=True)
    assert (view.encoder[:5, :5] == np.tril(np.ones((5, 5)))).all()


def test_an_lstm_without_attention_looks_at_no_memory() -> None:
    assert not sight(family="lstm", attention="none").memory.any()
    assert sight(family="lstm", attention="dot").memory[:, :5].all()


def test_the_shift_puts_the_distance_of_query_and_key_in_their_cell() -> None:
    before, after = shift_distances(5)
    assert before.shape == (5, 9)
    expected = (np.arange(5)[:, None] - np.arange(5)[None, :]) / 4
    assert np.allclose(after, expected)


def test_longer_sequences_than_those_of_training_are_tested() -> None:
    lab = read_lab(LAB)
    trained = list(train_positions(lab, ["sinusoidal", "scaled"], [1], longest=5))
    assert all({"4", "5"} < set(row["by_length"]) <= {"2", "3", "4", "5"} for row in trained)
    assert trained[0]["alphas"] == {}
    assert trained[1]["alphas"]
    page = render_study(build_page({"Transformer": sight()}, trained, trained_to=3))
    assert page.count('role="img"') == 4
    for text in ("Masks, as the models use them", "4 symbols", "up to 3"):
        assert text in page
