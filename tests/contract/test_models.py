"""One suite over every family and variant: what decoding and training rely on."""

import dataclasses

import pytest
import torch

from signloom.models.seq2seq import Seq2Seq
from signloom.training.loss import token_loss
from tests import tiny

VARIANTS = {
    "transformer, pre-norm": {"norm": "pre"},
    "transformer, post-norm": {"norm": "post"},
    "transformer of document 000": {"norm": "post", "attention_bias": False},
    "transformer of document 002": {"norm": "pre", "activation": "relu"},
    "transformer, stem of 2": {"subsampling": 2},
    "transformer, stem of 4": {"subsampling": 4},
    "transformer, one head, one layer": {"heads": 1, "encoder_layers": 1, "decoder_layers": 1},
}
LENGTHS = [9, 5, 12]
TOKENS = torch.tensor([[1, 5, 6, 7], [1, 8, 9, 10], [1, 11, 4, 5]])
# Float32 sums in another order: a few units in the last place of values around 1.
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(params=VARIANTS.values(), ids=VARIANTS.keys())
def model(request: pytest.FixtureRequest) -> Seq2Seq:
    return tiny.model(**request.param)


def test_logits_have_a_row_for_each_token_and_a_column_for_each_id(model: Seq2Seq) -> None:
    logits = model(*tiny.source(1, LENGTHS), TOKENS)
    assert logits.shape == (3, 4, tiny.VOCAB)
    memory = model.encode(*tiny.source(1, LENGTHS))
    assert model.ctc_logits(memory).shape == (*memory.valid.shape, 5)


def test_gradients_reach_every_parameter(model: Seq2Seq) -> None:
    src, valid = tiny.source(1, LENGTHS)
    memory = model.encode(src, valid)
    total = model.decode(memory, TOKENS).square().sum() + model.ctc_logits(memory).square().sum()
    total.backward()
    still = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    # A key's bias adds the same number to every score of a query, which softmax takes away.
    assert [name for name in still if not name.endswith("key_value.bias")] == []


def test_future_tokens_change_no_earlier_logit(model: Seq2Seq) -> None:
    src, valid = tiny.source(1, LENGTHS)
    changed = TOKENS.clone()
    changed[:, 2:] = 3
    before, after = model(src, valid, TOKENS), model(src, valid, changed)
    torch.testing.assert_close(before[:, :2], after[:, :2], **CLOSE)
    assert not torch.allclose(before[:, 2:], after[:, 2:])


def test_more_padding_changes_no_logit(model: Seq2Seq) -> None:
    src, valid = tiny.source(1, LENGTHS)
    # What stands in padding must not matter either.
    more = torch.cat((src, torch.full((3, 7, tiny.INPUT_WIDTH), 9.0)), dim=1)
    more[1, 5:] = 9.0
    more_valid = torch.cat((valid, torch.zeros(3, 7, dtype=torch.bool)), dim=1)
    torch.testing.assert_close(model(src, valid, TOKENS), model(more, more_valid, TOKENS), **CLOSE)


def test_the_source_matters(model: Seq2Seq) -> None:
    src, valid = tiny.source(1, LENGTHS)
    assert not torch.allclose(model(src, valid, TOKENS), model(-src, valid, TOKENS), atol=1e-3)


def test_steps_equal_teacher_forcing(model: Seq2Seq) -> None:
    memory = model.encode(*tiny.source(1, LENGTHS))
    state = model.start(memory)
    stepped = []
    for column in TOKENS.T:
        logits, state = model.step(column, state)
        stepped.append(logits)
    torch.testing.assert_close(torch.stack(stepped, dim=1), model.decode(memory, TOKENS), **CLOSE)


def test_selected_rows_go_on_alone(model: Seq2Seq) -> None:
    memory = model.encode(*tiny.source(1, LENGTHS))
    _, state = model.step(TOKENS[:, 0], model.start(memory))
    rows = torch.tensor([2, 0, 2])
    everything, _ = model.step(TOKENS[:, 1], state)
    chosen, _ = model.step(TOKENS[rows, 1], state.select(rows))
    torch.testing.assert_close(chosen, everything[rows], **CLOSE)


def test_a_batch_of_one_equals_its_row(model: Seq2Seq) -> None:
    src, valid = tiny.source(1, LENGTHS)
    together = model(src, valid, TOKENS)
    for row, length in enumerate(LENGTHS):
        alone = model(
            src[row : row + 1, :length], valid[row : row + 1, :length], TOKENS[row : row + 1]
        )
        torch.testing.assert_close(alone[0], together[row], **CLOSE)


def test_one_batch_can_be_overfitted(model: Seq2Seq) -> None:
    src, valid = tiny.source(1, LENGTHS)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    every = torch.ones(3, 3, dtype=torch.bool)
    for _ in range(80):
        logits = model(src, valid, TOKENS[:, :-1])
        loss = token_loss(logits, TOKENS[:, 1:], every, label_smoothing=0.0) / 9
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.05


def test_the_same_seed_gives_the_same_weights() -> None:
    first, second = tiny.model(4).state_dict(), tiny.model(4).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    other = tiny.model(5).state_dict()
    assert not torch.equal(first["decoder.output.weight"], other["decoder.output.weight"])


def test_a_model_without_ctc_says_so() -> None:
    model = tiny.model(ctc_labels=0)
    with pytest.raises(ValueError, match=r"train\.ctc_weight"):
        model.ctc_logits(model.encode(*tiny.source(1, LENGTHS)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"d_model": 18, "heads": 4}, "d_model: 18 is not divisible by heads"),
        ({"d_model": 15, "heads": 3}, "even number"),
        ({"encoder_layers": 0}, "encoder_layers: found 0"),
        ({"dropout": 1.0}, "dropout: found 1.0"),
    ],
)
def test_impossible_options_are_refused(change: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(tiny.MODEL, **change)
