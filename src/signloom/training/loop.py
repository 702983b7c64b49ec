"""A model and its batches come in; epochs of training, the best weights and a history go out."""

import logging
import math
import time
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from lightning_fabric import Fabric
from torch import Tensor

from signloom.config import UserError
from signloom.corpus.batches import Batch, BatchSource
from signloom.models.seq2seq import Seq2Seq
from signloom.training.averaging import WeightAverage
from signloom.training.devices import add_up, add_up_gradients
from signloom.training.optim import build_optimizer, build_schedule, clip_gradients
from signloom.training.options import TrainOptions
from signloom.training.records import EpochRecord, Fit, Progress, StepReport
from signloom.training.snapshots import Snapshots
from signloom.training.step import TrainingStep, real_rows, score_batch
from signloom.training.turns import move, take_turns

logger = logging.getLogger(__name__)

LOOK_S = 0.3  # between two looks at what a GPU has computed, for which it must be waited for


class DivergedError(UserError):
    """The loss is no longer a number."""


def ignore(_: StepReport) -> None:
    """Watch nothing."""


def fit(
    model: Seq2Seq,
    source: BatchSource,
    dev_batches: Sequence[Batch],
    options: TrainOptions,
    *,
    fabric: Fabric,
    total_steps: int,
    pad: int,
    subsampling: int,
    log: Callable[[EpochRecord], None],
    watch: Callable[[StepReport], None] = ignore,
    snapshots: Snapshots | None = None,
) -> Fit:
    """Train until the epochs are over or dev loss has stopped falling.

    Args:
        model: Built after seeding; moved to the device.
        source: The batches of every epoch.
        dev_batches: Unaugmented.
        options: How to train.
        fabric: Where, and with which other processes; launched.
        total_steps: Length of the learning-rate schedule.
        pad: Token id that stands for a hidden token.
        subsampling: Source frames for each position of the model's memory.
        log: Called after every epoch, in one of the processes.
        watch: Called now and then within an epoch, in the same process.
        snapshots: Where to go on from and to; None: training starts anew and leaves nothing.

    Raises:
        DivergedError: If the loss becomes infinite or not a number.
        UserError: If there is too little memory for a single clip.
    """
    step = TrainingStep(model.to(fabric.device), options, pad=pad, subsampling=subsampling)
    trainer = Trainer(step, source, dev_batches, fabric, total_steps, snapshots)
    return trainer.run(log, watch)


class Trainer:
    """Trains one model with one seed; see `fit`."""

    def __init__(
        self,
        step: TrainingStep,
        source: BatchSource,
        dev_batches: Sequence[Batch],
        fabric: Fabric,
        total_steps: int,
        snapshots: Snapshots | None,
    ) -> None:
        self.step, self.source, self.dev_batches, self.fabric = step, source, dev_batches, fabric
        self.model, self.options, self.snapshots = step.model, step.options, snapshots
        options = step.options
        self.optimizer = build_optimizer(
            self.model,
            optimizer=options.optimizer,
            learning_rate=options.learning_rate,
            weight_decay=options.weight_decay,
        )
        self.schedule = build_schedule(
            self.optimizer,
            schedule=options.schedule,
            warmup_steps=options.warmup_steps,
            total_steps=total_steps,
        )
        self.average = WeightAverage(
            self.model, ema_decay=options.ema_decay, average_last=options.average_last
        )
        self.progress = Progress(sums=self._zeros())
        # The first step whose loss or gradient was no number: on the device, read when due.
        self._bad_step = torch.full((), math.inf, device=fabric.device)
        self._steps = 0  # of the epoch
        self._looked_s = self._wrote_s = time.monotonic()

    def run(self, log: Callable[[EpochRecord], None], watch: Callable[[StepReport], None]) -> Fit:
        """Train from the last snapshot, or from the start, to the end."""
        self._go_on()
        progress = self.progress
        start = progress.epoch
        while self._goes_on:
            self._train_epoch(watch)
            record = self._end_epoch()
            if self.fabric.is_global_zero:
                log(record)
            progress.epoch, progress.step, progress.sums = progress.epoch + 1, 0, self._zeros()
            self._write_snapshot_when_due()
        if progress.epoch > start:
            self._write_snapshot()  # what comes after training may fail and be tried again
        return Fit(
            weights=progress.weights,
            best_epoch=progress.best_epoch,
            dev_loss=progress.best_loss,
            history=progress.history,
        )

    @property
    def _goes_on(self) -> bool:
        """Whether there is an epoch left, and patience for it."""
        waited = self.progress.epoch - 1 - self.progress.best_epoch
        return self.progress.epoch <= self.options.epochs and waited < self.options.patience

    def _train_epoch(self, watch: Callable[[StepReport], None]) -> None:
        """Take the steps of an epoch that are left."""
        progress, plan = self.progress, self.source.plan(self.progress.epoch)
        self._steps = len(plan)
        self._report(watch)
        self.model.train()
        for clips in plan[progress.step :]:
            losses, counts = take_turns(
                self.step, self.source, self.fabric, epoch=progress.epoch, clips=clips
            )
            self._take_step(add_up(self.fabric, losses), counts)
            is_due = time.monotonic() - self._looked_s >= LOOK_S
            if is_due or self.fabric.device.type == "cpu":
                self._check()
            if is_due:
                self._report(watch)
            self._write_snapshot_when_due()
        self._check()

    def _take_step(self, losses: Float[Tensor, " 2"], counts: Float[Tensor, " 5"]) -> None:
        """Change the weights by the gradients of all devices."""
        add_up_gradients(self.fabric, self.model.parameters())
        norm = clip_gradients(self.model.parameters(), self.options.clip_norm).detach().double()
        self.optimizer.step()
        self.schedule.step()
        self.average.after_step()
        progress = self.progress
        progress.step += 1
        progress.sums += torch.cat((losses, counts, norm[None]))
        is_number = torch.isfinite(losses.sum() + norm)
        found = torch.where(is_number, math.inf, float(progress.step))
        self._bad_step = torch.minimum(self._bad_step, found)

    def _end_epoch(self) -> EpochRecord:
        """Score dev, keep the weights if they are the best so far."""
        progress = self.progress
        self.average.after_epoch()
        with self.average.applied():
            dev_loss, dev_accuracy = dev_score(self.model, self.dev_batches, self.fabric)
        record = EpochRecord(
            epoch=progress.epoch,
            step=self.schedule.steps,
            dev_loss=dev_loss,
            dev_accuracy=dev_accuracy,
            lr=self.schedule.lr,
            **progress.means(),
        )
        if not math.isfinite(dev_loss):
            raise DivergedError(f"epoch {progress.epoch}: the dev loss is {dev_loss}; {self._mend}")
        progress.history.append(record)
        self.schedule.end_epoch(dev_loss)
        if dev_loss < progress.best_loss:
            progress.best_epoch, progress.best_loss = progress.epoch, dev_loss
            weights = self.average.weights()
            progress.weights = {k: v.detach().clone() for k, v in weights.items()}
        return record

    def _check(self) -> None:
        """Look whether the loss of any step was no number; waits for a GPU.

        Raises:
            DivergedError: If it was; says in which step.
        """
        if math.isfinite(found := self._bad_step.item()):
            raise DivergedError(
                f"epoch {self.progress.epoch}, step {found:.0f} of {self._steps}: the loss or its "
                f"gradient is no longer a number; {self._mend}"
            )

    @property
    def _mend(self) -> str:
        mend = "lower train.learning_rate or raise train.warmup_steps"
        if self.options.precision == "bfloat16":
            mend += ", or set train.precision: float32"
        return mend

    def _report(self, watch: Callable[[StepReport], None]) -> None:
        """Say how far the epoch is."""
        self._looked_s = time.monotonic()
        if self.fabric.is_global_zero:
            progress, means = self.progress, self.progress.means()
            watch(
                StepReport(
                    epoch=progress.epoch,
                    step=progress.step,
                    steps=self._steps,
                    loss=means["train_loss"],
                    lr=self.schedule.lr,
                    frames=means["frames"],
                    tokens=means["tokens"],
                    padding=means["padding"],
                )
            )

    def _write_snapshot_when_due(self) -> None:
        if time.monotonic() - self._wrote_s >= self.options.snapshot_s:
            self._check()  # nothing is kept that is no number
            self._write_snapshot()

    def _write_snapshot(self) -> None:
        if self.snapshots is None or not self.fabric.is_global_zero:
            return
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "average": self.average.state_dict(),
            "progress": self.progress.state(),
        }
        self.snapshots.write(state, epoch=self.progress.epoch, step=self.progress.step)
        self._wrote_s = time.monotonic()

    def _go_on(self) -> None:
        """Take up the last snapshot, if there is one."""
        state = self.snapshots.read(self.fabric.device) if self.snapshots else None
        self.fabric.barrier()  # nobody writes while another reads
        if state is None:
            return
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.average.load_state_dict(state["average"])
        self.progress = progress = Progress.of(state["progress"])
        if self.fabric.is_global_zero and self._goes_on:
            steps = len(self.source.plan(progress.epoch))
            logger.info(
                "training goes on at epoch %d, step %d of %d",
                progress.epoch,
                progress.step + 1,
                steps,
            )

    def _zeros(self) -> Float[Tensor, " 8"]:
        return torch.zeros(8, dtype=torch.float64, device=self.fabric.device)


@torch.inference_mode()
def dev_score(model: Seq2Seq, batches: Sequence[Batch], fabric: Fabric) -> tuple[float, float]:
    """Return plain cross entropy (nats a token) and next-token accuracy, teacher-forced.

    Each device scores its share of the batches.
    """
    model.eval()
    sums = torch.zeros(3, dtype=torch.float64, device=fabric.device)
    for number in range(fabric.global_rank, len(batches), fabric.world_size):
        built = batches[number]  # made when it is asked for
        batch, rows = move(built, real_rows(built), fabric.device)
        with fabric.autocast():
            sums += score_batch(model, batch, rows)
    loss, right, tokens = add_up(fabric, sums).tolist()
    return loss / tokens, right / tokens
