"""Decoder-only Transformer: one stack of layers reads the source as a prefix and goes on writing.

Shape letters as in `seq2seq`; N nodes of a clip's tree of beams, as in `transformer`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from signloom.models.attention import KeyValue
from signloom.models.layers import SourceEmbedding, initialise
from signloom.models.seq2seq import (
    AttentionMaps,
    DecoderState,
    Memory,
    ModelOptions,
    Seq2Seq,
    SourceTensor,
)
from signloom.models.transformer import (
    DecoderStack,
    TransformerState,
    build_attention,
    build_feed_forward,
    build_positions,
    build_residual,
    is_dropped,
)


@dataclass(frozen=True, slots=True, eq=False)
class PrefixMemory(Memory):
    """The source after all layers, and its keys and values in each."""

    layers: Sequence[KeyValue]

    def select(self, rows: Int[Tensor, " R"]) -> "PrefixMemory":
        """Return the memory of the given rows, in that order; rows may repeat."""
        return PrefixMemory(
            self.states.index_select(0, rows),
            self.valid.index_select(0, rows),
            [pair.select(rows) for pair in self.layers],
        )

    def emptied(self) -> "PrefixMemory":
        """Return a memory of as many rows with one position of zeros in every layer."""
        empty = Memory.emptied(self)
        layers = [
            KeyValue(torch.zeros_like(x.keys[:, :, :1]), torch.zeros_like(x.values[:, :, :1]))
            for x in self.layers
        ]
        return PrefixMemory(empty.states, empty.valid, layers)


class PrefixLayer(nn.Module):
    """Self-attention over source and target, and feed-forward, each around a residual path."""

    def __init__(self, options: ModelOptions) -> None:
        super().__init__()
        self.attention = build_attention(options)
        self.feed_forward = build_feed_forward(options)
        self.residuals = nn.ModuleList(build_residual(options) for _ in range(2))

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        before: Sequence[KeyValue],
        visible: Bool[Tensor, "B T N"],
        maps: list[Tensor] | None = None,
    ) -> tuple[Float[Tensor, "B T D"], KeyValue]:
        """Extend what was read by T positions.

        Args:
            x: The new positions.
            before: Keys and values of the earlier positions, in order.
            visible: Which of all positions so far, the new ones included, each new one sees.
            maps: Where given, what each position gives all of them, (B, H, T, N), is put at its
                end.

        Returns:
            The new positions, and their keys and values.
        """
        key_value: KeyValue

        def attend(y: Tensor) -> Tensor:
            nonlocal key_value
            key_value = self.attention.project(y)
            every = [*before, key_value]
            all_keys = KeyValue(
                torch.cat([pair.keys for pair in every], dim=2),
                torch.cat([pair.values for pair in every], dim=2),
            )
            return self.attention(y, all_keys, visible=visible, maps=maps)

        x = self.residuals[0](x, attend)
        return self.residuals[1](x, self.feed_forward), key_value


class PrefixReader(nn.Module):
    """What turns the source into the first positions of the stack."""

    def __init__(self, options: ModelOptions, input_width: int) -> None:
        super().__init__()
        self.source = SourceEmbedding(options, input_width, width=options.d_model)
        self.positions = build_positions(options)
        self.norm = nn.LayerNorm(options.d_model) if options.encoder_norm else nn.Identity()
        self.is_causal = options.causal_encoder


class PrefixDecoder(DecoderStack):
    """A stack whose layers source and target share.

    Positions of the target begin at 0 again; its embeddings tell it from the source.
    """

    layer = PrefixLayer


class DecoderOnly(Seq2Seq):
    """One causal stack of `decoder_layers`, whose source positions see the whole source.

    Document 001 names it (GPT), document 004 compares it with encoder-only and encoder-decoder.

    Source: Radford et al. (2018); the prefix that sees itself both ways, Raffel et al. (2020),
    section 3.2.1 ("prefix LM"), which `causal_encoder` turns off.
    """

    def __init__(
        self, options: ModelOptions, *, input_width: int, vocab_size: int, ctc_labels: int
    ) -> None:
        super().__init__()
        self.encoder = PrefixReader(options, input_width)
        self.decoder = PrefixDecoder(options, vocab_size)
        self.ctc = nn.Linear(options.d_model, ctc_labels) if ctc_labels else None
        initialise(self, options)

    def encode(self, src: SourceTensor, src_valid: Bool[Tensor, "B S"]) -> PrefixMemory:
        """Read the source; padding influences nothing."""
        return self._read_source(src, src_valid)

    def _read_source(
        self, src: SourceTensor, src_valid: Bool[Tensor, "B S"], maps: list[Tensor] | None = None
    ) -> PrefixMemory:
        x, valid = self.encoder.source(src, src_valid)
        x = self.encoder.positions(x)
        visible = valid[:, None].expand(-1, x.shape[1], -1)
        if self.encoder.is_causal:
            visible = visible.tril()
        layers = []
        for layer in self.decoder.layers:
            x, key_value = layer(x, [], visible, maps)
            layers.append(key_value)
        return PrefixMemory(self.encoder.norm(x), valid, layers)

    def decode_states(self, memory: Memory, tgt_in: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """Return what the head projects at every position, given the true tokens before it."""
        return self._read(tgt_in, memory)

    def start(self, memory: Memory) -> TransformerState:
        """Begin after the source."""
        return TransformerState([], list(cast(PrefixMemory, memory).layers), memory.valid)

    def step(
        self, tokens: Int[Tensor, " R"], state: DecoderState
    ) -> tuple[Float[Tensor, "R V"], TransformerState]:
        """Feed one token a row and return the logits of the next one, and the new state."""
        before = cast(TransformerState, state)
        clips = len(before.memory_valid)
        width = len(tokens) // clips
        x = self.decoder.embedding(tokens[:, None])
        x = self.decoder.positions(x, offset=before.length).view(clips, width, -1)
        after = before.add_beams(width)
        nodes = after.seen
        if nodes is None:
            nodes = before.memory_valid.new_ones(clips, width, before.length + 1)
        visible = torch.cat((before.memory_valid[:, None].expand(-1, width, -1), nodes), dim=2)
        past = []
        for index, layer in enumerate(self.decoder.layers):
            earlier = [before.past[index]] if before.past else []
            x, key_value = layer(x, [before.memory[index], *earlier], visible)
            past.append(earlier[0].append(key_value) if earlier else key_value)
        logits = self.decoder.output(self.decoder.norm(x))
        return logits.flatten(0, 1), replace(after, past=past)

    def align(self, memory: Memory, tgt_in: Int[Tensor, "B T"]) -> Float[Tensor, "B T M"]:
        """Return where in the source each target position looks, the mean over heads and layers.

        What it gives the target is left out, and the rest sums to 1.
        """
        maps: list[Tensor] = []
        self._read(tgt_in, memory, maps)
        weights = torch.stack([layer.mean(dim=1) for layer in maps]).mean(dim=0)[
            ..., : memory.valid.shape[1]
        ]
        total = weights.sum(dim=-1, keepdim=True)
        return weights / total.clamp(min=torch.finfo(weights.dtype).tiny)

    def attention_maps(
        self, src: SourceTensor, src_valid: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> AttentionMaps:
        """Return the attention of every layer and head: the source's, and the target's to both."""
        source: list[Tensor] = []
        target: list[Tensor] = []
        memory = self._read_source(src, src_valid, source)
        self._read(tgt_in, memory, target)
        length = memory.valid.shape[1]
        target_maps = [layer[..., length:] for layer in target]
        return AttentionMaps.of(source, target_maps, [layer[..., :length] for layer in target])

    def _read(
        self, tgt_in: Int[Tensor, "B T"], memory: Memory, maps: list[Tensor] | None = None
    ) -> Float[Tensor, "B T D"]:
        """Return what the output projects of a whole target."""
        x = self.decoder.positions(self.decoder.embedding(tgt_in))
        length = x.shape[1]
        past = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
        source = memory.valid[:, None].expand(-1, length, -1)
        visible = torch.cat((source, past.expand(len(x), -1, -1)), dim=2)
        for layer, prefix in zip(
            self.decoder.layers, cast(PrefixMemory, memory).layers, strict=True
        ):
            if self.training and is_dropped(self.decoder.layer_drop):
                continue
            x, _ = layer(x, [prefix], visible, maps)
        return self.decoder.norm(x)
