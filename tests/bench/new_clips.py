"""What a night's extraction costs for a few new clips in a corpus whose landmarks are known.

Usage: python -m tests.bench.new_clips [--clips 500] [--new 10] [--rounds 3] [--out JSON]

Needs the demo corpus (`make demo`), of whose videos the clips are cut: 12 frames each, every file
with content of its own. The corpus is extracted from nothing. Then, in each round, new clips come
in by `signloom ingest` and `python -m pipeline.extract` runs as it does at night; beside it the
same stage on the new clips alone, in a project of their own with an empty cache. CPU seconds of the
stage, its workers included. What all clips would cost from nothing is taken from the first run.
"""

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from signloom.corpus.manifest import Clip, read_manifest
from signloom.extraction.video import Video, VideoWriter
from tests.bench.extraction import make_project, run_stage
from tests.intake import write_rows

FRAMES = 12
WANTED = 1.25  # times the new clips alone: them, and little for the others


def cut_clips(clips: Sequence[Clip], folder: Path) -> Iterator[Clip]:
    """Cut the clips, one after the other in an order without pattern, into files of few frames."""
    for clip in random.Random(1).sample(clips, len(clips)):
        assert clip.video
        with Video(clip.video) as video:
            frames = [frame.rgb for frame in video.frames()]
        height, width = frames[0].shape[:2]
        for first in range(0, len(frames) - FRAMES + 1, FRAMES):
            name = f"{clip.clip_id}-{first:03d}"
            with VideoWriter(
                folder / f"{name}.mp4", fps=video.fps, width=width, height=height
            ) as out:
                for rgb in frames[first : first + FRAMES]:
                    out.write(rgb)
            yield replace(clip, clip_id=name, video=folder / f"{name}.mp4")


def found_project(folder: Path, clips: Sequence[Clip]) -> Path:
    """Make a project with these clips, two splits among them."""
    (folder / "corpus/videos").mkdir(parents=True)
    own = []
    for number, clip in enumerate(clips):
        assert clip.video
        video = shutil.copy(clip.video, folder / f"corpus/videos/{clip.clip_id}.mp4")
        split = "dev" if number == 0 else "train"
        own.append(replace(clip, video=video, split=split))
    make_project(folder, own)
    return folder


def ingest(project: Path, clips: Sequence[Clip], name: str) -> None:
    """Bring clips into a project's corpus by the command, which is not measured."""
    delivery = project / "data/inbox" / name
    delivery.mkdir(parents=True)
    rows = []
    for clip in clips:
        assert clip.video
        shutil.copy(clip.video, delivery)
        row = {"video": clip.video.name, "text": clip.text, "signer": clip.signer}
        rows.append({**row, "gloss": clip.gloss or ""})
    write_rows(delivery / "table.tsv", rows)
    command = [Path(sys.executable).with_name("signloom"), "ingest", f"data/inbox/{name}"]
    done = subprocess.run(
        [*map(str, command)], cwd=project, capture_output=True, text=True, check=False
    )
    if done.returncode or f"{len(clips)} clips came in" not in done.stdout:
        raise RuntimeError(f"not all came in: {done.stdout}{done.stderr}")


def settle_at_once(project: Path) -> None:
    """Take files that were written a moment ago."""
    path = project / "params.yaml"
    params = json.loads(path.read_text())
    params["retrain"]["ingest"]["settle_s"] = 0.0
    path.write_text(json.dumps(params))


def measure(
    clips: Iterator[Clip], folder: Path, stock: int, new: int, rounds: int
) -> dict[str, float]:
    """Return the CPU seconds of the stage, medians, and their ratios."""
    project = found_project(folder / "project", list(islice(clips, stock)))
    settle_at_once(project)
    _, founding, _ = run_stage(project)
    nights, alones = [], []
    for number in range(rounds):
        some = list(islice(clips, new))
        if len(some) < new:
            raise RuntimeError("the corpus is too small for so many clips")
        ingest(project, some, f"week-{number}")
        other = found_project(folder / f"alone-{number}", some)
        for measured, where in ((nights, project), (alones, other))[:: 1 - 2 * (number % 2)]:
            measured.append(run_stage(where)[1])
    again = run_stage(project)[1]
    whole = founding * (stock + new) / stock
    night = statistics.median(nights)
    return {
        f"{stock} clips from nothing, CPU s": founding,
        f"{stock + new} clips from nothing (from that), CPU s": whole,
        f"{new} clips alone, CPU s": statistics.median(alones),
        f"{new} new clips in the corpus, CPU s": night,
        "nothing new, CPU s": again,
        "night beside new clips alone": statistics.median(
            night / alone for night, alone in zip(nights, alones, strict=True)
        ),
        "night beside all from nothing": night / whole,
    }


def format_table(figures: dict[str, float]) -> str:
    """Return the figures as Markdown."""
    lines = ["| figure | measured | wanted | |", "|---|---:|---:|---|"]
    for name, value in figures.items():
        bar = ("", "")
        if name == "night beside new clips alone":
            bar = (f"at most {WANTED}", "met" if value <= WANTED else "**missed**")
        lines.append(f"| {name} | {value:,.3g} | {bar[0]} | {bar[1]} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print the table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, default=Path("data/demo/corpus"))
    parser.add_argument("--clips", type=int, default=500, help="that are there already")
    parser.add_argument("--new", type=int, default=10, help="in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("reports/benchmarks/new_clips.json"))
    options = parser.parse_args()
    clips = read_manifest(options.corpus.resolve() / "manifest.tsv")
    with tempfile.TemporaryDirectory(prefix="signloom-bench-") as name:
        cut = cut_clips(clips, Path(name) / "cut")
        figures = measure(cut, Path(name), options.clips, options.new, options.rounds)
    print(format_table(figures))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
