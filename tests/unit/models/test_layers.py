import copy
import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from signloom.models.layers import (
    Dropout,
    FeedForward,
    PositionalEncoding,
    Residual,
    SourceEmbedding,
    TiedProjection,
    TokenEmbedding,
    sinusoids,
)
from tests import tiny
from tests.contract.variants import build
from tests.unit.models.formulas import array, layer_norm, linear


def test_positions_are_sine_and_cosine_of_falling_rates() -> None:
    table = sinusoids(50, 6)
    for position in range(50):
        for pair in range(3):
            angle = position / 10_000 ** (2 * pair / 6)
            # Float32 at angles up to 49.
            assert math.isclose(table[position, 2 * pair], math.sin(angle), abs_tol=1e-5)
            assert math.isclose(table[position, 2 * pair + 1], math.cos(angle), abs_tol=1e-5)


def test_scaled_positions_are_multiplied_by_a_learnt_factor_that_starts_at_one() -> None:
    plain, scaled = (PositionalEncoding(6, dropout=0.0, kind=k) for k in ("sinusoidal", "scaled"))
    x = torch.randn(1, 4, 6)
    assert torch.equal(scaled(x), plain(x))
    assert scaled.alpha is not None
    nn.init.constant_(scaled.alpha, 0.25)
    torch.testing.assert_close(scaled(x)[0], x[0] + 0.25 * sinusoids(4, 6))


def test_a_table_that_grew_in_evaluation_can_be_trained_with() -> None:
    positions = PositionalEncoding(6, dropout=0.0, kind="scaled")
    x = torch.zeros(1, 300, 6)
    with torch.inference_mode():
        positions(x)
    positions(x).sum().backward()
    assert positions.alpha is not None
    assert positions.alpha.grad is not None


@pytest.mark.parametrize(
    ("activation", "formula"),
    [
        ("relu", lambda x: np.maximum(x, 0)),
        ("gelu", lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2),
        ("swish", lambda x: x / (1 + np.exp(-x))),
    ],
)
def test_a_feed_forward_block_equals_its_formula(activation: str, formula: object) -> None:
    torch.manual_seed(0)
    block = FeedForward(8, 12, dropout=0.0, activation=activation)  # type: ignore[arg-type]
    x = torch.randn(2, 5, 8)
    expected = linear(formula(linear(array(x), block.expand)), block.project)  # type: ignore[operator]
    np.testing.assert_allclose(array(block(x)), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("weight", [1.0, 0.5])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_residual_connection_equals_its_formula(norm: Any, weight: float) -> None:
    torch.manual_seed(0)
    residual, block = Residual(8, dropout=0.0, norm=norm, weight=weight), nn.Linear(8, 8)
    for parameter in residual.norm.parameters():
        nn.init.normal_(parameter)  # a gain and a shift that do something
    x = torch.randn(2, 5, 8)
    if norm == "pre":
        expected = array(x) + weight * linear(layer_norm(array(x), residual.norm), block)
    else:
        expected = layer_norm(array(x) + weight * linear(array(x), block), residual.norm)
    np.testing.assert_allclose(array(residual(x, block)), expected, rtol=1e-5, atol=1e-5)


def test_a_residual_connection_drops_of_the_block_alone() -> None:
    torch.manual_seed(0)
    residual, x = Residual(8, dropout=0.5, norm="pre"), torch.randn(50, 8)
    added = residual(x, torch.ones_like) - x
    torch.testing.assert_close(added, 2 * added.round().bool().float())  # 0, or 1 / (1 - 0.5)
    assert 0.3 < added.bool().float().mean() < 0.7


@pytest.mark.parametrize(("is_scaled", "scale"), [(False, 1.0), (True, 8**0.5)])
def test_an_embedding_looks_up_rows_of_its_matrix(is_scaled: bool, scale: float) -> None:
    embedding, tokens = (
        TokenEmbedding(10, 8, is_scaled=is_scaled),
        torch.tensor([[3, 0, 3], [9, 1, 2]]),
    )
    vectors = embedding(tokens)
    expected = scale * array(embedding.weight)[tokens.numpy()]
    np.testing.assert_allclose(array(vectors), expected, rtol=1e-6)
    vectors.sum().backward()
    assert embedding.weight.grad is not None
    counts = torch.tensor([1.0, 1, 1, 2, 0, 0, 0, 0, 0, 1])  # only the rows in use learn
    torch.testing.assert_close(embedding.weight.grad, (scale * counts)[:, None].expand(10, 8))


@pytest.mark.parametrize("kind", ["landmarks", "glosses"])
def test_a_source_is_projected_or_looked_up(kind: str) -> None:
    options = dataclasses.replace(tiny.MODEL, source=kind, embedding_scale=True)
    source = SourceEmbedding(options, 10, width=16)
    valid = torch.ones(2, 3, dtype=torch.bool)
    if kind == "landmarks":
        src = torch.randn(2, 3, 10)
        expected = linear(array(src), source.projection)
    else:
        src = torch.tensor([[3, 0, 3], [9, 1, 2]])
        expected = 4 * array(source.projection.weight)[src.numpy()]
    vectors, real = source(src, valid)
    np.testing.assert_allclose(array(vectors), expected, rtol=1e-5, atol=1e-5)
    assert torch.equal(real, valid)


def test_a_tied_projection_has_one_name_and_follows_its_embedding() -> None:
    embedding = TokenEmbedding(10, 6, is_scaled=True)
    tied = TiedProjection(embedding)
    assert list(tied.state_dict()) == ["bias"]
    x = torch.randn(2, 3, 6)
    torch.testing.assert_close(tied(x), x @ embedding.weight.T)
    tied(x).sum().backward()
    assert embedding.weight.grad is not None


def test_a_copied_projection_is_tied_to_the_copied_embedding() -> None:
    model = build(tied_embeddings=True).model
    copied = copy.deepcopy(model)
    with torch.no_grad():
        copied.decoder.embedding.weight.zero_()
    x = torch.ones(1, 1, 16)
    assert not copied.decoder.output(x).any()
    assert model.decoder.output(x).any()


@pytest.mark.parametrize(("initialization", "rows"), [("xavier", 32), ("xavier_each", 16)])
def test_keys_and_values_are_drawn_as_one_matrix_or_each_by_itself(
    initialization: str, rows: int
) -> None:
    model = build(initialization=initialization, d_model=16).model
    weights = [w for name, w in model.named_parameters() if name.endswith("key_value.weight")]
    bound = (6 / (16 + rows)) ** 0.5  # Glorot and Bengio (2010), of a matrix with so many rows
    for matrix in torch.stack(weights).chunk(2, dim=1):
        assert 0.97 * bound < matrix.abs().max() <= bound  # the largest of 1536 numbers


@pytest.mark.parametrize("initialization", ["xavier", "xavier_each", "torch"])
@pytest.mark.parametrize(
    ("is_scaled", "is_tied", "deviation"),
    [(True, False, 0.25), (False, True, 0.25), (False, False, 1.0)],
)
def test_embeddings_begin_as_large_as_positions(
    initialization: str, is_scaled: bool, is_tied: bool, deviation: float
) -> None:
    model = build(
        source="glosses",
        initialization=initialization,
        embedding_scale=is_scaled,
        tied_embeddings=is_tied,
    ).model
    for embedding in (model.decoder.embedding, model.encoder.source.projection):
        # 320 numbers: their deviation is known to 4 %.
        assert embedding.weight.std().item() == pytest.approx(deviation, rel=0.15)


@pytest.mark.parametrize("p", [0.1, 0.37, 0.9])
def test_wide_dropout_drops_its_share_and_keeps_the_mean(p: float) -> None:
    torch.manual_seed(0)
    layer, x = Dropout(p, 256), torch.ones(501, 255, 3, requires_grad=True)
    dropped = layer(x)
    share = (dropped == 0).double().mean().item()
    assert share == pytest.approx(p, abs=0.005)  # 6 standard deviations of 383,265 draws
    assert dropped.unique().numel() == 2
    assert dropped.max().item() == pytest.approx(1 / (1 - p), rel=1e-3)
    neighbours = ((dropped[..., 1:] == 0) & (dropped[..., :-1] == 0)).double().mean().item()
    assert neighbours == pytest.approx(p**2, abs=0.005)  # bits of one random number
    dropped.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, dropped)
    assert not torch.equal(layer(x), dropped)
    assert torch.equal(layer.eval()(x), x)


def test_narrow_dropout_is_that_of_torch() -> None:
    x = torch.randn(7, 64)
    torch.manual_seed(0)
    dropped = Dropout(0.3, 64)(x)
    torch.manual_seed(0)
    assert torch.equal(dropped, torch.nn.functional.dropout(x, 0.3))
