"""The app in a real browser: the drawn signer records herself and is taken into a corpus.

Quick twins: tests/unit/app.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest

from signloom.app.takes import TakeStore
from signloom.cli.main import main
from signloom.corpus.landmarks import HANDS_POSE
from signloom.corpus.manifest import read_manifest
from signloom.corpus.shards import write_shards
from signloom.demo.draw import DrawOptions, draw_clip, plan_clips
from signloom.evaluation.judge import Judgements, Pair
from signloom.paths import SHARDS
from tests.intake import found_corpus
from tests.tiny import ROOT, sequence, write_checkpoint
from tests.unit.evaluation.judged import task
from tests.unit.report.test_browser import DESK, PHONE, Tab, find_chromium, open_tab

pytestmark = [
    pytest.mark.slow,
    pytest.mark.mediapipe,
    pytest.mark.skipif(find_chromium() is None, reason="no Chromium on this machine"),
]
WAIT_S = 60.0
EVIL = "<script>alert(1)</script> oui"


def write_camera(folder: Path) -> Path:
    """Draw a signer and write what a camera would see of her, again and again."""
    options = DrawOptions(
        out=folder, seed=1, train_signers=1, dev_signers=1, test_signers=1, clips_per_signer=1,
        max_signs=3, unseen_share=0.0, fps=15, width=320, height=240,
    )  # fmt: skip
    (folder / "videos").mkdir(parents=True)
    clip = plan_clips(options)[0]
    draw_clip(clip, options, folder)
    camera = folder / "camera.y4m"
    with av.open(str(folder / f"videos/{clip.clip_id}.mp4")) as video, camera.open("wb") as file:
        file.write(b"YUV4MPEG2 W640 H480 F15:1 Ip A1:1 C420jpeg\n")
        frames = [
            b"FRAME\n" + np.ascontiguousarray(picture.to_ndarray()).tobytes()
            for frame in video.decode(video=0)
            for picture in [frame.reformat(width=640, height=480, format="yuv420p")]
        ]
        file.writelines([frames[0]] * 10 + frames + [frames[-1]] * 12)  # rests before and after
    return camera


class Server:
    """`signloom app` as a process that may be killed and started again."""

    def __init__(self, project: Path) -> None:
        self.project = project
        self.process: subprocess.Popen[str] | None = None

    def start(self, *more: str) -> str:
        program = Path(sys.executable).with_name("signloom")
        self.process = subprocess.Popen(
            [program, "app", "--no-browser", "--port", str(8700 + os.getpid() % 90), *more],
            cwd=self.project, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        with self.process.stdout as said:
            return said.readline().strip()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        assert self.process is not None
        self.process.send_signal(how)
        self.process.wait(20)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    found_corpus(project)
    text = (ROOT / "params.yaml").read_text(encoding="utf-8")
    text = text.replace("folder: data/demo/corpus", "folder: data/raw/weekly")
    (project / "params.yaml").write_text(text.replace("settle_s: 10.0", "settle_s: 0.0"))
    found = Server(project)
    yield found
    if found.process is not None and found.process.poll() is None:
        found.stop(signal.SIGKILL)


def wait_for(tab: Tab, condition: str) -> None:
    until = time.monotonic() + WAIT_S
    while not tab.run(condition):
        assert time.monotonic() < until, (condition, tab.run("document.body.innerText"))
        time.sleep(0.1)


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
        press(tab, "#for-training")
        press(tab, "#consent button[value=yes]")
    wait_for(tab, "!document.querySelector('#stop').hidden")


def camera_flags(folder: Path) -> tuple[str, ...]:
    return (
        "--use-fake-ui-for-media-stream",
        "--use-fake-device-for-media-stream",
        f"--use-file-for-fake-video-capture={write_camera(folder)}",
    )


def test_sentences_are_translated_while_they_are_signed(server: Server, tmp_path: Path) -> None:
    write_checkpoint(server.project / "data/checkpoint")  # it knows nothing, but says something
    address = server.start()
    with open_tab(tmp_path / "profile", 240.0, camera_flags(tmp_path / "drawn")) as tab:
        tab.show(address, width=DESK)
        tab.run("location.hash = 'translate'")
        wait_for(tab, "document.querySelector('#preview').videoWidth > 0")
        press(tab, "#live")
        wait_for(tab, "document.querySelectorAll('#said > li').length >= 2")
        assert tab.run("document.querySelectorAll('#said button').length") == 1
        press(tab, "#said button")
        wait_for(tab, "document.querySelectorAll('#list > li').length == 1")
        assert tab.complaints == []
    (take,) = TakeStore().list_takes()
    assert (take.state, take.suffix) == ("whole", ".mov")
    with av.open(str(TakeStore().film(take))) as video:
        assert sum(1 for _ in video.decode(video=0)) > 10


def test_the_drawn_signer_records_herself_and_a_night_can_take_her_in(
    server: Server, tmp_path: Path
) -> None:
    address = server.start()
    with open_tab(tmp_path / "profile", 240.0, camera_flags(tmp_path / "drawn")) as tab:
        tab.show(address, width=DESK)
        wait_for(tab, "document.querySelector('#preview').videoWidth > 0")
        write(tab, "#signer", "zoe")
        write(tab, "#sentence", EVIL)
        begin(tab)
        time.sleep(3.5)
        press(tab, "#stop")
        wait_for(tab, "!document.querySelector('#taken').hidden")
        assert tab.run("document.querySelectorAll('#taken canvas').length") == 1
        press(tab, "#keep")
        # The second recording meets a server that dies and comes back.
        write(tab, "#sentence", "elle mange du pain")
        begin(tab)
        time.sleep(1.5)
        server.stop(signal.SIGKILL)
        time.sleep(2.0)
        tab.complaints.clear()  # that nothing answered was to be
        token = server.start().partition("token=")[2]
        tab.send("Network.setCookie", name="signloom", value=token, url=address.partition("?")[0])
        time.sleep(1.0)
        press(tab, "#stop")
        wait_for(tab, "!document.querySelector('#taken').hidden")
        tab.complaints.clear()
        for tab_name in ("clips", "wanted", "nights", "clips"):
            tab.run(f"location.hash = {tab_name!r}")
            time.sleep(0.5)
        assert tab.run("document.querySelectorAll('#list > li').length") == 2
        assert EVIL in tab.run("[...document.querySelectorAll('#list input')].map((i) => i.value)")
        for width in (PHONE, DESK):
            tab.send("Emulation.setDeviceMetricsOverride", width=width, height=900,
                     deviceScaleFactor=1, mobile=width == PHONE)  # fmt: skip
            assert tab.run("document.documentElement.scrollWidth <= innerWidth")
        press(tab, "#deliver")
        wait_for(tab, "document.querySelector('#message').textContent.includes('2')")
        # `wanted` asks for what no training has written yet; the browser notes the answer 422.
        assert [one for one in tab.complaints if "422" not in one] == []
    films = [TakeStore().film(take) for take in TakeStore().list_takes()]
    assert len(films) == 2
    for film in films:
        with av.open(str(film)) as video:
            assert sum(1 for _ in video.decode(video=0)) > 20
    shutil.rmtree(server.project / "data/app")
    main(["ingest", "data/inbox"])
    texts = [clip.text for clip in read_manifest(server.project / "data/raw/weekly/manifest.tsv")]
    assert set(texts[-2:]) == {EVIL, "elle mange du pain"}


def test_a_judge_answers_blind_with_the_keyboard_and_goes_on_later(
    server: Server, tmp_path: Path
) -> None:
    """The films are of a kind that browsers do not play: their landmarks are drawn."""
    clips = read_manifest(server.project / "data/raw/weekly/manifest.tsv")[:2]
    prepared = task(clips=2)
    pairs = [Pair(clip_id=clip.clip_id, a=EVIL, b="") for clip in clips]
    Judgements().add("t", replace(prepared, pairs=pairs))
    write_shards(
        SHARDS, {clip.clip_id: 12 for clip in clips}, lambda _: sequence(), layout=HANDS_POSE,
        extractor="{}", frames_per_shard=1000,
    )  # fmt: skip
    address = server.start()

    def begin_judging(tab: Tab, number: int) -> None:
        tab.run("location.hash = 'judge'")
        wait_for(tab, "!document.querySelector('#judge-begin').hidden")
        write(tab, "#judge-name", "anna")
        press(tab, "#judge-begin button")
        wait_for(tab, f"document.activeElement.textContent.startsWith('Clip {number} of 2')")
        wait_for(tab, "document.querySelector('#judging canvas') !== null")

    def answer(tab: Tab) -> None:
        tab.run("document.querySelector('#judging input[name=first]').focus()")
        for key in ("9", "0", "Tab", "1", "0", "Tab", " ", "Enter"):
            code = {"Tab": 9, "Enter": 13}.get(key, ord(key[0]))
            for kind, text in (
                ("keyDown", {"Tab": "", "Enter": "\r"}.get(key, key)),
                ("keyUp", ""),
            ):
                tab.send(
                    "Input.dispatchKeyEvent", type=kind, key=key, text=text,
                    windowsVirtualKeyCode=code,
                )  # fmt: skip

    with open_tab(tmp_path / "profile", 240.0) as tab:
        tab.show(address, width=DESK)
        begin_judging(tab, 1)
        said = tab.run("[...document.querySelectorAll('#judging .said')].map((p) => p.textContent)")
        assert sorted(said) == ["(nothing)", EVIL]
        answer(tab)
        wait_for(tab, "document.activeElement.textContent.startsWith('Clip 2 of 2; 1 judged')")
        tab.run("location.reload()")
        wait_for(tab, "document.querySelector('#judge-name')?.value === ''")
        begin_judging(tab, 2)
        answer(tab)
        wait_for(tab, "document.querySelector('#judging').textContent.includes('Thank you')")
        # There is no camera here, and a player says that it cannot play.
        assert [one for one in tab.complaints if "CSP" in one or "Refused" in one] == []
    (sheet,) = Judgements().sheets("t")
    order = [prepared.order("anna", clip.clip_id) for clip in clips]
    assert [one.preferred for one in sheet.answers.values()] == [first for first, _ in order]
    assert all({one.a, one.b} == {90, 10} for one in sheet.answers.values())
