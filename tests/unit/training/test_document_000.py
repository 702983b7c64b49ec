"""Document 000 as it is written is the oracle of the project's Transformer and training step."""

import dataclasses

import torch
from torch.nn import functional

from signloom.features.batches import Batch
from signloom.models.registry import build_model
from signloom.models.transformer import Transformer
from signloom.training.loop import BatchCounts, BatchLoss, real_rows
from tests import tiny
from tests.bench.document_000 import PAD, Document000

SIZES = {"d_model": 16, "heads": 2, "layers": 2, "d_ff": 32}
FEATURES, VOCABULARY = tiny.INPUT_WIDTH, 20


def build_ours(document: Document000) -> Transformer:
    """Return our Transformer with the document's weights."""
    options = dataclasses.replace(
        tiny.MODEL,
        family="transformer",
        d_model=16,
        heads=2,
        encoder_layers=2,
        decoder_layers=2,
        d_ff=32,
        dropout=0.0,
        norm="post",
        decoder_norm=False,
        activation="gelu",
        attention_bias=False,
        positions="sinusoidal",
        embedding_scale=False,
        tied_embeddings=False,
        subsampling=1,
    )
    ours = build_model(options, input_width=FEATURES, vocab_size=VOCABULARY, ctc_labels=0)
    assert isinstance(ours, Transformer)
    ours.load_state_dict(translate(document))
    return ours


def translate(document: Document000) -> dict[str, torch.Tensor]:
    """Return the document's weights under our names."""
    state: dict[str, torch.Tensor] = {}
    theirs = document.state_dict()

    def take(ours: str, name: str, *parts: str) -> None:
        for kind in ("weight", "bias"):
            tensors = [
                theirs[f"{name}{part}.{kind}"]
                for part in parts or ("",)
                if f"{name}{part}.{kind}" in theirs
            ]
            if tensors:
                state[f"{ours}.{kind}"] = torch.cat(tensors)

    def take_attention(ours: str, name: str) -> None:
        take(f"{ours}.query", name, ".w_q")
        take(f"{ours}.key_value", name, ".w_k", ".w_v")
        take(f"{ours}.output", name, ".w_o")

    take("encoder.source.projection", "encoder.input_projection")
    take("encoder.norm", "encoder.norm")
    take("decoder.embedding", "decoder.embeddings")
    take("decoder.output", "decoder.fc")
    for side, blocks in (("encoder", 2), ("decoder", 3)):
        for number in range(SIZES["layers"]):
            layer = f"{side}.layers.{number}"
            module_name = "attention" if side == "encoder" else "self_attention"
            take_attention(f"{layer}.{module_name}", f"{layer}.self_attn")
            if side == "decoder":
                take_attention(f"{layer}.cross_attention", f"{layer}.cross_attn")
            take(f"{layer}.feed_forward.expand", f"{layer}.feed_forward.linear1")
            take(f"{layer}.feed_forward.project", f"{layer}.feed_forward.linear2")
            for block in range(blocks):
                take(f"{layer}.residuals.{block}.norm", f"{layer}.norm{block + 1}")
    return state


def make_batch() -> Batch:
    src, valid = tiny.source(0, [9, 5, 7])
    tgt = torch.tensor([[1, 5, 9, 11, 2], [1, 7, 2, PAD, PAD], [1, 3, 4, 2, PAD]])
    return Batch(
        src=src,
        src_valid=valid,
        tgt=tgt,
        tgt_valid=tgt != PAD,
        labels=torch.zeros(3, 0, dtype=torch.int64),
        label_lengths=torch.zeros(3, dtype=torch.int64),
        clip_ids=("a", "b", "c"),
    )


def test_equal_weights_give_the_documents_loss_and_gradients() -> None:
    torch.manual_seed(0)
    document = Document000(FEATURES, VOCABULARY, dropout=0.0, **SIZES)
    ours, batch = build_ours(document), make_batch()

    logits = document(batch.src, batch.src_valid, batch.tgt[:, :-1])
    theirs = functional.cross_entropy(
        logits.flatten(0, 1), batch.tgt[:, 1:].flatten(), ignore_index=PAD
    )
    theirs.backward()

    options = dataclasses.replace(tiny.TRAIN, label_smoothing=0.0, ctc_weight=0.0, token_drop=0.0)
    batch_loss = BatchLoss(ours, options, pad=PAD, subsampling=1)
    loss = batch_loss.mean(
        batch_loss(batch, real_rows(batch)), BatchCounts(*batch_loss.count(batch))
    )
    loss.backward()

    torch.testing.assert_close(loss, theirs, rtol=1e-5, atol=1e-6)  # sums in another order
    with torch.no_grad():
        for parameter in document.parameters():
            parameter.copy_(parameter.grad)
    expected = translate(document)
    for name, parameter in ours.named_parameters():
        grad = parameter.grad.to_dense() if parameter.grad.is_sparse else parameter.grad
        torch.testing.assert_close(grad, expected[name], rtol=1e-4, atol=1e-6, msg=name)
