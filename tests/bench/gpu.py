"""The documents' full configuration on a GPU: speed, memory, share of the card's matrix rate.

    python -m tests.bench.gpu [--max-frames 48000] [--out reports/benchmarks]
    python -m tests.bench.gpu --tiny    # on a CPU, small: checks this script, not the machine

Needs torch, the package and a CUDA device; neither corpus nor DVC. Clips of 30 to 250 frames are
drawn, width 512, 6 + 6 layers, bfloat16. Every variant trains epochs of the project's `Trainer`,
once with its loader and once from batches built beforehand, which is what the card can do. The
card's rate is that of a large bfloat16 matrix product measured here; the share counts all
floating-point operations of a step.
"""

import argparse
import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from signloom.features.augment import AugmentOptions
from signloom.features.batches import EpochBatches, FixedBatches, TrainingBatches
from signloom.features.sources import Clips
from signloom.models.registry import build_model
from signloom.models.seq2seq import ModelOptions
from signloom.training.loop import BatchLoss, Trainer
from signloom.training.options import TrainOptions
from signloom.training.parallel import open_devices
from signloom.training.train import seed_everything
from tests.bench.synthetic import (
    DOCUMENT,
    FEATURES,
    NO_AUGMENT,
    PAD,
    RECIPE,
    TRAIN,
    BuiltBatches,
    draw_clips,
)

PRUNED, FULL = 2_400, 128_815  # rows: PHOENIX-2014T's German, and all of DeepSeek V3
AUGMENT: AugmentOptions = dataclasses.replace(
    NO_AUGMENT, stretch=0.25, rotate_deg=6.0, scale=0.1, hand_shift=0.02, noise=0.002, mirror=0.3
)
TIED = {"tied_embeddings": True, "embedding_scale": True}
VARIANTS: dict[str, tuple[ModelOptions, int]] = {
    "document 000, pruned": (DOCUMENT, PRUNED),
    "document 000, full vocabulary": (DOCUMENT, FULL),
    "recipe (stride-4 stem), pruned": (RECIPE, PRUNED),
    "recipe, full vocabulary, tied": (dataclasses.replace(RECIPE, **TIED), FULL),
}


def matrix_rate(device: torch.device, size: int) -> float:
    """Return the operations a second of a large bfloat16 product, the best of some."""
    a, b = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    best = 0.0
    for _ in range(10):
        synchronise(device)
        start = time.perf_counter()
        for _ in range(5):
            a @ b
        synchronise(device)
        best = max(best, 5 * 2 * size**3 / (time.perf_counter() - start))
    return best


def synchronise(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def train_epoch(trainer: Trainer, source: EpochBatches) -> None:
    trainer.source, trainer.progress.step = source, 0
    trainer.train_epoch()


def train_epochs(
    trainer: Trainer, source: EpochBatches, device: torch.device, epochs: int
) -> float:
    """Return the seconds of an epoch, the best of some after a first one."""
    seconds = []
    for _ in range(epochs + 1):
        synchronise(device)
        start = time.perf_counter()
        train_epoch(trainer, source)
        synchronise(device)
        seconds.append(time.perf_counter() - start)
    return min(seconds[1:])


def measure(
    model_options: ModelOptions, vocab_size: int, clips: Clips, options: TrainOptions, rate: float
) -> dict[str, Any]:
    """Train a variant; return its figures and the table of its profile."""
    seed_everything(1)
    fabric = open_devices(options)
    device = fabric.device
    model = build_model(
        model_options,
        input_width=clips.source.reader(FEATURES).width,
        vocab_size=vocab_size,
        ctc_labels=0,
    ).to(device)
    source = TrainingBatches(
        clips, FEATURES, AUGMENT, max_frames=options.max_frames, pad=PAD, seed=1
    )
    dev = FixedBatches(clips, FEATURES, max_frames=options.max_frames, pad=PAD)
    trainer = Trainer(
        BatchLoss(model, options, pad=PAD, subsampling=model_options.subsampling),
        source,
        dev,
        fabric=fabric,
        total_steps=10_000,
    )
    with_processes = trainer.source  # on a GPU, other processes build ahead
    built = BuiltBatches(source, 1)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    from_memory = train_epochs(trainer, built, device, 3)
    peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0
    with_loader = train_epochs(trainer, with_processes, device, 1)
    alone = train_epochs(trainer, source, device, 1)
    with FlopCounterMode(display=False) as counter:
        train_epoch(trainer, built)
    kinds = [ProfilerActivity.CPU]
    if device.type == "cuda":
        kinds.append(ProfilerActivity.CUDA)
    with profile(activities=kinds) as profiled:
        train_epoch(trainer, built)
        synchronise(device)
    order = f"self_{device.type}_time_total"
    frames = sum(built.lengths(1))
    tokens = sum(int(batch.tgt_valid[:, 1:].sum()) for batch in built.batches.values())
    return {
        "frames_per_s": frames / from_memory,
        "tokens_per_s": tokens / from_memory,
        "frames_per_s_with_loader": frames / with_loader,
        "frames_per_s_one_process": frames / alone,
        "peak_gb": peak / 1e9,
        "rate_share": counter.get_total_flops() / from_memory / rate,
        "profile": profiled.key_averages().table(sort_by=order, row_limit=15),
    }


def format_report(name: str, rate: float, rows: dict[str, dict[str, Any]]) -> str:
    lines = [
        f"{name}: {rate / 1e12:.1f} TFLOP/s in a large bfloat16 product",
        "",
        "| | frames/s | tokens/s | with the loader | of one process | peak memory | rate |",
        "|---|---|---|---|---|---|---|",
    ]
    for variant, row in rows.items():
        lines.append(
            f"| {variant} | {row['frames_per_s']:,.0f} | {row['tokens_per_s']:,.0f} "
            f"| {row['frames_per_s_with_loader']:,.0f} | {row['frames_per_s_one_process']:,.0f} "
            f"| {row['peak_gb']:.1f} GB "
            f"| {row['rate_share']:.1%} |"
        )
    for variant, row in rows.items():
        lines += ["", f"## {variant}", "", "```", row["profile"], "```"]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true", help="small, on the CPU")
    parser.add_argument("--max-frames", type=int, default=48_000, help="of a batch")
    parser.add_argument("--clips", type=int, default=4_000)
    parser.add_argument("--only", choices=VARIANTS, nargs="+", default=list(VARIANTS))
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    changes: dict[str, Any] = {"device": "cuda", "precision": "bfloat16", "label_smoothing": 0.1}
    sizes: dict[str, int] = {}
    if arguments.tiny:
        changes |= {"device": "cpu", "precision": "float32"}
        arguments.max_frames, arguments.clips = 400, 8
        sizes = {"d_model": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "d_ff": 32}
    options = dataclasses.replace(TRAIN, max_frames=arguments.max_frames, **changes)
    device = torch.device(options.device)
    name = torch.cuda.get_device_name() if device.type == "cuda" else "this CPU"
    rate = matrix_rate(device, 256 if arguments.tiny else 8192)
    rows = {}
    for variant in arguments.only:
        model_options, vocab_size = VARIANTS[variant]
        vocab_size = min(vocab_size, 500) if arguments.tiny else vocab_size
        clips = draw_clips(arguments.clips, 0, vocab_size)
        shrunk = dataclasses.replace(model_options, **sizes)
        rows[variant] = measure(shrunk, vocab_size, clips, options, rate)
    report = format_report(name, rate, rows)
    print(report)
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "gpu.md").write_text(report)
        content = {"device": name, "rate": rate, "torch": torch.__version__, "variants": rows}
        (arguments.out / "gpu.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
