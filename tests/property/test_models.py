"""Whatever options are combined, padding and company change nothing, nor does the future."""

import dataclasses
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from signloom.models.registry import FAMILIES
from tests.contract.variants import build

OPTIONS = st.fixed_dictionaries(
    {
        "family": st.sampled_from(sorted(FAMILIES.keys() - {"pretrained", "encoder_only"})),
        "source": st.sampled_from(["landmarks", "glosses"]),
        "heads": st.sampled_from([1, 2, 4]),
        "encoder_layers": st.integers(1, 3),
        "decoder_layers": st.integers(1, 3),
        "dropout": st.just(0.2),
        "layer_drop": st.sampled_from([0.0, 0.3]),
        "norm": st.sampled_from(["pre", "post"]),
        "encoder_norm": st.booleans(),
        "decoder_norm": st.booleans(),
        "activation": st.sampled_from(["gelu", "relu", "swish"]),
        "attention_bias": st.booleans(),
        "positions": st.sampled_from(["sinusoidal", "scaled", "relative", "none"]),
        "causal_encoder": st.booleans(),
        "embedding_scale": st.booleans(),
        "tied_embeddings": st.booleans(),
        "initialization": st.sampled_from(["xavier", "xavier_each", "torch"]),
        "subsampling": st.sampled_from([1, 2, 4]),
        "conv_kernel": st.sampled_from([1, 3, 9]),
        "bidirectional": st.booleans(),
        "attention": st.sampled_from(["none", "dot", "general", "additive"]),
        "embedding_width": st.sampled_from([0, 6]),
        "ctc_feedback": st.booleans(),
    }
).filter(
    lambda options: (
        not (options["tied_embeddings"] and options["embedding_width"])
        and not (options["family"] == "decoder_only" and options["positions"] == "relative")
    )
)


@settings(max_examples=20, deadline=None)
@given(options=OPTIONS, lengths=st.lists(st.integers(1, 14), min_size=2, max_size=4))
def test_a_clip_alone_step_by_step_equals_its_row_of_a_batch(
    options: dict[str, Any], lengths: list[int]
) -> None:
    subject = build(**options)
    pretrained = {"text_model", "text_encoder", "freeze"}  # need a folder
    assert set(options) | {"d_model", "d_ff"} | pretrained == set(
        field.name for field in dataclasses.fields(subject.options)
    )
    model = subject.model
    src, valid = subject.source(lengths)
    tokens = torch.randint(0, 20, (len(lengths), 5), generator=torch.Generator().manual_seed(1))
    together = model(src, valid, tokens)
    assert together.isfinite().all()
    for row, length in enumerate(lengths):
        memory = model.encode(src[row : row + 1, :length], valid[row : row + 1, :length])
        state = model.start(memory)
        for step, token in enumerate(tokens[row]):
            logits, state = model.step(token[None], state)
            # Float32 sums in another order; logits of unnormalised decoders reach the tens.
            torch.testing.assert_close(logits[0], together[row, step], rtol=1e-4, atol=1e-4)
