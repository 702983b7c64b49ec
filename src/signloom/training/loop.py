"""The training loop: one optimiser step, epochs with early stopping, and what is recorded of them.

The file is in the order of a step: the losses of a batch, the gradients of its parts, the update of
the weights; then epochs, snapshots and records.

Shape letters: B clips, T target positions, N real next tokens among them, D model width.
"""

import gc
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from lightning_fabric import Fabric
from torch import Tensor, nn

from signloom.errors import UserError
from signloom.features.batches import Batch, BuiltAhead, EpochBatches, deal_batch
from signloom.log import ONCE
from signloom.models.seq2seq import Memory, Seq2Seq
from signloom.training.loss import (
    consistency_loss,
    count_read,
    ctc_loss,
    has_ctc_room,
    pool_labels,
    text_loss,
    text_score,
)
from signloom.training.optim import Schedule, build_optimizer, clip_gradients
from signloom.training.options import TrainOptions
from signloom.training.parallel import all_reduce, all_reduce_gradients, count_builders
from signloom.training.snapshots import Snapshots, State

# Minimum seconds between progress reports. Reading a GPU result makes the program wait for the GPU.
REPORT_S = 0.3
# Extra seed number, so dropout and augmentation get different random numbers.
DROPOUT_STREAM = 1
logger = logging.getLogger(__name__)


class DivergedError(UserError):
    """The loss is NaN or infinite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRecord:
    """What one epoch did; losses in nats a token, of a model without a decoder in nats a label."""

    epoch: int  # from 1
    step: int  # optimiser steps so far
    # Smoothed cross entropy of augmented clips, as minimised, with the distance of `consistency`.
    train_loss: float
    train_ctc_loss: float  # nats a label; 0 without CTC
    ctc_skipped: int  # clips with more labels than memory positions, left out of that loss
    dev_loss: float  # plain cross entropy
    # Accuracy of the next token when the previous true tokens are given (teacher forcing); without
    # a decoder, the share of the labels that are those of clips read without an error.
    dev_accuracy: float
    lr: float
    grad_norm: float  # mean before clipping
    frames: int  # real source frames
    tokens: int  # next tokens
    padding: float  # share of the source positions that are padding


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """How far training is within an epoch."""

    epoch: int  # from 1
    step: int  # steps of the epoch that are done
    steps: int  # of the epoch
    loss: float  # mean of the epoch so far, as `EpochRecord.train_loss`
    lr: float
    frames: int  # of the epoch so far
    tokens: int
    padding: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The result of training."""

    weights: dict[str, Tensor]  # of the epoch with the lowest dev loss; without patience, the last
    best_epoch: int  # whose weights these are
    dev_loss: float
    history: list[EpochRecord]


class Losses(NamedTuple):
    """Sums over the clips of a batch, nats."""

    text: Float[Tensor, ""]  # smoothed cross entropy; without a decoder, CTC's
    ctc: Float[Tensor, ""]  # 0 without it


class BatchCounts(NamedTuple):
    """What a batch holds, each a number of float64 so that sums of any size are right."""

    tokens: Tensor | float  # next tokens; without a decoder, labels
    labels: Tensor | float  # CTC labels of the clips that have room for theirs
    skipped: Tensor | float  # clips without room
    frames: Tensor | float  # real source frames
    padded_frames: Tensor | float  # source frames with padding


class BatchLoss(nn.Module):
    """The losses of a batch: cross entropy of the text, CTC of the labels.

    Divided by the counts of all its parts they are minimised, so the parts of a batch may be taken
    one after another, or on several devices: the gradients add up to those of the whole.
    """

    is_pooled = False  # whether a clip has one label, read from the mean over its positions

    def __init__(self, model: Seq2Seq, options: TrainOptions, *, pad: int, subsampling: int):
        """Take the model and how it is trained.

        Args:
            model: On its device.
            options: Smoothing, share of the CTC loss, hidden tokens.
            pad: Token id that replaces a hidden token.
            subsampling: Source frames for each position of the model's memory.
        """
        super().__init__()
        self.model, self.options, self.pad, self.subsampling = model, options, pad, subsampling

    def forward(self, batch: Batch, rows: Int[Tensor, " N"]) -> Losses:
        """Return the losses of a part of a batch, from one pass or two.

        Args:
            batch: On the model's device.
            rows: Where its real next tokens are, as `real_rows` gives them.
        """
        passes, losses = [], []
        rows = rows if self.model.has_decoder else rows[:0]
        for _ in range(self.passes):
            passes.append(self.run_model(batch, rows))
            losses.append(self.losses(batch, rows, *passes[-1]))
        return self.join(losses, [states for _, states in passes])

    @property
    def passes(self) -> int:
        """How often a step runs the model: twice with `train.consistency`."""
        return 2 if self.options.consistency else 1

    def join(self, losses: Sequence[Losses], states: Sequence[Float[Tensor, "N D"]]) -> Losses:
        """Return the losses of one pass; of two their mean and the consistency loss.

        Args:
            losses: The losses of each pass.
            states: What it predicts from.
        """
        if len(losses) == 1:
            return losses[0]
        first, second = losses
        apart = self.options.consistency * consistency_loss(self.model.head, *states)
        return Losses((first.text + second.text + apart) / 2, (first.ctc + second.ctc) / 2)

    def run_model(
        self, batch: Batch, rows: Int[Tensor, " N"]
    ) -> tuple[Memory, Float[Tensor, "N D"]]:
        """Return the memory, and the states from which the real next tokens are predicted."""
        memory = self.model.encode(batch.src, batch.src_valid)
        if not len(rows):
            return memory, memory.states.new_zeros(0, memory.states.shape[2])
        tgt_in = batch.tgt[:, :-1]
        if self.options.token_drop:
            # Hiding some input tokens forces the decoder to use the video, not only the previous
            # words.
            hidden = torch.rand(tgt_in.shape, device=tgt_in.device) < self.options.token_drop
            tgt_in = tgt_in.masked_fill(hidden, self.pad)
        return memory, self.model.decode_rows(memory, tgt_in, rows)

    def losses(
        self, batch: Batch, rows: Int[Tensor, " N"], memory: Memory, states: Float[Tensor, "N D"]
    ) -> Losses:
        """Return the losses of what `run_model` has returned."""
        text = ctc = memory.states.new_zeros(())
        if self.model.has_decoder:
            targets = batch.tgt[:, 1:].flatten().index_select(0, rows)
            text = text_loss(self.model.head, states, targets, self.options.label_smoothing)
        if self.options.ctc_weight:
            ctc, _ = ctc_loss(*self.label_logits(memory), batch.labels, batch.label_lengths)
        if self.model.spells_tokens:
            text, _ = ctc_loss(self.model.text_logits(memory), memory.valid, *spell(batch))
        elif not self.model.has_decoder:
            text = ctc
        return Losses(text, ctc)

    def label_logits(self, memory: Memory) -> tuple[Float[Tensor, "B P K"], Bool[Tensor, "B P"]]:
        """Return the logits of the CTC labels, and which positions are real."""
        logits = self.model.ctc_logits(memory)
        return pool_labels(logits, memory.valid) if self.is_pooled else (logits, memory.valid)

    def count(self, batch: Batch) -> Float[Tensor, " 5"]:
        """Return the `BatchCounts` of a batch on the CPU, without running the model."""
        labels = skipped = torch.tensor(0)
        # A position of the memory is real when the frame in its centre is.
        valid = batch.src_valid[:, :: self.subsampling]
        if self.options.ctc_weight:
            counted = has_ctc_room(valid, batch.labels, batch.label_lengths)
            labels = batch.label_lengths[counted].sum()
            skipped = (batch.label_lengths > 0).sum() - counted.sum()
        tokens = batch.tgt_valid[:, 1:].sum() if self.model.has_decoder else labels
        if self.model.spells_tokens:
            spelt = spell(batch)
            tokens = spelt[1][has_ctc_room(valid, *spelt)].sum()
        frames, padded = batch.src_valid.sum(), torch.tensor(batch.src_valid.numel())
        return torch.stack((tokens, labels, skipped, frames, padded)).double()

    def mean(self, losses: Losses, counts: BatchCounts) -> Float[Tensor, ""]:
        """Return the share of a part in the loss of its batch, nats a token (and a label).

        Args:
            losses: Of the part.
            counts: Of all parts of the batch.
        """
        tokens = torch.as_tensor(counts.tokens, dtype=losses.text.dtype)
        text = losses.text / tokens.clamp(min=1)
        if not self.options.ctc_weight:
            return text
        labels = torch.as_tensor(counts.labels, dtype=losses.ctc.dtype).clamp(min=1)
        share = self.options.ctc_weight
        return (1 - share) * text + share * losses.ctc / labels

    def score(self, batch: Batch, rows: Int[Tensor, " N"]) -> Float[Tensor, " 4"]:
        """Return cross entropy and right predictions, teacher-forced, each with its tokens.

        Without a decoder they are CTC's loss and the labels of clips that are read rightly.
        """
        memory = self.model.encode(batch.src, batch.src_valid)
        if not self.model.has_decoder:
            if self.model.spells_tokens:
                spelt = self.model.text_logits(memory), memory.valid, *spell(batch)
            else:
                spelt = (*self.label_logits(memory), batch.labels, batch.label_lengths)
            (loss, counted), read, lengths = ctc_loss(*spelt), count_read(*spelt), spelt[3]
            return torch.stack((loss, lengths[counted].sum(), read, lengths.sum())).double()
        targets = batch.tgt[:, 1:].flatten().index_select(0, rows)
        states = self.model.decode_rows(memory, batch.tgt[:, :-1], rows)
        scores = text_score(self.model.head, states, targets)
        tokens = torch.tensor(len(rows), dtype=torch.float64, device=rows.device)
        return torch.stack((scores.loss.double(), tokens, scores.right.double(), tokens))


def spell(batch: Batch) -> tuple[Int[Tensor, "B L"], Int[Tensor, " B"]]:
    """Return the tokens of each clip but bos and eos as CTC's labels, and how many they are."""
    lengths = batch.tgt_valid.sum(dim=1) - 2
    places = torch.arange(batch.tgt.shape[1] - 2, device=lengths.device)
    return (batch.tgt[:, 1:-1] + 1) * (places < lengths[:, None]), lengths


def real_rows(batch: Batch) -> Int[Tensor, " N"]:
    """Return where real next tokens are among all B x (T - 1), on the device of the batch.

    It is computed on the CPU, before the batch moves, so that nothing waits for a GPU.
    """
    return batch.tgt_valid[:, 1:].flatten().nonzero()[:, 0]


def move(batch: Batch, rows: Tensor, device: torch.device) -> tuple[Batch, Tensor]:
    """Bring a batch to a device without waiting for what the device is doing."""
    if device.type == "cpu":
        return batch, rows

    return batch.pin_memory().to(device), rows.pin_memory().to(device, non_blocking=True)


def accumulate_gradients(
    objective: BatchLoss, source: EpochBatches, fabric: Fabric, *, epoch: int, clips: Sequence[int]
) -> tuple[Float[Tensor, " 2"], Float[Tensor, " 5"]]:
    """Leave in the model the gradients of this device's share of a batch.

    The share is taken in `train.accumulate` parts. When memory is short it is done again in twice
    as many, and so on: the result is the same except for rounding and the random numbers of
    dropout.

    Args:
        fabric: The devices, each of which takes its share.
        clips: Clips of the batch.

    Returns:
        `Losses` of this device's share and `BatchCounts` of the whole batch, on the device.

    Raises:
        UserError: If there is not even enough memory for one clip at a time.
    """
    parts = _own_parts(clips, fabric, objective.options.accumulate)
    batches = [source.build(epoch, part) for part in parts]
    counted = sum(map(objective.count, batches), torch.zeros(5, dtype=torch.float64))
    counts = all_reduce(fabric, counted.to(fabric.device))
    while True:
        seeds = [_dropout_seed(objective.options.seed, epoch, part[0]) for part in parts]
        try:
            return _backward(objective, fabric, batches, seeds, BatchCounts(*counts)), counts
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            shortage = str(error).splitlines()[0] if str(error) else type(error).__name__
        # The exception is released here, so the tensors held by its call stack can be freed.
        objective.zero_grad()
        batches = []
        gc.collect()
        torch.cuda.empty_cache()
        parts = _halve(parts, shortage)
        batches = [source.build(epoch, part) for part in parts]


def _own_parts(clips: Sequence[int], fabric: Fabric, number: int) -> list[list[int]]:
    """Return the parts of a batch that this process takes, at most `number`."""
    first = fabric.global_rank * number
    return [p for p in deal_batch(clips, fabric.world_size * number)[first : first + number] if p]


def _backward(
    objective: BatchLoss,
    fabric: Fabric,
    batches: Sequence[Batch],
    seeds: Sequence[int],
    counts: BatchCounts,
) -> Float[Tensor, " 2"]:
    """Add up the gradients of some parts of a batch; return their losses."""
    objective.zero_grad()
    # Elsewhere torch also notes who asked for a seed of GPUs that are not there, 2 ms a time.
    is_cpu = fabric.device.type == "cpu"
    set_seed = torch.default_generator.manual_seed if is_cpu else torch.manual_seed
    sums = torch.zeros(2, dtype=torch.float64, device=fabric.device)
    for batch, seed in zip(batches, seeds, strict=True):
        # Each part has its own seed, so dropout is the same after a restart; no random state is
        # saved.
        set_seed(seed)
        rows = real_rows(batch)
        with fabric.autocast():
            losses = objective(*move(batch, rows, fabric.device))
        objective.mean(losses, counts).backward()  # type: ignore[no-untyped-call]
        sums += torch.stack((losses.text, losses.ctc)).detach()
    return sums


def _dropout_seed(seed: int, epoch: int, clip: int) -> int:
    """Return the dropout seed of a part; it is computed from the part's first clip."""
    drawn = np.random.SeedSequence([seed, epoch, clip, DROPOUT_STREAM]).generate_state(1, np.uint64)
    return int(drawn[0])


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether a device, or the allocator of the CPU, had no memory to give."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    # The CPU's allocator has no exception of its own.
    return isinstance(error, RuntimeError) and (
        "can't allocate memory" in str(error) or "not enough memory" in str(error)
    )


def _halve(parts: Sequence[Sequence[int]], shortage: str) -> list[list[int]]:
    """Return twice as many parts.

    Raises:
        UserError: If each part is a single clip already.
    """
    halves = [half for part in parts for half in deal_batch(part, 2) if half]
    if len(halves) == len(parts):
        raise UserError(
            f"not enough memory for a single clip ({shortage}); make the model smaller "
            "(model.d_model, layers), raise model.subsampling, or set train.precision: bfloat16"
        )
    logger.warning(
        "not enough memory for a batch in %d parts (%s): it is taken in %d; train.accumulate: %d "
        "or a smaller train.max_frames avoids losing time like this",
        len(parts),
        shortage,
        len(halves),
        len(halves),
        extra=ONCE,
    )
    return halves


@dataclass(slots=True, kw_only=True)
class Progress:
    """How far training has come; model and optimiser hold the rest."""

    sums: Float[Tensor, " 8"]  # of the epoch: two losses, five counts, gradient norms
    epoch: int = 1  # being trained
    step: int = 0  # steps of it that are done
    best_epoch: int = 0
    best_loss: float = math.inf
    weights: dict[str, Tensor] = field(default_factory=dict)  # of the best epoch
    history: list[EpochRecord] = field(default_factory=list)

    def means(self) -> dict[str, Any]:
        """Return what the sums say of the epoch so far, for `EpochRecord`; waits for a GPU."""
        text, ctc, *counted, norm = self.sums.tolist()
        counts = BatchCounts(*counted)
        return {
            "train_loss": text / max(1.0, counts.tokens),
            "train_ctc_loss": ctc / max(1.0, counts.labels),
            "ctc_skipped": int(counts.skipped),
            "grad_norm": norm / max(1, self.step),
            "frames": int(counts.frames),
            "tokens": int(counts.tokens),
            "padding": 1 - max(1.0, counts.frames) / max(1.0, counts.padded_frames),
        }

    def state(self) -> State:
        """Return all of it as plain values and tensors."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {**values, "history": [asdict(record) for record in self.history]}

    @staticmethod
    def of(state: State) -> "Progress":
        """Return the progress that a `state` was made of."""
        return Progress(**{**state, "history": [EpochRecord(**r) for r in state["history"]]})


class Trainer:
    """Trains one model with one seed, until the epochs are over or dev loss has stopped falling."""

    def __init__(
        self,
        objective: BatchLoss,
        source: EpochBatches,
        dev_batches: Sequence[Batch],
        *,
        fabric: Fabric,
        total_steps: int,
        snapshots: Snapshots | None = None,
    ) -> None:
        """Prepare the training.

        Args:
            objective: The model, built after seeding, its losses and how to train it; moved to the
                device.
            source: The batches of every epoch.
            dev_batches: Unaugmented.
            fabric: Where, and with which other processes; launched.
            total_steps: Length of the learning-rate schedule.
            snapshots: Where snapshots are read and written; None: training starts from the
                beginning and writes none.
        """
        self.objective, self.source, self.dev_batches = objective, source, dev_batches
        if fabric.device.type == "cuda":
            self.source = BuiltAhead(source, count_builders())
        self.model = model = objective.to(fabric.device).model
        self.options, self.fabric, self.snapshots = objective.options, fabric, snapshots
        options = self.options
        self.optimizer = build_optimizer(
            model,
            optimizer=options.optimizer,
            learning_rate=options.learning_rate,
            weight_decay=options.weight_decay,
        )
        self.schedule = Schedule(
            self.optimizer,
            schedule=options.schedule,
            warmup_steps=options.count_warmup(total_steps),
            total_steps=total_steps,
        )
        self.progress = Progress(sums=self._zeros())
        # First step with a NaN or infinite loss or gradient. It stays on the GPU and is read only
        # from time to time.
        self._bad_step = torch.full((), math.inf, device=fabric.device)
        self._reported_s = self._wrote_s = time.monotonic()

    def fit(
        self, log: Callable[[EpochRecord], None], watch: Callable[[StepReport], None] | None = None
    ) -> Fit:
        """Train from the last snapshot, or from the start, to the end.

        Args:
            log: Called after every epoch, in one of the processes.
            watch: Called now and then within an epoch, in the same process.

        Raises:
            DivergedError: If the loss becomes NaN or infinite.
            UserError: If there is too little memory for a single clip.
        """
        self._resume()
        progress = self.progress
        start = progress.epoch
        try:
            while not self._is_over():
                self.train_epoch(watch)
                record = self._end_epoch()
                if self.fabric.is_global_zero:
                    log(record)
                progress.epoch, progress.step, progress.sums = progress.epoch + 1, 0, self._zeros()
                self._write_snapshot_when_due()
        finally:
            if isinstance(self.source, BuiltAhead):
                self.source.close()
        if progress.epoch > start:
            self._write_snapshot()  # what comes after training may fail and be tried again
        return Fit(
            weights=progress.weights,
            best_epoch=progress.best_epoch,
            dev_loss=progress.best_loss,
            history=progress.history,
        )

    def _is_over(self) -> bool:
        """Return whether training ends: all epochs are done, or it stops early.

        Early stopping: `patience` epochs, if any, since the best without a lower dev loss.
        """
        # `epoch` is the next one here.
        waited = self.progress.epoch - 1 - self.progress.best_epoch
        return self.progress.epoch > self.options.epochs or 0 < self.options.patience <= waited

    def train_epoch(self, watch: Callable[[StepReport], None] | None = None) -> None:
        """Take the steps of an epoch that are left."""
        plan = self.source.plan(self.progress.epoch)
        self._report(watch, len(plan))
        self.model.train()
        remaining, number = plan[self.progress.step :], self.options.accumulate
        parts = [part for clips in remaining for part in _own_parts(clips, self.fabric, number)]
        self.source.expect(self.progress.epoch, parts)
        for clips in remaining:
            self._take_step(clips)
            is_due = time.monotonic() - self._reported_s >= REPORT_S
            if is_due or self.fabric.device.type == "cpu":
                self._check_numbers()
            if is_due:
                self._report(watch, len(plan))
            self._write_snapshot_when_due()
        self._check_numbers()

    def _take_step(self, clips: Sequence[int]) -> None:
        """Change the weights once, by the gradients of a batch."""
        progress = self.progress
        losses, counts = accumulate_gradients(
            self.objective, self.source, self.fabric, epoch=progress.epoch, clips=clips
        )
        losses = all_reduce(self.fabric, losses)
        all_reduce_gradients(self.fabric, self.model.parameters())
        norm = clip_gradients(self.model.parameters(), self.options.clip_norm or math.inf)
        norm = norm.detach().double()
        self.optimizer.step()
        self.schedule.step()
        progress.step += 1
        progress.sums += torch.cat((losses, counts, norm[None]))
        is_number = torch.isfinite(losses.sum() + norm)
        bad_step = torch.where(is_number, math.inf, float(progress.step))
        self._bad_step = torch.minimum(self._bad_step, bad_step)

    def _end_epoch(self) -> EpochRecord:
        """Score the dev clips and keep the weights if they are the best so far."""
        progress = self.progress
        dev_loss, dev_accuracy = dev_score(self.objective, self.dev_batches, self.fabric)
        record = EpochRecord(
            epoch=progress.epoch,
            step=self.schedule.steps,
            dev_loss=dev_loss,
            dev_accuracy=dev_accuracy,
            lr=self.schedule.lr,
            **progress.means(),
        )
        if not math.isfinite(dev_loss):
            raise DivergedError(f"epoch {progress.epoch}: the dev loss is {dev_loss}; {self._hint}")
        progress.history.append(record)
        # Dev loss is the decoder's: where CTC is what matters it rises long before signs are read
        # best.
        if dev_loss < progress.best_loss or not self.options.patience:
            progress.best_epoch, progress.best_loss = progress.epoch, dev_loss
            progress.weights = {
                name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()
            }
        return record

    def _check_numbers(self) -> None:
        """Check that the loss of every step was finite; waits for a GPU.

        Raises:
            DivergedError: If one was not; the message names the step.
        """
        if math.isfinite(bad_step := self._bad_step.item()):
            steps = len(self.source.plan(self.progress.epoch))
            raise DivergedError(
                f"epoch {self.progress.epoch}, step {bad_step:.0f} of {steps}: the loss or its "
                f"gradient is no longer a number; {self._hint}"
            )

    @property
    def _hint(self) -> str:
        hint = "lower train.learning_rate or raise train.warmup_steps"
        if self.options.precision == "bfloat16":
            hint += ", or set train.precision: float32"
        return hint

    def _report(self, watch: Callable[[StepReport], None] | None, steps: int) -> None:
        """Report how far the epoch is."""
        self._reported_s = time.monotonic()
        if watch is not None and self.fabric.is_global_zero:
            means = self.progress.means()
            watch(
                StepReport(
                    epoch=self.progress.epoch,
                    step=self.progress.step,
                    steps=steps,
                    loss=means["train_loss"],
                    lr=self.schedule.lr,
                    frames=means["frames"],
                    tokens=means["tokens"],
                    padding=means["padding"],
                )
            )

    def _write_snapshot_when_due(self) -> None:
        if time.monotonic() - self._wrote_s >= self.options.snapshot_s:
            self._check_numbers()  # so that no snapshot has NaN or infinite weights
            self._write_snapshot()

    def _write_snapshot(self) -> None:
        if self.snapshots is None or not self.fabric.is_global_zero:
            return
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "progress": self.progress.state(),
        }
        self.snapshots.write(state, epoch=self.progress.epoch, step=self.progress.step)
        self._wrote_s = time.monotonic()

    def _resume(self) -> None:
        """Go on from the last snapshot, if there is one."""
        state = self.snapshots.read(self.fabric.device) if self.snapshots else None
        self.fabric.barrier()  # no process writes while another reads
        if state is None:
            return
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.progress = progress = Progress.of(state["progress"])
        if self.fabric.is_global_zero and not self._is_over():
            steps = len(self.source.plan(progress.epoch))
            is_at_end = progress.step >= steps  # all but the epoch's loss on dev is done
            place = "its end" if is_at_end else f"step {progress.step + 1} of {steps}"
            logger.info("training goes on at epoch %d, %s", progress.epoch, place)

    def _zeros(self) -> Float[Tensor, " 8"]:
        return torch.zeros(8, dtype=torch.float64, device=self.fabric.device)


@torch.inference_mode()
def dev_score(
    objective: BatchLoss, batches: Sequence[Batch], fabric: Fabric
) -> tuple[float, float]:
    """Return plain cross entropy (nats a token) and next-token accuracy, teacher-forced.

    Each device scores its share of the batches.
    """
    objective.eval()
    sums = torch.zeros(4, dtype=torch.float64, device=fabric.device)
    for number in range(fabric.global_rank, len(batches), fabric.world_size):
        built = batches[number]  # built when it is accessed
        batch, rows = move(built, real_rows(built), fabric.device)
        with fabric.autocast():
            sums += objective.score(batch, rows)
    loss, losses, right, guesses = all_reduce(fabric, sums).tolist()
    return loss / max(losses, 1), right / max(guesses, 1)  # dev may lack all training labels
