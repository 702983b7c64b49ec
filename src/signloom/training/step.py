"""A model and a batch come in, the sums that an optimiser step minimises go out.

Shape letters: B clips, T target positions, N real next tokens among them, D model width.
"""

from typing import NamedTuple, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from signloom.corpus.batches import Batch
from signloom.models.seq2seq import Memory, Seq2Seq
from signloom.models.tokens import Head
from signloom.training.loss import ctc_loss, head_loss, head_score, spellable
from signloom.training.options import TrainOptions


class Losses(NamedTuple):
    """Sums over the clips of a batch, nats."""

    text: Float[Tensor, ""]  # smoothed cross entropy
    spelt: Float[Tensor, ""]  # CTC; 0 without it


class Counts(NamedTuple):
    """What a batch holds, each a number of float64 so that sums of any size are right."""

    tokens: Tensor | float  # next tokens
    labels: Tensor | float  # CTC labels of the clips that have room for theirs
    skipped: Tensor | float  # clips without room
    frames: Tensor | float  # real source frames
    places: Tensor | float  # source frames with padding


class TrainingStep(nn.Module):
    """What a batch costs. Divided by the counts of all its parts it is the loss to minimise.

    So the parts of a batch may be taken one after another, or on several devices: the gradients
    add up to those of the whole.
    """

    def __init__(self, model: Seq2Seq, options: TrainOptions, *, pad: int, subsampling: int):
        """Take the model and how it is trained.

        Args:
            model: On its device.
            options: Smoothing, share of the CTC loss, hidden tokens.
            pad: Token id that stands for a hidden token.
            subsampling: Source frames for each position of the model's memory.
        """
        super().__init__()
        self.model, self.options, self.pad, self.subsampling = model, options, pad, subsampling
        self._encode, self._decode = model.encode, model.decode_states
        if options.compile:
            self._encode = torch.compile(model.encode, dynamic=True)
            self._decode = torch.compile(model.decode_states, dynamic=True)

    def forward(self, batch: Batch, rows: Int[Tensor, " N"]) -> Losses:
        """Return what a part of a batch costs.

        Args:
            batch: On the model's device.
            rows: Where its real next tokens are, as `real_rows` gives them.
        """
        return self.cost(batch, rows, *self.read(batch, rows))

    def read(self, batch: Batch, rows: Int[Tensor, " N"]) -> tuple[Memory, Float[Tensor, "N D"]]:
        """Return the memory, and the states from which the real next tokens are guessed."""
        memory = self._encode(batch.src, batch.src_valid)
        tgt_in = batch.tgt[:, :-1]
        if self.options.token_drop:
            # A decoder that cannot trust its own past has to look at the signing.
            hidden = torch.rand(tgt_in.shape, device=tgt_in.device) < self.options.token_drop
            tgt_in = tgt_in.masked_fill(hidden, self.pad)
        return memory, self._decode(memory, tgt_in).flatten(0, 1).index_select(0, rows)

    def cost(
        self, batch: Batch, rows: Int[Tensor, " N"], memory: Memory, states: Float[Tensor, "N D"]
    ) -> Losses:
        """Return the losses of what `read` has returned."""
        head = cast(Head, self.model.head)
        targets = batch.tgt[:, 1:].flatten().index_select(0, rows)
        text = head_loss(
            states, head.weight, head.bias, targets, label_smoothing=self.options.label_smoothing
        )
        spelt = text.new_zeros(())
        if self.options.ctc_weight:
            logits = self.model.ctc_logits(memory)
            spelt, _ = ctc_loss(logits, memory.valid, batch.labels, batch.label_lengths)
        return Losses(text, spelt)

    def count(self, batch: Batch) -> Float[Tensor, " 5"]:
        """Return the `Counts` of a batch that is still on the CPU, without running the model."""
        labels = skipped = torch.tensor(0)
        if self.options.ctc_weight:
            # A position of the memory is real when the frame in its centre is.
            valid = batch.src_valid[:, :: self.subsampling]
            counted = spellable(valid, batch.labels, batch.label_lengths)
            labels = batch.label_lengths[counted].sum()
            skipped = (batch.label_lengths > 0).sum() - counted.sum()
        tokens, frames = batch.tgt_valid[:, 1:].sum(), batch.src_valid.sum()
        places = torch.tensor(batch.src_valid.numel())
        return torch.stack((tokens, labels, skipped, frames, places)).double()

    def mean(self, losses: Losses, counts: Counts) -> Float[Tensor, ""]:
        """Return the share of a part in the loss of its batch, nats a token (and a label).

        Args:
            losses: Of the part.
            counts: Of all parts of the batch.
        """
        text = losses.text / torch.as_tensor(counts.tokens, dtype=losses.text.dtype)
        if not self.options.ctc_weight:
            return text
        labels = torch.as_tensor(counts.labels, dtype=losses.spelt.dtype).clamp(min=1)
        share = self.options.ctc_weight
        return (1 - share) * text + share * losses.spelt / labels


def real_rows(batch: Batch) -> Int[Tensor, " N"]:
    """Return where real next tokens are among all B x (T - 1), on the device of the batch.

    Found on the CPU, before the batch moves: a GPU would have to be waited for.
    """
    return batch.tgt_valid[:, 1:].flatten().nonzero()[:, 0]


def score_batch(model: Seq2Seq, batch: Batch, rows: Int[Tensor, " N"]) -> Float[Tensor, " 3"]:
    """Return plain cross entropy (nats), right guesses and next tokens, teacher-forced."""
    memory = model.encode(batch.src, batch.src_valid)
    states = model.decode_states(memory, batch.tgt[:, :-1]).flatten(0, 1).index_select(0, rows)
    targets = batch.tgt[:, 1:].flatten().index_select(0, rows)
    head = cast(Head, model.head)
    loss, right = head_score(states, head.weight, head.bias, targets)
    return torch.stack((loss.double(), right.double(), right.new_tensor(len(rows)).double()))
