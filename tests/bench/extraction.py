"""How fast landmarks are extracted, at what cost of CPU time and memory; what a re-run costs.

- speed: the stage on 2 workers with an empty cache, beside the loop that everyone writes, both with
  their start: frames a second, medians of interleaved runs. Needs 2 idle cores.
- cost: CPU time a frame of a worker's function beside the same MediaPipe graph alone, fed with the
  same frames from memory; interleaved clip by clip.
- equality: landmarks of the own runtime and of MediaPipe's graph.
- rerun: `python -m pipeline.extract` over many clips that are all in the cache (real entries,
  copied) and on disk (tiny files, each with bytes of its own): seconds and peak memory.
- memory: resident memory of the workers over many clips, one at a time.
"""

import contextlib
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
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import psutil
import yaml

from signloom.config import load_section
from signloom.corpus.manifest import Clip, read_manifest, write_manifest
from signloom.detection.detector import quiet_native_code
from signloom.detection.mediapipe_models import HolisticGraph
from signloom.detection.video import Video
from signloom.extraction.cache import LandmarkCache
from signloom.extraction.extract import (
    ExtractOptions,
    VideoSegment,
    _plan,
    extract_corpus,
    extract_part,
    extract_video,
    extractor_fingerprint,
)
from tests.bench.figures import Figure, in_new_process

OPTIONS = load_section(Path("params.yaml"), "extract", ExtractOptions)
CLIPS, EQUAL, REPEATS = 16, 24, 2  # for speed and cost; for equality; runs of each
CACHED, IN_A_ROW = 10_000, 100  # clips of the re-run; of the test of memory


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
                is_read, bgr = capture.read()
                if not is_read:
                    break
                results = detector.process(cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB))
                parts = (
                    (results.left_hand_landmarks, 21),
                    (results.right_hand_landmarks, 21),
                    (results.pose_landmarks, 33),
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


def our_stage(clips: Sequence[Clip], folder: Path) -> float:
    """Extract with an empty cache on 2 workers; return seconds."""
    begun = time.perf_counter()
    os.environ |= {"SIGNLOOM_CACHE": str(folder / "cache"), "SIGNLOOM_WORKERS": "2"}
    extract_corpus(clips, OPTIONS, folder / "landmarks")
    return time.perf_counter() - begun


def measure_speed(clips: Sequence[Clip], folder: Path) -> list[Figure]:
    """Frames a second, ours and the plain loop's."""
    plain, ours = [], []
    for number in range(REPEATS):
        here = folder / f"speed-{number}"
        here.mkdir()
        videos = [clip.video for clip in clips if clip.video]
        frames, seconds = in_new_process(plain_loop, videos, here)
        plain.append(frames / seconds)
        ours.append(frames / in_new_process(our_stage, clips, here))
    ratio = statistics.median(our / their for our, their in zip(ours, plain, strict=True))
    return [
        Figure("frames/s on 2 workers", statistics.median(ours)),
        Figure("the same, times a plain loop's", ratio, at_least=2.0),
    ]


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
        segment = VideoSegment(video=clip.video, start_s=None, end_s=None)

        def alone(frames: Sequence[Any] = frames) -> None:
            with quiet_native_code():
                holistic.reset()
                for frame in frames:
                    process(frame)

        def ours(segment: VideoSegment = segment) -> None:
            assert isinstance(extract_part([segment], detector)[0], bytes)

        seconds = {}
        for function in (alone, ours) if number % 2 else (ours, alone):
            begun = time.process_time()
            function()
            seconds[function.__name__] = time.process_time() - begun
        costs.append((len(frames), seconds["alone"], seconds["ours"]))
    return costs[1:]


def measure_cost(clips: Sequence[Clip]) -> list[Figure]:
    """CPU milliseconds a frame, beside MediaPipe's graph."""
    costs = in_new_process(cpu_costs, clips)
    return [
        Figure("CPU-ms a frame", statistics.median(1000 * o / n for n, _, o in costs)),
        Figure(
            "the same, times the graph's",
            statistics.median(ours / alone for _, alone, ours in costs),
            at_most=0.72,
        ),
    ]


def compare_runtimes(video: Path) -> tuple[int, int, list[float]]:
    """Return frames and parts, how many of them both runtimes see or neither, distances in px."""
    options = OPTIONS.detector_options
    sequences = [
        extract_video(video, replace(options, runtime=runtime))
        for runtime in ("litert", "mediapipe")
    ]
    size = [sequences[0].width, sequences[0].height]
    apart = np.linalg.norm((sequences[0].points - sequences[1].points)[..., :2] * size, axis=-1)
    same = sequences[0].present == sequences[1].present
    return same.size, int(same.sum()), apart[np.isfinite(apart)].tolist()


def measure_equality(videos: Sequence[Path]) -> list[Figure]:
    """How far the landmarks of the two runtimes are from each other."""
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        comparisons = list(pool.map(compare_runtimes, videos))
    apart = np.concatenate([distances for _, _, distances in comparisons])
    same = sum(same for _, same, _ in comparisons) / sum(count for count, _, _ in comparisons)
    return [
        Figure("parts seen by both or neither, share", same, at_least=0.999),
        Figure(
            "points within 0.25 px of the graph's, share", (apart <= 0.25).mean(), at_least=0.999
        ),
        Figure("points equal to the bit, share", (apart == 0).mean()),
    ]


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
        [sys.executable, "-m", "pipeline.extract"], cwd=project, env={**os.environ, **environment}
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"the stage failed with {process.returncode}")
    cpu_s = usage.ru_utime + usage.ru_stime
    return time.perf_counter() - begun, cpu_s, usage.ru_maxrss / 1e6  # Linux counts in kB


def measure_rerun(clips: Sequence[Clip], folder: Path) -> list[Figure]:
    """Seconds and peak memory of a run that has nothing to look at."""
    in_new_process(our_stage, clips, folder / "real")
    entries = [p.read_bytes() for p in sorted((folder / "real/cache").glob("*/*.clip"))]
    project = folder / "rerun"
    (project / "corpus/videos").mkdir(parents=True)
    many = []
    for number in range(CACHED):
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
    runs = [run_stage(project) for _ in range(REPEATS + 1)]
    name = f"re-run over {CACHED:,} cached clips"
    return [
        Figure(f"{name}, s", statistics.median(seconds for seconds, _, _ in runs[1:]), at_most=20),
        Figure(f"{name}, GB", max(peak for _, _, peak in runs), at_most=1.0),
    ]


def measure_memory(clips: Sequence[Clip], folder: Path) -> list[Figure]:
    """Resident memory of the worker in the course of many short clips, MB."""
    project = folder / "memory"
    (project / "corpus").mkdir(parents=True)
    parts = []
    for number in range(IN_A_ROW):
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
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.2):
            samples.extend(worker_memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        run_stage(project, SIGNLOOM_WORKERS="1")
    finally:
        stop.set()
        watcher.join()
    return [Figure(f"a worker's MB in {IN_A_ROW} clips, most", max(samples), at_most=350)]


def worker_memory() -> list[float]:
    """Resident MB of the spawned processes below the stage."""
    megabytes = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it has ended
            if "spawn_main" in " ".join(process.cmdline()):
                megabytes.append(process.memory_info().rss / 1e6)
    return megabytes


def measure() -> list[Figure]:
    """Measure all of it."""
    clips = read_manifest(Path("data/demo/corpus/manifest.tsv").resolve())
    some = clips[:: len(clips) // CLIPS][:CLIPS]
    videos = [clip.video for clip in clips[:: len(clips) // EQUAL] if clip.video]
    with tempfile.TemporaryDirectory(prefix="signloom-bench-") as name:
        folder = Path(name)
        return [
            *measure_cost(some),
            *measure_equality(videos),
            *measure_rerun(some[:12], folder),
            *measure_memory(clips, folder),
            *measure_speed(some, folder),
        ]
