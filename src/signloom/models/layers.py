"""Bricks shared by the families: positions, feed-forward, residual norm, subsampling.

Shape letters: B clips, S source frames, M memory positions, T positions, D model width.
"""

import math
from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

Norm = Literal["pre", "post"]
Activation = Literal["gelu", "relu"]


def sinusoids(length: int, d_model: int) -> Float[Tensor, "T D"]:
    """Return sine and cosine positions, interleaved, for `d_model` even.

    Source: Vaswani et al. (2017), section 3.5; documents 000 and 002.
    """
    position = torch.arange(length, dtype=torch.float32)[:, None]
    rate = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10_000.0) / d_model))
    return torch.stack((torch.sin(position * rate), torch.cos(position * rate)), dim=-1).flatten(1)


class PositionalEncoding(nn.Module):
    """Adds sinusoidal positions, then drops out; any length, the table grows when needed."""

    table: Tensor

    def __init__(self, d_model: int, *, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        # Not persistent: computed, so no checkpoint should carry it or limit its length.
        self.register_buffer("table", sinusoids(256, d_model), persistent=False)

    def forward(self, x: Float[Tensor, "B T D"], *, offset: int = 0) -> Float[Tensor, "B T D"]:
        """Add the positions offset, offset + 1, ... to `x`."""
        end = offset + x.shape[1]
        if end > len(self.table):
            self.table = sinusoids(2 * end, x.shape[2]).to(self.table.device)
        return self.dropout(x + self.table[offset:end].to(x.dtype))


class FeedForward(nn.Module):
    """Position-wise expansion, non-linearity and projection.

    Source: Vaswani et al. (2017), section 3.3; document 000 has GELU, document 002 ReLU.
    """

    def __init__(self, d_model: int, d_ff: int, *, dropout: float, activation: Activation) -> None:
        super().__init__()
        self.expand = nn.Linear(d_model, d_ff)
        self.project = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)
        self.activation = functional.gelu if activation == "gelu" else functional.relu

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Transform each position by itself."""
        return self.project(self.dropout(self.activation(self.expand(x))))


class Residual(nn.Module):
    """A residual connection whose layer norm stands before the block or after the sum.

    pre: x + dropout(block(norm(x))); post: norm(x + dropout(block(x))).

    Source: document 000 and Vaswani et al. (2017) post; document 002 and Xiong et al. (2020) pre.
    """

    def __init__(self, d_model: int, *, dropout: float, norm: Norm) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        self.is_pre = norm == "pre"

    def forward(
        self, x: Float[Tensor, "B T D"], block: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "B T D"]:
        """Apply the block around the residual path."""
        if self.is_pre:
            return x + self.dropout(block(self.norm(x)))
        return self.norm(x + self.dropout(block(x)))


class Subsampling(nn.Module):
    """Strided convolutions that halve the frame rate once or twice; factor 1 does nothing.

    Signing at 25 frames/s changes little from frame to frame: a quarter of the positions makes
    attention cheap and gives each one some movement to look at.
    """

    def __init__(self, d_model: int, factor: Literal[1, 2, 4]) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(
            nn.Conv1d(d_model, d_model, kernel_size=3, stride=2, padding=1)
            for _ in range(int(math.log2(factor)))
        )

    def forward(
        self, x: Float[Tensor, "B S D"], valid: Bool[Tensor, "B S"]
    ) -> tuple[Float[Tensor, "B M D"], Bool[Tensor, "B M"]]:
        """Return the shortened sequence and which of its positions are real.

        Position j is centred on frame j * factor, so M = ceil(S / factor), and a position is
        real when its central frame is.
        """
        for convolution in self.convolutions:
            # A kernel that reaches into padding must see zeros, as it does at the clip's end.
            x = (x * valid[..., None]).transpose(1, 2)
            x = functional.gelu(convolution(x)).transpose(1, 2)
            valid = valid[:, ::2]
        return x, valid
