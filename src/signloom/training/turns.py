"""A planned batch comes in; its gradients and sums go out, in as many turns as memory asks for."""

import dataclasses
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from lightning_fabric import Fabric
from torch import Tensor

from signloom.config import UserError
from signloom.corpus.batches import Batch, BatchSource, split
from signloom.training.devices import add_up
from signloom.training.memory import is_out_of_memory, release_memory
from signloom.training.step import Counts, TrainingStep, real_rows

logger = logging.getLogger(__name__)

DROPOUT = 1  # sets the seeds of dropout apart from others made of the same numbers


def take_turns(
    step: TrainingStep, source: BatchSource, fabric: Fabric, *, epoch: int, clips: Sequence[int]
) -> tuple[Float[Tensor, " 2"], Float[Tensor, " 5"]]:
    """Leave in the model the gradients of this device's share of a batch.

    When memory is short it is done again in twice as many turns, and so on: the result is the same
    but for rounding and for what dropout draws.

    Args:
        step: What a batch costs.
        source: Builds batches.
        fabric: The devices, each of which takes its share.
        epoch: Its number.
        clips: Of the batch.

    Returns:
        `Losses` of this device's share and `Counts` of the whole batch, on the device.

    Raises:
        UserError: If there is not even enough memory for one clip at a time.
    """
    number = step.options.accumulate
    first = fabric.global_rank * number
    turns = [t for t in split(clips, fabric.world_size * number)[first : first + number] if t]
    batches = [source.build(epoch, turn) for turn in turns]
    counted = sum((step.count(batch) for batch in batches), torch.zeros(5, dtype=torch.float64))
    counts = add_up(fabric, counted.to(fabric.device))
    while True:
        seeds = [_dropout_seed(step.options.seed, epoch, turn[0]) for turn in turns]
        try:
            return _backward(step, fabric, batches, seeds, Counts(*counts)), counts
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            shortage = str(error).splitlines()[0] if str(error) else type(error).__name__
        step.zero_grad()  # the exception, and with it the tensors of its frames, is gone by now
        batches = []
        release_memory()
        turns = _halve(turns, shortage)
        batches = [source.build(epoch, turn) for turn in turns]


def _backward(
    step: TrainingStep,
    fabric: Fabric,
    batches: Sequence[Batch],
    seeds: Sequence[int],
    counts: Counts,
) -> Float[Tensor, " 2"]:
    """Add up the gradients of some parts of a batch; return their losses."""
    step.zero_grad()
    sums = torch.zeros(2, dtype=torch.float64, device=fabric.device)
    for batch, seed in zip(batches, seeds, strict=True):
        # Seeded part by part, chance needs no memory: it is the same after a new start.
        torch.manual_seed(seed)
        rows = real_rows(batch)
        with fabric.autocast():
            losses = step(*move(batch, rows, fabric.device))
        step.mean(losses, counts).backward()  # type: ignore[no-untyped-call]
        sums += torch.stack((losses.text, losses.spelt)).detach()
    return sums


def _halve(turns: Sequence[Sequence[int]], shortage: str) -> list[list[int]]:
    """Return twice as many turns.

    Raises:
        UserError: If each turn is a single clip already.
    """
    halves = [half for turn in turns for half in split(turn, 2) if half]
    if len(halves) == len(turns):
        raise UserError(
            f"not enough memory for a single clip ({shortage}); make the model smaller "
            "(model.d_model, layers), raise model.subsampling, or set train.precision: bfloat16"
        )
    logger.warning(
        "not enough memory for a batch in %d parts (%s): it is taken in %d; train.accumulate: %d "
        "or a smaller train.max_frames avoids losing time like this",
        len(turns),
        shortage,
        len(halves),
        len(halves),
    )
    return halves


def move(batch: Batch, rows: Tensor, device: torch.device) -> tuple[Batch, Tensor]:
    """Bring a batch to a device without waiting for what the device is doing."""
    if device.type == "cpu":
        return batch, rows

    def send(tensor: Tensor) -> Tensor:
        return tensor.pin_memory().to(device, non_blocking=True)

    names = [field.name for field in dataclasses.fields(batch) if field.name != "clip_ids"]
    tensors: dict[str, Any] = {name: send(getattr(batch, name)) for name in names}
    return dataclasses.replace(batch, **tensors), send(rows)


def _dropout_seed(seed: int, epoch: int, clip: int) -> int:
    """Return the seed of a part, told by its first clip: no two parts of an epoch share one."""
    drawn = np.random.SeedSequence([seed, epoch, clip, DROPOUT]).generate_state(1, np.uint64)
    return int(drawn[0])
