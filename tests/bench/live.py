"""Live translation: does the delay grow, how long after the hands rest comes the text, and why.

Starts `signloom app` as a process of its own in a new project with that model, and sends it what
the page sends: JPEG pictures of 640x480 in batches over HTTP, 15 a second, of a drawn signer who
rests 1.5 s between sentences. A batch goes when the answer to the one before is there; a server
that is too slow gets evenly fewer, as from the page. The pictures are drawn before. Printed are

- the delay, which the page shows, too: from a batch's last picture to its answer; its slope;
- from the hands at rest to the text, each sentence;
- CPU seconds of the server a second.
"""

import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import psutil

from signloom.paths import CHECKPOINT
from signloom_demo.grammar import sentences
from signloom_demo.motion import HOLD_S
from tests.attack.app import Client
from tests.bench.figures import Figure
from tests.camera import FPS, draw

SIZE = (640, 480)
QUALITY = 85  # of JPEG, as the page's
MOST_WAITING, SLOWEST = 30, 4  # pictures, and one of how many is sent at least; as the page's
PAUSE_S = 1.5
SENTENCES = 12  # different ones, signed in turn
SECONDS, PORT = 120.0, "8799"


class AppPage:
    """Sends pictures as the page does."""

    def __init__(self, address: str) -> None:
        self.client = Client(address)
        self._waiting: list[tuple[float, bytes]] = []
        self._lock, self.left, self.running = threading.Lock(), 0, True
        self._every, self._number = 1, 0
        self.answers: list[tuple[float, float, Any]] = []  # when, delay, translation

    def take(self, time_s: float, jpeg: bytes) -> None:
        self._number += 1
        if self._number % self._every:
            self.left += 1
            return
        with self._lock:
            self._waiting.append((time_s, jpeg))
            while len(self._waiting) > MOST_WAITING:
                self._waiting.pop(0)
                self.left += 1

    def send(self, session: str) -> None:
        while self.running:
            with self._lock:
                frames, self._waiting = self._waiting, []
            if not frames:
                time.sleep(1 / FPS)
                continue
            body = b"".join(struct.pack("<dI", when, len(jpeg)) + jpeg for when, jpeg in frames)
            answer = self.client.ask("PUT", f"live/{session}", body)[1]
            now = time.monotonic()
            self.answers.append((now, now - frames[-1][0], answer["translation"]))
            if len(self._waiting) > MOST_WAITING / 3:
                self._every = min(self._every + 1, SLOWEST)
            elif len(self._waiting) < 3:
                self._every = max(self._every - 1, 1)


def draw_pictures() -> tuple[list[bytes], list[int]]:
    """Return JPEG pictures of sentences, and at which of them the hands came to rest."""
    pool = [sentence for sentence in sentences(4) if len(sentence.glosses) > 2]
    pictures: list[bytes] = []
    rests = []
    for number in range(SENTENCES):
        drawn = draw("anouk", pool[number * len(pool) // SENTENCES].glosses, *SIZE, seed=number)
        rests.append(len(pictures) + len(drawn) - round(HOLD_S * FPS))
        drawn += drawn[-1:] * round(PAUSE_S * FPS)
        options = [cv2.IMWRITE_JPEG_QUALITY, QUALITY]
        pictures += [cv2.imencode(".jpg", frame, options)[1].tobytes() for frame in drawn]
    return pictures, rests


def play(page: AppPage, seconds: float, server: psutil.Process) -> tuple[float, list[float], float]:
    """Send pictures for so long.

    Returns:
        When that began, when hands came to rest, and the CPU seconds of the server.
    """
    pictures, rests = draw_pictures()
    session = page.client.ask("POST", "live", {})[1]["id"]
    before = server.cpu_times()
    sender = threading.Thread(target=page.send, args=(session,))
    begun = time.monotonic()
    sender.start()
    ends = []
    for number in range(round(seconds * FPS)):
        when = begun + number / FPS
        time.sleep(max(0.0, when - time.monotonic()))
        page.take(time.monotonic(), pictures[number % len(pictures)])
        if number % len(pictures) in rests:
            ends.append(when)
    time.sleep(PAUSE_S)
    page.running = False
    sender.join()
    after = server.cpu_times()
    return begun, ends, after.user + after.system - before.user - before.system


def summarise(page: AppPage, begun: float, ends: list[float], cpu_s: float) -> list[Figure]:
    """Return the figures."""
    when = np.array([answer[0] - begun for answer in page.answers])
    delay = np.array([answer[1] for answer in page.answers])
    moments = [answer[0] for answer in page.answers if answer[2] is not None]
    waits = []
    for end, following in zip(ends, [*ends[1:], np.inf], strict=True):
        waits += [moment - end for moment in moments if end < moment < following][:1]
    slope, _ = np.polyfit(when / 60, delay, 1)
    return [
        Figure("delay of an answer, s", float(np.median(delay)), at_most=0.2),
        Figure("its growth, s a minute", float(slope), at_most=0.02),
        Figure("from rest to text, s", float(np.median(waits)), at_most=1.0),
        Figure("from rest to text, most, s", max(waits), at_most=1.5),
        Figure("sentences that got a text, share", len(waits) / len(ends), at_least=1.0),
        Figure("CPU of the server, cores", cpu_s / when[-1]),
    ]


def measure() -> list[Figure]:
    """Start the app, play to it, stop it."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        shutil.copytree(CHECKPOINT, project / CHECKPOINT)
        for name in ("params.yaml", "ops.yaml"):
            if Path(name).exists():
                shutil.copy(name, project)
        paths = os.pathsep.join([str(Path.cwd()), str(Path.cwd() / "src")])
        server = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "signloom_tools.cli.main",
                "app",
                "--no-browser",
                "--port",
                PORT,
            ],
            cwd=project,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": paths},
        )
        assert server.stdout is not None
        try:
            page = AppPage(server.stdout.readline().strip())
            begun, ends, cpu_s = play(page, SECONDS, psutil.Process(server.pid))
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(30)
    return summarise(page, begun, ends, cpu_s)
