"""Which options a family reads is compared with what they change in it."""

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor

from signloom.models.registry import FAMILIES, build_model
from signloom.models.seq2seq import READ_BY, ModelOptions, find_unread
from tests import tiny

# `text_encoder` and `freeze` are of `pretrained`, whose text model has tests of its own.
OTHER: dict[str, Any] = {
    "layer_drop": 0.5, "decoder_norm": False, "activation": "relu", "attention_bias": False,
    "causal_encoder": True, "conv_kernel": 5, "bidirectional": False, "attention": "dot",
    "embedding_width": 8, "ctc_feedback": True, "heads": 2, "d_ff": 24, "norm": "post",
    "positions": "scaled",
}  # fmt: skip


def built(options: ModelOptions) -> dict[str, Tensor]:
    """Return weights and logits of a model in training, drawn with one seed."""
    torch.manual_seed(0)
    model = build_model(
        options, input_width=tiny.INPUT_WIDTH, vocab_size=tiny.VOCAB, ctc_labels=5, eos=tiny.EOS
    )
    logits = model(*tiny.source(1, [9, 5]), torch.tensor([[1, 5, 6], [1, 7, 2]]))
    return {**model.state_dict(), "logits": logits}


def is_same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return first.keys() == second.keys() and all(
        value.shape == second[name].shape and torch.equal(value, second[name])
        for name, value in first.items()
    )


@pytest.mark.parametrize("family", sorted(FAMILIES.keys() - {"pretrained"}))
def test_a_family_reads_what_changes_it_and_nothing_else(family: Any) -> None:
    options = dataclasses.replace(tiny.MODEL, family=family, conv_kernel=15, heads=4, d_ff=256)
    plain = built(options)
    for name, value in OTHER.items():
        changed = dataclasses.replace(options, **{name: value})
        is_read = not is_same(plain, built(changed))
        assert is_read == (family in READ_BY[name]), name
        assert (find_unread(dataclasses.asdict(changed)).keys() == {name}) == (not is_read), name
