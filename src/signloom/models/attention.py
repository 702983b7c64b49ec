"""Multi-head attention, with relative positions and keys and values kept between steps.

Shape letters: B clips, T query positions, M key positions, N distances (2 M - 1) or, of what is
packed, real positions, D model width, H heads, K head width.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from signloom.models.layers import sinusoids


@dataclass(frozen=True, slots=True, eq=False)
class KeyValue:
    """Projected keys and values of one attention block."""

    keys: Float[Tensor, "B H M K"]
    values: Float[Tensor, "B H M K"]

    def append(self, further: "KeyValue") -> "KeyValue":
        """Return these positions followed by the other's."""
        return KeyValue(
            torch.cat((self.keys, further.keys), dim=2),
            torch.cat((self.values, further.values), dim=2),
        )

    def contiguous(self) -> "KeyValue":
        """Return the same, each head's positions one after another, as they are read quickest."""
        return KeyValue(self.keys.contiguous(), self.values.contiguous())

    def select(self, rows: Int[Tensor, " R"]) -> "KeyValue":
        """Return the given rows, in that order."""
        return KeyValue(self.keys.index_select(0, rows), self.values.index_select(0, rows))


@dataclass(frozen=True, slots=True, eq=False)
class Packing:
    """The real positions of padded sequences, one after another, so that no others are computed."""

    rows: Int[Tensor, " N"]  # where they are among all B x T positions
    shape: tuple[int, int]  # b and T

    def pack(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "N D"]:
        """Return the real positions."""
        return x.flatten(0, 1).index_select(0, self.rows)

    def unpack(self, x: Float[Tensor, "N D"]) -> Float[Tensor, "B T D"]:
        """Return the sequences, zeros where they are padded."""
        clips, length = self.shape
        spread = x.new_zeros(clips * length, x.shape[1]).index_copy(0, self.rows, x)
        return spread.view(clips, length, -1)


class MultiHeadAttention(nn.Module):
    """Scaled dot-product attention with several heads.

    Queries and key/value pairs are projected by separate methods, so that a decoder projects the
    source once a clip and each target token once.

    Source: Vaswani et al. (2017), section 3.2; documents 000 (projections without bias) and 002
    (with bias); `relative` adds the terms of document 003.
    """

    def __init__(
        self, d_model: int, heads: int, *, dropout: float, bias: bool, relative: bool = False
    ) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.query = nn.Linear(d_model, d_model, bias=bias)
        self.key_value = nn.Linear(d_model, 2 * d_model, bias=bias)
        self.output = nn.Linear(d_model, d_model)
        self.relative = RelativeTerms(d_model, heads) if relative else None

    def project(
        self, x: Float[Tensor, "B M D"] | Float[Tensor, "N D"], packing: Packing | None = None
    ) -> KeyValue:
        """Project positions, packed where `packing` says so, to keys and values."""
        key_value = self.key_value(x)
        keys, values = (key_value if packing is None else packing.unpack(key_value)).chunk(
            2, dim=-1
        )
        return KeyValue(self._split(keys), self._split(values))

    def forward(
        self,
        x: Float[Tensor, "B T D"] | Float[Tensor, "N D"],
        memory: KeyValue,
        *,
        valid: Bool[Tensor, "B M"] | None = None,
        visible: Bool[Tensor, "B T M"] | None = None,
        is_causal: bool = False,
        distances: Float[Tensor, "N D"] | None = None,
        maps: list[Tensor] | None = None,
        packing: Packing | None = None,
    ) -> Float[Tensor, "B T D"] | Float[Tensor, "N D"]:
        """Attend from each position of `x` to the keys it may see; zeros where it sees none.

        Args:
            x: Query positions.
            memory: Projected keys and values.
            valid: Which keys are real; None where all are. True = real.
            visible: Which keys each query sees, instead of `valid`.
            is_causal: Whether query i sees only keys 0 to i.
            distances: With relative terms, where queries and keys are the same positions, the
                encodings of the distances M - 1 down to 1 - M.
            maps: Where given, what each query gives each key, (B, H, T, M), is put at its end;
                without dropout.
            packing: Where given, the query positions are packed.
        """
        query = self.query(x)
        query = self._split(query if packing is None else packing.unpack(query))
        # Without any other mask torch applies the causal one by itself, which is quicker.
        is_plain = valid is None and self.relative is None and maps is None
        mask = _mask(query, valid, visible, is_causal=is_causal and not is_plain)
        bias = None
        if self.relative is not None:
            query, bias = self.relative(query, distances)
        if maps is not None:
            maps.append(_weights(query, memory.keys, mask, bias))
        if bias is not None:
            mask = bias if mask is None else bias.masked_fill(~mask, -torch.inf)
        attended = functional.scaled_dot_product_attention(
            query,
            memory.keys,
            memory.values,
            attn_mask=mask,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=is_causal and is_plain,
        )
        mixed = attended.transpose(1, 2).flatten(2)
        return self.output(mixed if packing is None else packing.pack(mixed))

    def attend_self(
        self,
        x: Float[Tensor, "B M D"] | Float[Tensor, "N D"],
        *,
        valid: Bool[Tensor, "B M"],
        is_causal: bool,
        distances: Float[Tensor, "N D"] | None,
        maps: list[Tensor] | None = None,
        packing: Packing | None = None,
    ) -> Float[Tensor, "B M D"] | Float[Tensor, "N D"]:
        """Attend from each position to those of the same sequence; arguments as for `forward`."""
        attended: Tensor = self(
            x,
            self.project(x, packing),
            valid=valid,
            is_causal=is_causal,
            distances=distances,
            maps=maps,
            packing=packing,
        )
        return attended

    def _split(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B H T K"]:
        return x.view(*x.shape[:2], self.heads, -1).transpose(1, 2)


def _mask(
    query: Float[Tensor, "B H T K"],
    valid: Bool[Tensor, "B M"] | None,
    visible: Bool[Tensor, "B T M"] | None,
    *,
    is_causal: bool,
) -> Bool[Tensor, "..."] | None:
    """Return which keys each query sees, as broadcasts to (B, H, T, M); None: all."""
    mask = None if valid is None else valid[:, None, None, :]
    if visible is not None:
        mask = visible[:, None]
    if not is_causal:
        return mask
    length = query.shape[2]
    past = torch.ones(length, length, dtype=torch.bool, device=query.device).tril()
    return past if mask is None else mask & past


def _weights(
    query: Float[Tensor, "B H T K"],
    keys: Float[Tensor, "B H M K"],
    mask: Bool[Tensor, "..."] | None,
    bias: Float[Tensor, "B H T M"] | None,
) -> Float[Tensor, "B H T M"]:
    """Return what each query gives each key."""
    scores_BHTM = query @ keys.transpose(2, 3) / math.sqrt(query.shape[-1])
    scores_BHTM = scores_BHTM if bias is None else scores_BHTM + bias
    allowed = scores_BHTM.new_ones((), dtype=torch.bool) if mask is None else mask
    return masked_softmax(scores_BHTM, allowed)


def masked_softmax(scores: Float[Tensor, "*S"], allowed: Bool[Tensor, "*A"]) -> Float[Tensor, "*S"]:
    """Return the softmax over the last axis of what is allowed; zeros where nothing is."""
    lowest = torch.finfo(scores.dtype).min
    return scores.masked_fill(~allowed, lowest).softmax(dim=-1) * allowed


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
        length, reach = x.shape[1], (len(self.table) + 1) // 2
        if length > reach:
            reach = 2 * length
            # Training goes on with what evaluation made, so it must be an ordinary tensor.
            with torch.inference_mode(False):
                self.table = _distances(reach, x.shape[2]).to(self.table.device)
        return self.dropout(self.table[reach - length : reach + length - 1].to(x.dtype))


def _distances(length: int, d_model: int) -> Float[Tensor, "N D"]:
    """Return the sinusoids of length - 1 down to 1 - length."""
    ahead = sinusoids(length, d_model)
    # Only the sines change their sign with the distance.
    behind = ahead * torch.tensor([-1.0, 1.0], device="cpu").repeat(d_model // 2)
    return torch.cat((ahead.flip(0), behind[1:]))
