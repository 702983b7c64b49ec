"""A model and its batches come in; epochs of training, the best weights and a history go out."""

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from signloom.config import UserError
from signloom.corpus.batches import Batch
from signloom.models.seq2seq import Seq2Seq
from signloom.reproducibility import write_atomically
from signloom.training.loss import ctc_loss, token_loss
from signloom.training.optim import build_optimizer, build_schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainOptions:
    """The section `train` of params.yaml."""

    seed: int  # of weights, dropout, order and augmentation
    device: Literal["auto", "cpu", "cuda"]  # auto: a GPU if there is one
    epochs: int  # at most, >= 1
    patience: int  # epochs without a better dev loss before training stops, >= 1
    max_frames: int  # source frames of a padded batch, >= 1
    learning_rate: float  # highest, > 0
    warmup_steps: int  # steps from 0 to the highest rate, >= 1
    weight_decay: float  # of matrices, >= 0
    clip_norm: float  # longest gradient, > 0
    label_smoothing: float  # share of the target spread over the vocabulary, [0, 1)
    ctc_weight: float  # share of the CTC loss in the whole, [0, 1); 0 needs no labels
    token_drop: float  # share of the decoder's input tokens hidden in training, [0, 1)

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ValueError(f"seed: found {self.seed}, expected 0 or more")
        for name in ("epochs", "patience", "max_frames", "warmup_steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected at least 1")
        for name in ("learning_rate", "clip_norm"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected more than 0")
        if self.weight_decay < 0:
            raise ValueError(f"weight_decay: found {self.weight_decay}, expected 0 or more")
        for name in ("label_smoothing", "ctc_weight", "token_drop"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected [0, 1)")


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRecord:
    """What one epoch did; losses in nats a token."""

    epoch: int  # from 1
    step: int  # optimiser steps so far
    train_loss: float  # smoothed cross entropy of augmented clips, as minimised
    train_ctc_loss: float  # nats a label; 0 without CTC
    ctc_skipped: int  # clips with more labels than memory positions, left out of that loss
    dev_loss: float  # plain cross entropy
    dev_accuracy: float  # share of next tokens guessed right after the true ones
    lr: float
    grad_norm: float  # mean before clipping


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The result of training."""

    weights: dict[str, Tensor]  # of the epoch with the lowest dev loss
    best_epoch: int
    dev_loss: float
    history: list[EpochRecord]


class DivergedError(UserError):
    """The loss is no longer a number."""


def fit(
    model: Seq2Seq,
    epoch_batches: Callable[[int], Iterator[Batch]],
    dev_batches: Sequence[Batch],
    options: TrainOptions,
    *,
    device: torch.device,
    total_steps: int,
    pad: int,
    log: Callable[[EpochRecord], None],
) -> Fit:
    """Train until the epochs are over or dev loss has stopped falling.

    Args:
        model: Built after seeding; moved to the device.
        epoch_batches: From the epoch's number (from 1) to its batches.
        dev_batches: Unaugmented.
        options: How to train.
        device: Where.
        total_steps: Length of the learning-rate schedule.
        pad: Token id that stands for a hidden token.
        log: Called after every epoch.

    Raises:
        DivergedError: If the loss becomes infinite or not a number.
    """
    model.to(device)
    optimizer = build_optimizer(
        model, learning_rate=options.learning_rate, weight_decay=options.weight_decay
    )
    schedule = build_schedule(optimizer, warmup_steps=options.warmup_steps, total_steps=total_steps)
    history: list[EpochRecord] = []
    best_epoch, best_loss, weights = 0, math.inf, dict[str, Tensor]()
    for epoch in range(1, options.epochs + 1):
        train = _train_epoch(model, epoch_batches(epoch), optimizer, schedule, options, device, pad)
        dev_loss, dev_accuracy = dev_score(model, dev_batches, device)
        record = EpochRecord(
            epoch=epoch,
            step=schedule.last_epoch,
            dev_loss=dev_loss,
            dev_accuracy=dev_accuracy,
            lr=float(schedule.get_last_lr()[0]),
            **train,
        )
        if not all(math.isfinite(value) for value in asdict(record).values()):
            raise DivergedError(
                f"epoch {epoch}: the loss is no longer a number ({record}); lower "
                "train.learning_rate or raise train.warmup_steps"
            )
        history.append(record)
        if dev_loss < best_loss:
            best_epoch, best_loss = epoch, dev_loss
            weights = {k: v.detach().clone() for k, v in model.state_dict().items()}
        log(record)
        if epoch - best_epoch >= options.patience:
            break
    return Fit(weights=weights, best_epoch=best_epoch, dev_loss=best_loss, history=history)


def _train_epoch(
    model: Seq2Seq,
    batches: Iterator[Batch],
    optimizer: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
    options: TrainOptions,
    device: torch.device,
    pad: int,
) -> dict[str, Any]:
    """Take one step a batch; return means over the epoch."""
    model.train()
    # Summed on the device and read once, so that no step waits for a copy.
    sums, steps = torch.zeros(6, dtype=torch.float64, device=device), 0
    for batch in batches:
        loss, parts = _batch_loss(model, batch.to(device), options, pad)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = nn.utils.clip_grad_norm_(model.parameters(), options.clip_norm)
        optimizer.step()
        schedule.step()
        sums += torch.cat((parts, norm.detach().double()[None]))
        steps += 1
    text_sum, tokens_sum, spelt_sum, labels_sum, skipped_sum, norm_sum = sums.tolist()
    return {
        "train_loss": text_sum / tokens_sum,
        "train_ctc_loss": spelt_sum / max(1.0, labels_sum),
        "ctc_skipped": int(skipped_sum),
        "grad_norm": norm_sum / steps,
    }


def _batch_loss(
    model: Seq2Seq, batch: Batch, options: TrainOptions, pad: int
) -> tuple[Float[Tensor, ""], Float[Tensor, " 5"]]:
    """Return what a step minimises, and what an epoch adds up.

    Returns:
        The loss in nats a token (and a label), and without gradient: loss of the text and its
        tokens, CTC loss and its labels, clips without room for their labels.
    """
    memory = model.encode(batch.src, batch.src_valid)
    tgt_in = batch.tgt[:, :-1]
    if options.token_drop:
        # A decoder that cannot trust its own past has to look at the signing.
        hidden = torch.rand(tgt_in.shape, device=tgt_in.device) < options.token_drop
        tgt_in = tgt_in.masked_fill(hidden, pad)
    logits = model.decode(memory, tgt_in)
    valid = batch.tgt_valid[:, 1:]
    tokens = valid.sum()
    text = token_loss(logits, batch.tgt[:, 1:], valid, label_smoothing=options.label_smoothing)
    loss, spelt = text / tokens, text.new_zeros(())
    labels = skipped = tokens.new_zeros(())
    if options.ctc_weight:
        spelt, counted = ctc_loss(
            model.ctc_logits(memory), memory.valid, batch.labels, batch.label_lengths
        )
        share = options.ctc_weight
        labels = batch.label_lengths[counted].sum()
        skipped = (batch.label_lengths > 0).sum() - counted.sum()
        loss = (1 - share) * loss + share * spelt / labels.clamp(min=1)
    return loss, torch.stack((text, tokens, spelt, labels, skipped)).detach().double()


@torch.inference_mode()
def dev_score(
    model: Seq2Seq, batches: Sequence[Batch], device: torch.device
) -> tuple[float, float]:
    """Return plain cross entropy (nats a token) and next-token accuracy, teacher-forced."""
    model.eval()
    sums = torch.zeros(3, dtype=torch.float64, device=device)
    for cpu_batch in batches:
        batch = cpu_batch.to(device)
        logits = model(batch.src, batch.src_valid, batch.tgt[:, :-1])
        valid, targets = batch.tgt_valid[:, 1:], batch.tgt[:, 1:]
        loss = token_loss(logits, targets, valid, label_smoothing=0.0)
        right = (logits.argmax(dim=-1) == targets)[valid].sum()
        sums += torch.stack((loss, right, valid.sum())).double()
    loss_sum, right_sum, tokens = sums.tolist()
    return loss_sum / tokens, right_sum / tokens


def write_history(path: Path, result: Fit) -> None:
    """Write the epochs of a training run as JSON."""
    content = {
        "format_version": 1,
        "best_epoch": result.best_epoch,
        "epochs": [asdict(record) for record in result.history],
    }
    write_atomically(path, json.dumps(content, indent=1) + "\n")
