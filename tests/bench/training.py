"""Training steps beside document 000's loop: real frames a CPU-second, and peak memory.

    python -m tests.bench.training [--rounds 3] [--only NAME ...] [--out reports/benchmarks]

Batches of 16 clips, 30 to 250 frames (log-normal), 14 to 34 tokens, one thread. The documents pad
every clip to 250 frames; the project's variants train with its own `Trainer`, from landmarks to
updated weights, on 4 batches spread over the lengths of 512 clips. Each measurement has its own
process, variants take turns, figures are medians of the rounds. Memory is the process's peak beyond
what its imports take, weights and optimiser included. A step of the document takes 6 to 28 CPU-s
and 6 GB.
"""

import argparse
import dataclasses
import json
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from signloom.features.batches import FixedBatches, TrainingBatches, pad_ids
from signloom.features.features import compute_features
from signloom.features.sources import Clips
from signloom.models.registry import build_model
from signloom.models.seq2seq import ModelOptions
from signloom.training.devices import has_bfloat16, open_devices
from signloom.training.loop import BatchLoss, Trainer
from signloom.training.options import TrainOptions
from signloom.training.run import seed_everything
from tests.bench.document_000 import (
    DROPOUT,
    LONGEST,
    SIZES,
    VOCABULARY,
    Document000,
    TorchTransformer,
    build_loop,
)
from tests.bench.synthetic import (
    DOCUMENT,
    FEATURE_WIDTH,
    FEATURES,
    NO_AUGMENT,
    PAD,
    RECIPE,
    TRAIN,
    SampledBatches,
    draw_clips,
)
from tests.tiny import hold_clips

CLIPS, BATCH, SAMPLE, PRUNED = 512, 16, 4, 3_000


@dataclasses.dataclass(frozen=True)
class Variant:
    """One way of training."""

    text: str
    measure: Callable[[], tuple[float, float]]  # real frames, CPU seconds
    least_speed: float | None = None  # wanted, times the document's
    most_memory: float | None = None  # wanted, share of the document's


PRECISION = "bfloat16" if has_bfloat16() else "float32"
TRAIN_FAST = dataclasses.replace(TRAIN, precision=PRECISION, label_smoothing=0.1)
TIED = dataclasses.replace(RECIPE, tied_embeddings=True)

SMALL = dataclasses.replace(
    RECIPE, d_model=128, d_ff=256, heads=4, encoder_layers=2, decoder_layers=2
)


def pad_all(clips: Clips) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return features, which frames are real, and targets, all clips padded to 250 frames."""
    src = torch.zeros(len(clips), LONGEST, FEATURE_WIDTH)
    valid = torch.zeros(len(clips), LONGEST, dtype=torch.bool)
    for row, example in enumerate(clips):
        matrix = compute_features(example.sequence, FEATURES)
        src[row, : len(matrix)] = torch.from_numpy(matrix)
        valid[row, : len(matrix)] = True
    tgt, _ = pad_ids([target.ids for target in clips.targets], PAD)
    return src, valid, tgt


def measure_loop(family: type[nn.Module]) -> tuple[float, float]:
    """Time one step of the plain loop; all its steps cost the same."""
    clips = draw_clips(CLIPS, 0, VOCABULARY)
    data = pad_all(hold_clips(clips[:BATCH]))
    model = family(FEATURE_WIDTH, VOCABULARY, dropout=DROPOUT, **SIZES)
    take_step = build_loop(model)
    take_step(*(part[:1] for part in data))  # makes the optimiser's state
    start = time.process_time()
    take_step(*data)
    seconds = time.process_time() - start
    return BATCH * sum(clips.frames) / len(clips), seconds


def measure_ours(
    model_options: ModelOptions,
    options: TrainOptions,
    vocab_size: int,
    clock: Callable[[], float] = time.process_time,
) -> tuple[float, float]:
    """Time some steps of the project's trainer."""
    clips = draw_clips(CLIPS, 0, vocab_size)
    options = dataclasses.replace(options, max_frames=BATCH * sum(clips.frames) // len(clips))
    seed_everything(1)
    model = build_model(
        model_options,
        input_width=FEATURE_WIDTH,
        vocab_size=vocab_size,
        ctc_labels=0,
    )
    dev = FixedBatches(clips, FEATURES, max_frames=options.max_frames, pad=PAD)

    def sample(some: Clips, batches: int) -> SampledBatches:
        source = TrainingBatches(
            some, FEATURES, NO_AUGMENT, max_frames=options.max_frames, pad=PAD, seed=1
        )
        return SampledBatches(source, batches)

    first, source = sample(draw_clips(2, 1, vocab_size), 1), sample(clips, SAMPLE)
    trainer = Trainer(
        BatchLoss(model, options, pad=PAD, subsampling=model_options.subsampling),
        first, dev, fabric=open_devices(options), total_steps=100,
    )  # fmt: skip
    trainer.train_epoch()  # makes the optimiser's state
    trainer.source, trainer.progress.step = source, 0
    start = clock()
    trainer.train_epoch()
    return source.frames(1), clock() - start


VARIANTS = {
    "document": Variant("document 000, its loop", lambda: measure_loop(Document000)),
    "torch": Variant("`nn.Transformer` in that loop", lambda: measure_loop(TorchTransformer)),
    "exact": Variant(
        "same mathematics, float32, pruned vocabulary",
        lambda: measure_ours(DOCUMENT, TRAIN, PRUNED),
        least_speed=3.5,
    ),
    "full": Variant(
        f"130,000 rows kept: tied head in chunks, stride-4 stem, {PRECISION}",
        lambda: measure_ours(TIED, TRAIN_FAST, VOCABULARY),
        least_speed=4.0,
        most_memory=0.5,
    ),
    "recipe": Variant(
        f"recommended: pre norm, stride-4 stem, pruned vocabulary, {PRECISION}",
        lambda: measure_ours(RECIPE, TRAIN_FAST, PRUNED),
        least_speed=15.0,
        most_memory=0.25,
    ),
    "joints": Variant(
        "the same with a graph over joints",
        lambda: measure_ours(dataclasses.replace(RECIPE, joints="graph"), TRAIN_FAST, PRUNED),
    ),
    "small": Variant(
        "width 128, two layers, float32",
        lambda: measure_ours(SMALL, TRAIN, PRUNED),
    ),
    "small_joints": Variant(
        "the same with a graph over joints",
        lambda: measure_ours(dataclasses.replace(SMALL, joints="graph"), TRAIN, PRUNED),
    ),
}


def measure_one(name: str) -> None:
    """Run one variant in this process and print what it took as JSON."""
    torch.set_num_threads(1)
    imports_mb = peak_mb()
    frames, seconds = VARIANTS[name].measure()
    taken = {"peak_mb": peak_mb() - imports_mb, "imports_mb": imports_mb}
    print(json.dumps({"frames": frames, "cpu_s": seconds, **taken}))


def peak_mb() -> float:
    """Return the most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def run_rounds(names: list[str], rounds: int) -> dict[str, list[dict[str, float]]]:
    """Measure the variants in turn, each time in a new process."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names:
            command = [sys.executable, "-m", "tests.bench.training", "--measure", name]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found[name].append(json.loads(output.splitlines()[-1]))
            print(f"round {number + 1} {name}: {found[name][-1]}", file=sys.stderr, flush=True)
    return found


def summarise(found: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """Return medians, and what they are of the document's, round by round."""
    rows: dict[str, Any] = {}
    base = found["document"]
    for name, runs in found.items():
        speeds = [run["frames"] / run["cpu_s"] for run in runs]
        pairs = list(zip(runs, base, strict=True))
        rows[name] = {
            "frames_per_cpu_s": statistics.median(speeds),
            "speed": statistics.median(
                a["frames"] / a["cpu_s"] * b["cpu_s"] / b["frames"] for a, b in pairs
            ),
            "peak_mb": statistics.median(run["peak_mb"] for run in runs),
            "memory": statistics.median(a["peak_mb"] / b["peak_mb"] for a, b in pairs),
            "runs": runs,
        }
    return rows


def format_table(rows: dict[str, Any]) -> str:
    """Return the figures as Markdown."""
    lines = [
        "| | real frames a CPU-second | wanted | peak memory | wanted |",
        "|---|---|---|---|---|",
    ]
    for name, row in rows.items():
        variant = VARIANTS[name]
        speed, memory = variant.least_speed, variant.most_memory
        lines.append(
            f"| {variant.text} | {row['frames_per_cpu_s']:.0f} (**{row['speed']:.2f}x**) "
            f"| {'' if speed is None else f'{speed:g}x'} "
            f"| {row['peak_mb']:.0f} MB ({row['memory']:.2f}) "
            f"| {'' if memory is None else f'at most {memory:g}'} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--measure", choices=VARIANTS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure_one(arguments.measure)
        return
    names = ["document", *(name for name in arguments.only if name != "document")]
    rows = summarise(run_rounds(names, arguments.rounds))
    table = format_table(rows)
    print(table)
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "training.md").write_text(table)
        content = {
            "machine": platform.processor() or platform.machine(),
            "precision": PRECISION,
            "torch": torch.__version__,
            "variants": rows,
        }
        (arguments.out / "training.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
