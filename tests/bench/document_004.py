"""Document 004's model and training loop, written out as it has them, for `tests.bench.reversal`.

Shape letters: B sequences, S source symbols, T target symbols, D model width.
"""

import math
import random
from collections.abc import Sequence

import torch
from torch import Tensor, nn

PAD = 0
D_MODEL, HEADS, D_FF = 128, 4, 256
BATCH, EPOCHS, LEARNING_RATE = 64, 10, 1e-3

Pair = tuple[list[int], list[int]]  # source, target with both control symbols


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(D_MODEL, D_MODEL), nn.Linear(D_MODEL, D_MODEL)
        self.value, self.output = nn.Linear(D_MODEL, D_MODEL), nn.Linear(D_MODEL, D_MODEL)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        width = D_MODEL // HEADS

        def split(x: Tensor) -> Tensor:
            return x.view(*x.shape[:2], HEADS, width).transpose(1, 2)

        q, k, v = split(self.query(query)), split(self.key(key)), split(self.value(value))
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(width)
        weights = torch.softmax(scores.masked_fill(mask == 0, -1e9), dim=-1)
        mixed = torch.matmul(weights, v).transpose(1, 2).contiguous()
        return self.output(mixed.view(query.shape))


def build_feed_forward() -> nn.Sequential:
    return nn.Sequential(nn.Linear(D_MODEL, D_FF), nn.ReLU(), nn.Linear(D_FF, D_MODEL))


class Document004(nn.Module):
    """Source (B, S) and target (B, T) come in, logits (B, T, V) go out; no dropout."""

    positions: Tensor

    def __init__(self, vocab_size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, D_MODEL, padding_idx=PAD)
        table = torch.zeros(100, D_MODEL)
        position = torch.arange(0, 100)[:, None]
        rate = torch.exp(torch.arange(0, D_MODEL, 2) * (-math.log(10_000.0) / D_MODEL))
        table[:, 0::2], table[:, 1::2] = torch.sin(position * rate), torch.cos(position * rate)
        self.register_buffer("positions", table[None])
        self.encoder_attention, self.encoder_feed_forward = Attention(), build_feed_forward()
        self.self_attention, self.cross_attention = Attention(), Attention()
        self.decoder_feed_forward = build_feed_forward()
        self.norms = nn.ModuleList(nn.LayerNorm(D_MODEL) for _ in range(5))
        self.fc = nn.Linear(D_MODEL, vocab_size)

    def embed(self, tokens: Tensor) -> Tensor:
        return self.embedding(tokens) + self.positions[:, : tokens.shape[1]]

    def forward(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        source_mask = (src != PAD)[:, None, None, :]
        past = torch.tril(torch.ones(tgt_in.shape[1], tgt_in.shape[1]))[None]
        x = self.embed(src)
        x = self.norms[0](x + self.encoder_attention(x, x, x, source_mask))
        memory = self.norms[1](x + self.encoder_feed_forward(x))
        y = self.embed(tgt_in)
        y = self.norms[2](y + self.self_attention(y, y, y, past))
        y = self.norms[3](y + self.cross_attention(y, memory, memory, source_mask))
        return self.fc(self.norms[4](y + self.decoder_feed_forward(y)))


def pad(sequences: Sequence[Sequence[int]]) -> Tensor:
    longest = max(len(sequence) for sequence in sequences)
    return torch.tensor([[*s, *[PAD] * (longest - len(s))] for s in sequences])


def run_epochs(model: nn.Module, train: list[Pair], valid: list[Pair], seed: int) -> None:
    """Train as the document does, the loss of the validation pairs after each epoch included."""
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD)
    order = random.Random(seed)

    def run_epoch(pairs: list[Pair], is_training: bool) -> float:
        model.train(is_training)
        total = 0.0
        for start in range(0, len(pairs), BATCH):
            some = pairs[start : start + BATCH]
            src, tgt = pad([pair[0] for pair in some]), pad([pair[1] for pair in some])
            tgt_in, tgt_out = tgt[:, :-1], tgt[:, 1:]
            if is_training:
                optimizer.zero_grad()
            logits = model(src, tgt_in)
            loss = criterion(logits.reshape(-1, logits.shape[-1]), tgt_out.reshape(-1))
            if is_training:
                loss.backward()
                optimizer.step()
            total += loss.item()
        return total

    for _ in range(EPOCHS):
        run_epoch(order.sample(train, len(train)), True)
        run_epoch(valid, False)


@torch.inference_mode()
def decode(model: nn.Module, sources: Sequence[Sequence[int]], bos: int, steps: int) -> Tensor:
    """Return the likeliest next symbols, one after another, (B, steps); every prefix anew."""
    model.eval()
    src = pad(sources)
    found = torch.full((len(sources), 1), bos)
    for _ in range(steps):
        following = model(src, found)[:, -1].argmax(dim=-1)
        found = torch.cat((found, following[:, None]), dim=1)
    return found[:, 1:]
