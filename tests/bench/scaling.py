"""What the stages do with the rows of a large corpus, without a model: CPU time and memory.

Every step and size is a process of its own, which loads what its stage does. Ten clips are cut out
of each film; the landmarks have two frames a clip and 500 clips a shard, so there are as many
shards as a real corpus of that size has. The report is that of the demo with the rows as its
corpus.

Usage: python -m tests.bench.scaling ROWS [STEP ...]    one size alone, such as 1000000 check_rows
"""

import dataclasses
import importlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np
import pyarrow as pa

from signloom.config import load_section
from signloom.corpus.landmark_folder import write_rejects
from signloom.corpus.landmarks import HANDS_POSE
from signloom.corpus.manifest import check_splits, read_manifest
from signloom.corpus.quality import measure_quality, write_quality
from signloom.corpus.shards import read_clip_frames, read_clip_rates, shards_metadata, write_shards
from signloom.features.sources import Clips, LandmarkSource, StoredLandmarks
from signloom.features.targets import (
    FORMAT_VERSION,
    TokenizeOptions,
    build_targets,
    read_targets,
    write_targets,
)
from signloom.paths import CHECKPOINT, EVALUATION, PARAMS, SHARDS, TARGETS, TUNE
from signloom.tables import read_columns, read_parquet, write_parquet
from tests.bench.figures import Figure, in_new_process, resident

SIZES = (10_000, 100_000)
MOST_SLOPE, MOST_GB = 1.15, 2.0


def write_rows(folder: Path, rows: int) -> None:
    """Write the manifest of a corpus of drawn sentences, and its films, which are empty."""
    generator = np.random.default_rng(rows)
    (folder / "films").mkdir(parents=True)
    splits = ["dev", "test", *["train"] * 98]
    with (folder / "manifest.tsv").open("w") as manifest:
        manifest.write("clip_id\tvideo\ttext\tsigner\tsplit\tstart_s\tend_s\tgloss\n")
        for number in range(rows):
            film, start_s = f"films/{number // 10:06}.mp4", number % 10 * 5
            if number % 10 == 0:
                (folder / film).touch()
            signer = number // 10 % 1_000
            words = generator.zipf(1.3, generator.integers(4, 14)) % 5_000
            text = " ".join(f"word{w}" for w in words)
            manifest.write(
                f"clip-{number:07}\t{film}\t{text}\tsigner-{signer}\t{splits[signer % 100]}"
                f"\t{start_s}.0\t{start_s + 4}.0\tGLOSS{words[0]} GLOSS{words[1]}\n"
            )


def write_landmarks(folder: Path, rows: int) -> None:
    """Write the quality table and the landmarks of the rows."""
    from tests.bench.synthetic import draw_sequence

    ids = [f"clip-{number:07}" for number in range(rows)]
    clip, long = draw_sequence(2, 0), measure_quality("", draw_sequence(90, 0))
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
    from signloom.features.batches import TrainingBatches
    from signloom.training.data import TRAINED
    from signloom.training.train import read_run_options
    from tests.bench.synthetic import PAD, draw_lengths

    options, targets = read_run_options(PARAMS), read_targets(folder / "targets.parquet", TRAINED)
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
    from signloom.evaluation.evaluate import EvaluateOptions
    from signloom.evaluation.floors import best_constant, thin_train
    from signloom.evaluation.metrics import measure as count
    from signloom.evaluation.metrics import score_statistics
    from signloom.evaluation.summary import SeenInTrain

    options = load_section(PARAMS, "evaluate", EvaluateOptions).score
    targets = read_targets(folder / "targets.parquet")
    thin_train(targets)
    pairs = list(read_columns(targets, "split", "text"))
    refs = [text for split, text in pairs if split == "test"]
    start = time.process_time()
    best_constant([text for split, text in pairs if split == "train"], refs, options)
    print(f"best constant alone: {time.process_time() - start:.1f} CPU-s", file=sys.stderr)
    train, start = SeenInTrain(targets), time.process_time()
    tested = [target for target in targets[: len(targets) // 50] if target.split == "test"]
    for target in tested[:100]:
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
    from signloom.report import quality
    from signloom.report.build import ReportOptions, build_report
    from signloom.report.stage_files import ReportPaths

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
    from signloom_tools.cli.main import main

    options = ["--table", str(folder / "manifest.tsv"), "--videos", str(folder / "films")]
    main(["init", str(folder / "new"), *options])


def hash_films(folder: Path) -> None:
    """Note the hashes of the films, of which each is another one now."""
    from signloom.extraction.cache import VideoHashes

    films = list((folder / "films").iterdir())
    for film in films:
        film.write_text(film.name)
    time.sleep(3)  # what has just changed is not noted
    VideoHashes(folder / "cache").hash_videos(films)


def ingest_rows(folder: Path) -> None:
    """`signloom ingest` of ten clips into the rows, whose films were hashed before."""
    from signloom.corpus.manifest import CorpusOptions
    from signloom.extraction.cache import CACHE_VARIABLE
    from signloom_ops.intake.ingest import ingest
    from tests.intake import OPTIONS, deliver, request_of

    os.environ[CACHE_VARIABLE] = str(folder / "cache")
    in_new_process(hash_films, folder)
    with tempfile.TemporaryDirectory() as name:
        for number in range(10):
            deliver(Path(name, "zoe"), f"new-{number}", frames=20 + number)
        corpus = CorpusOptions(folder=folder, manifest="manifest.tsv")
        ingest(corpus, request_of(name), OPTIONS)


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

# What loads torch, which is no work on rows.
LOADED = {
    "plan_rows": "signloom.training.train",
    "score_rows": "signloom.evaluation.evaluate",
    "report_rows": "signloom.report.build",
    "init_rows": "signloom_tools.cli.init",
    "ingest_rows": "tests.intake",
}


def run_step(name: str, folder: Path) -> dict[str, float]:
    """Return seconds, CPU seconds and peak memory of one step in this process."""
    os.environ["OMP_NUM_THREADS"] = "1"
    if name in LOADED:
        importlib.import_module(LOADED[name])
    start, cpu = time.perf_counter(), time.process_time()
    STEPS[name](folder)
    # Of the process: libraries are 0.1 GB of it, with torch 0.5.
    peak_mb = resident("VmHWM") / 1e6
    took = {"s": time.perf_counter() - start, "cpu_s": time.process_time() - cpu}
    return {**took, "peak_mb": peak_mb}


def measure_rows(rows: int, steps: Collection[str]) -> dict[str, dict[str, float]]:
    """Measure steps at one size, each in a process of its own."""
    took = {}
    with tempfile.TemporaryDirectory() as name:
        write_rows(Path(name), rows)
        if {*steps} - {"check_rows", "tokenize_rows", "plan_rows", "init_rows", "ingest_rows"}:
            write_landmarks(Path(name), rows)
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
