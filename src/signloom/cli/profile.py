"""`signloom summary --profile`: where the time of a training step goes, here and on this corpus."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from statistics import median
from typing import Any

import torch
from lightning_fabric import Fabric
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from signloom.errors import UserError
from signloom.features.batches import Batch, TrainingBatches
from signloom.paths import SHARDS, TOKENS
from signloom.training.data import TrainingFiles
from signloom.training.devices import open_devices
from signloom.training.loop import BatchLoss, Counts, move, real_rows
from signloom.training.optim import build_optimizer, clip_gradients
from signloom.training.run import RunOptions, prepare, read_run_options, settle_precision

WARM_UP, STEPS = 3, 20
PHASES = ("data", "forward", "loss", "backward", "optimiser")


@dataclass(kw_only=True)
class Profile:
    """Seconds of each phase, which a step may enter several times, and what the steps did."""

    device: torch.device
    seconds: dict[str, list[float]] = field(default_factory=lambda: {p: [] for p in PHASES})
    frames: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    operations: float = 0.0  # of a step's matrix products and convolutions, the mean
    peak_rate: float = 0.0  # operations a second of a large matrix product, in the same precision

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time a phase, with what it has asked of a GPU."""
        start_s = time.perf_counter()
        yield
        _wait(self.device)
        self.seconds[name].append(time.perf_counter() - start_s)

    def as_json(self) -> dict[str, Any]:
        """Return the means as plain values."""
        step_s = sum(map(sum, self.seconds.values())) / len(self.frames)
        return {
            "device": str(self.device),
            "steps": len(self.frames),
            "step_ms": 1000 * step_s,
            "phases_ms": {n: 1000 * sum(s) / len(self.frames) for n, s in self.seconds.items()},
            "frames_per_s": sum(self.frames) / len(self.frames) / step_s,
            "tokens_per_s": sum(self.tokens) / len(self.tokens) / step_s,
            "operations": self.operations,
            "peak_rate": self.peak_rate,
            "share_of_peak": self.operations / step_s / self.peak_rate,
        }


def profile(params: Path) -> dict[str, Any]:
    """Take some training steps of the configured model on the project's corpus.

    Args:
        params: The parameters file; `data/` is beside it.

    Returns:
        Milliseconds of the phases, speeds, and the share of the device's measured peak rate.

    Raises:
        UserError: If the corpus was not extracted and tokenised, or a parameter is wrong.
    """
    options, root = read_run_options(params), params.parent
    files = TrainingFiles(shards=root / SHARDS, tokens=root / TOKENS)
    if not files.shards.is_dir():
        raise UserError(f"{files.shards} does not exist; run `dvc repro extract` first")
    data = files.load(cache_mb=options.train.cache_mb, source=options.model.source)
    options = settle_precision(data, options)
    checkpoint, source = prepare(data, options, provenance={})
    fabric = open_devices(options.train)
    batch_loss = BatchLoss(
        checkpoint.model.to(fabric.device).train(),
        options.train,
        pad=data.tokenizer.pad,
        subsampling=options.model.subsampling,
    )
    return _measure(batch_loss, source, options, fabric).as_json()


def _measure(
    batch_loss: BatchLoss, source: TrainingBatches, options: RunOptions, fabric: Fabric
) -> Profile:
    """Take the steps, count their operations, measure the device's peak rate."""
    optimizer = build_optimizer(
        batch_loss.model,
        optimizer=options.train.optimizer,
        learning_rate=options.train.learning_rate,
        weight_decay=options.train.weight_decay,
    )
    result = Profile(device=fabric.device)
    counted: list[float] = []
    for number, clips in _some_batches(source):
        taken = Profile(device=fabric.device) if number < WARM_UP else result
        with taken.phase("data"):
            batch = source.build(1, clips)
        run_step(batch_loss, batch, fabric, taken)
        with taken.phase("optimiser"):
            clip_gradients(batch_loss.parameters(), options.train.clip_norm)
            optimizer.step()
            batch_loss.zero_grad()
        taken.frames.append(int(batch.src_valid.sum()))
        taken.tokens.append(int(batch.tgt_valid[:, 1:].sum()))
        if number >= WARM_UP and len(counted) < 3:
            counted.append(count_operations(batch_loss, batch, fabric))
    result.operations = sum(counted) / len(counted)
    result.peak_rate = measure_peak(fabric)
    return result


def _some_batches(source: TrainingBatches) -> Iterator[tuple[int, list[int]]]:
    """Yield batches of the first epoch, over and over where there are few."""
    plan = source.plan(1)
    for number in range(WARM_UP + STEPS):
        yield number, plan[number % len(plan)]


def run_step(batch_loss: BatchLoss, batch: Batch, fabric: Fabric, timing: Profile) -> None:
    """Leave the gradients of a batch in the model."""
    with timing.phase("data"):
        counts = Counts(*batch_loss.count(batch).tolist())
        moved, rows = move(batch, real_rows(batch), fabric.device)
    with fabric.autocast():
        states, found = [], []
        for _ in range(batch_loss.passes):
            with timing.phase("forward"):
                made = batch_loss.run_model(moved, rows)
            with timing.phase("loss"):
                found.append(batch_loss.losses(moved, rows, *made))
            states.append(made[1])
        with timing.phase("loss"):
            loss = batch_loss.mean(batch_loss.join(found, states), counts)
    with timing.phase("backward"):
        loss.backward()  # type: ignore[no-untyped-call]


def count_operations(batch_loss: BatchLoss, batch: Batch, fabric: Fabric) -> float:
    """Count the multiplications and additions of a batch's matrix products and convolutions."""

    def in_place(total: torch.Size, left: torch.Size, right: torch.Size, *_: Any, **__: Any) -> int:
        return 2 * prod(left) * right[-1]

    more = {torch.ops.aten.addmm_: in_place}
    timing = Profile(device=fabric.device)
    # Fused attention is not in PyTorch's table; written out, its products are.
    with (
        sdpa_kernel(SDPBackend.MATH),
        FlopCounterMode(display=False, custom_mapping=more) as counter,
    ):
        run_step(batch_loss, batch, fabric, timing)
    batch_loss.zero_grad()
    return float(counter.get_total_flops())


def measure_peak(fabric: Fabric) -> float:
    """Return the operations a second of one large matrix product, in the training's precision."""
    size = 8192 if fabric.device.type == "cuda" else 1024
    left, right = torch.randn(2, size, size, device=fabric.device)
    with fabric.autocast():
        seconds = [_time(lambda: left @ right, fabric.device) for _ in range(10)]
    return 2 * size**3 / median(seconds[3:])


def _time(action: Callable[[], object], device: torch.device) -> float:
    start_s = time.perf_counter()
    action()
    _wait(device)
    return time.perf_counter() - start_s


def _wait(device: torch.device) -> None:
    """Wait for what a GPU was asked to do."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def show(found: dict[str, Any]) -> str:
    """Return the profile as lines for a person."""
    lines = [f"a training step on {found['device']}, mean of {found['steps']}:"]
    for name, ms in found["phases_ms"].items():
        share = ms / found["step_ms"]
        lines.append(f"  {name:<10}{ms:10.1f} ms {share:6.1%}  {'#' * round(40 * share)}")
    lines.append(f"  {'all':<10}{found['step_ms']:10.1f} ms")
    lines.append(
        f"{found['frames_per_s']:,.0f} frames/s, {found['tokens_per_s']:,.0f} tokens/s; "
        f"{found['operations'] / 1e9:,.2f} billion operations in matrix products, "
        f"{found['share_of_peak']:.1%} of what one large product reaches here "
        f"({found['peak_rate'] / 1e9:,.0f} billion a second)"
    )
    return "\n".join(lines)
