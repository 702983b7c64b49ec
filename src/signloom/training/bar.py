"""What training reports comes in; a live bar and speeds go out. Clocks are here, not in results."""

import time
from types import TracebackType

from lightning_fabric import Fabric
from tqdm import tqdm

from signloom.corpus.progress import progress_file
from signloom.training.memory import peak_memory_mb
from signloom.training.records import EpochRecord, StepReport

SHOW_S = 0.3  # between two drawings


class TrainingBar:
    """A line that says how training goes: epoch, loss, rate, speed, padding, memory, time left.

    Time left is that of all epochs that are allowed; early stopping may need fewer.
    """

    def __init__(self, epochs: int, fabric: Fabric) -> None:
        """Take how many epochs there are at most, and the devices: the first shows the bar."""
        self._device, self._dev = fabric.device, ""
        self._bar = tqdm(
            total=epochs, desc="train", unit="epoch", mininterval=0.3,
            disable=not fabric.is_global_zero, file=progress_file(),
            bar_format="{desc} {percentage:3.0f}%|{bar:10}| {elapsed}<{remaining}{postfix}",
        )  # fmt: skip
        self._start: StepReport | None = None  # of this epoch, in this process
        self._start_s = self._shown_s = 0.0

    def watch(self, report: StepReport) -> None:
        """Show how far an epoch is."""
        if self._start is None:
            self._start, self._start_s = report, time.monotonic()
            if not self._bar.n:
                self._bar.initial = self._bar.n = report.epoch - 1  # training went on from there
            return
        step = f"step {report.step}/{report.steps}: "
        done = report.epoch - 1 + round(report.step / report.steps, 3)
        self._show(done, step, report.loss, report, self._speed(report))

    def end_epoch(self, record: EpochRecord) -> dict[str, float]:
        """Hear of an epoch; return its speed (with dev and all) and memory."""
        self._dev = f" (dev {record.dev_loss:.3f})"
        speed, self._start = self._speed(record), None
        self._show(float(record.epoch), "", record.train_loss, record, speed)
        return speed

    def _show(
        self,
        done: float,
        step: str,
        loss: float,
        now: StepReport | EpochRecord,
        speed: dict[str, float],
    ) -> None:
        """Draw the line, at most a few times a second."""
        self._bar.n = done
        self._bar.set_postfix_str(
            f"epoch {now.epoch} {step}loss {loss:.3f}{self._dev} lr {now.lr:.2g}, "
            f"{speed['frames_per_s']:,.0f} frames/s, {speed['tokens_per_s']:,.0f} tokens/s, "
            f"{now.padding:.0%} padding, {speed['memory_mb']:,.0f} MB",
            refresh=False,
        )
        if time.monotonic() - self._shown_s >= SHOW_S or done == self._bar.total:
            self._shown_s = time.monotonic()
            self._bar.refresh()

    def _speed(self, now: StepReport | EpochRecord) -> dict[str, float]:
        """Return what was done since the epoch's start, or since training went on in it."""
        seconds = max(1e-9, time.monotonic() - self._start_s)
        frames, tokens = (self._start.frames, self._start.tokens) if self._start else (0, 0)
        return {
            "frames_per_s": (now.frames - frames) / seconds,
            "tokens_per_s": (now.tokens - tokens) / seconds,
            "epoch_s": seconds,
            "memory_mb": peak_memory_mb(self._device),
        }

    def __enter__(self) -> "TrainingBar":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.close()
