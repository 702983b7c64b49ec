"""Relative attention against its quadratic definition, loop by loop."""

import math

import numpy as np
import pytest
import torch

from signloom.models.attention import DistanceEncoding, MultiHeadAttention, relative_shift
from tests.unit.models.test_attention import array, linear, softmax

VALID = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])


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
    mixed = np.zeros((2, 6, 8))
    for b in range(2):
        query = linear(array(x[b]), attention.query)
        key, value = np.split(linear(array(x[b]), attention.key_value), 2, axis=1)
        for h in range(2):
            part = slice(4 * h, 4 * h + 4)
            u, v = array(relative.content_bias[h]), array(relative.position_bias[h])
            for i in range(6):
                seen = [j for j in range(6) if VALID[b, j] and not (is_causal and j > i)]
                scores = []
                for j in seen:
                    distance = linear(np.array(encoding(i - j, 8)), relative.position)[part]
                    content = (query[i, part] + u) @ key[j, part]
                    scores.append((content + (query[i, part] + v) @ distance) / np.sqrt(4))
                mixed[b, i, part] = softmax(np.array(scores)) @ value[seen, part]
    distances = DistanceEncoding(8, dropout=0.0)(x)
    found = attention(
        x, attention.project(x), valid=VALID, is_causal=is_causal, distances=distances
    )
    # Float32 against float64.
    np.testing.assert_allclose(array(found), linear(mixed, attention.output), atol=1e-6)


@pytest.mark.parametrize("length", [1, 2, 5])
def test_the_shift_moves_each_term_to_its_key(length: int) -> None:
    terms = torch.randn(2, 3, length, 2 * length - 1)
    shifted = relative_shift(terms)
    for i in range(length):
        for j in range(length):
            expected = terms[:, :, i, length - 1 - (i - j)]
            assert torch.equal(shifted[:, :, i, j], expected)


@pytest.mark.parametrize("length", [1, 4, 256, 700])
def test_distances_fall_from_the_longest_to_the_one_behind(length: int) -> None:
    found = DistanceEncoding(6, dropout=0.0)(torch.zeros(1, length, 6))
    assert len(found) == 2 * length - 1
    for row, distance in ((0, length - 1), (length - 1, 0), (2 * length - 2, 1 - length)):
        # Float32 at angles up to 699.
        np.testing.assert_allclose(array(found[row]), encoding(distance, 6), atol=1e-4)


def test_distances_alone_decide_so_a_shifted_clip_shifts_its_result() -> None:
    torch.manual_seed(0)
    attention = MultiHeadAttention(8, 2, dropout=0.0, bias=True, relative=True)
    encode = DistanceEncoding(8, dropout=0.0)
    clip, before = torch.randn(1, 5, 8), torch.randn(1, 3, 8)
    later = torch.cat((before, clip), dim=1)
    hidden = torch.tensor([[False] * 3 + [True] * 5])
    alone = attention(clip, attention.project(clip), distances=encode(clip))
    shifted = attention(later, attention.project(later), valid=hidden, distances=encode(later))
    torch.testing.assert_close(shifted[:, 3:], alone)


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
