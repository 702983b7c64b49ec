"""What the loss over a large vocabulary costs, and the update of its embedding.

The loss section is everything from decoder states to the gradients of states, weight and bias, with
label smoothing. `plain` makes all logits. `linear_cross_entropy` is PyTorch's own chunked loss, in
chunks of 64 tokens, the best of a CPU; it has no label smoothing and is measured without. Every
measurement is a process of its own with one thread; the methods take turns, and medians are given.
Peak memory is the growth of resident memory beyond weights, states and the gradients that every
method returns; both are of one step, after a small one that loads the libraries. Linux only.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn import functional

from signloom.training.loss import head_loss
from signloom.training.optim import build_optimizer, clip_gradients
from tests.bench.figures import Figure, in_new_process, resident

SMOOTHING = 0.1
ROWS, IDS, WIDTH, ROUNDS = (384, 1536), 128_815, 512, 2  # target tokens, vocabulary

Loss = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def plain(x: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    logits = functional.linear(x, weight, bias)
    return functional.cross_entropy(logits, targets, label_smoothing=SMOOTHING, reduction="sum")


def ours(rows: int | None) -> Loss:
    return lambda x, weight, bias, targets: head_loss(
        x, weight, bias, targets, label_smoothing=SMOOTHING, chunk_rows=rows
    )


def chunked_by_torch(x: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    return functional.linear_cross_entropy(
        x,
        weight,
        targets,
        linear_bias=bias,
        reduction="sum",
        options=nn.LinearCrossEntropyOptions(batch_chunk_size=64),
    )


METHODS: dict[str, Loss] = {
    "plain": plain,
    "head_loss": ours(None),
    "head_loss, chunks of 128": ours(128),
    "linear_cross_entropy, not smoothed": chunked_by_torch,
}
if not hasattr(functional, "linear_cross_entropy"):  # before torch 2.13
    del METHODS["linear_cross_entropy, not smoothed"]


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def measure_loss(method: str, rows: int, ids: int, width: int) -> dict[str, float]:
    """Take a step; return its peak memory, its CPU time, and the loss."""
    torch.manual_seed(0)
    x = torch.randn(rows, width, requires_grad=True)
    weight = nn.Parameter(torch.randn(ids, width) * width**-0.5)
    bias = nn.Parameter(torch.zeros(ids))
    targets = torch.randint(ids, (rows,))
    parts = (x, weight, bias)
    # Loads the libraries' code and their working memory.
    METHODS[method](x[:2], weight[:1000], bias[:1000], targets[:2] % 1000).backward()
    for part in parts:
        part.grad = None
    before = resident("VmRSS") + sum(part.nbytes for part in parts)
    forget_peak()
    begun = time.process_time()
    loss = METHODS[method](x, weight, bias, targets) / rows
    loss.backward()
    seconds = time.process_time() - begun
    return {"peak": resident("VmHWM") - before, "cpu_s": seconds, "loss": loss.item()}


def measure_embedding(method: str, rows: int, ids: int, width: int) -> dict[str, float]:
    """Look tokens up, differentiate and update; return the second step's CPU time."""
    model = nn.Embedding(ids, width)
    optimizer = build_optimizer(model, optimizer="adamw", learning_rate=1e-3, weight_decay=0.01)
    assert model.sparse
    model.sparse = method == "rows"
    tokens = torch.randint(ids, (rows,), generator=torch.Generator().manual_seed(0))
    seconds = 0.0
    for _ in range(3):
        begun = time.process_time()
        optimizer.zero_grad()
        model(tokens).square().sum().backward()
        clip_gradients(model.parameters(), 1.0)
        optimizer.step()
        seconds = time.process_time() - begun
    return {"cpu_s": seconds}


def measure() -> list[Figure]:
    """Measure every method in turn, each in a process of its own; all must have the same loss."""
    os.environ["OMP_NUM_THREADS"] = "1"
    figures = []
    for rows in ROWS:
        rounds = [
            {name: in_new_process(measure_loss, name, rows, IDS, WIDTH) for name in METHODS}
            for _ in range(ROUNDS)
        ]
        for name in METHODS:
            # What is not smoothed differs, but little from weights that know nothing.
            for trial in rounds:
                assert abs(trial[name]["loss"] / trial["plain"]["loss"] - 1) < 1e-2, (name, trial)
            if name == "plain":
                continue
            peak, cpu = (
                median(trial[name][key] / trial["plain"][key] for trial in rounds)
                for key in ("peak", "cpu_s")
            )
            bars = name == "head_loss"
            figures.append(
                Figure(f"{name}, {rows} tokens, memory", peak, at_most=0.08 if bars else None)
            )
            figures.append(
                Figure(f"{name}, {rows} tokens, time", cpu, at_most=1.1 if bars else None)
            )
    dense, by_rows = (
        in_new_process(measure_embedding, name, ROWS[0], IDS, WIDTH)["cpu_s"]
        for name in ("dense", "rows")
    )
    return [*figures, Figure("update of the embedding by rows, times as fast", dense / by_rows)]
