"""What the stages do with the rows of a large corpus, without a model: CPU time and memory.

Every step and size is a process of its own. Ten clips are cut out of each film; the landmarks have
two frames a clip and 500 clips a shard, so there are as many shards as a real corpus of that size
has. The report is that of the demo with the rows as its corpus.

Usage: python -m tests.bench.scaling ROWS [STEP ...]    one size alone, such as 1000000 check_rows
"""

import dataclasses
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

from signloom.config import load_section
from signloom.corpus.landmark_folder import write_rejects
from signloom.corpus.landmarks import HANDS_POSE
from signloom.corpus.manifest import (
    Clip,
    CorpusOptions,
    check_splits,
    read_manifest,
    write_manifest,
)
from signloom.corpus.quality import measure_quality, write_quality
from signloom.corpus.shards import read_clip_frames, read_clip_rates, shards_metadata, write_shards
from signloom.evaluation.evaluate import EvaluateOptions
from signloom.evaluation.floors import best_constant, thin_train
from signloom.evaluation.metrics import measure as count
from signloom.evaluation.metrics import score_statistics
from signloom.evaluation.summary import SeenInTrain
from signloom.extraction.cache import CACHE_VARIABLE, VideoHashes
from signloom.features.batches import TrainingBatches
from signloom.features.sources import Clips, LandmarkSource, StoredLandmarks
from signloom.features.targets import (
    FORMAT_VERSION,
    TokenizeOptions,
    build_targets,
    read_targets,
    write_targets,
)
from signloom.paths import CHECKPOINT, EVALUATION, PARAMS, SHARDS, TARGETS, TUNE
from signloom.report import quality
from signloom.report.build import ReportOptions, build_report
from signloom.report.stage_files import ReportPaths
from signloom.tables import read_columns, read_parquet, write_parquet
from signloom.training.train import read_run_options
from signloom_ops.intake.ingest import ingest
from signloom_tools.cli.main import main
from tests.bench.figures import Figure, in_new_process
from tests.bench.synthetic import PAD, draw_lengths, draw_sequence
from tests.intake import OPTIONS, deliver, request_of

SIZES = (10_000, 100_000)
MOST_SLOPE, MOST_GB = 1.15, 2.0


def write_rows(folder: Path, rows: int) -> None:
    """Write manifest, empty films, quality table and landmarks of a corpus of drawn sentences."""
    generator = np.random.default_rng(rows)
    (folder / "films").mkdir(parents=True)
    splits = ["dev", "test", *["train"] * 98]

    def draw() -> Iterator[Clip]:
        for number in range(rows):
            film = folder / f"films/{number // 10:06}.mp4"
            if number % 10 == 0:
                film.write_text(str(number))
            signer = number // 10 % 1_000
            words = generator.zipf(1.3, generator.integers(4, 14)) % 5_000
            yield Clip(
                clip_id=f"clip-{number:07}",
                video=film,
                text=" ".join(f"word{w}" for w in words),
                signer=f"signer-{signer}",
                split=splits[signer % 100],
                start_s=number % 10 * 5.0,
                end_s=number % 10 * 5.0 + 4,
                gloss=f"GLOSS{words[0]} GLOSS{words[1]}",
            )

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
        folder / "shards",
        dict.fromkeys(ids, 2),
        lambda _: clip,
        layout=HANDS_POSE,
        extractor="{}",
        frames_per_shard=500,
    )


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
        targets=targets,
        frames=draw_lengths(len(targets), 0),
        fps=[25.0] * len(targets),
        source=LandmarkSource(layout=HANDS_POSE, extractor={}),
        read=lambda numbers: [],
    )
    source = TrainingBatches(
        clips,
        options.features,
        options.augment,
        max_frames=options.train.max_frames,
        pad=PAD,
        seed=1,
    )
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

    100 sentences are compared with those of train. Of stage `evaluate`, what the model does with
    landmarks grows with dev and test alone.
    """
    options = load_section(PARAMS, "evaluate", EvaluateOptions).score
    targets = read_targets(folder / "targets.parquet")
    thin_train(targets)
    pairs = list(read_columns(targets, "split", "text"))
    refs = [text for split, text in pairs if split == "test"]
    start = time.process_time()
    best_constant([text for split, text in pairs if split == "train"], refs, options)
    print(f"best constant alone: {time.process_time() - start:.1f} CPU-s", file=sys.stderr)
    train, start = SeenInTrain(targets), time.process_time()
    for target in [target for target in targets[: len(targets) // 50] if target.split == "test"][
        :100
    ]:
        train.groups(target)
    print(f"100 sentences alone: {time.process_time() - start:.1f} CPU-s", file=sys.stderr)
    score_statistics(count([refs[-1], *refs[:-1]], refs, options), options)


def add_demo(folder: Path) -> None:
    """Put the targets of the demo, whose clips the page draws, before those of the rows."""
    paths = (TARGETS, folder / "targets.parquet")
    demo, rows = (read_parquet(path, FORMAT_VERSION, hint="run the demo") for path in paths)
    table = pa.concat_tables([demo.select(rows.column_names), rows])
    write_parquet(folder / "all.parquet", table.replace_schema_metadata(rows.schema.metadata))


def report_rows(folder: Path) -> None:
    """Stage `report`."""
    in_new_process(add_demo, folder)
    options = load_section(PARAMS, "report", ReportOptions)
    quality.WORST = 0
    paths = ReportPaths(
        evaluation=EVALUATION,
        tune=TUNE,
        landmarks=folder / "found",
        targets=folder / "all.parquet",
        checkpoint=CHECKPOINT,
    )
    build_report(paths, folder / "reports", options)


def init_rows(folder: Path) -> None:
    """`signloom init` of the rows as a table of films."""
    lines = (folder / "manifest.tsv").read_text().partition("\n")[2]
    (folder / "table.tsv").write_text(lines)
    table, films = str(folder / "table.tsv"), str(folder / "films")
    main(["init", str(folder / "new"), "--table", table, "--videos", films])


def ingest_rows(folder: Path) -> None:
    """`signloom ingest` of ten clips into the rows, whose films were hashed before."""
    os.environ[CACHE_VARIABLE] = str(folder / "cache")
    in_new_process(hash_films, folder)
    corpus = CorpusOptions(folder=folder, manifest="manifest.tsv")
    with tempfile.TemporaryDirectory() as name:
        for number in range(10):
            deliver(Path(name, "zoe"), f"new-{number}", frames=20 + number)
        ingest(corpus, request_of(name), OPTIONS)


def hash_films(folder: Path) -> None:
    """Note the hashes of the films, of which each is another one."""
    time.sleep(3)
    VideoHashes(folder / "cache").hash_videos((folder / "films").iterdir())


STEPS: dict[str, Callable[[Path], None]] = {
    step.__name__: step
    for step in (
        check_rows,
        tokenize_rows,
        plan_rows,
        list_shards,
        stream_rows,
        score_rows,
        report_rows,
        init_rows,
        ingest_rows,
    )
}


def run_step(name: str, folder: Path) -> dict[str, float]:
    """Return seconds, CPU seconds and peak memory of one step in this process."""
    torch.set_num_threads(1)
    start, cpu = time.perf_counter(), time.process_time()
    STEPS[name](folder)
    # Of the process: libraries, mostly torch, are 0.5 GB of it.
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    took = {"s": time.perf_counter() - start, "cpu_s": time.process_time() - cpu}
    return {**took, "peak_mb": peak_mb}


def measure_rows(rows: int, steps: Iterable[str]) -> dict[str, dict[str, float]]:
    """Measure steps at one size, each in a process of its own."""
    took = {}
    with tempfile.TemporaryDirectory() as name:
        write_rows(Path(name), rows)
        for step in steps:
            took[step] = in_new_process(run_step, step, Path(name))
            print(f"{step} {rows:,}: {took[step]}", file=sys.stderr, flush=True)
    return took


def measure() -> list[Figure]:
    """Measure every step at both sizes."""
    took = {
        (step, rows): figures
        for rows in SIZES
        for step, figures in measure_rows(rows, STEPS).items()
    }
    small, large = SIZES
    figures = []
    for step in STEPS:
        times = took[step, large]["cpu_s"] / took[step, small]["cpu_s"]
        slope = float(np.log(times) / np.log(large / small))
        figures += [
            Figure(f"{step}, {large:,} clips, CPU-s", took[step, large]["cpu_s"]),
            Figure(f"{step}, slope (1 is linear)", slope, at_most=MOST_SLOPE),
            Figure(f"{step}, GB", took[step, large]["peak_mb"] / 1000, at_most=MOST_GB),
        ]
    return figures


if __name__ == "__main__":
    measure_rows(int(sys.argv[1]), sys.argv[2:] or STEPS)
