"""What `signloom translate` costs: a cold start, a warm process, and where the time goes.

Usage: python -m tests.bench.translate [--checkpoint FOLDER] [--video FILE] [--rounds N] [--out DIR]

"Cold" is a process of its own, from its start to its end; "warm" are further calls in one process
that has loaded everything. The clip is 5 s of a drawn signer at 15 and at 25 frames/s (drawn anew),
or a video of yours. Wall seconds say what a person waits, CPU seconds what was computed: on a busy
machine only the second are to be believed. Medians.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from signloom.extraction.video import Video, VideoWriter
from signloom.files import write_file

WANTED_COLD_S, CLIP_S = 5.0, 5.0
MAIN = [sys.executable, "-c", "from signloom.cli.main import main; main()", "translate"]


@dataclass(frozen=True)
class Spent:
    wall_s: float
    cpu_s: float


def cpu_s(who: int) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def median(rounds: list[Spent]) -> Spent:
    return Spent(
        statistics.median(x.wall_s for x in rounds), statistics.median(x.cpu_s for x in rounds)
    )


def measure(rounds: int, who: int, work: Callable[[], object]) -> list[Spent]:
    spent = []
    for _ in range(rounds):
        wall, cpu = time.perf_counter(), cpu_s(who)
        work()
        spent.append(Spent(time.perf_counter() - wall, cpu_s(who) - cpu))
    return spent


def retime(source: Path, out: Path, fps: float) -> None:
    """Write `CLIP_S` seconds of a video at another frame rate, its pictures played at that rate."""
    with Video(source) as video:
        pictures = [frame.rgb for frame in video.frames()]
    # To and fro, so that the movement has no jump.
    order = [*range(len(pictures)), *reversed(range(len(pictures)))]
    height, width = pictures[0].shape[:2]
    with VideoWriter(out, fps=fps, width=width, height=height) as writer:
        for number in range(round(CLIP_S * fps)):
            writer.write(np.ascontiguousarray(pictures[order[number % len(order)]]))


def measure_cold(checkpoint: Path, video: Path, rounds: int) -> Spent:
    command = [*MAIN, str(video), "--checkpoint", str(checkpoint)]

    def work() -> None:
        subprocess.run(command, check=True, capture_output=True)

    work()  # files are read from disk once
    return median(measure(rounds, resource.RUSAGE_CHILDREN, work))


def measure_warm(checkpoint: Path, video: Path, rounds: int) -> tuple[Spent, dict[str, float]]:
    """Return the time of one more clip, and the CPU seconds of its parts."""
    from signloom.cli.translate_clips import Stopwatch
    from signloom.extraction.extract import extract_video, options_of_fingerprint
    from signloom.translation.options import DECODING
    from signloom.translation.timed import translate_timed
    from signloom.translation.translator import Translator

    translator = Translator.load(checkpoint)
    detector = options_of_fingerprint(translator.source.extractor, "", "")
    options = DECODING
    watches: list[Stopwatch] = []

    def work() -> None:
        watch = Stopwatch()
        with watch.measure("landmarks", without="video decoding"):
            clip = extract_video(
                video, detector, threads=2,
                watch=lambda frames: watch.measure_each("video decoding", frames),
            )  # fmt: skip
        with watch.measure("model"):
            translate_timed(translator, [clip], options, n_best=1)
        watches.append(watch)

    work()
    watches.clear()
    spent = median(measure(rounds, resource.RUSAGE_SELF, work))
    names = ("video decoding", "landmarks", "model")
    parts = {name: statistics.median(watch.seconds[name] for watch in watches) for name in names}
    return spent, parts


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--checkpoint", type=Path, default=Path("data/checkpoint"))
    parser.add_argument("--video", type=Path, help="another clip (default: one of the demo corpus)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("reports/benchmarks"))
    options = parser.parse_args()
    source = options.video or sorted(Path("data/demo/corpus/videos").glob("*.mp4"))[0]
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for fps in (15.0, 25.0):
            clip = Path(name) / f"{fps:g}.mp4"
            retime(source, clip, fps)
            cold = measure_cold(options.checkpoint, clip, options.rounds)
            warm, parts = measure_warm(options.checkpoint, clip, options.rounds)
            rows.append(
                {
                    "fps": fps,
                    "cold_wall_s": round(cold.wall_s, 2),
                    "cold_cpu_s": round(cold.cpu_s, 2),
                    "warm_wall_s": round(warm.wall_s, 2),
                    "warm_cpu_s": round(warm.cpu_s, 2),
                    "shares": {
                        part: round(spent / sum(parts.values()), 3) for part, spent in parts.items()
                    },
                }
            )
    write(options.out, {"clip_s": CLIP_S, "cpus": os.cpu_count(), "load": os.getloadavg()[0],
                        "rounds": options.rounds, "rows": rows})  # fmt: skip


def write(out: Path, content: dict[str, object]) -> None:
    rows = content["rows"]
    assert isinstance(rows, list)
    lines = [
        f"`signloom translate` of a {CLIP_S:g} s clip, 320x240, Holistic; {content['cpus']} cores, "
        f"load {content['load']:.1f} at the end, medians of {content['rounds']}. Wanted: cold at "
        f"most {WANTED_COLD_S:g} s, warm under {CLIP_S:g} s.",
        "",
        "| frames/s | cold, s | cold, CPU-s | warm, s | warm, CPU-s | video decoding | landmarks "
        "| model |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        shares = " | ".join(f"{100 * share:.1f} %" for share in row["shares"].values())
        lines.append(
            f"| {row['fps']:g} | {row['cold_wall_s']} | {row['cold_cpu_s']} | "
            f"{row['warm_wall_s']} | {row['warm_cpu_s']} | {shares} |"
        )
    text = "\n".join(lines) + "\n"
    write_file(out / "translate.md", text)
    write_file(out / "translate.json", json.dumps(content, indent=1) + "\n")
    print(text)


if __name__ == "__main__":
    main()
