"""Attention and relative attention against their formulas, written out in NumPy."""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from signloom.models.attention import DistanceEncoding, MultiHeadAttention, masked_softmax
from tests.unit.models.formulas import array, linear

VALID = torch.tensor([[True] * 5, [True] * 3 + [False] * 2, [True] + [False] * 4])


def softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    exponents = np.exp(scores - scores.max())
    return exponents / exponents.sum()


def formula(
    attention: MultiHeadAttention,
    x: torch.Tensor,
    memory: torch.Tensor,
    allowed: NDArray[np.bool_],  # (B, T, M)
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return softmax(Q K^T / sqrt(K)) V by query, head and clip, and the weights."""
    (batch, queries, width), heads = x.shape, attention.heads
    size = width // heads
    mixed = np.zeros((batch, queries, width))
    all_weights = np.zeros((batch, heads, queries, memory.shape[1]))
    for b in range(batch):
        query = linear(array(x[b]), attention.query)
        key, value = np.split(linear(array(memory[b]), attention.key_value), 2, axis=1)
        for h in range(heads):
            part = slice(h * size, (h + 1) * size)
            for t in range(queries):
                visible = np.flatnonzero(allowed[b, t])
                weights = softmax(key[visible, part] @ query[t, part] / np.sqrt(size))
                mixed[b, t, part] = weights @ value[visible, part]
                all_weights[b, h, t, visible] = weights
    return linear(mixed, attention.output), all_weights


@pytest.fixture(params=[True, False], ids=["biased", "bias-free"])
def attention(request: pytest.FixtureRequest) -> MultiHeadAttention:
    torch.manual_seed(0)
    return MultiHeadAttention(8, 2, dropout=0.0, bias=request.param)


def test_attention_over_padded_memory_equals_the_formula(attention: MultiHeadAttention) -> None:
    x, memory = torch.randn(3, 4, 8), torch.randn(3, 5, 8)
    allowed = np.broadcast_to(VALID[:, None].numpy(), (3, 4, 5))
    expected, weights = formula(attention, x, memory, allowed)
    projected = attention.project(memory)
    # Float32 against float64.
    np.testing.assert_allclose(
        array(attention(x, projected, valid=VALID)), expected, rtol=1e-5, atol=1e-5
    )
    maps: list[torch.Tensor] = []
    output = attention(x, projected, valid=VALID, maps=maps)
    assert torch.equal(output, attention(x, projected, valid=VALID))
    np.testing.assert_allclose(array(maps[0]), weights, rtol=1e-5, atol=1e-5)


def test_a_query_that_sees_nothing_gets_the_bias_of_the_output_alone() -> None:
    torch.manual_seed(0)
    attention = MultiHeadAttention(8, 2, dropout=0.0, bias=True)
    x = torch.randn(1, 2, 8, requires_grad=True)
    nothing = torch.zeros(1, 2, dtype=torch.bool)
    output = attention(x, attention.project(x), valid=nothing)
    torch.testing.assert_close(output, attention.output.bias.expand(1, 2, 8))
    output.sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
    maps: list[torch.Tensor] = []
    attention(x, attention.project(x), valid=nothing, maps=maps)
    assert not maps[0].any()


def test_masked_softmax_equals_the_formula_at_any_size_of_scores() -> None:
    scores = torch.tensor([[1e4, 1e4 + 1, -1e4], [3.0, 1e30, 2.0]])
    allowed = torch.tensor([[True, True, True], [True, False, True]])
    expected = np.zeros((2, 3))
    expected[0] = softmax(array(scores[0]))
    expected[1, [0, 2]] = softmax(np.array([3.0, 2.0]))
    np.testing.assert_allclose(
        array(masked_softmax(scores, allowed)), expected, rtol=1e-5, atol=1e-5
    )


SELF_VALID = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])


def encoding(distance: int, width: int) -> list[float]:
    """Return the sinusoids of one distance, which may be negative."""
    pairs = [distance / 10_000 ** (2 * pair / width) for pair in range(width // 2)]
    return [value for angle in pairs for value in (math.sin(angle), math.cos(angle))]


@pytest.mark.parametrize("is_causal", [False, True])
def test_relative_attention_equals_its_definition(is_causal: bool) -> None:
    torch.manual_seed(0)
    attention = MultiHeadAttention(8, 2, dropout=0.0, bias=True, relative=True)
    relative = attention.relative
    assert relative is not None
    x = torch.randn(2, 6, 8)
    mixed, weights = np.zeros((2, 6, 8)), np.zeros((2, 2, 6, 6))
    for b in range(2):
        query = linear(array(x[b]), attention.query)
        key, value = np.split(linear(array(x[b]), attention.key_value), 2, axis=1)
        for h in range(2):
            part = slice(4 * h, 4 * h + 4)
            u, v = array(relative.content_bias[h]), array(relative.position_bias[h])
            for i in range(6):
                visible = [j for j in range(6) if SELF_VALID[b, j] and not (is_causal and j > i)]
                scores = []
                for j in visible:
                    distance = linear(np.array(encoding(i - j, 8)), relative.position)[part]
                    content = (query[i, part] + u) @ key[j, part]
                    scores.append((content + (query[i, part] + v) @ distance) / np.sqrt(4))
                weights[b, h, i, visible] = softmax(np.array(scores))
                mixed[b, i, part] = weights[b, h, i, visible] @ value[visible, part]
    distances = DistanceEncoding(8, dropout=0.0)(x)
    maps: list[torch.Tensor] = []
    output = attention(
        x,
        attention.project(x),
        valid=SELF_VALID,
        is_causal=is_causal,
        distances=distances,
        maps=maps,
    )
    np.testing.assert_allclose(array(maps[0]), weights, rtol=1e-5, atol=1e-5)
    # Float32 against float64.
    np.testing.assert_allclose(array(output), linear(mixed, attention.output), rtol=1e-5, atol=1e-5)


def test_a_table_that_grew_in_evaluation_can_be_trained_with() -> None:
    torch.manual_seed(0)
    attention = MultiHeadAttention(8, 2, dropout=0.0, bias=True, relative=True)
    encode = DistanceEncoding(8, dropout=0.0)
    x = torch.randn(1, 300, 8)
    with torch.inference_mode():
        encode(x)
    attention(x, attention.project(x), distances=encode(x)).sum().backward()
    assert attention.relative is not None
    assert attention.relative.position.weight.grad is not None
