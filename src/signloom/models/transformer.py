"""Transformer encoder and decoder, pre or post norm.

Shape letters as in `seq2seq`; N distances (2 M - 1), or in decoding the nodes of a clip's tree of
beams: W for each step so far, fewer at first; P positions of all clips that are not padding.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from signloom.models import layers
from signloom.models.attention import (
    DistanceEncoding,
    KeyValue,
    MultiHeadAttention,
    Packing,
)
from signloom.models.layers import (
    FeedForward,
    PositionalEncoding,
    Residual,
    SourceEmbedding,
    TokenEmbedding,
    build_output,
    initialise,
)
from signloom.models.seq2seq import (
    NO_DECODER,
    AttentionMaps,
    DecoderState,
    Memory,
    ModelOptions,
    Seq2Seq,
    SourceTensor,
)


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward, each around a residual path."""

    def __init__(self, options: ModelOptions) -> None:
        super().__init__()
        self.attention = build_attention(options, relative=options.positions == "relative")
        self.feed_forward = build_feed_forward(options)
        self.residuals = nn.ModuleList(build_residual(options) for _ in range(2))
        self.is_causal = options.causal_encoder

    def forward(
        self,
        x: Float[Tensor, "B M D"] | Float[Tensor, "P D"],
        valid: Bool[Tensor, "B M"],
        distances: Float[Tensor, "N D"] | None,
        maps: list[Tensor] | None = None,
        packing: Packing | None = None,
    ) -> Float[Tensor, "B M D"] | Float[Tensor, "P D"]:
        """Mix the real positions; where `maps` is given, put the attention at its end."""
        x = self.residuals[0](
            x,
            lambda y: self.attention.attend_self(
                y,
                valid=valid,
                is_causal=self.is_causal,
                distances=distances,
                maps=maps,
                packing=packing,
            ),
        )
        return self.residuals[1](x, self.feed_forward)


class TransformerEncoder(nn.Module):
    """The source's vectors, positions, layers and a final norm.

    Source: document 000 (19,955,200 parameters at input 2048, width 512, 6 layers, d_ff 2048,
    no attention bias, no subsampling); layer drop: document 003 and Fan et al. (2020).
    """

    def __init__(
        self,
        options: ModelOptions,
        input_width: int,
        layer: Callable[[ModelOptions], nn.Module] = EncoderLayer,
    ) -> None:
        super().__init__()
        d_model, dropout = options.d_model, options.dropout
        is_relative = options.positions == "relative"
        self.source = SourceEmbedding(options, input_width, width=d_model)
        self.positions = nn.Dropout(dropout) if is_relative else build_positions(options)
        self.distances = DistanceEncoding(d_model, dropout=dropout) if is_relative else None
        self.layers = nn.ModuleList(layer(options) for _ in range(options.encoder_layers))
        self.norm = nn.LayerNorm(d_model) if options.encoder_norm else nn.Identity()
        self.layer_drop = options.layer_drop
        # A convolution over time needs the positions side by side.
        self.can_pack = layer is EncoderLayer and not is_relative

    def forward(
        self, src: SourceTensor, src_valid: Bool[Tensor, "B S"], maps: list[Tensor] | None = None
    ) -> Memory:
        """Encode features or tokens; each layer puts its attention at the end of `maps`."""
        x, valid = self.source(src, src_valid)
        x = self.positions(x)
        distances = None if self.distances is None else self.distances(x)
        if self.can_pack and maps is None and pays_to_pack(x) and not valid.all():
            packing = Packing(valid.flatten().nonzero()[:, 0], (x.shape[0], x.shape[1]))
            packed = packing.pack(x)
            for layer in self._kept_layers():
                packed = layer(packed, valid, None, packing=packing)
            return Memory(packing.unpack(self.norm(packed)), valid)
        for layer in self._kept_layers():
            x = layer(x, valid, distances, maps)
        return Memory(self.norm(x), valid)

    def _kept_layers(self) -> Iterator[nn.Module]:
        """Yield the layers; in training without those that chance drops."""
        for layer in self.layers:
            if not (self.training and is_dropped(self.layer_drop)):
                yield layer


@dataclass(frozen=True, slots=True, eq=False)
class TransformerState(DecoderState):
    """Keys and values of the tokens so far and of the source, one pair a layer.

    The beams of a clip are a tree whose nodes share the axis of positions: a step appends one
    node a beam, and branching changes only which nodes each beam sees. No key is ever moved.
    """

    past: Sequence[KeyValue]  # empty before the first token
    memory: list[KeyValue]
    memory_valid: Bool[Tensor, "B M"]
    seen: Bool[Tensor, "B W N"] | None = None  # None: a single beam, which sees every node

    @property
    def length(self) -> int:
        """The number of tokens fed so far, to each beam."""
        if self.seen is not None:
            return int(self.seen[0, 0].sum())  # a beam's nodes
        return self.past[0].keys.shape[2] if self.past else 0

    def select(self, rows: Int[Tensor, " R"]) -> "TransformerState":
        """Return the state of the given clips with their beams, in that order."""
        return TransformerState(
            [pair.select(rows) for pair in self.past],
            [pair.select(rows) for pair in self.memory],
            self.memory_valid.index_select(0, rows),
            None if self.seen is None else self.seen.index_select(0, rows),
        )

    def branch(self, parents: Int[Tensor, "B W"]) -> "TransformerState":
        """Return a state of W beams a clip, which continue the given beams of the same clip."""
        visible = self.seen
        if visible is None:
            if parents.shape[1] == 1:
                return self
            visible = self.memory_valid.new_ones(len(parents), 1, self.length)
        nodes = parents[..., None].expand(-1, -1, visible.shape[2])
        return TransformerState(self.past, self.memory, self.memory_valid, visible.gather(1, nodes))

    def add_beams(self, width: int) -> "TransformerState":
        """Return the state in which each beam also sees the node that it is about to get."""
        if self.seen is None:
            return self
        own_node = torch.eye(width, dtype=torch.bool, device=self.seen.device)
        visible = torch.cat((self.seen, own_node.expand(len(self.seen), -1, -1)), dim=2)
        return TransformerState(self.past, self.memory, self.memory_valid, visible)


@dataclass(frozen=True, slots=True, eq=False)
class DecoderMaps:
    """Attention of the layers that have read so far, to the target and to the memory."""

    own: list[Float[Tensor, "B H T T"]] = field(default_factory=list)
    cross: list[Float[Tensor, "B H T M"]] = field(default_factory=list)


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the memory and feed-forward."""

    def __init__(self, options: ModelOptions) -> None:
        super().__init__()
        self.self_attention = build_attention(options)
        self.cross_attention = build_attention(options)
        self.feed_forward = build_feed_forward(options)
        self.residuals = nn.ModuleList(build_residual(options) for _ in range(3))

    def forward(
        self,
        x: Float[Tensor, "B T D"] | Float[Tensor, "P D"],
        past: KeyValue | None,
        memory: KeyValue,
        memory_valid: Bool[Tensor, "B M"],
        maps: DecoderMaps | None = None,
        visible: Bool[Tensor, "B T N"] | None = None,
        packing: Packing | None = None,
    ) -> tuple[Float[Tensor, "B T D"] | Float[Tensor, "P D"], KeyValue]:
        """Extend the sequence by T positions.

        Args:
            x: The new positions: the whole sequence in training, one of each beam in decoding.
            past: Keys and values of the earlier positions; None where there are none.
            memory: Projected source.
            memory_valid: Which source positions are real.
            maps: Where given, the attention is put at their ends.
            visible: Of several beams, which of all positions so far each new one follows.
            packing: Where given, the positions are packed.

        Returns:
            The new positions and the keys and values of all positions so far.
        """
        known: KeyValue

        def attend_self(y: Tensor) -> Tensor:
            nonlocal known
            new = self.self_attention.project(y, packing)
            known = new if past is None else past.append(new)
            # A single new position may see everything before it: no mask is needed.
            is_causal = past is None and visible is None
            return self.self_attention(
                y,
                known,
                visible=visible,
                is_causal=is_causal,
                maps=maps and maps.own,
                packing=packing,
            )

        def attend_memory(y: Tensor) -> Tensor:
            return self.cross_attention(
                y, memory, valid=memory_valid, maps=maps and maps.cross, packing=packing
            )

        x = self.residuals[0](x, attend_self)
        x = self.residuals[1](x, attend_memory)
        return self.residuals[2](x, self.feed_forward), known


class DecoderStack(nn.Module):
    """Embeddings, positions, layers and the projection to the vocabulary."""

    layer: Callable[[ModelOptions], nn.Module]

    def __init__(self, options: ModelOptions, vocab_size: int) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(
            vocab_size, options.d_model, is_scaled=options.embedding_scale
        )
        self.positions = build_positions(options)
        build = type(self).layer
        self.layers = nn.ModuleList(build(options) for _ in range(options.decoder_layers))
        self.norm = nn.LayerNorm(options.d_model) if options.decoder_norm else nn.Identity()
        self.output = build_output(self.embedding, options.d_model, is_tied=options.tied_embeddings)
        self.layer_drop = options.layer_drop


class TransformerDecoder(DecoderStack):
    """A stack that looks at the memory.

    Token padding needs no mask: it comes after the real tokens, which causal attention hides.

    Source: document 000 (158,455,760 parameters at 130,000 tokens, width 512, 6 layers, d_ff
    2048, post norm, no final norm); document 002 for the embedding scale and the final norm.
    """

    layer = DecoderLayer

    def project(self, memory: Memory) -> list[KeyValue]:
        """Project the memory once for every layer."""
        return [
            cast(DecoderLayer, layer).cross_attention.project(memory.states)
            for layer in self.layers
        ]

    def read(
        self, tokens: Int[Tensor, "B T"], state: TransformerState, maps: DecoderMaps | None = None
    ) -> tuple[Float[Tensor, "B T D"], TransformerState]:
        """Return what the output projects of the new tokens and the state after them.

        Where `maps` is given, each layer puts its attention at the ends.
        """
        x = self.positions(self.embedding(tokens), offset=state.length)
        return self._extend(x, state, maps)

    def read_rows(
        self, tokens: Int[Tensor, "B T"], state: TransformerState, rows: Int[Tensor, " P"]
    ) -> Float[Tensor, "P D"]:
        """Return what the output projects of some positions; all before one must be among them."""
        packing = Packing(rows, (tokens.shape[0], tokens.shape[1]))
        x = packing.pack(self.positions(self.embedding(tokens)))
        return self._extend(x, state, packing=packing)[0]

    def step(
        self, tokens: Int[Tensor, "B W"], state: TransformerState
    ) -> tuple[Float[Tensor, "B W V"], TransformerState]:
        """Feed one token of each beam; return the logits of the next one and the new state."""
        clips, width = tokens.shape
        x = self.positions(self.embedding(tokens.reshape(-1, 1)), offset=state.length)
        x, after = self._extend(x.view(clips, width, -1), state.add_beams(width))
        return self.output(x), after

    def _extend(
        self,
        x: Float[Tensor, "B T D"] | Float[Tensor, "P D"],
        state: TransformerState,
        maps: DecoderMaps | None = None,
        packing: Packing | None = None,
    ) -> tuple[Float[Tensor, "B T D"] | Float[Tensor, "P D"], TransformerState]:
        """Return what the output projects of embedded tokens and the state after them."""
        past: list[KeyValue] = []
        for index, layer in enumerate(self.layers):
            # In training nothing goes on from the state, which then lacks this layer.
            if self.training and is_dropped(self.layer_drop):
                continue
            before = state.past[index] if state.past else None
            x, key_value = layer(
                x, before, state.memory[index], state.memory_valid, maps, state.seen, packing
            )
            past.append(key_value)
        after = TransformerState(past, state.memory, state.memory_valid, state.seen)
        return self.norm(x), after


class Transformer(Seq2Seq):
    """Encoder-decoder Transformer.

    Source: Vaswani et al. (2017); documents 000 and 002. The CTC head over glosses on the
    encoder follows Camgöz et al. (2020), "Sign Language Transformers".
    """

    encodes_in_parts = True

    def __init__(
        self, options: ModelOptions, *, input_width: int, vocab_size: int, ctc_labels: int
    ) -> None:
        super().__init__()
        self.encoder = self.build_encoder(options, input_width)
        self.has_decoder = options.decoder_layers > 0
        if self.has_decoder:
            self.decoder = TransformerDecoder(options, vocab_size)
        self.ctc = nn.Linear(options.d_model, ctc_labels) if ctc_labels else None
        self.feedback: TokenEmbedding | None = None  # of the CTC labels
        if options.ctc_feedback and ctc_labels and self.has_decoder:
            self.feedback = TokenEmbedding(
                ctc_labels, options.d_model, is_scaled=options.embedding_scale
            )
        initialise(self, options)

    @staticmethod
    def build_encoder(options: ModelOptions, input_width: int) -> nn.Module:
        """Build what gives the memory."""
        return TransformerEncoder(options, input_width)

    def decode_states(self, memory: Memory, tgt_in: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """Return what the head projects at every position, given the true tokens before it."""
        states, _ = self.decoder.read(tgt_in, self.start(memory))
        return states

    def decode_rows(
        self, memory: Memory, tgt_in: Int[Tensor, "B T"], rows: Int[Tensor, " P"]
    ) -> Float[Tensor, "P D"]:
        """Return `decode_states` of some positions; wide models compute no others."""
        if not pays_to_pack(memory.states):
            return super().decode_rows(memory, tgt_in, rows)
        return self.decoder.read_rows(tgt_in, self.start(memory), rows)

    def start(self, memory: Memory) -> TransformerState:
        """Project the memory to keys and values, once."""
        source = self.project(memory)
        if not self.training:  # many steps read them; one of training would only copy them
            source = [pair.contiguous() for pair in source]
        return TransformerState([], source, memory.valid)

    def project(self, memory: Memory) -> list[KeyValue]:
        """Project what each layer of the decoder looks at.

        With `ctc_feedback` that is the memory plus the mean embedding of the labels that the CTC
        head gives each position: what was signed, freed of who signed it and how.

        Source: Nozaki and Komatsu (2021), "Relaxing the conditional independence assumption of
        CTC-based ASR by conditioning on intermediate predictions", within an encoder.
        """
        if self.feedback is not None:
            labels = self.ctc_logits(memory).softmax(dim=-1)
            read = labels @ self.feedback.weight * self.feedback.scale
            memory = Memory(memory.states + read, memory.valid)
        return self.decoder.project(memory)

    def step(
        self, tokens: Int[Tensor, " R"], state: DecoderState
    ) -> tuple[Float[Tensor, "R V"], TransformerState]:
        """Feed one token a row and return the logits of the next one, and the new state."""
        before = cast(TransformerState, state)
        logits, after = self.decoder.step(tokens.view(len(before.memory_valid), -1), before)
        return logits.flatten(0, 1), after

    def align(self, memory: Memory, tgt_in: Int[Tensor, "B T"]) -> Float[Tensor, "B T M"]:
        """Return where each target position looks, the mean over heads and layers."""
        if not self.has_decoder:
            raise ValueError(NO_DECODER)
        maps = DecoderMaps()
        self.decoder.read(tgt_in, self.start(memory), maps)
        return torch.stack([layer.mean(dim=1) for layer in maps.cross]).mean(dim=0)

    def attention_maps(
        self, src: SourceTensor, src_valid: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> AttentionMaps:
        """Return the attention of every layer and head."""
        encoder: list[Tensor] = []
        memory = self.encoder(src, src_valid, encoder)
        maps = DecoderMaps()
        if self.has_decoder:
            self.decoder.read(tgt_in, self.start(memory), maps)
        return AttentionMaps.of(encoder, maps.own, maps.cross)


def pays_to_pack(x: Float[Tensor, "B M D"]) -> bool:
    """Return whether layers should skip padding: a GPU would have to be waited for."""
    is_traced = torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None
    return x.shape[2] >= layers.WIDE and x.device.type == "cpu" and not is_traced


def build_attention(options: ModelOptions, *, relative: bool = False) -> MultiHeadAttention:
    """Build an attention block of the model's width."""
    return MultiHeadAttention(
        options.d_model,
        options.heads,
        dropout=options.dropout,
        bias=options.attention_bias,
        relative=relative,
    )


def build_feed_forward(options: ModelOptions) -> FeedForward:
    """Build a feed-forward block of the model's width."""
    return FeedForward(
        options.d_model, options.d_ff, dropout=options.dropout, activation=options.activation
    )


def build_positions(options: ModelOptions) -> PositionalEncoding:
    """Build the absolute positions of an encoder or decoder."""
    # Where the encoder has relative positions, the decoder has sinusoids.
    kind = "sinusoidal" if options.positions == "relative" else options.positions
    return PositionalEncoding(options.d_model, dropout=options.dropout, kind=kind)


def is_dropped(layer_drop: float) -> bool:
    """Draw whether a layer is skipped this time; nothing is drawn where none ever is.

    Drawn on the CPU: the choice is made there, and one seed serves every device.
    """
    return bool(layer_drop) and bool(torch.rand(()) < layer_drop)


def build_residual(options: ModelOptions, *, weight: float = 1.0) -> Residual:
    """Build the residual connection of one block."""
    return Residual(options.d_model, dropout=options.dropout, norm=options.norm, weight=weight)
