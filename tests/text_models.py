"""Tiny random text models of each family, saved as their authors would."""

from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import tokenizers
import torch

transformers = pytest.importorskip("transformers", reason="needs `pip install 'signloom[text]'`")
T5 = ("<pad>", "</s>", "<unk>")
NLLB = ("<s>", "<pad>", "</s>", "<unk>")
T5_SIZES = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2}
BART_SIZES = {
    "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "max_position_embeddings": 64,
}  # fmt: skip
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "t5": ("T5", T5_SIZES),
    "t5 1.1": (
        "T5", {**T5_SIZES, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
    ),
    "mt5": ("MT5", {**T5_SIZES, "feed_forward_proj": "gated-gelu"}),
    "byt5": (
        "T5", {**T5_SIZES, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
    ),
    "mbart": ("MBart", {**BART_SIZES, "scale_embedding": True}),
    "m2m_100": ("M2M100", {**BART_SIZES, "scale_embedding": True, "decoder_start_token_id": 2}),
}  # fmt: skip


def sentence_pieces(controls: tuple[str, ...] = T5) -> str:
    """Return the tokenizer.json of a SentencePiece vocabulary that leaves out h, ' and ê."""
    words = ["▁je", "▁vais", "▁tu", "▁mange", "s", "▁"]
    letters = list("abcdefgijklmnopqrstuvwxyz")
    vocab = [(piece, 0.0) for piece in controls]
    vocab += [(piece, -1.0 - len(vocab)) for piece in words]
    vocab += [(piece, -9.0) for piece in letters if piece != "s"]
    unigram = tokenizers.models.Unigram(vocab, unk_id=controls.index("<unk>"))
    tokenizer = tokenizers.Tokenizer(unigram)
    tokenizer.normalizer = tokenizers.normalizers.NFKC()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [tokenizers.pre_tokenizers.WhitespaceSplit(), tokenizers.pre_tokenizers.Metaspace()]
    )
    tokenizer.add_special_tokens([tokenizers.AddedToken(name, special=True) for name in controls])
    return tokenizer.to_str()


def text_model(folder: Path, family: str) -> Any:
    """Save a tiny random text model; return it."""
    name, sizes = FAMILIES[family]
    is_bart = name in ("MBart", "M2M100")
    if family == "byt5":
        size = 384
    else:
        text = sentence_pieces(NLLB) if is_bart else sentence_pieces()
        size = tokenizers.Tokenizer.from_str(text).get_vocab_size() + 5
    torch.manual_seed(5)
    config = getattr(transformers, f"{name}Config")(
        **{"decoder_start_token_id": 0, **sizes}, vocab_size=size
    )
    model = getattr(transformers, f"{name}ForConditionalGeneration")(config).eval()
    if family in ("t5 1.1", "mt5", "byt5"):  # two matrices, as the published ones have
        model.lm_head.weight = torch.nn.Parameter(torch.randn(size, 16))
    model.save_pretrained(folder)
    if family in ("t5 1.1", "byt5", "mt5"):
        tensors = {k: v.contiguous() for k, v in model.state_dict().items() if "embed_tok" not in k}
        safetensors.torch.save_file(tensors, folder / "model.safetensors")
    if family == "byt5":
        (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "ByT5Tokenizer"}')
    else:
        (folder / "tokenizer.json").write_text(text, encoding="utf-8")
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n# Tiny\n")
    return model
