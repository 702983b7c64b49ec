import dataclasses
from typing import Any

import pytest
import torch
from torch import nn

from signloom.models.seq2seq import ModelOptions
from signloom.models.transformer import (
    DecoderLayer,
    EncoderLayer,
    Transformer,
    TransformerDecoder,
    TransformerEncoder,
)
from tests import tiny
from tests.contract.variants import DOCUMENT_000, build

WIDTH_512: dict[str, Any] = {
    "d_model": 512,
    "heads": 8,
    "encoder_layers": 6,
    "decoder_layers": 6,
    "d_ff": 2048,
}


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_document_000_has_its_parameter_counts() -> None:
    options = dataclasses.replace(tiny.MODEL, **WIDTH_512, **DOCUMENT_000)
    with torch.device("meta"):  # counted, not allocated
        assert parameters(TransformerEncoder(options, 2048)) == 19_955_200
        assert parameters(TransformerEncoder(options, 126)) == 18_971_136
        assert parameters(TransformerDecoder(options, 130_000)) == 158_455_760


def test_document_002_has_the_parameter_counts_of_its_parts() -> None:
    """Embeddings, 4 projections with bias, feed-forward, norms; one more norm on each side."""
    options = dataclasses.replace(tiny.MODEL, **WIDTH_512, source="glosses", activation="relu")
    attention, norm = 4 * (512 * 512 + 512), 2 * 512
    feed_forward = 512 * 2048 + 2048 + 2048 * 512 + 512
    with torch.device("meta"):
        model = Transformer(options, input_width=10_000, vocab_size=8_000, ctc_labels=0)
    encoder = 10_000 * 512 + 6 * (attention + feed_forward + 2 * norm) + norm
    decoder = 8_000 * 512 + 6 * (2 * attention + feed_forward + 3 * norm) + norm
    assert parameters(model.encoder) == encoder
    assert parameters(model.decoder) == decoder + 512 * 8_000 + 8_000


def copy_attention(ours: nn.Module, theirs: nn.MultiheadAttention) -> None:
    theirs.in_proj_weight.copy_(torch.cat((ours.query.weight, ours.key_value.weight)))
    theirs.in_proj_bias.copy_(torch.cat((ours.query.bias, ours.key_value.bias)))
    theirs.out_proj.load_state_dict(ours.output.state_dict())


def copy_layer(ours: EncoderLayer | DecoderLayer, theirs: nn.Module) -> None:
    """Copy the weights of one of our layers into one of PyTorch's."""
    if isinstance(ours, EncoderLayer):
        copy_attention(ours.attention, theirs.self_attn)
    else:
        copy_attention(ours.self_attention, theirs.self_attn)
        copy_attention(ours.cross_attention, theirs.multihead_attn)
    theirs.linear1.load_state_dict(ours.feed_forward.expand.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.project.state_dict())
    for index, residual in enumerate(ours.residuals, start=1):
        getattr(theirs, f"norm{index}").load_state_dict(residual.norm.state_dict())


@torch.no_grad()
def torch_twin(model: Transformer, options: ModelOptions) -> nn.Transformer:
    """Return PyTorch's Transformer with the weights of ours."""
    shape = (options.d_model, options.heads, options.d_ff, 0.0, options.activation)
    kind = {"batch_first": True, "norm_first": options.norm == "pre"}
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(*shape, **kind),
        options.encoder_layers,
        nn.LayerNorm(options.d_model),
        enable_nested_tensor=False,
    )
    decoder = nn.TransformerDecoder(
        nn.TransformerDecoderLayer(*shape, **kind),
        options.decoder_layers,
        nn.LayerNorm(options.d_model),
    )
    # It draws the weights of its parts anew, so they are copied afterwards.
    twin = nn.Transformer(
        custom_encoder=encoder,
        custom_decoder=decoder,
        batch_first=True,
        d_model=options.d_model,
        nhead=options.heads,
    )
    for part, theirs in ((model.encoder, twin.encoder), (model.decoder, twin.decoder)):
        for our_layer, their_layer in zip(part.layers, theirs.layers, strict=True):
            copy_layer(our_layer, their_layer)
        theirs.norm.load_state_dict(part.norm.state_dict())
    return twin.eval()


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_our_transformer_equals_pytorchs(norm: str, activation: str) -> None:
    subject = build(norm=norm, activation=activation)
    model = subject.model
    assert isinstance(model, Transformer)
    with torch.no_grad():  # biases and norms that do something
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.normal_(0.5)
    src, valid = subject.source([9, 5, 12])
    tokens = torch.tensor([[1, 5, 6, 7], [1, 8, 9, 10], [1, 11, 4, 5]])
    encoder, decoder = model.encoder, model.decoder
    theirs = torch_twin(model, subject.options)(
        encoder.positions(encoder.source(src, valid)[0]),
        decoder.positions(decoder.embedding(tokens)),
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(4, dtype=torch.bool),
        src_key_padding_mask=~valid,
        memory_key_padding_mask=~valid,
        tgt_is_causal=True,
    )
    torch.testing.assert_close(model(src, valid, tokens), decoder.output(theirs))


@pytest.mark.parametrize("causal", [False, True])
def test_packed_layers_compute_what_padded_ones_do(
    monkeypatch: pytest.MonkeyPatch, causal: bool
) -> None:
    model = tiny.model(subsampling=2, causal_encoder=causal)
    src = torch.randn(3, 11, tiny.INPUT_WIDTH)
    src_valid = torch.arange(11) < torch.tensor([[4], [11], [0]])
    tgt_in = torch.randint(3, tiny.VOCAB, (3, 6))
    rows = torch.tensor([0, 1, 2, 3, 6, 7, 8, 9, 10, 11, 12])  # 4, 6 and 1 tokens

    def compute() -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
        memory = model.encode(src, src_valid)
        states = model.decode_rows(memory, tgt_in, rows)
        model.zero_grad()
        (states.square().sum() + memory.states[memory.valid].square().sum()).backward()
        gradients = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
        return memory.states[memory.valid], states, gradients

    padded = compute()
    monkeypatch.setattr("signloom.models.layers.WIDE", 1)
    packed = compute()
    assert torch.equal(model.encode(src, src_valid).states[0, 2:], torch.zeros(4, 16))
    for output, expected in zip(packed[:2], padded[:2], strict=True):
        torch.testing.assert_close(output, expected)
    torch.testing.assert_close(packed[2], padded[2])
