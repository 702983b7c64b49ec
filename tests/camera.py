"""A drawn signer before the fake camera of Chromium, who signs when she is asked to."""

import time
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from signloom_demo.motion import perform
from signloom_demo.render import Camera
from signloom_demo.scene import draw_frames, pose_arms
from signloom_demo.signer import DEV_SIGNERS, TEST_SIGNERS, TRAIN_SIGNERS
from tests.browser import Tab

FPS = 15
SIGNERS = {signer.name: signer for signer in (*TRAIN_SIGNERS, *DEV_SIGNERS, *TEST_SIGNERS)}
# The button that starts is there, and no camera is open yet.
READY = "!document.querySelector('#camera').hidden"
WAIT_S = 60.0  # for what the page is to show
TOLD_S = 20.0  # for the text of a sentence
TRIES = 4  # of a sentence for which a slow machine got too few pictures
_FRAME = b"FRAME\n"

Picture = npt.NDArray[np.uint8]


class SignerBeforeCamera:
    """The file that Chromium takes for a camera: one picture, which it reads at each of its frames.

    What is written into the file is what the camera sees from then on.
    """

    def __init__(self, path: Path, width: int = 320, height: int = 240) -> None:
        self._path, self._size = path, (width, height)
        self._header = f"YUV4MPEG2 W{width} H{height} F{FPS}:1 Ip A1:1 C420jpeg\n".encode()
        path.write_bytes(self._header + _FRAME + bytes(width * height * 3 // 2))
        self.flags = (
            "--use-fake-ui-for-media-stream",
            "--use-fake-device-for-media-stream",
            f"--use-file-for-fake-video-capture={path}",
        )

    def sit(self, signer: str) -> None:
        """Let a signer take the seat; her hands rest."""
        self._show(draw(signer, ("MERCI",), *self._size, seed=0)[0])

    def sign(self, signer: str, glosses: Sequence[str], *, seed: int, rest_s: float = 0.6) -> None:
        """Sign a sentence, which takes as long as it takes, then rest."""
        pictures = draw(signer, glosses, *self._size, seed=seed)
        pictures += pictures[-1:] * round(rest_s * FPS)
        begun = time.monotonic()
        for number, picture in enumerate(pictures):
            time.sleep(max(0.0, begun + number / FPS - time.monotonic()))
            self._show(picture)

    def _show(self, picture: Picture) -> None:
        with self._path.open("r+b") as file:
            file.seek(len(self._header) + len(_FRAME))
            file.write(cv2.cvtColor(picture, cv2.COLOR_BGR2YUV_I420).tobytes())


def draw(
    signer: str, glosses: Sequence[str], width: int, height: int, *, seed: int
) -> list[Picture]:
    """Return the pictures of a sentence, BGR, from hands at rest to hands at rest."""
    who = SIGNERS[signer]
    performance = perform(glosses, who, FPS, np.random.default_rng(seed))
    room = np.random.default_rng(list(signer.encode()))  # hers, the same each time
    camera = Camera(width=width, height=height)
    return list(draw_frames(pose_arms(performance, who), who, camera, room))


def wait_for(tab: Tab, condition: str, wait_s: float = WAIT_S) -> None:
    """Wait until something is true in the page."""
    until = time.monotonic() + wait_s
    while not tab.run(condition):
        assert time.monotonic() < until, (condition, tab.run("document.body.innerText"))
        time.sleep(0.1)


def begin_live(tab: Tab) -> None:
    """Begin to translate while somebody signs."""
    wait_for(tab, READY)
    tab.run("document.querySelector('#live').click()")
    wait_for(tab, "document.querySelector('#state').textContent != ''")


def sign_live(
    tab: Tab,
    camera: SignerBeforeCamera,
    signer: str,
    glosses: Sequence[str],
    *,
    seed: int,
    until: str,
) -> str:
    """Sign a sentence while the page translates; return what it understood.

    Where the machine was too slow for all pictures she signs again, as people do.
    """
    text = ""
    for _ in range(TRIES):
        remaining, count = tab.run(_LEFT), tab.run(_SAID)
        camera.sign(signer, glosses, seed=seed)
        ends = time.monotonic() + TOLD_S
        while tab.run(_SAID) == count and time.monotonic() < ends:
            time.sleep(0.1)
        text = tab.run("document.querySelector('#said > li .said')?.textContent ?? ''")
        if text == until or tab.run(_LEFT) == remaining:
            break
    return text


_SAID = "document.querySelectorAll('#said > li').length"
_LEFT = "Number(document.querySelector('#state').dataset.left)"  # pictures left out so far
