"""Study of cost: time and memory of a training step by the length of the source.

Questions: does a model that reads all frames at once train faster than one that reads them one
after the other, as document 001 says, and from which length on does attention's square show?
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Annotated, Any

import torch
from pydantic import Field

from signloom.config import Count, checked_dataclass
from signloom.devices import peak_memory_mb, pick_device, reset_peak_memory
from signloom.models.registry import build_model
from signloom.models.seq2seq import ModelOptions
from signloom.training.optim import build_optimizer
from studies.linear_attention.run import linearise
from studies.loss import token_loss
from studies.runs import change_options

LINEAR = {"linear": True}


@checked_dataclass
class CostOptions:
    """The section `study`."""

    lengths: Annotated[list[Count], Field(min_length=2)]  # source frames, ascending
    clips: Count  # in a batch
    tokens: Count  # of each target, whatever the length of the source
    input_width: Count  # features of a frame
    vocab_size: Count
    repeats: Count  # steps measured, after one that is not
    # Name to changes of `model`, or to `linear: true` for linear attention in its encoder.
    variants: Annotated[dict[str, dict[str, Any]], Field(min_length=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostJob:
    """Some steps with one model at one length."""

    variant: str
    model: ModelOptions
    options: CostOptions
    length: int
    device: str
    threads: int = 1  # of a CPU
    is_linear: bool = False  # attention in the encoder

    def run(self) -> dict[str, Any]:
        """Take steps and time them; one thread by processor time, which neighbours do not slow.

        Several threads are timed by the clock, and their fastest step counts.
        """
        torch.set_num_threads(self.threads)
        torch.manual_seed(1)
        device, sizes = pick_device(self.device), self.options
        model = build_model(
            self.model, input_width=sizes.input_width, vocab_size=sizes.vocab_size, ctc_labels=0
        ).to(device)
        if self.is_linear:
            linearise(model)
        optimizer = build_optimizer(model, optimizer="adamw", learning_rate=1e-4, weight_decay=0.01)
        src = torch.randn(sizes.clips, self.length, sizes.input_width, device=device)
        valid = torch.ones(sizes.clips, self.length, dtype=torch.bool, device=device)
        tgt = torch.randint(sizes.vocab_size, (sizes.clips, sizes.tokens + 1), device=device)
        real = torch.ones_like(tgt[:, 1:], dtype=torch.bool)

        def step() -> None:
            logits = model(src, valid, tgt[:, :-1])
            token_loss(logits, tgt[:, 1:], real, label_smoothing=0.0).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad()

        reset_peak_memory(device)
        before = peak_memory_mb(device)
        step()
        growth = peak_memory_mb(device) - before
        by_processor = device.type == "cpu" and self.threads == 1
        times = [_measure(step, device, by_processor) for _ in range(sizes.repeats)]
        return {
            "variant": self.variant,
            "length": self.length,
            "ms": round(1000 * (min(times) if self.threads > 1 else median(times)), 2),
            "memory_mb": round(growth, 1),
        }


def _measure(step: Callable[[], None], device: torch.device, by_processor: bool) -> float:
    """Return the seconds that a step takes."""
    clock = time.process_time if by_processor else time.perf_counter
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    began = clock()
    step()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return clock() - began


def plan_jobs(
    options: CostOptions, base: ModelOptions, device: str, threads: int = 1
) -> list[CostJob]:
    """Return what to measure, short sources first.

    Raises:
        UserError: If a change names no option or its value is refused.
    """
    jobs = []
    for variant, changes in options.variants.items():
        is_linear = changes == LINEAR
        where = f"study.variants.{variant}"
        model = change_options(base, {} if is_linear else changes, where)
        jobs += [
            CostJob(
                variant=variant,
                model=model,
                options=options,
                length=length,
                device=device,
                threads=threads,
                is_linear=is_linear,
            )
            for length in options.lengths
        ]
    return sorted(jobs, key=lambda job: job.length)
