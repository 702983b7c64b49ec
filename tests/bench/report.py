"""What the report of a test set of 1,000 clips costs, in seconds and megabytes.

Usage: python -m tests.bench.report [--clips N] [--rounds N] [--out DIR]

The clips are those of the demo under new names: its landmarks, sentences, translations and
attention, over and over, once as they are and once each several times in a row, as long as the
clips of a real corpus. The scores are the demo's. Needs the evaluated demo (`make demo`). Each
report is built in a process of its own, its start included.
"""

import argparse
import csv
import dataclasses
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from signloom.corpus.landmark_folder import write_rejects
from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.quality import measure_quality, write_quality
from signloom.corpus.shards import read_shards, write_shards
from signloom.features.targets import read_targets, write_targets
from signloom.paths import CHECKPOINT, LANDMARKS, REPORTS, SHARDS, TARGETS, TUNE

TIMES = {"clips as in the demo": 1, "clips five times as long": 5}
MAX_SECONDS, MAX_MB = 60.0, 15.0
BUILD = """
import sys
from pathlib import Path
from signloom.config import load_section
from signloom.report.build import ReportOptions, build_report
from signloom.report.stage_files import ReportPaths
root, checkpoint, tune = map(Path, sys.argv[1:])
paths = ReportPaths(
    evaluation=root / "evaluation", baseline=root / "baseline.json", tune=tune,
    landmarks=root / "landmarks",
    targets=root / "targets.parquet", checkpoint=checkpoint,
)
build_report(paths, root / "reports", load_section(Path("params.yaml"), "report", ReportOptions))
"""


def write_project(root: Path, count: int, times: int) -> float:
    """Write what the stages before the report would, for a test set of that many clips.

    Returns:
        Seconds of a clip, the median.
    """
    targets = [target for target in read_targets(TARGETS) if target.split == "test"]
    sequences = read_shards(SHARDS, {target.clip_id for target in targets})
    names = {
        f"{target.clip_id}-{number:04}": target
        for number, target in enumerate(itertools.islice(itertools.cycle(targets), count))
    }
    clips = {name: repeat(sequences[target.clip_id], times) for name, target in names.items()}
    layout = next(iter(clips.values())).layout
    frames = {name: len(clip.points) for name, clip in clips.items()}
    (root / "landmarks").mkdir()
    write_shards(root / "landmarks" / "shards", frames, clips.__getitem__, layout=layout,
                 extractor="{}", frames_per_shard=25_000)  # fmt: skip
    write_quality(
        root / "landmarks" / "quality.parquet", [measure_quality(*item) for item in clips.items()]
    )
    write_rejects(root / "landmarks" / "rejects.tsv", [])
    renamed = [dataclasses.replace(target, clip_id=name) for name, target in names.items()]
    train = [target for target in read_targets(TARGETS) if target.split == "train"]
    write_targets(root / "targets.parquet", [*train, *renamed])
    write_evaluation(root / "evaluation", {n: target.clip_id for n, target in names.items()}, times)
    return statistics.median(len(clip.points) / clip.fps for clip in clips.values())


def repeat(clip: LandmarkSequence, times: int) -> LandmarkSequence:
    """Return a clip several times in a row."""
    return dataclasses.replace(
        clip,
        points=np.tile(clip.points, (times, 1, 1)),
        present=np.tile(clip.present, (times, 1)),
    )


def write_evaluation(folder: Path, names: dict[str, str], times: int) -> None:
    """Copy the demo's evaluation, its test clips under new names."""
    folder.mkdir()
    for name in ("scores.json", "confusions.csv"):
        (folder / name).write_bytes((REPORTS / "evaluation" / name).read_bytes())
    lines = (REPORTS / "evaluation" / "hypotheses.tsv").read_text(encoding="utf-8").splitlines()
    rows = {row["clip_id"]: row for row in csv.DictReader(lines, delimiter="\t", quoting=3)}
    written = [lines[0]]
    written += ["\t".join((rows[old] | {"clip_id": new}).values()) for new, old in names.items()]
    (folder / "hypotheses.tsv").write_text("\n".join(written) + "\n", encoding="utf-8")
    table = pq.read_table(REPORTS / "evaluation" / "alignments.parquet")
    found = {row["clip_id"]: row for row in table.to_pylist()}
    looked = []
    for new, old in names.items():
        row = found[old]
        weights = np.reshape(row["weights"], (len(row["tokens"]), -1))
        looked.append(row | {"clip_id": new, "weights": np.tile(weights, (1, times)).ravel()})
    pq.write_table(pa.Table.from_pylist(looked, schema=table.schema), folder / "alignments.parquet")


def build(root: Path) -> dict[str, float]:
    """Build the report once in a new process; return what it took."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-c", BUILD, str(root), str(CHECKPOINT), str(TUNE)]
    subprocess.run(command, check=True)
    seconds, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "seconds": seconds,
        "cpu_seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
    }


def measure(count: int, times: int, rounds: int) -> dict[str, float]:
    """Return medians over the rounds, and whether all pages were equal."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        clip_seconds = write_project(root, count, times)
        runs, pages = [], set()
        for _ in range(rounds):
            runs.append(build(root))
            pages.add((root / "reports" / "index.html").read_bytes())
        figures = sum(path.stat().st_size for path in (root / "reports/figures").iterdir())
        return {
            **{name: round(statistics.median(run[name] for run in runs), 2) for name in runs[0]},
            "page_mb": round(len(max(pages, key=len)) / 1e6, 2),
            "figures_mb": round(figures / 1e6, 2),
            "different_pages": len(pages),
            "clip_seconds": round(clip_seconds, 1),
        }


def main() -> None:
    """Measure, print a table, keep it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--clips", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="folder for report.md and report.json")
    arguments = parser.parse_args()
    found = {
        name: measure(arguments.clips, times, arguments.rounds) for name, times in TIMES.items()
    }
    lines = [
        f"`python -m tests.bench.report`: {arguments.clips:,} test clips, medians of "
        f"{arguments.rounds}, {LANDMARKS} and {REPORTS}/evaluation of the demo; load "
        f"{os.getloadavg()[0]:.0f}.",
        "",
        f"| | s of a clip | s (at most {MAX_SECONDS:g}) | CPU-s | page, MB (at most {MAX_MB:g}) "
        "| figures, MB | different pages | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, row in found.items():
        met = row["seconds"] < MAX_SECONDS and row["page_mb"] < MAX_MB
        lines.append(
            f"| {name} | {row['clip_seconds']} | **{row['seconds']}** | {row['cpu_seconds']} | "
            f"**{row['page_mb']}** | {row['figures_mb']} | {row['different_pages']} | "
            f"{'met' if met else 'missed'} |"
        )
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "report.md").write_text(text)
        (arguments.out / "report.json").write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
