"""Bricks shared by the families: positions, feed-forward, residual norm.

Shape letters: B clips, T positions, D model width.
"""

import math
from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

Norm = Literal["pre", "post"]
Activation = Literal["gelu", "relu", "swish"]
ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "relu": functional.relu,
    "swish": functional.silu,
}


def sinusoids(length: int, d_model: int) -> Float[Tensor, "T D"]:
    """Return sine and cosine positions, interleaved, for `d_model` even.

    Source: Vaswani et al. (2017), section 3.5; documents 000 and 002.
    """
    position = torch.arange(length, dtype=torch.float32)[:, None]
    rate = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10_000.0) / d_model))
    return torch.stack((torch.sin(position * rate), torch.cos(position * rate)), dim=-1).flatten(1)


class PositionalEncoding(nn.Module):
    """Adds sinusoidal positions, then drops out; any length, the table grows when needed.

    Source: documents 000 and 002; `scaled`, by a learnt factor, document 003 and Li et al.
    (2019), "Neural speech synthesis with Transformer network".
    """

    table: Tensor

    def __init__(self, d_model: int, *, dropout: float, scaled: bool = False) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.alpha = nn.Parameter(torch.ones(1)) if scaled else None
        # Not persistent: computed, so no checkpoint should carry it or limit its length.
        self.register_buffer("table", sinusoids(256, d_model), persistent=False)

    def forward(self, x: Float[Tensor, "B T D"], *, offset: int = 0) -> Float[Tensor, "B T D"]:
        """Add the positions offset, offset + 1, ... to `x`."""
        end = offset + x.shape[1]
        if end > len(self.table):
            # Training goes on with what evaluation made, so it must be an ordinary tensor.
            with torch.inference_mode(False):
                self.table = sinusoids(2 * end, x.shape[2]).to(self.table.device)
        positions = self.table[offset:end].to(x.dtype)
        return self.dropout(x + (positions if self.alpha is None else self.alpha * positions))


class FeedForward(nn.Module):
    """Position-wise expansion, non-linearity and projection.

    Source: Vaswani et al. (2017), section 3.3; document 000 has GELU, documents 001 to 004
    ReLU, Gulati et al.'s Conformer swish.
    """

    def __init__(self, d_model: int, d_ff: int, *, dropout: float, activation: Activation) -> None:
        super().__init__()
        self.expand = nn.Linear(d_model, d_ff)
        self.project = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)
        self.activation = ACTIVATIONS[activation]

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Transform each position by itself."""
        return self.project(self.dropout(self.activation(self.expand(x))))


class Residual(nn.Module):
    """A residual connection whose layer norm stands before the block or after the sum.

    pre: x + w dropout(block(norm(x))); post: norm(x + w dropout(block(x))).

    Source: document 000 and Vaswani et al. (2017) post; document 002 and Xiong et al. (2020) pre;
    the weight w is 1, and a half for the Conformer's feed-forward blocks.
    """

    def __init__(self, d_model: int, *, dropout: float, norm: Norm, weight: float = 1.0) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        self.is_pre = norm == "pre"
        self.weight = weight

    def forward(
        self, x: Float[Tensor, "B T D"], block: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "B T D"]:
        """Apply the block around the residual path."""
        if self.is_pre:
            return torch.add(x, self.dropout(block(self.norm(x))), alpha=self.weight)
        return self.norm(torch.add(x, self.dropout(block(x)), alpha=self.weight))
