import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from signloom.models.conformer import ConformerLayer, ConvolutionModule
from tests import tiny
from tests.contract.variants import DOCUMENT_003, build
from tests.unit.models.formulas import array, layer_norm, linear

OPTIONS = dataclasses.replace(tiny.MODEL, **DOCUMENT_003)
VALID = torch.tensor([[True] * 7, [True] * 4 + [False] * 3])


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("is_causal", [False, True])
def test_the_convolution_module_equals_its_formula(is_causal: bool) -> None:
    torch.manual_seed(0)
    module = ConvolutionModule(4, 5, is_causal=is_causal)
    nn.init.normal_(module.norm.weight)
    x = torch.randn(2, 7, 4)
    wide = linear(array(x), module.expand)
    gated = wide[..., :4] * sigmoid(wide[..., 4:]) * VALID[..., None].numpy()
    kernel, bias = array(module.depthwise.weight)[:, 0], array(module.depthwise.bias)
    mixed = np.zeros((2, 7, 4))
    first = -4 if is_causal else -2
    for position in range(7):
        mixed[:, position] = bias
        for tap in range(5):
            neighbour = position + first + tap
            if 0 <= neighbour < 7:
                mixed[:, position] += kernel[:, tap] * gated[:, neighbour]
    normed = layer_norm(mixed, module.norm)
    expected = linear(normed * sigmoid(normed), module.project)
    # Float32 against float64.
    np.testing.assert_allclose(array(module(x, VALID)), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_layer_is_a_macaron_of_half_feed_forward_steps(norm: str) -> None:
    torch.manual_seed(0)
    options = dataclasses.replace(OPTIONS, norm=norm, positions="sinusoidal")  # type: ignore[arg-type]
    layer = ConformerLayer(options)
    x = y = torch.randn(2, 7, 16)
    blocks = (
        (0.5, layer.first_feed_forward),
        (1.0, lambda z: layer.attention(z, layer.attention.project(z), valid=VALID)),
        (1.0, lambda z: layer.convolution(z, VALID)),
        (0.5, layer.second_feed_forward),
    )
    for (weight, block), residual in zip(blocks, layer.residuals, strict=True):
        if norm == "pre":
            y = y + weight * block(residual.norm(y))
        else:
            y = residual.norm(y + weight * block(y))
    expected = layer.norm(y) if norm == "pre" else y
    torch.testing.assert_close(layer(x, VALID, None), expected)


@pytest.mark.parametrize("family", ["transformer", "conformer"])
@pytest.mark.parametrize("positions", ["sinusoidal", "relative"])
def test_a_causal_encoder_sees_no_later_frame(family: Any, positions: str) -> None:
    for is_causal in (True, False):
        model = build(family=family, positions=positions, causal_encoder=is_causal).model
        src, valid = tiny.source(1, [12])
        changed = src.clone()
        changed[:, 8:] = 5
        before, after = model.encode(src, valid).states, model.encode(changed, valid).states
        assert torch.allclose(before[:, :8], after[:, :8], atol=1e-5) == is_causal
        assert not torch.allclose(before[:, 8:], after[:, 8:], atol=1e-2)


def test_layer_drop_skips_each_encoder_layer_with_its_probability() -> None:
    model = build(**{**DOCUMENT_003, "encoder_layers": 4, "layer_drop": 0.3}).model
    calls = [0]

    def count(*_: object) -> None:
        calls[0] += 1

    for layer in model.encoder.layers:
        layer.register_forward_hook(count)
    src, valid = tiny.source(1, [3])
    model.encode(src, valid)
    assert calls[0] == 4  # none in evaluation
    model.train()
    torch.manual_seed(0)
    for _ in range(50):
        model.encode(src, valid)
    # 200 draws: a deviation of 6 from 140.
    assert 120 < calls[0] - 4 < 160
