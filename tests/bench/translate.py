"""What `signloom translate` costs: a cold start, a warm process, and where the time goes.

"Cold" is a process of its own, from its start to its end; "warm" are further calls in one process
that has loaded everything. The clip is 5 s of a drawn signer at 15 and at 25 frames/s. Wall seconds
say what a person waits, CPU seconds what was computed: on a busy machine only the second are to be
believed. Medians.
"""

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

from signloom.detection.video import Video
from signloom.paths import CHECKPOINT
from signloom_tools.video_writer import VideoWriter
from tests.bench.figures import Figure

CLIP_S, MOST_COLD_S, MOST_WARM_S, ROUNDS = 5.0, 4.0, 2.5, 4
MAIN = [sys.executable, "-c", "from signloom_tools.cli.main import main; main()", "translate"]


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


def spend(who: int, work: Callable[[], object]) -> list[Spent]:
    spent = []
    for _ in range(ROUNDS):
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


def measure_cold(checkpoint: Path, video: Path) -> Spent:
    command = [*MAIN, str(video), "--checkpoint", str(checkpoint)]

    def work() -> None:
        subprocess.run(command, check=True, capture_output=True)

    work()  # files are read from disk once
    return median(spend(resource.RUSAGE_CHILDREN, work))


def measure_warm(checkpoint: Path, video: Path) -> tuple[Spent, float]:
    """Return the time of one more clip, and which share of it its landmarks take."""
    from signloom.extraction.extract import extract_video, options_of_fingerprint
    from signloom.translation.options import DECODING
    from signloom.translation.translator import Translator
    from signloom_tools.translate.timed import translate_timed

    translator = Translator.load(checkpoint)
    detector = options_of_fingerprint(translator.source.extractor)
    options = DECODING
    shares: list[float] = []  # of the landmarks, with decoding

    def work() -> None:
        begun_s = time.perf_counter()
        clip = extract_video(video, detector, threads=2)
        found_s = time.perf_counter()
        translate_timed(translator, [clip], options, n_best=1)
        shares.append((found_s - begun_s) / (time.perf_counter() - begun_s))

    work()
    shares.clear()
    return median(spend(resource.RUSAGE_SELF, work)), statistics.median(shares)


def measure() -> list[Figure]:
    """Measure both frame rates."""
    source = sorted(Path("data/demo/corpus/videos").glob("*.mp4"))[0]
    figures = []
    with tempfile.TemporaryDirectory() as name:
        for fps in (15.0, 25.0):
            clip = Path(name) / f"{fps:g}.webm"
            retime(source, clip, fps)
            cold = measure_cold(CHECKPOINT, clip)
            warm, share = measure_warm(CHECKPOINT, clip)
            of = f"{fps:g} frames/s"
            figures += [
                Figure(f"{of}, cold, s", cold.wall_s, at_most=MOST_COLD_S),
                Figure(f"{of}, cold, CPU-s", cold.cpu_s),
                Figure(f"{of}, warm, s", warm.wall_s, at_most=MOST_WARM_S),
                Figure(f"{of}, warm, CPU-s", warm.cpu_s),
                Figure(f"{of}, landmarks' share", share),
            ]
    return figures
