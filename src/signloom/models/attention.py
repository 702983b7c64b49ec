"""Multi-head attention over keys and values that can be kept between decoding steps.

Shape letters: B clips, T query positions, M key positions, D model width, H heads, K head width.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True, slots=True, eq=False)
class KeyValue:
    """Projected keys and values of one attention block."""

    keys: Float[Tensor, "B H M K"]
    values: Float[Tensor, "B H M K"]

    def append(self, other: "KeyValue") -> "KeyValue":
        """Return these positions followed by the other's."""
        return KeyValue(
            torch.cat((self.keys, other.keys), dim=2), torch.cat((self.values, other.values), dim=2)
        )

    def select(self, rows: Int[Tensor, " R"]) -> "KeyValue":
        """Return the given rows, in that order."""
        return KeyValue(self.keys.index_select(0, rows), self.values.index_select(0, rows))


class MultiHeadAttention(nn.Module):
    """Scaled dot-product attention with several heads.

    Queries and key/value pairs are projected by separate methods, so that a decoder projects the
    source once a clip and each target token once.

    Source: Vaswani et al. (2017), section 3.2; documents 000 (projections without bias) and 002
    (with bias).
    """

    def __init__(self, d_model: int, heads: int, *, dropout: float, bias: bool) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.query = nn.Linear(d_model, d_model, bias=bias)
        self.key_value = nn.Linear(d_model, 2 * d_model, bias=bias)
        self.output = nn.Linear(d_model, d_model)

    def project(self, x: Float[Tensor, "B M D"]) -> KeyValue:
        """Project positions to keys and values."""
        keys, values = self.key_value(x).chunk(2, dim=-1)
        return KeyValue(self._split(keys), self._split(values))

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        memory: KeyValue,
        *,
        valid: Bool[Tensor, "B M"] | None = None,
        is_causal: bool = False,
    ) -> Float[Tensor, "B T D"]:
        """Attend from each position of `x` to the keys it may see.

        Args:
            x: Query positions.
            memory: Projected keys and values.
            valid: Which keys are real; None where all are. True = real.
            is_causal: Whether query i sees only keys 0 to i.
        """
        mask = None if valid is None else valid[:, None, None, :]  # (B, 1, 1, M)
        attended = functional.scaled_dot_product_attention(
            self._split(self.query(x)),
            memory.keys,
            memory.values,
            attn_mask=mask,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=is_causal,
        )
        return self.output(attended.transpose(1, 2).flatten(2))

    def _split(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B H T K"]:
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)
