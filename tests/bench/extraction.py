"""How fast landmarks are extracted, at what cost of CPU time and memory; what a re-run costs.

Usage: python -m tests.bench.extraction [--corpus data/demo/corpus] [--only NAME ...] [--out JSON]
           [--videos FILE ...]

- speed: the stage on 2 workers with an empty cache, beside the loop that everyone writes, both with
  their start: frames a second, medians of interleaved runs. Needs 2 idle cores.
- thin: the same with extract.fps 15 on videos of 30 frames a second (--videos).
- cost: CPU time a frame of a worker's function beside the same MediaPipe graph alone, fed with the
  same frames from memory; interleaved clip by clip.
- alone: wall and CPU time of a clip that is looked at in threads, beside one thread, in turns.
- equality: landmarks of both runtimes, over the corpus and the videos of any folders (--videos).
- rerun: `python -m pipeline.extract` over many clips that are all in the cache (real entries,
  copied) and on disk (tiny files, each with bytes of its own): seconds and peak memory.
- memory: resident memory of the workers over many clips, one at a time.
"""

import argparse
import itertools
import json
import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import yaml

from signloom.config import load_section
from signloom.corpus.manifest import Clip, read_manifest, write_manifest
from signloom.extraction.cache import LandmarkCache
from signloom.extraction.detector import quiet_native_code
from signloom.extraction.extract import (
    ExtractOptions,
    Segment,
    _plan,
    extract_corpus,
    extract_entry,
    extract_video,
    extractor_fingerprint,
)
from signloom.extraction.mediapipe_models import HolisticGraph
from signloom.extraction.video import Video

OPTIONS = load_section(Path("params.yaml"), "extract", ExtractOptions)
PARTS = ("cost", "alone", "equality", "rerun", "memory", "speed", "thin")
BARS = {
    "speed ratio": (">=", 2.0),
    "speed ratio, extract.fps 15": (">=", 3.2),
    "CPU ratio": ("<=", 0.72),
    "frames and parts with equal presence, share": (">=", 0.999),
    "points, worst, px": ("<=", 1.0),
    "points within 0.25 px, share": (">=", 0.999),
    "re-run s": ("<=", 20.0),
    "re-run GB": ("<=", 1.0),
    "worker MB, most": ("<=", 350.0),
}


def in_new_process(function: Callable[..., Any], *arguments: object) -> Any:
    """Return what a function returns in a process that has done nothing else."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context) as pool:
        return pool.submit(function, *arguments).result()


def plain_loop(videos: Sequence[Path], folder: Path) -> tuple[int, float]:
    """Open, convert, process, append, save; return frames and seconds."""
    begun, count = time.perf_counter(), 0
    from mediapipe.python.solutions import holistic

    with holistic.Holistic(model_complexity=1) as detector:
        for video in videos:
            detector.reset()  # or the last clip would shine through
            rows = []
            capture = cv2.VideoCapture(str(video))
            while True:
                there, bgr = capture.read()
                if not there:
                    break
                found = detector.process(cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB))
                parts = (
                    (found.left_hand_landmarks, 21),
                    (found.right_hand_landmarks, 21),
                    (found.pose_landmarks, 33),
                )
                row = [
                    [(mark.x, mark.y, mark.z) for mark in part.landmark]
                    if part
                    else [(0.0, 0.0, 0.0)] * size
                    for part, size in parts
                ]
                rows.append(list(itertools.chain.from_iterable(row)))
            capture.release()
            np.save(folder / f"{video.stem}.npy", np.array(rows))
            count += len(rows)
    return count, time.perf_counter() - begun


def our_stage(clips: Sequence[Clip], folder: Path, fps: float = 0.0) -> float:
    """Extract with an empty cache on 2 workers; return seconds."""
    begun = time.perf_counter()
    os.environ |= {"SIGNLOOM_CACHE": str(folder / "cache"), "SIGNLOOM_WORKERS": "2"}
    extract_corpus(clips, replace(OPTIONS, fps=fps), folder / "landmarks")
    return time.perf_counter() - begun


def measure_speed(
    clips: Sequence[Clip], folder: Path, repeats: int, fps: float = 0.0
) -> dict[str, float]:
    """Frames a second, ours and the plain loop's, which looks at all of them."""
    plain, ours = [], []
    for number in range(repeats):
        here = folder / f"speed{fps:g}-{number}"
        here.mkdir()
        videos = [clip.video for clip in clips if clip.video]
        frames, seconds = in_new_process(plain_loop, videos, here)
        plain.append(frames / seconds)
        ours.append(frames / in_new_process(our_stage, clips, here, fps))
    ratio = statistics.median(our / their for our, their in zip(ours, plain, strict=True))
    of = f", extract.fps {fps:g}" if fps else ""
    return {
        f"plain loop, frames/s{of}": statistics.median(plain),
        f"ours on 2 workers, frames/s{of}": statistics.median(ours),
        f"speed ratio{of}": ratio,
    }


def cpu_costs(clips: Sequence[Clip]) -> list[tuple[int, float, float]]:
    """For each clip: frames, CPU seconds of the graph alone, and of a worker's function."""
    detector = replace(OPTIONS, detector="holistic", groups=("hands", "pose")).detector_options
    with quiet_native_code():
        holistic = HolisticGraph(
            detector.min_detection_confidence, detector.min_tracking_confidence, face=False
        )
    process = holistic._graph.process  # MediaPipe itself, before its answer is unpacked
    costs = []
    for number, clip in enumerate([clips[0], *clips]):  # the first one twice, to warm up
        assert clip.video
        with Video(clip.video) as video:
            frames = [frame.rgb for frame in video.frames()]
        segment = Segment(video=clip.video, start_s=None, end_s=None)

        def alone(frames: Sequence[Any] = frames) -> None:
            with quiet_native_code():
                holistic.reset()
                for frame in frames:
                    process(frame)

        def ours(segment: Segment = segment) -> None:
            assert isinstance(extract_entry(segment, detector), bytes)

        seconds = {}
        for function in (alone, ours) if number % 2 else (ours, alone):
            begun = time.process_time()
            function()
            seconds[function.__name__] = time.process_time() - begun
        costs.append((len(frames), seconds["alone"], seconds["ours"]))
    return costs[1:]


def measure_cost(clips: Sequence[Clip]) -> dict[str, float]:
    """CPU milliseconds a frame, and their ratio."""
    costs = in_new_process(cpu_costs, clips)
    return {
        "graph alone, CPU-ms a frame": statistics.median(1000 * a / n for n, a, _ in costs),
        "ours, CPU-ms a frame": statistics.median(1000 * o / n for n, _, o in costs),
        "CPU ratio": statistics.median(ours / alone for _, alone, ours in costs),
    }


def measure_alone(video: Path, repeats: int) -> dict[str, float]:
    """What one clip takes in threads, of what it takes in one."""
    ratios = []
    for number in range(repeats + 1):
        spent = {}
        for threads in (1, 2) if number % 2 else (2, 1):
            extract_video(video, OPTIONS.detector_options, end_s=0.2, threads=threads)  # builds it
            begun = time.perf_counter(), time.process_time()
            extract_video(video, OPTIONS.detector_options, threads=threads)
            spent[threads] = time.perf_counter() - begun[0], time.process_time() - begun[1]
        ratios.append([ours / plain for ours, plain in zip(spent[2], spent[1], strict=True)])
    wall, cpu = np.median(ratios[1:], axis=0)  # the first one to warm up
    return {"in threads, wall ratio": float(wall), "in threads, CPU ratio": float(cpu)}


def compare_runtimes(video: Path) -> tuple[int, int, list[float]]:
    """Return frames and parts, how many of them both runtimes see or neither, distances in px."""
    options = OPTIONS.detector_options
    found = [
        extract_video(video, replace(options, runtime=runtime))
        for runtime in ("litert", "mediapipe")
    ]
    size = [found[0].width, found[0].height]
    apart = np.linalg.norm((found[0].points - found[1].points)[..., :2] * size, axis=-1)
    same = found[0].present == found[1].present
    return same.size, int(same.sum()), apart[np.isfinite(apart)].tolist()


def measure_equality(videos: Sequence[Path]) -> dict[str, float]:
    """How far the landmarks of the two runtimes are from each other."""
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        found = list(pool.map(compare_runtimes, videos))
    apart = np.concatenate([distances for _, _, distances in found])
    return {
        "videos compared": len(videos),
        "frames and parts with equal presence, share": (
            sum(same for _, same, _ in found) / sum(count for count, _, _ in found)
        ),
        "points, worst, px": float(apart.max()),
        "points within 0.25 px, share": float((apart <= 0.25).mean()),
        "points equal to the bit, share": float((apart == 0).mean()),
    }


def make_project(folder: Path, clips: Sequence[Clip]) -> None:
    """Write what `python -m pipeline.extract` needs into a folder that holds the videos."""
    shutil.copytree("pipeline", folder / "pipeline")
    params = yaml.safe_load(Path("params.yaml").read_text(encoding="utf-8"))
    params["corpus"] |= {"folder": "corpus", "manifest": "manifest.tsv", "signer_disjoint": False}
    (folder / "params.yaml").write_text(json.dumps(params))
    write_manifest(folder / "corpus/manifest.tsv", clips)


def run_stage(project: Path, **environment: str) -> tuple[float, float, float]:
    """Run the stage; return seconds, CPU seconds and peak memory of the process, GB."""
    begun = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "pipeline.extract"],
        cwd=project,
        env={**os.environ, **environment},
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"the stage failed with {process.returncode}")
    cpu_s = usage.ru_utime + usage.ru_stime
    return time.perf_counter() - begun, cpu_s, usage.ru_maxrss / 1e6  # Linux counts in kB


def measure_rerun(
    clips: Sequence[Clip], folder: Path, count: int, repeats: int
) -> dict[str, float]:
    """Seconds and peak memory of a run that has nothing to look at."""
    in_new_process(our_stage, clips, folder / "real")
    entries = [p.read_bytes() for p in sorted((folder / "real/cache").glob("*/*.clip"))]
    project = folder / "rerun"
    (project / "corpus/videos").mkdir(parents=True)
    many = []
    for number in range(count):
        video = project / f"corpus/videos/{number:06d}.mp4"
        video.write_bytes(b"clip %06d" % number)
        clip = clips[number % len(clips)]
        split = "dev" if number == 0 else "train"
        many.append(
            replace(clip, clip_id=f"clip-{number:06d}", video=video, split=split, signer="all")
        )
    make_project(project, many)
    cache = LandmarkCache(project / "data/cache/landmarks")
    tasks, _ = _plan(many, extractor_fingerprint(OPTIONS), cache)
    for number, task in enumerate(tasks):
        cache.store(task.key, entries[number % len(entries)])
    time.sleep(3)  # a file just written is hashed again; these shall look like old ones
    runs = [run_stage(project) for _ in range(repeats + 1)]
    return {
        "clips in the cache": float(count),
        "first run (hashes all), s": runs[0][0],
        "re-run s": statistics.median(seconds for seconds, _, _ in runs[1:]),
        "re-run, CPU s": statistics.median(cpu_s for _, cpu_s, _ in runs[1:]),
        "re-run GB": max(peak for _, _, peak in runs),
    }


def measure_memory(clips: Sequence[Clip], folder: Path, count: int) -> dict[str, float]:
    """Resident memory of the worker in the course of many short clips, MB."""
    project = folder / "memory"
    (project / "corpus").mkdir(parents=True)
    parts = []
    for number in range(count):
        clip = clips[number % len(clips)]
        assert clip.video
        video = project / f"corpus/{clip.video.name}"
        if not video.exists():
            shutil.copy(clip.video, video)
        start_s = 0.2 * (number // len(clips))
        part = {"clip_id": f"part-{number}", "split": "dev" if number == 0 else "train"}
        parts.append(
            replace(clip, video=video, signer="all", start_s=start_s, end_s=start_s + 1.0, **part)
        )
    make_project(project, parts)
    samples: list[float] = []
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.2):
            samples.extend(worker_memory(os.getpid()))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        run_stage(project, SIGNLOOM_WORKERS="1")
    finally:
        done.set()
        watcher.join()
    fifth = len(samples) // 5
    return {
        "clips, one worker at a time": float(count),
        "worker MB, after a fifth": statistics.median(samples[fifth : 2 * fifth]),
        "worker MB, last fifth": statistics.median(samples[-fifth:]),
        "worker MB, most": max(samples),
    }


def worker_memory(ancestor: int) -> list[float]:
    """Resident MB of the spawned processes below the stage."""
    found = []
    for stage in children(ancestor):
        for pid in children(stage):
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
                pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            except OSError:
                continue
            if b"spawn_main" in command:
                found.append(pages * os.sysconf("SC_PAGE_SIZE") / 1e6)
    return found


def children(pid: int) -> list[int]:
    """Child processes, of all threads."""
    try:
        lists = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return []
    return [int(child) for text in lists for child in text.split()]


def format_table(figures: dict[str, float]) -> str:
    """Return the figures as Markdown, beside the bars that some of them have."""
    lines = ["| figure | measured | bar | |", "|---|---:|---:|---|"]
    for name, value in figures.items():
        sign, bar = BARS.get(name, ("", 0.0))
        verdict = ""
        if sign:
            verdict = "met" if (value >= bar) == (sign == ">=") or value == bar else "**missed**"
        lines.append(f"| {name} | {value:,.2f} | {f'{sign} {bar:g}' if sign else ''} | {verdict} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print the table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, default=Path("data/demo/corpus"))
    parser.add_argument("--only", nargs="+", choices=PARTS)
    parser.add_argument("--videos", nargs="*", type=Path, default=[], help="for equality and thin")
    parser.add_argument("--clips", type=int, default=48, help="for speed and cost")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cached", type=int, default=10_000, help="clips of the re-run")
    parser.add_argument("--memory-clips", type=int, default=300)
    parser.add_argument("--out", type=Path, default=Path("reports/benchmarks/extraction.json"))
    arguments = parser.parse_args()
    clips = read_manifest(arguments.corpus.resolve() / "manifest.tsv")
    some = clips[:: max(1, len(clips) // arguments.clips)][: arguments.clips]
    films = [
        Clip(clip_id=video.stem, video=video, text="?", signer="?", split="train")
        for video in arguments.videos
    ]
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="signloom-bench-") as name:
        folder = Path(name)
        parts: dict[str, Callable[[], dict[str, float]]] = {
            "cost": lambda: measure_cost(some),
            "alone": lambda: measure_alone(some[0].video, arguments.repeats),
            "equality": lambda: measure_equality(
                [*(clip.video for clip in clips if clip.video), *arguments.videos]
            ),
            "rerun": lambda: measure_rerun(some[:12], folder, arguments.cached, arguments.repeats),
            "memory": lambda: measure_memory(clips, folder, arguments.memory_clips),
            "speed": lambda: measure_speed(some, folder, arguments.repeats),
            "thin": lambda: measure_speed(films, folder, arguments.repeats, fps=15.0),
        }
        for part in arguments.only or parts:
            if part == "thin" and not films:
                continue
            figures |= parts[part]()
    sys.stdout.write(format_table(figures) + "\n")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
