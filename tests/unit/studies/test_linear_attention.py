"""Linear attention against its formula, pair by pair."""

import torch
from torch.nn import functional

from studies.linear_attention.run import LinearAttention, linearise
from tests import tiny


def test_each_position_gets_the_weighted_mean_of_the_real_ones() -> None:
    torch.manual_seed(1)
    attention = LinearAttention(8, 2, dropout=0.0, bias=True)
    x, valid = torch.randn(2, 5, 8), torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    attended = attention.attend_self(x, valid=valid, is_causal=False, distances=None)
    pair, query = attention.project(x), attention._split(attention.query(x))
    for clip, length in enumerate([5, 3]):
        heads = []
        for head in range(2):
            near = functional.elu(query[clip, head]) + 1
            far = functional.elu(pair.keys[clip, head, :length]) + 1
            weights = near @ far.T
            weights = weights / weights.sum(dim=1, keepdim=True)
            heads.append(weights @ pair.values[clip, head, :length])
        expected = attention.output(torch.cat(heads, dim=1))
        torch.testing.assert_close(attended[clip], expected)


def test_an_encoder_keeps_its_weights_and_its_padding_influences_nothing() -> None:
    model = tiny.model(3)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    src, valid = tiny.source(1, [9, 4])
    softmax = model.encode(src, valid).states
    linearise(model)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    linear = model.encode(src, valid).states
    assert not torch.allclose(linear, softmax)
    alone = model.encode(src[1:, :4], valid[1:, :4]).states
    torch.testing.assert_close(linear[1:, :4], alone)
