"""Every family with every option: tiny models for the contract suite."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from signloom.models.pretrained import TextModel
from signloom.models.registry import build_model
from signloom.models.seq2seq import ModelOptions, Seq2Seq
from tests import tiny

DOCUMENT_000 = {
    "norm": "post",
    "attention_bias": False,
    "decoder_norm": False,
    "embedding_scale": False,
    "initialization": "torch",
}
DOCUMENT_003 = {"family": "conformer", "positions": "relative", "activation": "relu"}
LSTM = {"family": "lstm"}
ENCODER_ONLY = {"family": "encoder_only"}
DECODER_ONLY = {"family": "decoder_only"}
# What config.json has of tiny text models: D = 16, H = 2.
T5 = {
    "d_model": 16,
    "d_kv": 8,
    "d_ff": 24,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 2,
}
BART = {
    "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "max_position_embeddings": 512,
}  # fmt: skip
MADE = {"name": "tiny", "sha256": "", "licence": ""}
TEXT_MODELS = {
    "t5": TextModel(kind="t5", sizes=T5, is_tied=True, is_scaled=True, **MADE),
    "byt5": TextModel(
        kind="t5",
        sizes={**T5, "feed_forward_proj": "gated-gelu"},
        is_tied=False,
        is_scaled=False,
        **MADE,
    ),
    "mt5": TextModel(kind="mt5", sizes=T5, is_tied=False, is_scaled=False, **MADE),
    "mbart": TextModel(kind="mbart", sizes=BART, is_tied=True, is_scaled=False, **MADE),
    "m2m_100": TextModel(
        kind="m2m_100",
        sizes={**BART, "scale_embedding": True},
        is_tied=True,
        is_scaled=False,
        **MADE,
    ),
}


def pretrained(text_model: str, **changes: Any) -> dict[str, Any]:
    """Return the options of a model around one of `TEXT_MODELS`."""
    tied = TEXT_MODELS[text_model].is_tied
    return {"family": "pretrained", "text_model": text_model, "tied_embeddings": tied, **changes}


VARIANTS: dict[str, dict[str, Any]] = {
    "transformer, pre-norm": {"norm": "pre"},
    "transformer, post-norm": {"norm": "post"},
    "transformer of document 000": DOCUMENT_000,
    "transformer of document 002": {"activation": "relu", "source": "glosses"},
    "transformer, pre-norm without a last one": {"decoder_norm": False},
    "transformer, stem of 2": {"subsampling": 2},
    "transformer, stem of 4": {"subsampling": 4},
    "transformer, one head, one layer": {"heads": 1, "encoder_layers": 1, "decoder_layers": 1},
    "transformer, scaled positions": {"positions": "scaled"},
    "transformer, relative positions": {"positions": "relative"},
    "transformer, relative, post-norm": {"positions": "relative", "norm": "post"},
    "transformer, causal": {"causal_encoder": True},
    "transformer, causal, relative": {"causal_encoder": True, "positions": "relative"},
    "transformer, tied": {"tied_embeddings": True},
    "transformer, tied, not scaled": {"tied_embeddings": True, "embedding_scale": False},
    "transformer, layer drop": {"layer_drop": 0.2, "encoder_layers": 3},
    "conformer of document 003": DOCUMENT_003,
    "conformer of Gulati et al.": {**DOCUMENT_003, "activation": "swish"},
    "conformer, post-norm": {**DOCUMENT_003, "norm": "post"},
    "conformer, sinusoids": {**DOCUMENT_003, "positions": "sinusoidal"},
    "conformer, scaled positions": {**DOCUMENT_003, "positions": "scaled"},
    "conformer, causal": {**DOCUMENT_003, "causal_encoder": True},
    "conformer, wide kernel, stem of 4": {**DOCUMENT_003, "conv_kernel": 7, "subsampling": 4},
    "conformer, tokens": {**DOCUMENT_003, "source": "glosses"},
    "convolution": {"family": "convolution"},
    "convolution, causal, tokens, stem of 2": {
        "family": "convolution",
        "causal_encoder": True,
        "source": "glosses",
        "subsampling": 2,
    },
    "convolution, CTC feedback, stem of 4": {
        "family": "convolution",
        "ctc_feedback": True,
        "subsampling": 4,
    },
    "convolution, no decoder": {"family": "convolution", "decoder_layers": 0},
    "transformer, no decoder, stem of 2": {"decoder_layers": 0, "subsampling": 2},
    "lstm without attention": {**LSTM, "attention": "none"},
    "lstm, one way, without attention": {**LSTM, "attention": "none", "bidirectional": False},
    "lstm, dot": {**LSTM, "attention": "dot"},
    "lstm, general": {**LSTM, "attention": "general"},
    "lstm, additive": {**LSTM, "attention": "additive"},
    "lstm, one way, additive, torch": {
        **LSTM,
        "attention": "additive",
        "bidirectional": False,
        "initialization": "torch",
    },
    "lstm, tokens, tied": {**LSTM, "source": "glosses", "tied_embeddings": True},
    "lstm, stem of 4": {**LSTM, "subsampling": 4},
    "lstm, deeper encoder": {**LSTM, "encoder_layers": 3, "decoder_layers": 1},
    "lstm, deeper decoder": {**LSTM, "encoder_layers": 1, "decoder_layers": 3},
    "lstm of document 001": {
        **LSTM,
        "source": "glosses",
        "attention": "none",
        "bidirectional": False,
        "embedding_width": 6,
        "encoder_norm": False,
        "embedding_scale": False,
    },
    "gru without attention": {"family": "gru", "attention": "none"},
    "gru, additive, deeper encoder": {
        "family": "gru",
        "attention": "additive",
        "encoder_layers": 3,
        "decoder_layers": 1,
    },
    "rnn without attention": {"family": "rnn", "attention": "none"},
    "rnn, dot, own width": {"family": "rnn", "attention": "dot", "embedding_width": 6},
    "transformer without norms at the ends": {"encoder_norm": False, "decoder_norm": False},
    "transformer, no positions": {"positions": "none"},
    "conformer, no positions": {**DOCUMENT_003, "positions": "none"},
    "encoder-only": ENCODER_ONLY,
    "encoder-only, tokens, relative": {
        **ENCODER_ONLY,
        "source": "glosses",
        "positions": "relative",
    },
    "encoder-only, causal": {**ENCODER_ONLY, "causal_encoder": True},
    "decoder-only": DECODER_ONLY,
    "decoder-only, causal, tied, post-norm": {
        **DECODER_ONLY,
        "causal_encoder": True,
        "tied_embeddings": True,
        "norm": "post",
    },
    "decoder-only, tokens, stem of 2": {**DECODER_ONLY, "source": "glosses", "subsampling": 2},
    "decoder-only, layer drop": {**DECODER_ONLY, "layer_drop": 0.2, "decoder_layers": 3},
    "transformer, CTC feedback": {"ctc_feedback": True},
    "conformer, CTC feedback": {**DOCUMENT_003, "ctc_feedback": True},
    "conformer, causal, stem of 4": {**DOCUMENT_003, "causal_encoder": True, "subsampling": 4},
    "pretrained t5": pretrained("t5"),
    "pretrained byt5, its encoder, tokens": pretrained("byt5", text_encoder=True, source="glosses"),
    "pretrained mt5, its encoder, stem of 4": pretrained("mt5", text_encoder=True, subsampling=4),
    "pretrained mbart": pretrained("mbart"),
    "pretrained mt5, layers frozen": pretrained("mt5", freeze="layers"),
    "pretrained m2m_100, its encoder": pretrained("m2m_100", text_encoder=True),
}

EOS = tiny.VOCAB - 1

# Combinations of what other variants have one by one: `make test-all` looks at them, too.
COMBINED = {
    "transformer, stem of 2",
    "transformer, relative, post-norm",
    "transformer, causal, relative",
    "transformer, tied, not scaled",
    "conformer of Gulati et al.",
    "conformer, sinusoids",
    "conformer, scaled positions",
    "lstm, one way, without attention",
    "lstm, general",
    "lstm, deeper decoder",
    "gru without attention",
    "encoder-only, causal",
    "decoder-only, tokens, stem of 2",
    "conformer, causal, stem of 4",
    "conformer, CTC feedback",
    "convolution, CTC feedback, stem of 4",
    "pretrained mt5, its encoder, stem of 4",
    "pretrained m2m_100, its encoder",
}


@dataclass(frozen=True, slots=True)
class Subject:
    """A tiny model and the kind of source that it takes."""

    options: ModelOptions
    model: Seq2Seq

    def source(self, lengths: list[int], seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a random source and its validity (B, S); padding is zero."""
        features, valid = tiny.source(seed, lengths)
        if self.options.source == "landmarks":
            return features, valid
        generator = torch.Generator().manual_seed(seed)
        return torch.randint(1, tiny.VOCAB, valid.shape, generator=generator) * valid, valid


def build(seed: int = 0, *, ctc_labels: int = 5, **changes: Any) -> Subject:
    """Build the tiny model with some options changed, in evaluation mode."""
    if changes.get("family") == "pretrained":
        pytest.importorskip("transformers", reason="needs `pip install 'signloom[text]'`")
    options = dataclasses.replace(tiny.MODEL, **changes)
    width = tiny.VOCAB if options.source == "glosses" else tiny.INPUT_WIDTH
    torch.manual_seed(seed)
    model = build_model(
        options,
        input_width=width,
        vocab_size=tiny.VOCAB,
        ctc_labels=ctc_labels,
        eos=EOS,
        text=TEXT_MODELS.get(options.text_model),
    )
    return Subject(options, model.eval())
