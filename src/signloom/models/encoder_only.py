"""Encoder-only Transformer: a sentence is what the frames spell by CTC, one token after another.

Shape letters as in `seq2seq`, and N = M + 1 times (before the first position and after each), L
labels with the blank, C labels added at once, K beams taken of each clip.
"""

from dataclasses import dataclass, replace
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from signloom.models.layers import initialise
from signloom.models.seq2seq import (
    AttentionMaps,
    DecoderState,
    Memory,
    ModelOptions,
    Seq2Seq,
    SourceTensor,
)
from signloom.models.transformer import TransformerEncoder

BLANK = 0
# The log-probability of what has no labels or no alignment: finite, so that beams can still be
# told apart and gradients are numbers, and far below any that a network gives.
IMPOSSIBLE = -1e4
# No alignment at all; small enough that what it takes part in stays below `IMPOSSIBLE`.
NEVER = 2 * IMPOSSIBLE
# The least log-probability of one label after a prefix; beyond it, nothing is learnt from it.
LEAST = -100.0


@dataclass(frozen=True, slots=True, eq=False)
class LabelPrefixes:
    """A prefix of labels for each beam of each clip.

    Source: Watanabe et al. (2017), "Hybrid CTC/attention architecture for end-to-end speech
    recognition", algorithm 2; the recursion over positions is written as cumulative sums.
    """

    emissions: Float[Tensor, "B M L"]  # log-probabilities of the labels at each position
    by_label: Float[Tensor, "B W N"]
    """Log-probability, at each time, of all alignments of the prefix that end there in a label,
    shape (B, W, N)."""
    by_blank: Float[Tensor, "B W N"]  # the same for those that end in a blank
    last: Int[Tensor, "B W"]  # the last label of each prefix; the blank where it is empty
    log_probs: Float[Tensor, "B W"]  # of all label sequences that begin with the prefix

    @classmethod
    def start(cls, logits: Float[Tensor, "B M L"], valid: Bool[Tensor, "B M"]) -> "LabelPrefixes":
        """Return the empty prefix of each clip, one beam.

        Args:
            logits: Of the labels at each memory position.
            valid: Which positions are real.
        """
        emissions = logits.double().log_softmax(dim=-1)
        # In padding a blank is certain, which leaves every sum as it is.
        silence = torch.full_like(emissions[0, 0], IMPOSSIBLE)
        silence[BLANK] = 0.0
        emissions = torch.where(valid[..., None], emissions, silence)
        by_blank = functional.pad(emissions[..., BLANK].cumsum(dim=1), (1, 0))[:, None]
        nothing = by_blank[..., 0]
        last = torch.full_like(nothing, BLANK, dtype=torch.int64)
        return cls(emissions, torch.full_like(by_blank, NEVER), by_blank, last, nothing.clone())

    def take(self, beams: Int[Tensor, "B K"]) -> "LabelPrefixes":
        """Return the given beams of each clip."""
        times = beams[..., None].expand(-1, -1, self.by_label.shape[2])
        return LabelPrefixes(
            self.emissions,
            self.by_label.gather(1, times),
            self.by_blank.gather(1, times),
            self.last.gather(1, beams),
            self.log_probs.gather(1, beams),
        )

    def select(self, rows: Int[Tensor, " R"]) -> "LabelPrefixes":
        """Return the prefixes of the given clips."""
        every = (self.emissions, self.by_label, self.by_blank, self.last, self.log_probs)
        return LabelPrefixes(*(x.index_select(0, rows) for x in every))

    def extend(self, labels: Int[Tensor, "B W C"]) -> "LabelPrefixes":
        """Append labels to each prefix, one after another.

        Args:
            labels: From 1. A blank appends nothing; a negative one is no label.
        """
        after = self
        for column in labels.unbind(dim=2):
            after = after._append(column)
        return after

    def continuations(self) -> Float[Tensor, "B W L"]:
        """Return the log-probability of each label after each prefix; of the blank, that none is.

        Given the prefix: the numbers of a row are those of a distribution.
        """
        before = torch.logaddexp(self.by_label, self.by_blank)[..., :-1]  # (B, W, M)
        emitted = _sum_products(before, self.emissions)
        # A label may follow itself only after a blank.
        last = self.last[..., None]
        own = self.emissions.gather(
            2, last.transpose(1, 2).expand(-1, self.emissions.shape[1], -1)
        ).transpose(1, 2)
        repeated = (self.by_blank[..., :-1] + own).logsumexp(dim=-1, keepdim=True)
        whole = torch.logaddexp(self.by_label[..., -1:], self.by_blank[..., -1:])
        found = emitted.scatter(2, last, repeated)
        found = torch.cat((whole, found[..., BLANK + 1 :]), dim=-1)
        # After what is impossible itself, everything is equally so.
        is_possible = self.log_probs[..., None] > IMPOSSIBLE / 2
        return torch.where(is_possible, found - self.log_probs[..., None], LEAST).clamp(min=LEAST)

    def end(self, is_whole: Bool[Tensor, "B W"]) -> "LabelPrefixes":
        """Make the log-probability of some prefixes that of nothing coming after them."""
        whole = torch.logaddexp(self.by_label[..., -1], self.by_blank[..., -1])
        log_probs = torch.where(is_whole, whole.clamp(min=IMPOSSIBLE), self.log_probs)
        return replace(self, log_probs=log_probs)

    def _append(self, labels: Int[Tensor, "B W"]) -> "LabelPrefixes":
        positions = self.emissions.shape[1]
        index = labels.clamp(min=0)[:, None].expand(-1, positions, -1)
        emit = self.emissions.gather(2, index).transpose(1, 2)  # (B, W, M)
        emit = emit.masked_fill(labels[..., None] < 0, IMPOSSIBLE)
        blank = self.emissions[:, None, :, BLANK].expand_as(emit)
        # A label may follow itself only after a blank.
        either = torch.logaddexp(self.by_label, self.by_blank)
        is_repeat = (labels == self.last)[..., None]
        before = torch.where(is_repeat, self.by_blank, either)[..., :-1]
        by_label = functional.pad(_carry(before, emit), (1, 0), value=NEVER)
        by_blank = functional.pad(_carry(by_label[..., :-1], blank), (1, 0), value=NEVER)
        log_probs = (before + emit).logsumexp(dim=-1).clamp(min=IMPOSSIBLE)
        is_new = labels != BLANK
        return LabelPrefixes(
            self.emissions,
            torch.where(is_new[..., None], by_label, self.by_label),
            torch.where(is_new[..., None], by_blank, self.by_blank),
            torch.where(is_new, labels, self.last),
            torch.where(is_new, log_probs, self.log_probs),
        )


@dataclass(frozen=True, slots=True, eq=False)
class EncoderOnlyState(DecoderState):
    """The tokens so far of each beam, as prefixes of labels; `is_new` before the first token."""

    prefixes: LabelPrefixes
    is_new: bool

    def select(self, rows: Int[Tensor, " R"]) -> "EncoderOnlyState":
        """Return the state of the given clips with their beams, in that order."""
        return replace(self, prefixes=self.prefixes.select(rows))

    def branch(self, parents: Int[Tensor, "B W"]) -> "EncoderOnlyState":
        """Return a state of W beams a clip, which continue the given beams of the same clip."""
        return replace(self, prefixes=self.prefixes.take(parents))


class EncoderOnly(Seq2Seq):
    """A Transformer encoder that emits at most one token of the target at each position.

    The probability of a sentence is that of all alignments (CTC). It is written as a product over
    tokens, each given the tokens before it, so that search, training and teacher forcing are those
    of every family: the cross entropy of a sentence with its end is the CTC loss. A sentence of
    more tokens than positions is impossible.

    Document 004 compares it with decoder-only and encoder-decoder, document 001 names it (BERT).

    Source: Graves et al. (2006); prefixes, Watanabe et al. (2017).
    """

    guesses_from_tokens = False

    def __init__(
        self, options: ModelOptions, *, input_width: int, vocab_size: int, ctc_labels: int, eos: int
    ) -> None:
        super().__init__()
        self.encoder = TransformerEncoder(options, input_width)
        # No position emits eos, so its row is the blank's.
        self.emit = nn.Linear(options.d_model, vocab_size)
        self.eos = eos
        self.ctc = nn.Linear(options.d_model, ctc_labels) if ctc_labels else None
        initialise(self, options)

    def encode(self, src: SourceTensor, src_valid: Bool[Tensor, "B S"]) -> Memory:
        """Encode the source; padding influences nothing."""
        return self.encoder(src, src_valid)

    @property
    def head(self) -> nn.Module:
        """Nothing: the decoder's states are the logits."""
        return nn.Identity()

    def decode_states(self, memory: Memory, tgt_in: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """Return the log-probability of every next token, given the true tokens before it."""
        state = self.start(memory)
        rows = []
        for column in tgt_in.unbind(dim=1):
            logits, state = self.step(column, state)
            rows.append(logits)
        return torch.stack(rows, dim=1)

    def start(self, memory: Memory) -> EncoderOnlyState:
        """Find what each position emits."""
        logits = self.emit(memory.states)
        # The blank first, as in every CTC head; where eos was, nothing can be emitted.
        blank = logits[..., self.eos, None]
        tokens = logits.index_fill(
            2, torch.tensor([self.eos], device=logits.device), torch.finfo(logits.dtype).min
        )
        prefixes = LabelPrefixes.start(torch.cat((blank, tokens), dim=-1), memory.valid)
        return EncoderOnlyState(prefixes, is_new=True)

    def step(
        self, tokens: Int[Tensor, " R"], state: DecoderState
    ) -> tuple[Float[Tensor, "R V"], EncoderOnlyState]:
        """Feed one token a row and return the logits of the next one, and the new state.

        The first token begins the sentence and is no label.
        """
        before = cast(EncoderOnlyState, state)
        prefixes = before.prefixes
        if not before.is_new:
            labels = tokens.view(len(prefixes.emissions), -1, 1) + 1
            prefixes = prefixes.extend(labels)
        found = prefixes.continuations()
        end, tokens_log_probs = found[..., :1], found[..., 1:]
        eos = torch.tensor([self.eos], device=found.device)
        logits = tokens_log_probs.index_copy(2, eos, end).to(self.emit.weight.dtype)
        return logits.flatten(0, 1), EncoderOnlyState(prefixes, is_new=False)

    def align(self, memory: Memory, tgt_in: Int[Tensor, "B T"]) -> Float[Tensor, "B T M"]:
        """Return at which position the next token comes, given the true tokens before it."""
        state = self.start(memory)
        rows = []
        for column in tgt_in.unbind(dim=1):
            _, state = self.step(column, state)
            prefixes = state.prefixes
            before = torch.logaddexp(prefixes.by_label, prefixes.by_blank)[:, 0, :-1]
            emits = (-prefixes.emissions[..., BLANK].expm1()).clamp(min=1e-30).log()
            weights = (before + emits).masked_fill(~memory.valid, IMPOSSIBLE).softmax(dim=-1)
            rows.append(weights * memory.valid)
        return torch.stack(rows, dim=1).to(memory.states.dtype)

    def attention_maps(
        self, src: SourceTensor, src_valid: Bool[Tensor, "B S"], tgt_in: Int[Tensor, "B T"]
    ) -> AttentionMaps:
        """Return the attention of the encoder; there is no decoder that attends."""
        maps: list[Tensor] = []
        self.encoder(src, src_valid, maps)
        return AttentionMaps.of(maps, [], [])


def _sum_products(
    before: Float[Tensor, "B W M"], emissions: Float[Tensor, "B M L"]
) -> Float[Tensor, "B W L"]:
    """Return log sum over m of exp(before[m] + emissions[m]), as one matrix product.

    In float64 a product of probabilities may be as small as exp(-700) beside the largest.
    """
    most = before.amax(dim=-1, keepdim=True).detach()
    total = (before - most).exp() @ emissions.exp()
    return total.clamp(min=torch.finfo(total.dtype).tiny).log() + most


def _carry(
    entering: Float[Tensor, "B W M"], kept: Float[Tensor, "B W M"]
) -> Float[Tensor, "B W M"]:
    """Return log r of r[t] = (r[t - 1] + entering[t]) kept[t], all in logarithms, r[-1] = 0."""
    total = kept.cumsum(dim=-1)
    return total + (entering - (total - kept)).logcumsumexp(dim=-1)
