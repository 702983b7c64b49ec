"""Attention against its formula, written out in NumPy."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from signloom.models.attention import (
    MIN_ROOM,
    GrowingKeyValue,
    KeyValue,
    MultiHeadAttention,
    masked_softmax,
)

VALID = torch.tensor([[True] * 5, [True] * 3 + [False] * 2, [True] + [False] * 4])


def array(tensor: torch.Tensor) -> NDArray[np.float64]:
    return tensor.detach().double().numpy()


def linear(x: NDArray[np.float64], layer: torch.nn.Linear) -> NDArray[np.float64]:
    result = x @ array(layer.weight).T
    return result if layer.bias is None else result + array(layer.bias)


def softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    exponents = np.exp(scores - scores.max())
    return exponents / exponents.sum()


def formula(
    attention: MultiHeadAttention,
    x: torch.Tensor,
    memory: torch.Tensor,
    allowed: NDArray[np.bool_],  # (B, T, M)
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return softmax(Q K^T / sqrt(K)) V by query, head and clip, and the mean weights."""
    (batch, queries, width), heads = x.shape, attention.heads
    size = width // heads
    mixed = np.zeros((batch, queries, width))
    mean = np.zeros((batch, queries, memory.shape[1]))
    for b in range(batch):
        query = linear(array(x[b]), attention.query)
        key, value = np.split(linear(array(memory[b]), attention.key_value), 2, axis=1)
        for h in range(heads):
            part = slice(h * size, (h + 1) * size)
            for t in range(queries):
                seen = np.flatnonzero(allowed[b, t])
                weights = softmax(key[seen, part] @ query[t, part] / np.sqrt(size))
                mixed[b, t, part] = weights @ value[seen, part]
                mean[b, t, seen] += weights / heads
    return linear(mixed, attention.output), mean


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
    np.testing.assert_allclose(array(attention(x, projected, valid=VALID)), expected, atol=1e-6)
    found = attention.weights(x, projected, VALID)
    np.testing.assert_allclose(array(found), weights, atol=1e-6)


@pytest.mark.parametrize("valid", [None, VALID])
def test_causal_attention_equals_the_formula(
    attention: MultiHeadAttention, valid: torch.Tensor | None
) -> None:
    x = torch.randn(3, 5, 8)
    allowed = np.broadcast_to(np.tri(5, dtype=bool), (3, 5, 5))
    if valid is not None:
        allowed = allowed & valid[:, None].numpy()
    expected, _ = formula(attention, x, x, allowed)
    found = attention(x, attention.project(x), valid=valid, is_causal=True)
    np.testing.assert_allclose(array(found), expected, atol=1e-6)


def test_only_query_key_and_value_go_without_bias() -> None:
    attention = MultiHeadAttention(8, 2, dropout=0.0, bias=False)
    biases = [name for name, _ in attention.named_parameters() if name.endswith("bias")]
    assert biases == ["output.bias"]


def test_a_query_that_sees_nothing_gets_the_bias_of_the_output_alone() -> None:
    torch.manual_seed(0)
    attention = MultiHeadAttention(8, 2, dropout=0.0, bias=True)
    x = torch.randn(1, 2, 8, requires_grad=True)
    nothing = torch.zeros(1, 2, dtype=torch.bool)
    found = attention(x, attention.project(x), valid=nothing)
    torch.testing.assert_close(found, attention.output.bias.expand(1, 2, 8))
    found.sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
    assert not attention.weights(x, attention.project(x), nothing).any()


def test_masked_softmax_equals_the_formula_at_any_size_of_scores() -> None:
    scores = torch.tensor([[1e4, 1e4 + 1, -1e4], [3.0, 1e30, 2.0]])
    allowed = torch.tensor([[True, True, True], [True, False, True]])
    expected = np.zeros((2, 3))
    expected[0] = softmax(array(scores[0]))
    expected[1, [0, 2]] = softmax(np.array([3.0, 2.0]))
    np.testing.assert_allclose(array(masked_softmax(scores, allowed)), expected, atol=1e-6)


def test_key_values_append_positions_and_select_rows() -> None:
    first, second = (KeyValue(torch.randn(2, 1, n, 4), torch.randn(2, 1, n, 4)) for n in (3, 1))
    both = first.append(second)
    assert torch.equal(both.keys[:, :, :3], first.keys)
    assert torch.equal(both.values[:, :, 3:], second.values)
    chosen = both.select(torch.tensor([1, 1, 0]))
    assert torch.equal(chosen.keys[0], both.keys[1])
    assert torch.equal(chosen.values[2], both.values[0])


def pair(seed: int, positions: int) -> KeyValue:
    generator = torch.Generator().manual_seed(seed)
    return KeyValue(*torch.randn(2, 3, 2, positions, 4, generator=generator).unbind())


def test_growing_keys_are_the_appended_ones_and_no_pair_ever_changes() -> None:
    plain = pair(0, 1)
    grown = [GrowingKeyValue.of(plain)]
    expected = [plain]
    for step in range(1, MIN_ROOM + 5):  # so that the room does not suffice
        expected.append(expected[-1].append(pair(step, 2)))
        grown.append(grown[-1].append(pair(step, 2)))
    # A second branch from an early pair must not write over what the first one appended.
    other = grown[3].append(pair(99, 2)).select(torch.tensor([2, 0]))
    other_expected = expected[3].append(pair(99, 2)).select(torch.tensor([2, 0]))
    for found, wanted in [*zip(grown, expected, strict=True), (other, other_expected)]:
        assert torch.equal(found.keys, wanted.keys)
        assert torch.equal(found.values, wanted.values)
