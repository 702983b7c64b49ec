"""The loader beside the training that it feeds: real frames a CPU-second, padding, budget.

    python -m tests.bench.loader [--epochs 3] [--out reports/benchmarks]

Twice: the demo corpus with the model and the recipe of params.yaml, augmentation included (reads
what the stages extract and tokenize_targets wrote), and drawn clips of 30 to 250 frames with the
recommended recipe of documents' size, augmented likewise. Loading is from
landmarks in memory to padded batches, planning included; training is the project's `Trainer` on 4
such batches, spread over their lengths. One thread, medians of the epochs.
"""

import argparse
import dataclasses
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from signloom.features.batches import Batch, EpochBatches, FixedBatches, TrainingBatches
from signloom.features.sources import Clips
from signloom.models.registry import build_model
from signloom.paths import PARAMS
from signloom.training.data import TrainingFiles
from signloom.training.devices import open_devices
from signloom.training.loop import BatchLoss, Trainer
from signloom.training.run import RunOptions, read_run_options, seed_everything
from tests.bench.synthetic import PAD, RECIPE, BuiltBatches, SampledBatches, draw_clips
from tests.bench.training import PRUNED, TRAIN_FAST

CLIPS, BUDGET, SAMPLE = 512, 1_500, 4
WANTED = 50


class TimedBatches(EpochBatches):
    """Another source's batches, and the CPU seconds of planning and of building them."""

    def __init__(self, source: EpochBatches) -> None:
        self.source, self.plan_s, self.build_s = source, 0.0, 0.0

    def plan(self, epoch: int) -> list[list[int]]:
        start = time.process_time()
        found = self.source.plan(epoch)
        self.plan_s += time.process_time() - start
        return found

    def lengths(self, epoch: int) -> list[int]:
        return self.source.lengths(epoch)

    def build(self, epoch: int, clips: Sequence[int]) -> Batch:
        start = time.process_time()
        found = self.source.build(epoch, clips)
        self.build_s += time.process_time() - start
        return found


def measure(
    clips: Clips, options: RunOptions, *, vocab_size: int, pad: int, ctc_labels: int, epochs: int
) -> dict[str, float]:
    """Train some batches of some epochs; return medians of loading and training, and padding."""
    train = options.train
    seed_everything(train.seed)
    model = build_model(
        options.model,
        input_width=clips.source.input_width(options.features),
        vocab_size=vocab_size,
        ctc_labels=ctc_labels,
    )
    whole = TrainingBatches(
        clips, options.features, options.augment, max_frames=train.max_frames, pad=pad, seed=1
    )
    source = TimedBatches(whole)
    sample = SampledBatches(source, SAMPLE)
    dev = FixedBatches(clips, options.features, max_frames=train.max_frames, pad=pad)
    trainer = Trainer(
        BatchLoss(model, train, pad=pad, subsampling=options.model.subsampling),
        sample, dev, fabric=open_devices(train), total_steps=100,
    )  # fmt: skip
    loads, trains, frames, sizes = [], [], 0, []
    for epoch in range(1, epochs + 1):
        lengths, source.plan_s, source.build_s = whole.lengths(epoch), 0.0, 0.0
        frames += sum(lengths)
        sizes += [len(g) * max(lengths[clip] for clip in g) for g in source.plan(epoch)]
        plan_s, trainer.source = source.plan_s, BuiltBatches(sample, epoch)
        trainer.progress.epoch, trainer.progress.step = epoch, 0
        start = time.process_time()
        trainer.train_epoch()
        sampled = sample.frames(epoch)
        trains.append(sampled / (time.process_time() - start))
        loads.append(1 / (source.build_s / sampled + plan_s / sum(lengths)))
    return {
        "loader": statistics.median(loads),
        "training": statistics.median(trains),
        "times": statistics.median(a / b for a, b in zip(loads, trains, strict=True)),
        "padding": 1 - frames / sum(sizes),
        "fullest": max(sizes) / train.max_frames,
    }


def measure_demo(epochs: int) -> dict[str, float]:
    """Measure the demo corpus with params.yaml."""
    options = read_run_options(PARAMS)
    data = TrainingFiles().load(cache_mb=options.train.cache_mb)
    labels = len(data.labels) + 1 if options.train.ctc_weight else 0
    return measure(
        data.train,
        dataclasses.replace(options, train=dataclasses.replace(options.train, device="cpu")),
        vocab_size=data.tokenizer.vocab_size,
        pad=data.tokenizer.pad,
        ctc_labels=labels,
        epochs=epochs,
    )


def measure_documents(epochs: int) -> dict[str, float]:
    """Measure the documents' sizes with features and augmentation of params.yaml."""
    options = read_run_options(PARAMS)
    train = dataclasses.replace(TRAIN_FAST, max_frames=BUDGET)
    features = dataclasses.replace(options.features, fps=25.0)
    return measure(
        draw_clips(CLIPS, 0, PRUNED),
        dataclasses.replace(options, features=features, model=RECIPE, train=train),
        vocab_size=PRUNED,
        pad=PAD,
        ctc_labels=0,
        epochs=epochs,
    )


def format_table(found: dict[str, dict[str, float]]) -> str:
    lines = [
        "| real frames a CPU-second | loader | training | loader / training | padding | fullest |",
        "|---|---|---|---|---|---|",
    ]
    for name, row in found.items():
        lines.append(
            f"| {name} | {row['loader']:,.0f} | {row['training']:,.0f} "
            f"| **{row['times']:.0f}x** (wanted {WANTED}x) | {row['padding']:.1%} "
            f"| {row['fullest']:.2f} of the budget |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found = {
        "documents' size, recommended recipe": measure_documents(arguments.epochs),
        "demo": measure_demo(arguments.epochs),
    }
    table = format_table(found)
    print(table)
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "loader.md").write_text(table)
        (arguments.out / "loader.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
