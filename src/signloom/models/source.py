"""Source features or tokens come in, vectors of model width go out, fewer if subsampled.

Shape letters: B clips, S source frames, M memory positions, F features, D model width.
"""

import math
from typing import Literal

from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from signloom.models.seq2seq import ModelOptions, Source
from signloom.models.tokens import TokenEmbedding


class SourceEmbedding(nn.Module):
    """The way into every encoder: projection of features or embedding of tokens, then the stem.

    Source: document 000 (projection); documents 001, 002 and 004 (tokens).
    """

    def __init__(self, options: ModelOptions, input_width: int) -> None:
        super().__init__()
        self.projection = (
            TokenEmbedding(input_width, options.d_model, is_scaled=options.embedding_scale)
            if options.source == "tokens"
            else nn.Linear(input_width, options.d_model)
        )
        self.subsampling = Subsampling(options.d_model, options.subsampling)

    def forward(
        self, src: Source, valid: Bool[Tensor, "B S"]
    ) -> tuple[Float[Tensor, "B M D"], Bool[Tensor, "B M"]]:
        """Return the source's vectors and which of them are real."""
        return self.subsampling(self.projection(src), valid)


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
