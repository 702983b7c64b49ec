"""LSTM encoder and decoder, with or without attention.

Shape letters as in `seq2seq`; N layers of the encoder, L of the decoder.
"""

from dataclasses import dataclass
from typing import Any, Literal, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from signloom.models.attention import masked_softmax
from signloom.models.layers import SourceEmbedding, TokenEmbedding, build_output, initialise
from signloom.models.seq2seq import DecoderState, Memory, ModelOptions, Seq2Seq, SourceTensor


@dataclass(frozen=True, slots=True, eq=False)
class RecurrentMemory(Memory):
    """The encoder's outputs, and the state in which each of its layers ended."""

    hidden: Float[Tensor, "B N D"]
    cell: Float[Tensor, "B N D"]

    def select(self, rows: Int[Tensor, " R"]) -> "RecurrentMemory":
        """Return the memory of the given rows, in that order; rows may repeat."""
        return RecurrentMemory(
            *(x.index_select(0, rows) for x in (self.states, self.valid, self.hidden, self.cell))
        )


class LSTMEncoder(nn.Module):
    """The source's vectors, an LSTM over them, which may read both ways, and a layer norm.

    A direction has D numbers, or D / 2 where there are two, so the decoder is the same for both.
    The norm, which the last state does not pass, is ours: an LSTM's outputs are small, and
    attention and CTC head learn many times slower from them as they are.

    Source: Sutskever et al. (2014); both ways, Schuster and Paliwal (1997); document 001.
    """

    def __init__(self, options: ModelOptions, input_width: int) -> None:
        super().__init__()
        self.source = SourceEmbedding(options, input_width)
        self.dropout = nn.Dropout(options.dropout)
        directions = 2 if options.bidirectional else 1
        self.lstm = build_lstm(
            options, options.encoder_layers, options.d_model // directions, options.bidirectional
        )
        self.norm = nn.LayerNorm(options.d_model)

    def forward(self, src: SourceTensor, src_valid: Bool[Tensor, "B S"]) -> RecurrentMemory:
        """Read the real positions; padding is never read."""
        x, valid = self.source(src, src_valid)
        x = self.dropout(x * valid[..., None])
        # A clip without frames is read as one of zeros: a packed row must have a position.
        lengths = valid.sum(dim=1).clamp(min=1).cpu()
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        outputs, (hidden, cell) = run_lstm(self.lstm, packed)
        states, _ = pad_packed_sequence(outputs, batch_first=True, total_length=x.shape[1])
        return RecurrentMemory(
            self.norm(states), valid, self._by_layer(hidden), self._by_layer(cell)
        )

    def _by_layer(self, x: Float[Tensor, "ND B K"]) -> Float[Tensor, "B N D"]:
        """Put the directions of a layer beside each other."""
        by_layer = x.view(self.lstm.num_layers, -1, *x.shape[1:])  # (N, directions, B, K)
        return by_layer.permute(2, 0, 1, 3).flatten(2)


@dataclass(frozen=True, slots=True, eq=False)
class LSTMState(DecoderState):
    """The recurrent state of each beam, and what the attention of its clip needs."""

    hidden: Float[Tensor, "R L D"]  # R = B clips times W beams
    cell: Float[Tensor, "R L D"]
    keys: Float[Tensor, "B M D"] | None
    memory: Memory

    def select(self, rows: Int[Tensor, " K"]) -> "LSTMState":
        """Return the state of the given clips with their beams, in that order."""
        hidden, cell = (
            self._by_clip(x).index_select(0, rows).flatten(0, 1) for x in (self.hidden, self.cell)
        )
        return LSTMState(
            hidden,
            cell,
            None if self.keys is None else self.keys.index_select(0, rows),
            self.memory.select(rows),
        )

    def branch(self, parents: Int[Tensor, "B W"]) -> "LSTMState":
        """Return a state of W beams a clip, which continue the given beams of the same clip."""
        clips = torch.arange(len(parents), device=parents.device)[:, None]
        hidden, cell = (
            self._by_clip(x)[clips, parents].flatten(0, 1) for x in (self.hidden, self.cell)
        )
        return LSTMState(hidden, cell, self.keys, self.memory)

    def _by_clip(self, x: Float[Tensor, "R L D"]) -> Float[Tensor, "B W L D"]:
        return x.view(len(self.memory.states), -1, *x.shape[1:])


class LSTMDecoder(nn.Module):
    """Embeddings, an LSTM that starts where the encoder ended, and the output projection.

    With attention, the state s of each position is scored against the memory h, and
    tanh(W [c; s]) goes to the output, c being the mean of h weighted by the softmax of the scores.
    Every kind of score is used in this way, so that kinds differ in nothing else: Bahdanau et al.
    score the state before and feed c to the recurrence.

    Source: Sutskever et al. (2014); Luong et al. (2015), section 3; document 001.
    """

    def __init__(self, options: ModelOptions, vocab_size: int) -> None:
        super().__init__()
        d_model = options.d_model
        self.embedding = TokenEmbedding(vocab_size, d_model, is_scaled=options.embedding_scale)
        self.dropout = nn.Dropout(options.dropout)
        self.lstm = build_lstm(options, options.decoder_layers, d_model, is_bidirectional=False)
        self.score = (
            None if options.attention == "none" else AttentionScore(d_model, options.attention)
        )
        self.combine = None if self.score is None else nn.Linear(2 * d_model, d_model, bias=False)
        self.output = build_output(self.embedding, is_tied=options.tied_embeddings)

    def start(self, memory: RecurrentMemory) -> LSTMState:
        """Begin where the encoder ended.

        Layers are paired from the top; more decoder than encoder layers begin with the lowest.
        """
        encoder_layers, layers = memory.hidden.shape[1], self.lstm.num_layers
        pairs = [max(0, layer + encoder_layers - layers) for layer in range(layers)]
        keys = None if self.score is None else self.score.key(memory.states)
        return LSTMState(memory.hidden[:, pairs], memory.cell[:, pairs], keys, memory)

    def read(
        self, tokens: Int[Tensor, "R T"], state: LSTMState
    ) -> tuple[Float[Tensor, "R T D"], LSTMState]:
        """Feed tokens to the recurrence and return its outputs and the state after them."""
        x = self.dropout(self.embedding(tokens))
        before = tuple(part.transpose(0, 1).contiguous() for part in (state.hidden, state.cell))
        outputs, (hidden, cell) = run_lstm(self.lstm, x, before)
        after = LSTMState(hidden.transpose(0, 1), cell.transpose(0, 1), state.keys, state.memory)
        return self.dropout(outputs), after

    def weights(self, outputs: Float[Tensor, "B T D"], state: LSTMState) -> Float[Tensor, "B T M"]:
        """Return what each position gives each memory position.

        Raises:
            ValueError: If the decoder has no attention.
        """
        if self.score is None:
            raise ValueError(
                "this LSTM was built without attention (model.attention: none), so its decoder "
                "looks at no frame; there is no alignment to show"
            )
        return masked_softmax(self.score(outputs, state.keys), state.memory.valid[:, None])

    def forward(
        self, tokens: Int[Tensor, "R T"], state: LSTMState
    ) -> tuple[Float[Tensor, "R T V"], LSTMState]:
        """Return next-token logits of the new tokens and the state after them."""
        x, after = self.attend(*self.read(tokens, state))
        return self.output(x), after

    def attend(
        self, x: Float[Tensor, "R T D"], state: LSTMState
    ) -> tuple[Float[Tensor, "R T D"], LSTMState]:
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


class LSTMSeq2Seq(Seq2Seq):
    """LSTM encoder-decoder: the last state, or with attention the whole memory, is translated.

    Source: Sutskever et al. (2014); Luong et al. (2015); Bahdanau et al. (2015); document 001.
    """

    def __init__(
        self, options: ModelOptions, *, input_width: int, vocab_size: int, ctc_labels: int
    ) -> None:
        super().__init__()
        self.encoder = LSTMEncoder(options, input_width)
        self.decoder = LSTMDecoder(options, vocab_size)
        self.ctc = nn.Linear(options.d_model, ctc_labels) if ctc_labels else None
        initialise(self, options)
        if options.initialization == "xavier":
            for lstm in (self.encoder.lstm, self.decoder.lstm):
                initialise_recurrence(lstm)

    def encode(self, src: SourceTensor, src_valid: Bool[Tensor, "B S"]) -> RecurrentMemory:
        """Encode the source; padding influences nothing."""
        return self.encoder(src, src_valid)

    @property
    def head(self) -> nn.Module:
        """The projection of decoder states to logits."""
        return self.decoder.output

    def decode_states(self, memory: Memory, tgt_in: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """Return what the head projects at every position, given the true tokens before it."""
        states, _ = self.decoder.attend(*self.decoder.read(tgt_in, self.start(memory)))
        return states

    def start(self, memory: Memory) -> LSTMState:
        """Begin where the encoder ended; compute the keys of the attention, once."""
        return self.decoder.start(cast(RecurrentMemory, memory))

    def step(
        self, tokens: Int[Tensor, " R"], state: DecoderState
    ) -> tuple[Float[Tensor, "R V"], LSTMState]:
        """Feed one token a row and return the logits of the next one, and the new state."""
        logits, after = self.decoder(tokens[:, None], cast(LSTMState, state))
        return logits[:, 0], after

    def align(self, memory: Memory, tgt_in: Int[Tensor, "B T"]) -> Float[Tensor, "B T M"]:
        """Return where each target position looks.

        Raises:
            ValueError: If the decoder has no attention.
        """
        return self.decoder.weights(*self.decoder.read(tgt_in, self.start(memory)))


def build_lstm(options: ModelOptions, layers: int, width: int, is_bidirectional: bool) -> nn.LSTM:
    """Build the LSTM of an encoder or decoder."""
    return nn.LSTM(
        options.d_model,
        width,
        num_layers=layers,
        batch_first=True,
        dropout=options.dropout if layers > 1 else 0.0,  # between layers
        bidirectional=is_bidirectional,
    )


def run_lstm(
    lstm: nn.LSTM, x: Any, before: tuple[Tensor, ...] | None = None
) -> tuple[Any, tuple[Tensor, Tensor]]:
    """Run an LSTM over a tensor or packed sequence in the precision of its weights.

    Autocast stops here: rounding errors would add up from step to step, and oneDNN refuses the
    mixture on processors without bfloat16.
    """
    weight = next(lstm.parameters())
    with torch.autocast(weight.device.type, enabled=False):
        return lstm(x.to(weight.dtype), before)


def initialise_recurrence(lstm: nn.LSTM) -> None:
    """Draw orthogonal recurrent matrices and open the forget gates, so that memory lasts.

    Source: Saxe et al. (2014); Jozefowicz et al. (2015); the defaults of Keras, which document
    001 uses.
    """
    for name, parameter in lstm.named_parameters():
        if name.startswith("weight_hh"):
            nn.init.orthogonal_(parameter)
        elif name.startswith("bias"):
            nn.init.zeros_(parameter)
        if name.startswith("bias_ih"):
            with torch.no_grad():
                parameter[lstm.hidden_size : 2 * lstm.hidden_size] = 1.0  # gates: i, f, g, o
