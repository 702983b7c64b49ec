"""Transformer encoder and decoder, pre or post norm.

Landmark features come in, logits over the target vocabulary go out. Shape letters as in
`seq2seq`.
"""

import math
from dataclasses import dataclass
from typing import cast

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from signloom.models.attention import KeyValue, MultiHeadAttention
from signloom.models.layers import FeedForward, PositionalEncoding, Residual, Subsampling
from signloom.models.seq2seq import DecoderState, Memory, ModelOptions, Seq2Seq


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward, each around a residual path."""

    def __init__(self, options: ModelOptions) -> None:
        super().__init__()
        self.attention = build_attention(options)
        self.feed_forward = build_feed_forward(options)
        self.residuals = build_residuals(options, 2)

    def forward(
        self, x: Float[Tensor, "B M D"], valid: Bool[Tensor, "B M"]
    ) -> Float[Tensor, "B M D"]:
        """Mix the real positions."""
        x = self.residuals[0](
            x, lambda y: self.attention(y, self.attention.project(y), valid=valid)
        )
        return self.residuals[1](x, self.feed_forward)


class TransformerEncoder(nn.Module):
    """Projection, optional subsampling, positions, layers and a final norm.

    Source: document 000 (19,955,200 parameters at input 2048, width 512, 6 layers, d_ff 2048,
    no attention bias, no subsampling).
    """

    def __init__(self, options: ModelOptions, input_width: int) -> None:
        super().__init__()
        self.input_projection = nn.Linear(input_width, options.d_model)
        self.subsampling = Subsampling(options.d_model, options.subsampling)
        self.positions = PositionalEncoding(options.d_model, dropout=options.dropout)
        self.layers = nn.ModuleList(EncoderLayer(options) for _ in range(options.encoder_layers))
        self.norm = nn.LayerNorm(options.d_model)

    def forward(self, src: Float[Tensor, "B S F"], src_valid: Bool[Tensor, "B S"]) -> Memory:
        """Encode feature sequences."""
        x, valid = self.subsampling(self.input_projection(src), src_valid)
        x = self.positions(x)
        for layer in self.layers:
            x = layer(x, valid)
        return Memory(self.norm(x), valid)


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the memory and feed-forward."""

    def __init__(self, options: ModelOptions) -> None:
        super().__init__()
        self.self_attention = build_attention(options)
        self.cross_attention = build_attention(options)
        self.feed_forward = build_feed_forward(options)
        self.residuals = build_residuals(options, 3)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        past: KeyValue | None,
        memory: KeyValue,
        memory_valid: Bool[Tensor, "B M"],
    ) -> tuple[Float[Tensor, "B T D"], KeyValue]:
        """Extend the sequence by T positions.

        Args:
            x: The new positions: the whole sequence in training, one position in decoding.
            past: Keys and values of the earlier positions; None where there are none.
            memory: Projected source.
            memory_valid: Which source positions are real.

        Returns:
            The new positions and the keys and values of all positions so far.
        """
        known: KeyValue

        def attend_self(y: Tensor) -> Tensor:
            nonlocal known
            new = self.self_attention.project(y)
            known = new if past is None else past.append(new)
            # A single new position may see everything before it: no mask is needed.
            return self.self_attention(y, known, is_causal=past is None)

        x = self.residuals[0](x, attend_self)
        x = self.residuals[1](x, lambda y: self.cross_attention(y, memory, valid=memory_valid))
        return self.residuals[2](x, self.feed_forward), known


class TransformerDecoder(nn.Module):
    """Embeddings, positions, layers and the projection to the vocabulary.

    Token padding needs no mask: it stands after the real tokens, which causal attention hides.
    A final norm exists only with pre-norm layers, whose last sum is not normalised.

    Source: document 000 (158,455,760 parameters at 130,000 tokens, width 512, 6 layers, d_ff
    2048, post norm); document 002 for the embedding scale and the final norm.
    """

    def __init__(self, options: ModelOptions, vocab_size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, options.d_model)
        self.positions = PositionalEncoding(options.d_model, dropout=options.dropout)
        self.layers = nn.ModuleList(DecoderLayer(options) for _ in range(options.decoder_layers))
        is_pre = options.norm == "pre"
        self.norm = nn.LayerNorm(options.d_model) if is_pre else nn.Identity()
        self.output = nn.Linear(options.d_model, vocab_size)
        self.scale = math.sqrt(options.d_model)

    def project(self, memory: Memory) -> list[KeyValue]:
        """Project the memory once for every layer."""
        return [
            cast(DecoderLayer, layer).cross_attention.project(memory.states)
            for layer in self.layers
        ]

    def forward(
        self, tokens: Int[Tensor, "B T"], state: "TransformerState"
    ) -> tuple[Float[Tensor, "B T V"], "TransformerState"]:
        """Return next-token logits of the new tokens and the state after them."""
        x = self.positions(self.embedding(tokens) * self.scale, offset=state.length)
        past: list[KeyValue] = []
        for index, layer in enumerate(self.layers):
            before = state.past[index] if state.past else None
            x, known = layer(x, before, state.memory[index], state.memory_valid)
            past.append(known)
        logits = self.output(self.norm(x))
        return logits, TransformerState(past, state.memory, state.memory_valid)


@dataclass(frozen=True, slots=True, eq=False)
class TransformerState(DecoderState):
    """Keys and values of the tokens so far and of the source, one pair a layer."""

    past: list[KeyValue]  # empty before the first token
    memory: list[KeyValue]
    memory_valid: Bool[Tensor, "B M"]

    @property
    def length(self) -> int:
        """The number of tokens fed so far."""
        return self.past[0].keys.shape[2] if self.past else 0

    def select(self, rows: Int[Tensor, " R"]) -> "TransformerState":
        """Return the state of the given rows, in that order."""
        return TransformerState(
            [pair.select(rows) for pair in self.past],
            [pair.select(rows) for pair in self.memory],
            self.memory_valid.index_select(0, rows),
        )


class Transformer(Seq2Seq):
    """Encoder-decoder Transformer from landmark features to text.

    Source: Vaswani et al. (2017); documents 000 and 002. The CTC head over glosses on the
    encoder follows Camgöz et al. (2020), "Sign Language Transformers".
    """

    def __init__(
        self, options: ModelOptions, *, input_width: int, vocab_size: int, ctc_labels: int
    ) -> None:
        super().__init__()
        self.encoder = TransformerEncoder(options, input_width)
        self.decoder = TransformerDecoder(options, vocab_size)
        self.ctc = nn.Linear(options.d_model, ctc_labels) if ctc_labels else None
        self._initialise(options.d_model)

    def _initialise(self, d_model: int) -> None:
        """Xavier for matrices as document 002 has it, but small embeddings.

        Embeddings are multiplied by sqrt(d_model); a standard deviation of d_model ** -0.5 gives
        them the size of the positions. With N(0, 1) they would drown them.
        """
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
        nn.init.normal_(self.decoder.embedding.weight, std=d_model**-0.5)

    def encode(self, src: Float[Tensor, "B S F"], src_valid: Bool[Tensor, "B S"]) -> Memory:
        """Encode the source; padded frames influence nothing."""
        return self.encoder(src, src_valid)

    def decode(self, memory: Memory, tgt_in: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """Return the logits of every next token, given the true tokens before it."""
        logits, _ = self.decoder(tgt_in, self.start(memory))
        return logits

    def start(self, memory: Memory) -> TransformerState:
        """Project the memory to keys and values, once."""
        return TransformerState([], self.decoder.project(memory), memory.valid)

    def step(
        self, tokens: Int[Tensor, " B"], state: DecoderState
    ) -> tuple[Float[Tensor, "B V"], TransformerState]:
        """Feed one token a row and return the logits of the next one, and the new state."""
        logits, after = self.decoder(tokens[:, None], cast(TransformerState, state))
        return logits[:, 0], after

    def ctc_logits(self, memory: Memory) -> Float[Tensor, "B M L"]:
        """Return the logits of the CTC labels (0 = blank) at each memory position."""
        if self.ctc is None:
            raise ValueError("this model was built without a CTC head (train.ctc_weight was 0)")
        return self.ctc(memory.states)


def build_attention(options: ModelOptions) -> MultiHeadAttention:
    """Build an attention block of the model's width."""
    return MultiHeadAttention(
        options.d_model, options.heads, dropout=options.dropout, bias=options.attention_bias
    )


def build_feed_forward(options: ModelOptions) -> FeedForward:
    """Build a feed-forward block of the model's width."""
    return FeedForward(
        options.d_model, options.d_ff, dropout=options.dropout, activation=options.activation
    )


def build_residuals(options: ModelOptions, count: int) -> nn.ModuleList:
    """Build the residual connections of one layer."""
    return nn.ModuleList(
        Residual(options.d_model, dropout=options.dropout, norm=options.norm) for _ in range(count)
    )
