"""The app as a process, and what a person does on its page."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import av
import numpy as np

from signloom_demo.draw import DrawOptions, draw_clip, plan_clips
from tests import camera
from tests.browser import DESK, Tab

WAIT_S = 240.0  # two cores may have other work
wait_for = partial(camera.wait_for, wait_s=WAIT_S)


def write_camera(folder: Path) -> Path:
    """Draw a signer and write what a camera would see of her, again and again."""
    options = DrawOptions(
        out=folder,
        seed=1,
        train_signers=1,
        dev_signers=1,
        test_signers=1,
        clips_per_signer=1,
        max_signs=3,
        unseen_share=0.0,
        fps=15,
        width=320,
        height=240,
    )
    (folder / "videos").mkdir(parents=True)
    clip = plan_clips(options)[0]
    draw_clip(clip, options, folder)
    path = folder / "camera.y4m"
    with av.open(str(folder / f"videos/{clip.clip_id}.mp4")) as video, path.open("wb") as file:
        file.write(b"YUV4MPEG2 W640 H480 F15:1 Ip A1:1 C420jpeg\n")
        frames = [
            b"FRAME\n" + np.ascontiguousarray(picture.to_ndarray()).tobytes()
            for frame in video.decode(video=0)
            for picture in [frame.reformat(width=640, height=480, format="yuv420p")]
        ]
        file.writelines([frames[0]] * 10 + frames + [frames[-1]] * 12)  # rests before and after
    return path


class Server:
    """`signloom app` as a process that may be killed and started again."""

    def __init__(self, project: Path) -> None:
        self.project = project
        self.process: subprocess.Popen[str] | None = None

    def start(self, *more: str, by: Sequence[str] = ()) -> str:
        """Start it, by another program if one is named, and return the address."""
        program = Path(sys.executable).with_name("signloom")
        self.process = subprocess.Popen(
            [*by, program, "app", "--no-browser", "--port", str(8700 + os.getpid() % 90), *more],
            cwd=self.project,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        with self.process.stdout as output:
            return output.readline().strip()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        assert self.process is not None
        self.process.send_signal(how)
        self.process.wait(20)


def press(tab: Tab, selector: str) -> None:
    tab.run(f"document.querySelector({selector!r}).click()")


def write(tab: Tab, selector: str, text: str) -> None:
    tab.run(f"document.querySelector({selector!r}).value = {text!r}")


def begin(tab: Tab) -> None:
    press(tab, "#go")
    wait_for(
        tab, "document.querySelector('#consent').open || !document.querySelector('#stop').hidden"
    )
    if tab.run("document.querySelector('#consent').open"):
        agree(tab)
    wait_for(tab, "!document.querySelector('#stop').hidden")


def agree(tab: Tab) -> None:
    wait_for(tab, "document.querySelector('#consent').open")
    press(tab, "#for-training")
    press(tab, "#consent button[value=yes]")


def open_page(tab: Tab, address: str, name: str, width: int = DESK, **media: str) -> None:
    tab.show(address, width=width, **media)
    wait_for(tab, "!!document.querySelector('#language')?.value")
    tab.run(f"location.hash = {name!r}")
    wait_for(tab, f"!document.querySelector('#{name}').hidden")


def camera_flags(folder: Path) -> tuple[str, ...]:
    return (
        "--use-fake-ui-for-media-stream",
        "--use-fake-device-for-media-stream",
        f"--use-file-for-fake-video-capture={write_camera(folder)}",
    )
