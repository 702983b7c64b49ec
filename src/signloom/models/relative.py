"""Relative positions: encodings of distances, and the attention terms that use them.

Shape letters: B clips, M positions, N distances (2 M - 1), D model width, H heads, K head width.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from signloom.models.layers import sinusoids


class DistanceEncoding(nn.Module):
    """Sinusoids of the distances between the positions of a sequence; any length.

    Source: Dai et al. (2019), "Transformer-XL"; document 003.
    """

    table: Tensor

    def __init__(self, d_model: int, *, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("table", _distances(256, d_model), persistent=False)

    def forward(self, x: Float[Tensor, "B M D"]) -> Float[Tensor, "N D"]:
        """Return the encodings of the distances M - 1 down to 1 - M."""
        length, known = x.shape[1], (len(self.table) + 1) // 2
        if length > known:
            known = 2 * length
            # Training goes on with what evaluation made, so it must be an ordinary tensor.
            with torch.inference_mode(False):
                self.table = _distances(known, x.shape[2]).to(self.table.device)
        return self.dropout(self.table[known - length : known + length - 1].to(x.dtype))


class RelativeTerms(nn.Module):
    """What distances add to the scores of self-attention.

    The score of query i and key j is ((q_i + u) k_j + (q_i + v) p_(i-j)) / sqrt(K): p is a
    projection of the distance's encoding, u and v are learnt.

    Source: Dai et al. (2019), section 3.3; document 003.
    """

    def __init__(self, d_model: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.position = nn.Linear(d_model, d_model, bias=False)
        self.content_bias = nn.Parameter(torch.empty(heads, d_model // heads))  # u
        self.position_bias = nn.Parameter(torch.empty(heads, d_model // heads))  # v
        nn.init.xavier_uniform_(self.content_bias)
        nn.init.xavier_uniform_(self.position_bias)

    def forward(
        self, query: Float[Tensor, "B H M K"], distances: Float[Tensor, "N D"]
    ) -> tuple[Float[Tensor, "B H M K"], Float[Tensor, "B H M M"]]:
        """Return the queries for the content, and the position terms, divided by sqrt(K)."""
        width = query.shape[-1]
        position = self.position(distances).view(-1, self.heads, width).transpose(0, 1)
        terms_BHMN = (query + self.position_bias[:, None]) @ position.transpose(1, 2)
        return query + self.content_bias[:, None], relative_shift(terms_BHMN) / math.sqrt(width)


def relative_shift(terms: Float[Tensor, "B H M N"]) -> Float[Tensor, "B H M M"]:
    """Turn terms by (query, distance) into terms by (query, key).

    Column n belongs to distance M - 1 - n, so row i is to be read from column M - 1 - i on. With
    one column more in front, the same numbers in rows of M are shifted by one from row to row.

    Source: Dai et al. (2019), appendix B, for keys before the query; here for both sides.
    """
    batch, heads, length, distances = terms.shape
    padded = functional.pad(terms, (1, 0)).view(batch, heads, distances + 1, length)
    return padded[:, :, 1:].reshape(batch, heads, length, distances)[..., :length]


def _distances(length: int, d_model: int) -> Float[Tensor, "N D"]:
    """Return the sinusoids of length - 1 down to 1 - length."""
    ahead = sinusoids(length, d_model)
    # Only the sines change their sign with the distance.
    behind = ahead * torch.tensor([-1.0, 1.0]).repeat(d_model // 2)
    return torch.cat((ahead.flip(0), behind[1:]))
