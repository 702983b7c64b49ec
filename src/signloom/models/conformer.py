"""Conformer encoder: self-attention for what is far, convolution for what is near.

The decoder is the Transformer's. Shape letters as in `seq2seq`; N distances (2 M - 1).
"""

from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from signloom.models.seq2seq import ModelOptions
from signloom.models.transformer import (
    Transformer,
    TransformerEncoder,
    build_attention,
    build_feed_forward,
    build_residual,
)


class ConvolutionModule(nn.Module):
    """Pointwise, GLU, depthwise, norm, swish, pointwise.

    Source: Gulati et al. (2020), section 2.2. They have a batch norm where we have a layer norm:
    its means over the batch would make a clip's translation depend on the clips and the padding
    next to it.
    """

    def __init__(self, d_model: int, kernel: int, *, is_causal: bool) -> None:
        super().__init__()
        self.expand = nn.Linear(d_model, 2 * d_model)
        self.depthwise = nn.Conv1d(d_model, d_model, kernel, groups=d_model)
        self.norm = nn.LayerNorm(d_model)
        self.project = nn.Linear(d_model, d_model)
        before = kernel - 1 if is_causal else kernel // 2
        self.margins = (before, kernel - 1 - before)

    def forward(
        self, x: Float[Tensor, "B M D"], valid: Bool[Tensor, "B M"]
    ) -> Float[Tensor, "B M D"]:
        """Mix each position with its neighbours."""
        # A kernel that reaches into padding must see zeros, as it does at the clip's end.
        x = functional.glu(self.expand(x), dim=-1) * valid[..., None]
        x = self.depthwise(functional.pad(x.transpose(1, 2), self.margins)).transpose(1, 2)
        return self.project(functional.silu(self.norm(x)))


class ConformerLayer(nn.Module):
    """Half a feed-forward block, self-attention, convolution, half a feed-forward block, norm.

    Source: Gulati et al. (2020), section 2.4; the macaron of feed-forward blocks is by Lu et al.
    (2019); document 003. With post-norm the last residual's norm is the layer's.
    """

    def __init__(self, options: ModelOptions) -> None:
        super().__init__()
        self.first_feed_forward = build_feed_forward(options)
        self.attention = build_attention(options, relative=options.positions == "relative")
        self.convolution = ConvolutionModule(
            options.d_model, options.conv_kernel, is_causal=options.causal_encoder
        )
        self.second_feed_forward = build_feed_forward(options)
        self.residuals = nn.ModuleList(
            build_residual(options, weight=weight) for weight in (0.5, 1.0, 1.0, 0.5)
        )
        self.norm = nn.LayerNorm(options.d_model) if options.norm == "pre" else nn.Identity()
        self.is_causal = options.causal_encoder

    def forward(
        self,
        x: Float[Tensor, "B M D"],
        valid: Bool[Tensor, "B M"],
        distances: Float[Tensor, "N D"] | None,
        maps: list[Tensor] | None = None,
    ) -> Float[Tensor, "B M D"]:
        """Mix the real positions; where `maps` is given, put the attention at its end."""
        x = self.residuals[0](x, self.first_feed_forward)
        x = self.residuals[1](
            x,
            lambda y: self.attention.attend_self(
                y, valid=valid, is_causal=self.is_causal, distances=distances, maps=maps
            ),
        )
        x = self.residuals[2](x, lambda y: self.convolution(y, valid))
        return self.norm(self.residuals[3](x, self.second_feed_forward))


class Conformer(Transformer):
    """The Transformer with a Conformer encoder.

    Source: Gulati et al. (2020); document 003, whose use is lip reading.
    """

    @staticmethod
    def build_encoder(options: ModelOptions, input_width: int) -> nn.Module:
        """Build what gives the memory."""
        return TransformerEncoder(options, input_width, ConformerLayer)
