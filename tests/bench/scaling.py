"""Time for an epoch and memory against the size of the corpus, in memory and streamed from shards.

    python -m tests.bench.scaling [--rounds 3] [--out reports/benchmarks]

Drawn clips like the demo's are written to shards, then epochs are trained with the model and the
recipe of params.yaml, as many steps at every size, a new process for every measurement, one thread.
Linear is 4 and 16 times the CPU seconds of the smallest corpus.
"""

import argparse
import dataclasses
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from signloom.corpus.landmarks import HANDS_POSE
from signloom.corpus.shards import write_shards
from signloom.features.batches import FixedBatches, TrainingBatches
from signloom.features.sources import StoredLandmarks, open_source
from signloom.models.registry import build_model
from signloom.paths import PARAMS
from signloom.training.devices import open_devices
from signloom.training.loop import BatchLoss, Trainer
from signloom.training.run import read_run_options, seed_everything
from tests.bench.synthetic import PAD, draw_lengths, draw_sequence, draw_target

CLIPS, TIMES = 300, (1, 4, 16)
VOCABULARY = 500
MODES = {"in memory": 4_000, "streamed": 0}  # to train.cache_mb
TOLERANCE = 0.1


def write_corpus(folder: Path, clips: int) -> None:
    """Write the landmarks of some drawn clips, half as long as those of `draw_lengths`."""
    frames = [length // 2 for length in draw_lengths(clips, 0)]
    ids = [draw_target(number, VOCABULARY).clip_id for number in range(clips)]
    numbers = dict(zip(ids, range(clips), strict=True))
    write_shards(
        folder,
        dict(zip(ids, frames, strict=True)),
        lambda clip_id: draw_sequence(frames[numbers[clip_id]], numbers[clip_id]),
        layout=HANDS_POSE,
        extractor="{}",
        frames_per_shard=25_000,
    )


def measure_epoch(shards: Path, clips: int, cache_mb: int) -> dict[str, float]:
    """Train in this process; return the CPU seconds of an epoch and the peak memory."""
    torch.set_num_threads(1)
    options = read_run_options(PARAMS)
    train = dataclasses.replace(options.train, device="cpu", ctc_weight=0.0)
    source = open_source("landmarks", shards=shards, targets=shards)
    landmarks = StoredLandmarks(shards, source, cache_mb=cache_mb)
    targets = [draw_target(number, VOCABULARY) for number in range(clips)]
    landmarks.keep([target.clip_id for target in targets])
    seed_everything(train.seed)
    model = build_model(
        options.model,
        input_width=source.input_width(options.features),
        vocab_size=VOCABULARY,
        ctc_labels=0,
    )

    def train_epochs(number: int, epochs: int) -> float:
        some = landmarks.clips(targets[:number])
        source = TrainingBatches(
            some, options.features, options.augment, max_frames=train.max_frames, pad=PAD, seed=1
        )
        dev = FixedBatches(some, options.features, max_frames=train.max_frames, pad=PAD)
        trainer = Trainer(
            BatchLoss(model, train, pad=PAD, subsampling=options.model.subsampling),
            source, dev, fabric=open_devices(train), total_steps=100,
        )  # fmt: skip
        start = time.process_time()
        for epoch in range(1, epochs + 1):
            trainer.progress.epoch, trainer.progress.step = epoch, 0
            trainer.train_epoch()
        return (time.process_time() - start) / epochs

    train_epochs(CLIPS // 2, 1)  # what is made once is made
    # As many steps at every size, or memory and caches would differ by their number.
    seconds = train_epochs(clips, max(TIMES) * CLIPS // clips)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    return {"cpu_s": seconds, "peak_mb": peak_mb}


def run_rounds(rounds: int) -> dict[str, dict[int, list[dict[str, float]]]]:
    """Measure every size in both modes, in turn."""
    found: dict[str, dict[int, list[dict[str, float]]]] = {
        mode: {times: [] for times in TIMES} for mode in MODES
    }
    with tempfile.TemporaryDirectory() as name:
        for times in TIMES:
            write_corpus(Path(name) / str(times), times * CLIPS)
        for _ in range(rounds):
            for mode, cache_mb in MODES.items():
                for times in TIMES:
                    command = [
                        sys.executable, "-m", "tests.bench.scaling", "--measure",
                        f"{name}/{times}", str(times * CLIPS), str(cache_mb),
                    ]  # fmt: skip
                    out = subprocess.run(command, check=True, capture_output=True, text=True)
                    found[mode][times].append(json.loads(out.stdout.splitlines()[-1]))
                    print(mode, times, found[mode][times][-1], file=sys.stderr, flush=True)
    return found


def summarise(found: dict[str, dict[int, list[dict[str, float]]]]) -> list[dict[str, Any]]:
    """Return a row for each mode and size."""
    rows = []
    for mode, sizes in found.items():
        for times, runs in sizes.items():
            pairs = list(zip(runs, sizes[1], strict=True))
            rows.append({
                "mode": mode,
                "clips": times * CLIPS,
                "cpu_s": statistics.median(run["cpu_s"] for run in runs),
                "linear": statistics.median(a["cpu_s"] / b["cpu_s"] / times for a, b in pairs),
                "peak_mb": statistics.median(run["peak_mb"] for run in runs),
            })  # fmt: skip
    return rows


def format_table(rows: list[dict[str, Any]]) -> str:
    lines = ["| landmarks | clips | CPU-s an epoch | of linear | peak memory |"]
    lines.append("|---|---|---|---|---|")
    for row in rows:
        lines.append(
            f"| {row['mode']} | {row['clips']:,} | {row['cpu_s']:.1f} | **{row['linear']:.2f}** "
            f"| {row['peak_mb']:.0f} MB |"
        )
    return "\n".join(lines) + f"\n\nWanted: within {TOLERANCE:.0%} of linear, flat streamed.\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        shards, clips, cache_mb = arguments.measure
        print(json.dumps(measure_epoch(Path(shards), int(clips), int(cache_mb))))
        return
    rows = summarise(run_rounds(arguments.rounds))
    table = format_table(rows)
    print(table)
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "scaling.md").write_text(table)
        (arguments.out / "scaling.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
