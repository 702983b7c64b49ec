"""Token ids to vectors, and vectors to logits over token ids.

Shape letters: B clips, T tokens, D model width, V vocabulary.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional


class TokenEmbedding(nn.Embedding):
    """A vector for each token id, times sqrt(D) where scaled.

    Source: document 000 (as it is), document 002 (scaled).
    """

    def __init__(self, vocab_size: int, d_model: int, *, is_scaled: bool) -> None:
        super().__init__(vocab_size, d_model)
        self.scale = math.sqrt(d_model) if is_scaled else 1.0

    def forward(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """Look the tokens up."""
        return super().forward(tokens) * self.scale


class TiedProjection(nn.Module):
    """Logits by the matrix of an embedding, with a bias of its own.

    Source: Press and Wolf (2017); Vaswani et al. (2017), section 3.4.
    """

    def __init__(self, embedding: nn.Embedding) -> None:
        super().__init__()
        # In a tuple it is not registered a second time: one matrix, one name in the checkpoint.
        self.embedding = (embedding,)
        self.bias = nn.Parameter(torch.zeros(embedding.num_embeddings))

    @property
    def weight(self) -> Float[Tensor, "V D"]:
        """The embedding's matrix."""
        return self.embedding[0].weight

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T V"]:
        """Return the logits of every position."""
        return functional.linear(x, self.weight, self.bias)


# What projects states to logits; both have `weight` (V, D) and `bias` (V).
Head = nn.Linear | TiedProjection


def build_output(embedding: TokenEmbedding, *, is_tied: bool) -> Head:
    """Build the projection to the vocabulary of an embedding."""
    if is_tied:
        return TiedProjection(embedding)
    return nn.Linear(embedding.embedding_dim, embedding.num_embeddings)
