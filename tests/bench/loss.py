"""What the loss over a large vocabulary costs, and the update of its embedding.

Usage: python -m tests.bench.loss [--rows N ...] [--ids V] [--width D] [--rounds N] [--out DIR]

The loss section is everything from decoder states to the gradients of states, weight and bias, with
label smoothing. `plain` makes all logits. `linear_cross_entropy` is PyTorch's own chunked loss, in
chunks of 64 tokens, the best of a CPU; it has no label smoothing and is measured without. Every
measurement is a process of its own with one thread; the methods take turns, and medians are given.
Peak memory is the growth of resident memory beyond weights, states and the gradients that every
method returns; both are of one step, after a small one that loads the libraries. Linux only.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from torch import Tensor, nn
from torch.nn import functional

from signloom.training.loss import head_loss
from signloom.training.optim import build_optimizer, clip_gradients

MIB = 2**20
SMOOTHING = 0.1
BARS = {"peak": 0.08, "cpu": 1.1}  # of plain, at most

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
        x, weight, targets, linear_bias=bias, reduction="sum",
        options=nn.LinearCrossEntropyOptions(batch_chunk_size=64),
    )  # fmt: skip


METHODS: dict[str, Loss] = {
    "plain": plain,
    "head_loss": ours(None),
    "head_loss, chunks of 128": ours(128),
    "linear_cross_entropy, not smoothed": chunked_by_torch,
}
if not hasattr(functional, "linear_cross_entropy"):  # before torch 2.13
    del METHODS["linear_cross_entropy, not smoothed"]


def resident(field: str) -> int:
    """Bytes of this process: VmRSS, now, or VmHWM, the most since `forget_peak`."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    found = re.search(rf"{field}:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


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


def measure_step(_: str, rows: int, ids: int, width: int) -> dict[str, float]:
    """Clip and update a dense V x D weight; return the CPU time."""
    model = nn.Linear(width, ids)
    optimizer = build_optimizer(model, optimizer="adamw", learning_rate=1e-3, weight_decay=0.01)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    seconds: dict[str, float] = {}
    for _ in range(2):
        begun = time.process_time()
        clip_gradients(model.parameters(), 1.0)
        clipped = time.process_time()
        optimizer.step()
        seconds = {"clip_s": clipped - begun, "cpu_s": time.process_time() - clipped}
    return seconds


MEASURES = {"loss": measure_loss, "embedding": measure_embedding, "step": measure_step}


def in_own_process(measure: str, method: str, rows: int, ids: int, width: int) -> dict[str, float]:
    call = [sys.executable, "-m", "tests.bench.loss", "--measure", measure, "--method", method]
    sizes = ["--rows", str(rows), "--ids", str(ids), "--width", str(width)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*call, *sizes], check=True, capture_output=True, env=environment)
    found: dict[str, float] = json.loads(done.stdout)
    print(f"{measure} {method} {rows}: {found}", file=sys.stderr, flush=True)
    return found


def take_turns(measure: str, methods: list[str], rounds: int, *sizes: int) -> list[dict]:
    """Measure every method once a round; return a row of medians for each."""
    found: dict[str, list[dict[str, float]]] = {method: [] for method in methods}
    for _ in range(rounds):
        for method in methods:
            found[method].append(in_own_process(measure, method, *sizes))
    return [
        {"method": method, "rows": sizes[0]}
        | {key: median(one[key] for one in results) for key in results[0]}
        for method, results in found.items()
    ]


def compare_losses(all_rows: list[int], ids: int, width: int, rounds: int) -> list[dict]:
    """Measure the loss section; check that every method has the same loss."""
    table = []
    for rows in all_rows:
        results = take_turns("loss", list(METHODS), rounds, rows, ids, width)
        base = results[0]
        for row in results:
            # What is not smoothed differs, but little from weights that know nothing.
            assert abs(row["loss"] - base["loss"]) < 1e-2 * base["loss"], row
            row["peak_share"] = row["peak"] / base["peak"]
            row["cpu_share"] = row["cpu_s"] / base["cpu_s"]
        table += results
    return table


def to_markdown(figures: dict) -> str:
    """The figures as tables, and whether the bars hold."""
    lines = [
        f"Loss section, {figures['ids']} ids, width {figures['width']}, torch {torch.__version__}, "
        f"one thread, float32; medians, rounds: {figures['rounds']}",
        "",
        "| target tokens | loss | peak MiB | of plain | CPU s | of plain |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['rows']} | {row['method']} | {row['peak'] / MIB:.0f} | {row['peak_share']:.1%} | "
        f"{row['cpu_s']:.2f} | {row['cpu_share']:.2f} |"
        for row in figures["losses"]
    ]
    chosen = [row for row in figures["losses"] if row["method"] == "head_loss"]
    for row in chosen:
        holds = row["peak_share"] <= BARS["peak"] and row["cpu_share"] <= BARS["cpu"]
        lines.append(
            f"\nBars at {row['rows']} tokens (peak at most {BARS['peak']:.0%} of plain, CPU time "
            f"at most {BARS['cpu']} times): {'hold' if holds else 'MISSED'}."
        )
    dense, by_rows = figures["embedding"]
    step = figures["step"]
    lines += [
        "",
        f"Embedding of {dense['rows']} tokens, backward, clipping and update: dense "
        f"{1e3 * dense['cpu_s']:.0f} CPU-ms, by rows {1e3 * by_rows['cpu_s']:.1f}, "
        f"1/{dense['cpu_s'] / by_rows['cpu_s']:.0f}.",
        f"A dense weight of the head: clipping {1e3 * step['clip_s']:.0f} CPU-ms, AdamW "
        f"{1e3 * step['cpu_s']:.0f}.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, and write loss.md and loss.json."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[384, 1536], help="target tokens")
    parser.add_argument("--ids", type=int, default=128_815)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("reports/benchmarks"))
    parser.add_argument("--measure", choices=MEASURES, help=argparse.SUPPRESS)
    parser.add_argument("--method", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    ids, width, rounds = arguments.ids, arguments.width, arguments.rounds
    if arguments.measure:
        measure = MEASURES[arguments.measure]
        print(json.dumps(measure(arguments.method, arguments.rows[0], ids, width)))
        return
    rows = arguments.rows
    figures = {
        "ids": ids,
        "width": width,
        "rounds": rounds,
        "losses": compare_losses(rows, ids, width, rounds),
        "embedding": take_turns("embedding", ["dense", "rows"], rounds, rows[0], ids, width),
        "step": take_turns("step", ["dense"], rounds, rows[0], ids, width)[0],
    }
    report = to_markdown(figures)
    print(report)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "loss.md").write_text(report, encoding="utf-8")
    (arguments.out / "loss.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
