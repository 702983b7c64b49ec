"""Convolutional encoder: each position sees only its neighbours, so that few clips suffice.

The decoder is the Transformer's. Shape letters as in `seq2seq`.
"""

from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from signloom.models import layers
from signloom.models.layers import Dropout, SourceEmbedding, check_source
from signloom.models.seq2seq import Memory, ModelOptions, SourceTensor
from signloom.models.transformer import Transformer

KERNEL = 7  # positions that a layer sees
STEM_KERNEL = 5  # of the two convolutions that shorten the sequence
STRIDES = {1: (1, 1), 2: (2, 1), 4: (2, 2)}  # of these two, by `subsampling`


class BatchNorm(nn.BatchNorm1d):
    """Each channel less its mean, by its deviation, over the real positions of a batch in training.

    Afterwards by running means, so that no clip's translation depends on the clips next to it. A
    layer norm in its place reads far worse (docs/log/2026-11-26.md).

    Source: Ioffe and Szegedy (2015).
    """

    def __init__(self, width: int) -> None:
        super().__init__(width, track_running_stats=False)  # it would count batches: no weight
        self.register_buffer("running_mean", torch.zeros(width))
        self.register_buffer("running_var", torch.ones(width))

    def forward(  # type: ignore[override]
        self, x: Float[Tensor, "B M D"], valid: Bool[Tensor, "B M"]
    ) -> Float[Tensor, "B M D"]:
        """Normalise; padding takes part in nothing."""
        flat = x.flatten(0, 1)
        parameters = self.running_mean, self.running_var, self.weight, self.bias
        if not self.training or valid.sum() < 2:  # one position has no deviation
            return functional.batch_norm(flat, *parameters, eps=self.eps).view_as(x)
        rows = valid.flatten().nonzero()[:, 0]
        real = functional.batch_norm(
            flat.index_select(0, rows), *parameters, training=True, eps=self.eps
        )
        return torch.zeros_like(flat, dtype=real.dtype).index_copy(0, rows, real).view_as(x)


class Convolution(nn.Module):
    """Convolution over time, batch norm, ReLU, dropout."""

    def __init__(
        self, options: ModelOptions, *, kernel: int, stride: int = 1, width: int = 0
    ) -> None:
        super().__init__()
        d_model = options.d_model
        self.convolution = nn.Conv1d(width or d_model, d_model, kernel, stride=stride)
        self.norm = BatchNorm(d_model)
        # Most time would go into drawing numbers.
        self.dropout = Dropout(options.dropout, max(d_model, layers.WIDE))
        self.before = kernel - 1 if options.causal_encoder else kernel // 2
        self.stride = stride

    def forward(
        self, x: Float[Tensor, "B S F"], valid: Bool[Tensor, "B S"]
    ) -> tuple[Float[Tensor, "B M D"], Bool[Tensor, "B M"]]:
        """Mix each position with its neighbours; return which positions of the result are real."""
        # A kernel that reaches into padding must see zeros, as it does at the clip's end. In two
        # dimensions a CPU takes channels that come last, a quarter faster.
        weight = self.convolution.weight.unsqueeze(2).contiguous(memory_format=torch.channels_last)
        x = (
            functional.conv2d(
                (x * valid[..., None]).transpose(1, 2).unsqueeze(2),
                weight,
                self.convolution.bias,
                stride=(1, self.stride),
                padding=(0, self.before),
            )
            .squeeze(2)
            .transpose(1, 2)
        )
        valid = valid[:, :: self.stride]
        x = x[:, : valid.shape[1]]  # where no position sees later ones, the rest is of none
        return self.dropout(functional.relu(self.norm(x, valid))), valid


class ConvolutionEncoder(nn.Module):
    """The source's vectors, two convolutions that shorten them, and residual ones of one width.

    Five such layers before CTC read BOSTON-104 about as well as a Conformer (docs/results.md).
    """

    def __init__(self, options: ModelOptions, input_width: int) -> None:
        super().__init__()
        self.input_width = input_width
        unstrided = replace(options, subsampling=1)
        # A projection of fewer numbers than its result has would only cost time.
        is_narrow = options.source != "glosses" and input_width < options.d_model
        self.source = (
            None if is_narrow else SourceEmbedding(unstrided, input_width, width=options.d_model)
        )
        first, second = STRIDES[options.subsampling]
        self.stem = nn.ModuleList(
            (
                Convolution(
                    options, kernel=STEM_KERNEL, stride=first, width=input_width if is_narrow else 0
                ),
                Convolution(options, kernel=STEM_KERNEL, stride=second),
            )
        )
        self.layers = nn.ModuleList(
            Convolution(options, kernel=KERNEL) for _ in range(options.encoder_layers)
        )
        self.norm = nn.LayerNorm(options.d_model) if options.encoder_norm else nn.Identity()

    def forward(
        self, src: SourceTensor, src_valid: Bool[Tensor, "B S"], maps: list[Tensor] | None = None
    ) -> Memory:
        """Encode features or tokens; there is no attention for `maps`."""
        if self.source is None:
            check_source(src, src_valid, self.input_width)
        x, valid = self.source(src, src_valid) if self.source else (src, src_valid)
        for shorten in self.stem:
            x, valid = shorten(x, valid)
        for layer in self.layers:
            x = x + layer(x, valid)[0]
        return Memory(self.norm(x), valid)


class ConvolutionModel(Transformer):
    """The Transformer with a convolutional encoder."""

    @staticmethod
    def build_encoder(options: ModelOptions, input_width: int) -> nn.Module:
        """Build what gives the memory."""
        return ConvolutionEncoder(options, input_width)
