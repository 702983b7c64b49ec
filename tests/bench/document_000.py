"""Document 000's encoder and decoder and a plain loop around them, written out as it has them.

What the project is measured against, and the oracle of `tests/unit/training/test_document_000.py`.
Nothing here is clever on purpose. The document prints the modules and their sizes but neither loss
nor optimiser; the loop has document 004's, cross entropy that passes padding over and Adam. Masks
are where its signatures have them; what it prints while it runs is left out.

Shape letters: B clips, S source frames, T target tokens, D model width, V vocabulary.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

LONGEST = 250  # frames to which every clip is padded
VOCABULARY = 130_000
SIZES = {"d_model": 512, "heads": 8, "layers": 6, "d_ff": 2048}
DROPOUT = 0.1
PAD = 0


class PositionalEncoding(nn.Module):
    table: Tensor

    def __init__(self, d_model: int, longest: int) -> None:
        super().__init__()
        table = torch.zeros(longest, d_model)
        position = torch.arange(longest, dtype=torch.float)[:, None]
        rate = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10_000.0) / d_model))
        table[:, 0::2] = torch.sin(position * rate)
        table[:, 1::2] = torch.cos(position * rate)
        self.register_buffer("table", table[None])

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table[:, : x.shape[1]]


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.width = heads, d_model // heads
        self.w_q = nn.Linear(d_model, d_model, bias=False)
        self.w_k = nn.Linear(d_model, d_model, bias=False)
        self.w_v = nn.Linear(d_model, d_model, bias=False)
        self.w_o = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        def split(x: Tensor) -> Tensor:
            return x.view(*x.shape[:2], self.heads, self.width).transpose(1, 2)

        q, k, v = split(self.w_q(query)), split(self.w_k(key)), split(self.w_v(value))
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.width)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        weights = self.dropout(functional.softmax(scores, dim=-1))
        mixed = torch.matmul(weights, v).transpose(1, 2).contiguous()
        return self.w_o(mixed.view(query.shape))


class FeedForward(nn.Module):
    def __init__(self, d_model: int, d_ff: int, dropout: float) -> None:
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.dropout, self.activation = nn.Dropout(dropout), nn.GELU()

    def forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class EncoderLayer(nn.Module):
    def __init__(self, d_model: int, heads: int, d_ff: int, dropout: float) -> None:
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = self.norm1(x + self.dropout(self.self_attn(x, x, x, mask)))
        return self.norm2(x + self.dropout(self.feed_forward(x)))


class DecoderLayer(nn.Module):
    def __init__(self, d_model: int, heads: int, d_ff: int, dropout: float) -> None:
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, heads, dropout)
        self.cross_attn = MultiHeadAttention(d_model, heads, dropout)
        self.feed_forward = FeedForward(d_model, d_ff, dropout)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.norm3 = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, x: Tensor, memory: Tensor, self_mask: Tensor | None, cross_mask: Tensor | None
    ) -> Tensor:
        x = self.norm1(x + self.dropout(self.self_attn(x, x, x, self_mask)))
        x = self.norm2(x + self.dropout(self.cross_attn(x, memory, memory, cross_mask)))
        return self.norm3(x + self.dropout(self.feed_forward(x)))


class Encoder(nn.Module):
    def __init__(
        self,
        input_width: int,
        *,
        d_model: int,
        heads: int,
        layers: int,
        d_ff: int,
        dropout: float,
        longest: int = LONGEST,
    ) -> None:
        super().__init__()
        self.input_projection = nn.Linear(input_width, d_model)
        self.pos_encoding = PositionalEncoding(d_model, longest)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(
            EncoderLayer(d_model, heads, d_ff, dropout) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = self.dropout(self.pos_encoding(self.input_projection(x)))
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


class Decoder(nn.Module):
    def __init__(
        self,
        vocab_size: int,
        *,
        d_model: int,
        heads: int,
        layers: int,
        d_ff: int,
        dropout: float,
        longest: int = 4096,
    ) -> None:
        super().__init__()
        self.embeddings = nn.Embedding(vocab_size, d_model, padding_idx=PAD)
        self.pos_encoding = PositionalEncoding(d_model, longest)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(
            DecoderLayer(d_model, heads, d_ff, dropout) for _ in range(layers)
        )
        self.fc = nn.Linear(d_model, vocab_size)

    def forward(
        self, x: Tensor, memory: Tensor, self_mask: Tensor | None, cross_mask: Tensor | None
    ) -> Tensor:
        x = self.dropout(self.pos_encoding(self.embeddings(x)))
        for layer in self.layers:
            x = layer(x, memory, self_mask, cross_mask)
        return self.fc(x)


class Document000(nn.Module):
    """Features (B, S, F) and tokens (B, T) come in, logits (B, T, V) go out."""

    def __init__(self, input_width: int, vocab_size: int, **sizes: Any) -> None:
        super().__init__()
        self.encoder = Encoder(input_width, **sizes)
        self.decoder = Decoder(vocab_size, **sizes)

    def forward(self, src: Tensor, src_valid: Tensor, tgt_in: Tensor) -> Tensor:
        source_mask = src_valid[:, None, None, :]
        look_ahead = torch.tril(torch.ones(tgt_in.shape[1], tgt_in.shape[1]))[None, None]
        memory = self.encoder(src, source_mask)
        return self.decoder(tgt_in, memory, look_ahead, source_mask)


def build_loop(model: nn.Module) -> Callable[[Tensor, Tensor, Tensor], float]:
    """Return the step of a plain training loop: padded source, which is real, padded targets."""
    criterion = nn.CrossEntropyLoss(ignore_index=PAD)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    model.train()

    def take_step(src: Tensor, src_valid: Tensor, tgt: Tensor) -> float:
        optimizer.zero_grad()
        logits = model(src, src_valid, tgt[:, :-1])
        loss = criterion(logits.reshape(-1, logits.shape[-1]), tgt[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        return float(loss)

    return take_step
