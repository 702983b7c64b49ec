"""How well a recurrent decoder's state fits each memory position: dot, general, additive.

Shape letters: B clips, T target positions, M memory positions, D model width.
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

Kind = Literal["dot", "general", "additive"]


class AttentionScore(nn.Module):
    """Scores of decoder states s against memory states h.

    dot: s h; general: s (W h); additive: v tanh(W1 s + W2 h). What depends on h alone, W h or
    W2 h, are the keys, computed once a clip.

    Source: Luong et al. (2015), section 3.1 (dot, general); Bahdanau et al. (2015), section 3.1
    (additive); document 001.
    """

    def __init__(self, d_model: int, kind: Kind) -> None:
        super().__init__()
        is_additive = kind == "additive"
        self.key = nn.Identity() if kind == "dot" else nn.Linear(d_model, d_model, bias=False)
        self.query = nn.Linear(d_model, d_model, bias=False) if is_additive else nn.Identity()
        self.vector = nn.Linear(d_model, 1, bias=False) if is_additive else None

    def forward(
        self, states: Float[Tensor, "B T D"], keys: Float[Tensor, "B M D"]
    ) -> Float[Tensor, "B T M"]:
        """Return the score of each state against each key."""
        query = self.query(states)
        if self.vector is None:
            return query @ keys.transpose(1, 2)
        return self.vector(torch.tanh(query[:, :, None] + keys[:, None])).squeeze(-1)
