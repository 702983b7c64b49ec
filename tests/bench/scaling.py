"""Time for an epoch and memory against the size of the corpus, in memory and streamed from shards.

    python -m tests.bench.scaling [--rounds 3] [--out reports/benchmarks]
    python -m tests.bench.scaling --rows 10000 100000 1000000 [--out reports/benchmarks]

Drawn clips like the demo's are written to shards, then epochs are trained with the model and the
recipe of params.yaml, as many steps at every size, a new process for every measurement, one thread.
Linear is 4 and 16 times the CPU seconds of the smallest corpus.

With `--rows`, what the stages do with the rows of a corpus, without a model: every step and size in
a process of its own. Ten clips are cut out of each film; the landmarks have two frames a
clip and 500 a shard, so that there are as many shards as a real corpus of that size has. The report
is that of the demo (`make demo`) with the rows as its corpus.
"""

import argparse
import dataclasses
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from signloom.config import load_section
from signloom.corpus.landmark_folder import write_rejects
from signloom.corpus.landmarks import HANDS_POSE
from signloom.corpus.manifest import Clip, check_splits, read_manifest, write_manifest
from signloom.corpus.quality import measure_quality, write_quality
from signloom.corpus.shards import (
    read_clip_frames,
    read_clip_rates,
    shards_metadata,
    write_shards,
)
from signloom.evaluation.evaluate import EvaluateOptions
from signloom.evaluation.floors import best_constant
from signloom.evaluation.metrics import measure, score_statistics
from signloom.features.batches import FixedBatches, TrainingBatches
from signloom.features.sources import Clips, LandmarkSource, StoredLandmarks, open_source
from signloom.features.targets import (
    TokenizeOptions,
    build_targets,
    read_targets,
    write_targets,
)
from signloom.files import write_file
from signloom.models.registry import build_model
from signloom.paths import CHECKPOINT, EVALUATION, PARAMS, SHARDS, TARGETS, TUNE
from signloom.report.build import ReportOptions, build_report
from signloom.report.stage_files import ReportPaths
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


def write_rows(folder: Path, rows: int) -> None:
    """Write manifest, empty films, quality table and landmarks of a corpus of drawn sentences."""
    generator = np.random.default_rng(rows)
    (folder / "films").mkdir(parents=True)
    splits = ["dev", "test", *["train"] * 98]

    def draw() -> Iterator[Clip]:
        for number in range(rows):
            film = folder / f"films/{number // 10:06}.mp4"
            if number % 10 == 0:
                film.touch()
            signer = number // 10 % 1_000
            words = generator.zipf(1.3, generator.integers(4, 14)) % 5_000
            yield Clip(
                clip_id=f"clip-{number:07}", video=film, text=" ".join(f"word{w}" for w in words),
                signer=f"signer-{signer}", split=splits[signer % 100], start_s=number % 10 * 5.0,
                end_s=number % 10 * 5.0 + 4, gloss=f"GLOSS{words[0]} GLOSS{words[1]}",
            )  # fmt: skip

    clips = list(draw())
    write_manifest(folder / "manifest.tsv", clips)
    ids = [clip.clip_id for clip in clips]
    clip = draw_sequence(2, 0)
    long = measure_quality("", draw_sequence(90, 0))
    rows_of = (dataclasses.replace(long, clip_id=clip_id) for clip_id in ids)
    write_quality(folder / "found/quality.parquet", rows_of)
    write_rejects(folder / "found/rejects.tsv", [])
    (folder / "found/shards").symlink_to(SHARDS.resolve())  # of the clips that a report draws
    write_shards(
        folder / "shards", dict.fromkeys(ids, 2), lambda _: clip, layout=HANDS_POSE,
        extractor="{}", frames_per_shard=500,
    )  # fmt: skip


def check_rows(folder: Path) -> None:
    """Stage `check`: the manifest."""
    check_splits(folder / "manifest.tsv", read_manifest(folder / "manifest.tsv"))


def tokenize_rows(folder: Path) -> None:
    """Stage `tokenize_targets`, the manifest included."""
    options = load_section(PARAMS, "tokenize_targets", TokenizeOptions)
    _, _, targets = build_targets(read_manifest(folder / "manifest.tsv"), options)
    write_targets(folder / "targets.parquet", targets)


def plan_rows(folder: Path) -> None:
    """Read the targets, plan an epoch."""
    options = read_run_options(PARAMS)
    targets = read_targets(folder / "targets.parquet")
    clips = Clips(
        targets=targets, frames=draw_lengths(len(targets), 0), fps=[25.0] * len(targets),
        source=LandmarkSource(layout=HANDS_POSE, extractor={}), read=lambda numbers: [],
    )  # fmt: skip
    source = TrainingBatches(
        clips,
        options.features,
        options.augment,
        max_frames=options.train.max_frames,
        pad=PAD,
        seed=1,
    )  # fmt: skip
    start = time.process_time()
    source.plan(1)
    print(f"plan alone: {time.process_time() - start:.1f} CPU-s", file=sys.stderr)


def list_shards(folder: Path) -> None:
    """Check the metadata of every shard; read frames and rates of every clip."""
    shards_metadata(folder / "shards")
    assert len(read_clip_frames(folder / "shards")) == len(read_clip_rates(folder / "shards"))


def stream_rows(folder: Path) -> None:
    """Read the landmarks of 200 batches of 16 clips, streamed; opening the shards included."""
    source = LandmarkSource(layout=HANDS_POSE, extractor={})
    landmarks = StoredLandmarks(folder / "shards", source, cache_mb=0)
    ids = sorted(landmarks.frames)
    generator = np.random.default_rng(1)
    start = time.process_time()
    for _ in range(200):
        landmarks.read([ids[number] for number in generator.integers(0, len(ids), 16)])
    print(f"batches alone: {time.process_time() - start:.1f} CPU-s", file=sys.stderr)


def score_rows(folder: Path) -> None:
    """Score one system on a hundredth of the rows; the best constant sentence is of all of train.

    Of stage `evaluate`, what the model does with landmarks grows with dev and test alone.
    """
    options = load_section(PARAMS, "evaluate", EvaluateOptions).score
    targets = read_targets(folder / "targets.parquet")
    refs = [target.text for target in targets if target.split == "test"]
    best_constant([target.text for target in targets if target.split == "train"], refs, options)
    score_statistics(measure([refs[-1], *refs[:-1]], refs, options), options)


def report_rows(folder: Path) -> None:
    """Stage `report`."""
    # The demo's clips are what the page shows in pictures.
    targets = [*read_targets(TARGETS), *read_targets(folder / "targets.parquet")]
    write_targets(folder / "all.parquet", targets)
    del targets
    options = load_section(PARAMS, "report", ReportOptions)
    options = dataclasses.replace(options, quality=dataclasses.replace(options.quality, worst=0))
    paths = ReportPaths(
        evaluation=EVALUATION, baseline=folder / "none.json", tune=TUNE,
        retrain=folder / "none.json", landmarks=folder / "found",
        targets=folder / "all.parquet", checkpoint=CHECKPOINT,
    )  # fmt: skip
    build_report(paths, folder / "reports", options)


STEPS: dict[str, Callable[[Path], None]] = {
    step.__name__: step
    for step in (
        check_rows, tokenize_rows, plan_rows, list_shards, stream_rows, score_rows, report_rows,
    )
}  # fmt: skip


def run_step(name: str, folder: Path) -> dict[str, float]:
    """Return seconds, CPU seconds and peak memory of one step in this process."""
    torch.set_num_threads(1)
    start, cpu = time.perf_counter(), time.process_time()
    STEPS[name](folder)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    took = {"s": time.perf_counter() - start, "cpu_s": time.process_time() - cpu}
    return {**took, "peak_mb": peak_mb}


def measure_rows(sizes: list[int], steps: list[str]) -> dict[str, dict[int, dict[str, float]]]:
    """Measure every step at every size."""
    found: dict[str, dict[int, dict[str, float]]] = {step: {} for step in steps}
    for rows in sizes:
        with tempfile.TemporaryDirectory() as name:
            write_rows(Path(name), rows)
            for step in dict.fromkeys(("tokenize_rows", *steps)):  # which others read
                command = [sys.executable, "-m", "tests.bench.scaling", "--step", step, name]
                out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                took = json.loads(out.stdout.splitlines()[-1])
                print(f"{step} {rows:,}: {took}", file=sys.stderr, flush=True)
                found.setdefault(step, {})[rows] = took
    return found


def format_rows(found: dict[str, dict[int, dict[str, float]]]) -> str:
    """Return a row for each step: CPU seconds and memory by size, slope between the last two."""
    sizes = list(next(iter(found.values())))
    heads = [f"{rows:,} rows: CPU-s, MB" for rows in sizes]
    lines = ["| step | " + " | ".join(heads) + " | slope |", "|---" * (len(sizes) + 2) + "|"]
    for step, runs in found.items():
        cells = [f"{runs[rows]['cpu_s']:.1f}, {runs[rows]['peak_mb']:,.0f}" for rows in sizes]
        slope = "" if len(sizes) < 2 else f"{_slope(runs, sizes[-2], sizes[-1]):.2f}"
        lines.append(f"| {step} | " + " | ".join(cells) + f" | {slope} |")
    load = os.getloadavg()[0]
    return "\n".join(lines) + f"\n\nSlope: log CPU-s by log rows, 1 is linear. Load {load:.0f}.\n"


def _slope(runs: dict[int, dict[str, float]], small: int, large: int) -> float:
    times = runs[large]["cpu_s"] / runs[small]["cpu_s"]
    return float(np.log(times) / np.log(large / small))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rows", type=int, nargs="+", help="sizes of corpora without a model")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--step", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step:
        print(json.dumps(run_step(arguments.step[0], Path(arguments.step[1]))))
        return
    if arguments.rows:
        found = measure_rows(arguments.rows, arguments.steps)
        print(format_rows(found))
        if arguments.out:
            write_file(arguments.out / "rows.md", format_rows(found))
            write_file(arguments.out / "rows.json", json.dumps(found, indent=1) + "\n")
        return
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
