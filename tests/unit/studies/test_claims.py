"""What the study of cheap claims counts."""

import pytest
import torch

from signloom.models.attention import MultiHeadAttention
from studies.claims.run import compare_teaching, count_disagreement, scale_scores
from studies.components.study import without_columns
from studies.reversal.lab import read_lab


def test_scores_have_the_variance_of_their_width_and_one_when_divided() -> None:
    without, divided, few, many = scale_scores(64)
    assert (without, divided) == (pytest.approx(64, rel=0.05), pytest.approx(1, rel=0.05))
    assert few < 3 < 25 < many


def test_a_form_that_train_never_has_behind_a_pronoun_is_counted() -> None:
    train = ["Je mange.", "Elle mange.", "Tu manges."]
    assert count_disagreement(["elle manges", "je ne mange", "la maison"], train) == (2, 1)


def test_a_head_is_cut_and_comes_back() -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(8, 2, dropout=0.0, bias=True)
    x, valid = torch.randn(1, 3, 8), torch.ones(1, 3, dtype=torch.bool)
    uncut = layer.attend_self(x, valid=valid, is_causal=False, distances=None)
    with without_columns(layer.output, slice(4, 8)):
        cut = layer.attend_self(x, valid=valid, is_causal=False, distances=None)
    again = layer.attend_self(x, valid=valid, is_causal=False, distances=None)
    assert not torch.equal(uncut, cut)
    assert torch.equal(uncut, again)


def test_a_model_that_has_learnt_little_writes_worse_alone_than_behind_the_truth() -> None:
    lab = read_lab(
        [
            "model.d_model=32",
            "task.train=600",
            "task.dev=60",
            "task.test=10",
            "task.symbols=5",
            "task.max_length=8",
            "train.epochs=4",
        ]
    )
    rows = compare_teaching(lab)
    assert len(rows) == 4
    loss, taught, alone, sentence = rows[-1]
    assert rows[0][0] > loss > 0
    assert taught > alone > sentence
