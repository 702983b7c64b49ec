import dataclasses
import math

import torch

from signloom.models.attention import MultiHeadAttention
from signloom.models.layers import PositionalEncoding, sinusoids
from signloom.models.transformer import TransformerDecoder, TransformerEncoder
from tests import tiny

DOCUMENT_000 = dataclasses.replace(
    tiny.MODEL,
    d_model=512,
    heads=8,
    encoder_layers=6,
    decoder_layers=6,
    d_ff=2048,
    norm="post",
    attention_bias=False,
)


def parameters(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_document_000_has_its_parameter_counts() -> None:
    with torch.device("meta"):  # counted, not allocated
        assert parameters(TransformerEncoder(DOCUMENT_000, 2048)) == 19_955_200
        assert parameters(TransformerEncoder(DOCUMENT_000, 126)) == 18_971_136
        assert parameters(TransformerDecoder(DOCUMENT_000, 130_000)) == 158_455_760


def test_attention_equals_the_formula_written_out() -> None:
    torch.manual_seed(0)
    attention = MultiHeadAttention(8, 2, dropout=0.0, bias=True)
    x, memory = torch.randn(3, 4, 8), torch.randn(3, 5, 8)
    valid = torch.tensor([[True] * 5, [True] * 3 + [False] * 2, [True] * 1 + [False] * 4])
    query = attention.query(x).view(3, 4, 2, 4)
    key, value = (part.view(3, 5, 2, 4) for part in attention.key_value(memory).chunk(2, dim=-1))
    scores = torch.einsum("bthk,bmhk->bhtm", query, key) / math.sqrt(4)
    weights = scores.masked_fill(~valid[:, None, None, :], -torch.inf).softmax(dim=-1)
    expected = attention.output(torch.einsum("bhtm,bmhk->bthk", weights, value).flatten(2))
    found = attention(x, attention.project(memory), valid=valid)
    torch.testing.assert_close(found, expected)


def test_positions_are_sine_and_cosine_of_falling_rates() -> None:
    table = sinusoids(50, 6)
    for position, pair in ((0, 0), (7, 1), (49, 2)):
        angle = position / 10_000 ** (2 * pair / 6)
        # Float32 at angles up to 49.
        assert math.isclose(table[position, 2 * pair], math.sin(angle), abs_tol=1e-5)
        assert math.isclose(table[position, 2 * pair + 1], math.cos(angle), abs_tol=1e-5)


def test_positions_go_on_past_the_first_table() -> None:
    positions = PositionalEncoding(6, dropout=0.0)
    x = torch.zeros(1, 700, 6)
    torch.testing.assert_close(positions(x)[0], sinusoids(700, 6))
    torch.testing.assert_close(positions(x[:, :1], offset=699)[0], sinusoids(700, 6)[699:])
