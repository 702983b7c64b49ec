import pytest
import torch
from torch import nn

from signloom.translation.precision import Int8Linear, PackedLinear, Precision, reduce_precision
from signloom.translation.search import SpecialIds, search
from tests import tiny

IDS = SpecialIds(pad=0, bos=1, eos=2)


@pytest.mark.parametrize("rows", [(1,), (3,), (2, 40), (2, 5, 7)])
def test_an_int8_layer_is_the_layer_but_for_rounding(rows: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    layer = torch.nn.Linear(64, 48)
    x = torch.randn(*rows, 64) * torch.tensor([0.01, 100.0])[torch.randint(2, rows)][..., None]
    with torch.inference_mode():
        expected = layer(x)
        output = Int8Linear(layer.weight, layer.bias)(x)
    assert output.shape == expected.shape
    # Each row has a scale of its own, so the error is relative to each row: about 1 / 63.
    error = (output - expected).norm(dim=-1) / (expected - layer.bias).norm(dim=-1)
    assert error.max() < 0.03


def test_extreme_rows_do_not_overflow() -> None:
    layer = torch.nn.Linear(512, 4, bias=False)
    with torch.inference_mode():
        layer.weight.fill_(1.0)
        output = Int8Linear(layer.weight, None)(torch.stack((torch.ones(512), torch.zeros(512))))
    torch.testing.assert_close(output, torch.tensor([[512.0] * 4, [0.0] * 4]), rtol=1e-5, atol=0)


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
@pytest.mark.parametrize("is_tied", [False, True])
@pytest.mark.parametrize("family", ["transformer", "conformer", "lstm"])
def test_a_reduced_model_stays_close(family: str, is_tied: bool, precision: Precision) -> None:
    model = tiny.model(2, family=family, tied_embeddings=is_tied)
    src, valid = tiny.source(1, [9, 5])
    tokens = torch.tensor([[1, 5, 6], [1, 8, 9]])
    with torch.inference_mode():
        expected = model(src, valid, tokens).softmax(dim=-1)
        reduced = reduce_precision(model, precision)
        src = src.to(next(reduced.parameters()).dtype)
        probabilities = reduced(src, valid, tokens).float().softmax(dim=-1)
        ((best,), _) = search(reduced, reduced.encode(src, valid), IDS, tiny.decoding(beam_size=3))
    assert (probabilities - expected).abs().max() < 0.05
    assert not torch.equal(probabilities, expected)
    assert best.tokens


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch was built without it")
def test_packed_matrices_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signloom.translation.precision.PACKED_SIDE", 16)
    for tied in (False, True):
        plain, packed = (tiny.model(tied_embeddings=tied) for _ in range(2))
        reduce_precision(packed, "float32")
        assert any(isinstance(module, PackedLinear) for module in packed.modules())
        assert isinstance(packed.encoder.source.projection, nn.Linear)  # 6 features
        src, valid = torch.randn(2, 9, tiny.INPUT_WIDTH), torch.ones(2, 9, dtype=torch.bool)
        tgt_in = torch.randint(3, tiny.VOCAB, (2, 4))
        with torch.inference_mode():
            torch.testing.assert_close(packed(src, valid, tgt_in), plain(src, valid, tgt_in))
