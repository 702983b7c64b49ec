"""Layers that the families share: embeddings, positions, feed-forward, residuals, first weights.

Shape letters: B clips, S source frames, M memory positions, T positions or tokens, F features,
D model width, V vocabulary.
"""

import math
from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from signloom.models.seq2seq import ModelOptions, SourceTensor

Norm = Literal["pre", "post"]
Activation = Literal["gelu", "relu", "swish"]
ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "gelu": functional.gelu,
    "relu": functional.relu,
    "swish": functional.silu,
}


# On a CPU layers at least so wide draw dropout four numbers at a time, and Transformers compute no
# padding in them. Below, it gains nothing.
WIDE = 256


class Dropout(nn.Dropout):
    """Dropout whose chance is rounded to 1 / 65536 in wide layers on a CPU.

    There torch draws 64 random bits for each number, which took a tenth of a training step; here 16
    of them decide.
    """

    def __init__(self, p: float, d_model: int) -> None:
        super().__init__(p)
        self.d_model = d_model

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        """Drop numbers in training, and scale the others so that the mean stays."""
        is_plain = not self.training or not self.p or self.d_model < WIDE or x.device.type != "cpu"
        if is_plain or torch.compiler.is_compiling():
            return super().forward(x)
        bits = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        dropped = min(2**16 - 1, round(self.p * 2**16))
        is_kept = bits.view(torch.int16)[: x.numel()].view(x.shape) >= dropped - 2**15
        return x * is_kept.to(x.dtype).mul_(2**16 / (2**16 - dropped))


class SourceEmbedding(nn.Module):
    """The way into every encoder: projection of features or embedding of tokens, then the stem.

    Source: document 000 (projection); documents 001, 002 and 004 (tokens).
    """

    def __init__(self, options: ModelOptions, input_width: int, *, width: int) -> None:
        super().__init__()
        self.width = width
        self.projection = (
            TokenEmbedding(input_width, width, is_scaled=options.embedding_scale)
            if options.source == "glosses"
            else nn.Linear(input_width, width)
        )
        self.subsampling = Subsampling(width, options.subsampling)

    def forward(
        self, src: SourceTensor, valid: Bool[Tensor, "B S"]
    ) -> tuple[Float[Tensor, "B M D"], Bool[Tensor, "B M"]]:
        """Return the source's vectors and which of them are real.

        Raises:
            ValueError: If one of them has another shape or type.
        """
        check_source(src, valid, getattr(self.projection, "in_features", None))
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


class TokenEmbedding(nn.Embedding):
    """A vector for each token id, times sqrt(D) where scaled.

    Source: document 000 (as it is), document 002 (scaled).
    """

    def __init__(self, vocab_size: int, d_model: int, *, is_scaled: bool) -> None:
        super().__init__(vocab_size, d_model)
        self.scale = math.sqrt(d_model) if is_scaled else 1.0

    def forward(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """Look the tokens up.

        Raises:
            ValueError: If they are no ids of rows, which on a GPU only PyTorch notices.
        """
        if tokens.ndim != 2 or tokens.is_floating_point():
            raise wrong_shape("tokens", tokens, "ids of shape (B, T)")
        try:
            return super().forward(tokens) * self.scale
        except IndexError:
            lowest, highest = tokens.min().item(), tokens.max().item()
            expected = f"0 to {self.num_embeddings - 1}"
            raise ValueError(
                f"tokens: found ids from {lowest} to {highest}, expected {expected}"
            ) from None


def check_source(src: SourceTensor, valid: Bool[Tensor, "B S"], width: int | None) -> None:
    """Raise a ValueError where an encoder gets other tensors than it takes.

    Args:
        src: Features or ids.
        valid: Which positions are real.
        width: Features of a frame, F; None of ids, which their embedding checks.
    """
    if width and (not src.is_floating_point() or src.ndim != 3 or src.shape[2] != width):
        raise wrong_shape("src", src, f"numbers of shape (B, S, {width})")
    if valid.dtype != torch.bool or valid.shape != src.shape[:2]:
        expected = f"bool of shape {tuple(src.shape[:2])}, as src has positions"
        raise wrong_shape("src_valid", valid, expected)


def wrong_shape(name: str, tensor: Tensor, expected: str) -> ValueError:
    """Return the error of a model that got another tensor than it takes."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    return ValueError(f"{name}: found {dtype} of shape {tuple(tensor.shape)}, expected {expected}")


class TiedEmbedding(nn.Module):
    """The embedding of another part, under no second name in the checkpoint.

    Source: Press and Wolf (2017), "three-way weight tying".
    """

    def __init__(self, embedding: nn.Embedding) -> None:
        super().__init__()
        self.embedding = (embedding,)

    def forward(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """Look the tokens up."""
        vectors: Tensor = self.embedding[0](tokens)
        return vectors


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

    def forward(self, x: Float[Tensor, "*N D"]) -> Float[Tensor, "*N V"]:
        """Return the logits of every position, however many dimensions they lie in."""
        return functional.linear(x, self.weight, self.bias)


# What projects states to logits; both have `weight` (V, D) and `bias` (V).
Head = nn.Linear | TiedProjection


def build_output(embedding: TokenEmbedding, d_model: int, *, is_tied: bool) -> Head:
    """Build the projection of states to the vocabulary of an embedding."""
    if is_tied:
        return TiedProjection(embedding)
    return nn.Linear(d_model, embedding.num_embeddings)


def sinusoids(length: int, d_model: int) -> Float[Tensor, "T D"]:
    """Return sine and cosine positions, interleaved, for `d_model` even.

    Source: Vaswani et al. (2017), section 3.5; documents 000 and 002.
    """
    # On the CPU also where a model is only planned: a range on the device "meta" imports torch's
    # compiler.
    position = torch.arange(length, dtype=torch.float32, device="cpu")[:, None]
    even = torch.arange(0, d_model, 2, device="cpu")
    rate = torch.exp(even * (-math.log(10_000.0) / d_model))
    return torch.stack((torch.sin(position * rate), torch.cos(position * rate)), dim=-1).flatten(1)


class PositionalEncoding(nn.Module):
    """Adds sinusoidal positions, then drops out; any length, the table grows when needed.

    Source: documents 000 and 002; `scaled`, by a learnt factor, document 003 and Li et al.
    (2019), "Neural speech synthesis with Transformer network"; `none` only drops out, so that a
    decoder has the order from what its causal mask hides, and an encoder does not (document 001).
    """

    table: Tensor

    def __init__(
        self, d_model: int, *, dropout: float, kind: Literal["sinusoidal", "scaled", "none"]
    ) -> None:
        super().__init__()
        self.dropout = Dropout(dropout, d_model)
        self.alpha = nn.Parameter(torch.ones(1)) if kind == "scaled" else None
        self.is_silent = kind == "none"
        # Not persistent: computed, so no checkpoint should carry it or limit its length.
        self.register_buffer("table", sinusoids(256, d_model), persistent=False)

    def forward(self, x: Float[Tensor, "B T D"], *, offset: int = 0) -> Float[Tensor, "B T D"]:
        """Add the positions offset, offset + 1, ... to `x`."""
        if self.is_silent:
            return self.dropout(x)
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
        self.dropout = Dropout(dropout, d_model)
        self.activation = ACTIVATIONS[activation]

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:
        """Transform each position by itself."""
        return self.project(self.dropout(self.activation(self.expand(x))))


class Residual(nn.Module):
    """A residual connection whose layer norm is before the block or after the sum.

    pre: x + w dropout(block(norm(x))); post: norm(x + w dropout(block(x))).

    Source: document 000 and Vaswani et al. (2017) post; document 002 and Xiong et al. (2020) pre;
    the weight w is 1, and a half for the Conformer's feed-forward blocks.
    """

    def __init__(self, d_model: int, *, dropout: float, norm: Norm, weight: float = 1.0) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout, d_model)
        self.is_pre = norm == "pre"
        self.weight = weight

    def forward(
        self, x: Float[Tensor, "*B D"], block: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "*B D"]:
        """Apply the block around the residual path."""
        if self.is_pre:
            return torch.add(x, self.dropout(block(self.norm(x))), alpha=self.weight)
        return self.norm(torch.add(x, self.dropout(block(x)), alpha=self.weight))


def initialise(model: nn.Module, options: ModelOptions) -> None:
    """Draw a model's weights, from torch's generator.

    `xavier`: matrices Glorot uniform, keys' and values' projections as the one matrix that they are
    here, 0.816 times as large as two; `xavier_each`: those each by itself, as document 002 draws
    them; `torch`: as PyTorch draws them, which is what document 000 leaves standing. Embeddings get
    a deviation of 1 once scaled, of the order of the positions that are added to them (0.7), for
    every size of vocabulary. (Document 002's are Xavier's, which shrink with the vocabulary: at
    D 512 they have 0.31 with 10,000 rows and 0.18 with 30,000.) Where they are tied they give the
    logits, too, and are drawn small even if nothing scales them.

    Source: Glorot and Bengio (2010); document 002.
    """
    if options.initialization != "torch":
        is_apart = options.initialization == "xavier_each"
        for name, parameter in model.named_parameters():
            parts = 2 if is_apart and name.endswith("key_value.weight") else 1
            if parameter.dim() > 1:
                for matrix in parameter.data.chunk(parts):
                    nn.init.xavier_uniform_(matrix)
    is_small = options.embedding_scale or options.tied_embeddings
    for module in model.modules():
        if isinstance(module, TokenEmbedding):
            nn.init.normal_(module.weight, std=module.embedding_dim**-0.5 if is_small else 1.0)
