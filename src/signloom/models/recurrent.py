"""Recurrent encoder and decoder (RNN, GRU, LSTM), with or without attention.

Shape letters as in `seq2seq`; N layers of the encoder, L of the decoder.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from signloom.models.attention import masked_softmax
from signloom.models.layers import SourceEmbedding, TokenEmbedding, build_output, initialise
from signloom.models.seq2seq import (
    AttentionMaps,
    DecoderState,
    Memory,
    ModelOptions,
    Seq2Seq,
    SourceTensor,
)

# What a layer remembers are hidden numbers, and of an LSTM those of its cell, too.
RECURRENCES = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}
Recurrence = nn.RNN | nn.GRU | nn.LSTM


@dataclass(frozen=True, slots=True, eq=False)
class RecurrentMemory(Memory):
    """The encoder's outputs, and the state in which each of its layers ended."""

    ends: tuple[Float[Tensor, "B N D"], ...]  # hidden, and of an LSTM cell

    def select(self, rows: Int[Tensor, " R"]) -> "RecurrentMemory":
        """Return the memory of the given rows, in that order; rows may repeat."""
        return RecurrentMemory(
            self.states.index_select(0, rows),
            self.valid.index_select(0, rows),
            tuple(x.index_select(0, rows) for x in self.ends),
        )

    def emptied(self) -> "RecurrentMemory":
        """Return a memory of as many rows with one position of zeros, which ended in zeros."""
        empty = Memory.emptied(self)
        ends = tuple(torch.zeros_like(x) for x in self.ends)
        return RecurrentMemory(empty.states, empty.valid, ends)


class RecurrentEncoder(nn.Module):
    """The source's vectors, a recurrence over them, which may read both ways, and a layer norm.

    A direction has D numbers, or D / 2 where there are two, so the decoder is the same for both.
    The norm, which the last state does not pass, is ours: a recurrence's outputs are small, and
    attention and CTC head learn many times slower from them as they are.

    Source: Sutskever et al. (2014); both ways, Schuster and Paliwal (1997); document 001.
    """

    def __init__(self, options: ModelOptions, input_width: int) -> None:
        super().__init__()
        self.source = SourceEmbedding(options, input_width, width=entering_width(options))
        self.dropout = nn.Dropout(options.dropout)
        directions = 2 if options.bidirectional else 1
        self.recurrence = build_recurrence(
            options, options.encoder_layers, options.d_model // directions, options.bidirectional
        )
        self.norm = nn.LayerNorm(options.d_model) if options.encoder_norm else nn.Identity()

    def forward(self, src: SourceTensor, src_valid: Bool[Tensor, "B S"]) -> RecurrentMemory:
        """Read the real positions; padding is never read."""
        x, valid = self.source(src, src_valid)
        x = self.dropout(x * valid[..., None])
        # A clip without frames is read as one of zeros: a packed row must have a position.
        lengths = valid.sum(dim=1).clamp(min=1).cpu()
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        outputs, ends = run_recurrence(self.recurrence, packed)
        states, _ = pad_packed_sequence(outputs, batch_first=True, total_length=x.shape[1])
        return RecurrentMemory(self.norm(states), valid, tuple(map(self._by_layer, ends)))

    def _by_layer(self, x: Float[Tensor, "ND B K"]) -> Float[Tensor, "B N D"]:
        """Put the directions of a layer next to each other."""
        by_layer = x.view(self.recurrence.num_layers, -1, *x.shape[1:])  # (N, directions, B, K)
        return by_layer.permute(2, 0, 1, 3).flatten(2)


@dataclass(frozen=True, slots=True, eq=False)
class RecurrentState(DecoderState):
    """The recurrent state of each beam, and what the attention of its clip needs."""

    now: tuple[Float[Tensor, "R L D"], ...]  # hidden, and of an LSTM cell; R = B clips x W beams
    keys: Float[Tensor, "B M D"] | None
    memory: Memory

    def select(self, rows: Int[Tensor, " K"]) -> "RecurrentState":
        """Return the state of the given clips with their beams, in that order."""
        return RecurrentState(
            tuple(self._by_clip(x).index_select(0, rows).flatten(0, 1) for x in self.now),
            None if self.keys is None else self.keys.index_select(0, rows),
            self.memory.select(rows),
        )

    def branch(self, parents: Int[Tensor, "B W"]) -> "RecurrentState":
        """Return a state of W beams a clip, which continue the given beams of the same clip."""
        clips = torch.arange(len(parents), device=parents.device)[:, None]
        now = tuple(self._by_clip(x)[clips, parents].flatten(0, 1) for x in self.now)
        return replace(self, now=now)

    def _by_clip(self, x: Float[Tensor, "R L D"]) -> Float[Tensor, "B W L D"]:
        return x.view(len(self.memory.states), -1, *x.shape[1:])


class RecurrentDecoder(nn.Module):
    """Embeddings, a recurrence that starts where the encoder ended, and the output projection.

    With attention, the state s of each position is scored against the memory h, and
    tanh(W [c; s]) goes to the output, c being the mean of h weighted by the softmax of the scores.
    Every kind of score is used in this way, so that kinds differ in nothing else: Bahdanau et al.
    score the state before and feed c to the recurrence.

    Source: Sutskever et al. (2014); Luong et al. (2015), section 3; document 001.
    """

    def __init__(self, options: ModelOptions, vocab_size: int) -> None:
        super().__init__()
        d_model = options.d_model
        self.embedding = TokenEmbedding(
            vocab_size, entering_width(options), is_scaled=options.embedding_scale
        )
        self.dropout = nn.Dropout(options.dropout)
        self.recurrence = build_recurrence(
            options, options.decoder_layers, d_model, is_bidirectional=False
        )
        self.score = (
            None if options.attention == "none" else AttentionScore(d_model, options.attention)
        )
        self.combine = None if self.score is None else nn.Linear(2 * d_model, d_model)
        self.output = build_output(self.embedding, d_model, is_tied=options.tied_embeddings)

    def start(self, memory: RecurrentMemory) -> RecurrentState:
        """Begin where the encoder ended.

        Layers are paired from the top; more decoder than encoder layers begin with the lowest.
        """
        encoder_layers, layers = memory.ends[0].shape[1], self.recurrence.num_layers
        pairs = [max(0, layer + encoder_layers - layers) for layer in range(layers)]
        keys = None if self.score is None else self.score.key(memory.states)
        return RecurrentState(tuple(x[:, pairs] for x in memory.ends), keys, memory)

    def read(
        self, tokens: Int[Tensor, "R T"], state: RecurrentState
    ) -> tuple[Float[Tensor, "R T D"], RecurrentState]:
        """Feed tokens to the recurrence and return its outputs and the state after them."""
        x = self.dropout(self.embedding(tokens))
        before = tuple(part.transpose(0, 1).contiguous() for part in state.now)
        outputs, after = run_recurrence(self.recurrence, x, before)
        now = tuple(part.transpose(0, 1) for part in after)
        return self.dropout(outputs), replace(state, now=now)

    def weights(
        self, outputs: Float[Tensor, "B T D"], state: RecurrentState
    ) -> Float[Tensor, "B T M"]:
        """Return what each position gives each memory position.

        Raises:
            ValueError: If the decoder has no attention.
        """
        if self.score is None:
            raise ValueError(
                "this model was built without attention (model.attention: none), so its decoder "
                "looks at no frame; there is no alignment to show"
            )
        return masked_softmax(self.score(outputs, state.keys), state.memory.valid[:, None])

    def forward(
        self, tokens: Int[Tensor, "R T"], state: RecurrentState
    ) -> tuple[Float[Tensor, "R T V"], RecurrentState]:
        """Return next-token logits of the new tokens and the state after them."""
        x, after = self.attend(*self.read(tokens, state))
        return self.output(x), after

    def attend(
        self, x: Float[Tensor, "R T D"], state: RecurrentState
    ) -> tuple[Float[Tensor, "R T D"], RecurrentState]:
        """Add to the recurrence's outputs what they find in the memory; the state stays."""
        if self.combine is not None:
            # Beams of a clip look at the same memory: as positions, they need no copies of it.
            by_clip = x.reshape(len(state.memory.states), -1, x.shape[2])
            context = (self.weights(by_clip, state) @ state.memory.states).view(x.shape)
            x = self.dropout(torch.tanh(self.combine(torch.cat((context, x), dim=-1))))
        return x, state


class AttentionScore(nn.Module):
    """Scores of decoder states s against memory states h.

    dot: s h; general: s (W h); additive: v tanh(W1 s + W2 h). What depends on h alone, W h or
    W2 h, are the keys, computed once a clip.

    Source: Luong et al. (2015), section 3.1 (dot, general); Bahdanau et al. (2015), section 3.1
    (additive); document 001.
    """

    def __init__(self, d_model: int, kind: Literal["dot", "general", "additive"]) -> None:
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


class RecurrentSeq2Seq(Seq2Seq):
    """Recurrent encoder-decoder: the last state, or with attention the whole memory, is translated.

    Source: Sutskever et al. (2014); Luong et al. (2015); Bahdanau et al. (2015); document 001.
    """

    def __init__(
        self, options: ModelOptions, *, input_width: int, vocab_size: int, ctc_labels: int
    ) -> None:
        super().__init__()
        self.encoder = RecurrentEncoder(options, input_width)
        self.decoder = RecurrentDecoder(options, vocab_size)
        self.ctc = nn.Linear(options.d_model, ctc_labels) if ctc_labels else None
        initialise(self, options)
        if options.initialization != "torch":
            for recurrence in (self.encoder.recurrence, self.decoder.recurrence):
                initialise_recurrence(recurrence)

    def decode_states(self, memory: Memory, tgt_in: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """Return what the head projects at every position, given the true tokens before it."""
        states, _ = self.decoder.attend(*self.decoder.read(tgt_in, self.start(memory)))
        return states

    def start(self, memory: Memory) -> RecurrentState:
        """Begin where the encoder ended; compute the keys of the attention, once."""
        return self.decoder.start(cast(RecurrentMemory, memory))

    def step(
        self, tokens: Int[Tensor, " R"], state: DecoderState
    ) -> tuple[Float[Tensor, "R V"], RecurrentState]:
        """Feed one token a row and return the logits of the next one, and the new state."""
        logits, after = self.decoder(tokens[:, None], cast(RecurrentState, state))
        return logits[:, 0], after

    def align(self, memory: Memory, tgt_in: Int[Tensor, "B T"]) -> Float[Tensor, "B T M"]:
        """Return where each target position looks.

        Raises:
            ValueError: If the decoder has no attention.
        """
        return self.decoder.weights(*self.decoder.read(tgt_in, self.start(memory)))

    def attention_maps(
        self, src: SourceTensor, src_valid: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> AttentionMaps:
        """Return the decoder's one map of the memory; nothing of one without attention."""
        if self.decoder.score is None:
            return AttentionMaps()
        cross = self.align(self.encode(src, src_valid), tgt_in)
        return AttentionMaps(cross=cross[:, None, None])


def entering_width(options: ModelOptions) -> int:
    """Return how many numbers of a frame or token enter the recurrence."""
    return options.embedding_width or options.d_model


def build_recurrence(
    options: ModelOptions, layers: int, width: int, is_bidirectional: bool
) -> Recurrence:
    """Build the recurrence of an encoder or decoder."""
    return RECURRENCES[options.family](
        entering_width(options),
        width,
        num_layers=layers,
        batch_first=True,
        dropout=options.dropout if layers > 1 else 0.0,  # between layers
        bidirectional=is_bidirectional,
    )


def run_recurrence(
    recurrence: Recurrence, x: Any, before: tuple[Tensor, ...] | None = None
) -> tuple[Any, tuple[Tensor, ...]]:
    """Run over a tensor or packed sequence in the precision of the weights.

    Autocast stops here: rounding errors would add up from step to step, and oneDNN refuses the
    mixture on processors without bfloat16.
    """
    weight = next(recurrence.parameters())
    has_cell = isinstance(recurrence, nn.LSTM)
    with torch.autocast(weight.device.type, enabled=False):
        start = before if has_cell or before is None else before[0]
        outputs, after = recurrence(x.to(weight.dtype), start)
    return outputs, after if has_cell else (after,)


def initialise_recurrence(recurrence: Recurrence) -> None:
    """Draw orthogonal recurrent matrices and open an LSTM's forget gates, so that memory lasts.

    Source: Saxe et al. (2014); Jozefowicz et al. (2015); the defaults of Keras, which document
    001 uses.
    """
    for name, parameter in recurrence.named_parameters():
        if name.startswith("weight_hh"):
            nn.init.orthogonal_(parameter)
        elif name.startswith("bias"):
            nn.init.zeros_(parameter)
        if name.startswith("bias_ih") and isinstance(recurrence, nn.LSTM):
            width = recurrence.hidden_size
            with torch.no_grad():
                parameter[width : 2 * width] = 1.0  # gates: i, f, g, o
