"""What document 002's decoder sees, its code as printed but for a layer norm that runs."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

D, HEADS, B = 32, 4, 2


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w_q, self.w_k, self.w_v, self.w_o = (nn.Linear(D, D) for _ in range(4))

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        query, key, value = (
            w(x).view(B, -1, HEADS, D // HEADS).transpose(1, 2)
            for w, x in ((self.w_q, q), (self.w_k, k), (self.w_v, v))
        )
        scores = query @ key.transpose(-2, -1) / (D // HEADS) ** 0.5
        weights = scores.masked_fill(mask == 0, -1e11).softmax(dim=-1)
        return self.w_o((weights @ value).transpose(1, 2).contiguous().view(B, -1, D))


class DecoderBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.self_attention, self.cross_attention = Attention(), Attention()
        self.feed_forward = nn.Sequential(nn.Linear(D, D), nn.ReLU(), nn.Linear(D, D))
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(3))

    def forward(self, x: Tensor, memory: Tensor, src_mask: Tensor, tgt_mask: Tensor) -> Tensor:
        y = self.norms[0](x)
        x = x + self.self_attention(y, y, y, tgt_mask)
        x = x + self.cross_attention(self.norms[1](x), memory, memory, src_mask)
        return x + self.feed_forward(self.norms[2](x))


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderBlock() for _ in range(2))

    def forward(self, x: Tensor, memory: Tensor, tgt_mask: Tensor, src_mask: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x, memory, src_mask, tgt_mask)
        return x


def as_printed(decoder: Decoder, x: Tensor, memory: Tensor, src: Tensor, tgt: Tensor) -> Tensor:
    return decoder(x, memory, src, tgt)  # Transformer.decode, section 12


def as_meant(decoder: Decoder, x: Tensor, memory: Tensor, src: Tensor, tgt: Tensor) -> Tensor:
    return decoder(x, memory, tgt, src)


@pytest.mark.parametrize(("decode", "sees"), [(as_printed, True), (as_meant, False)])
def test_document_002_swaps_its_masks_and_sees_the_future(
    decode: Callable[..., Tensor], sees: bool
) -> None:
    torch.manual_seed(1)
    decoder, x, memory = Decoder(), torch.randn(B, 5, D), torch.randn(B, 5, D)
    masks = torch.ones(B, 1, 1, 5), torch.ones(1, 1, 5, 5).tril()
    changed = torch.cat((x[:, :-1], torch.randn(B, 1, D)), dim=1)
    first, other = (decode(decoder, y, memory, *masks)[:, 0] for y in (x, changed))
    assert bool((first - other).abs().max() > 0.01) == sees
    assert sees or torch.equal(first, other)


def test_document_002_fails_where_source_and_target_differ_in_length() -> None:
    masks = torch.ones(B, 1, 1, 7), torch.ones(1, 1, 5, 5).tril()
    with pytest.raises(RuntimeError, match="size of tensor"):
        as_printed(Decoder(), torch.randn(B, 5, D), torch.randn(B, 7, D), *masks)
    as_meant(Decoder(), torch.randn(B, 5, D), torch.randn(B, 7, D), *masks)
