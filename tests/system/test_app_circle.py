"""From an empty project to a page that understands its signer, without one command in between.

A drawn signer sits before the camera of a headless Chromium. She and three others record sentences
in the page and deliver them; the page makes the corpus, learns (stopped once, and begun again), the
gate promotes, and the page translates what she signs then.

    python -m tests.system.test_app_circle --pictures docs/images  # of docs/ops/first_signs.md

Quick twin: tests/unit/ops/app/test_page.py.
"""

import argparse
import base64
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from signloom.paths import MODELS
from signloom_demo.grammar import sentences
from signloom_ops.nightly.store import ModelStore
from signloom_tools.cli.project import make_project
from tests.app_server import Server, begin, press, write
from tests.browser import NEEDS_CHROMIUM, Tab, open_tab
from tests.camera import READY, SignerBeforeCamera, begin_live, sign_live, wait_for

TEXTS = ("bonjour maman", "je mange du pain", "tu bois de l'eau", "elle est fatiguée")
GLOSSES = {sentence.text: sentence.glosses for sentence in sentences(3) if sentence.text in TEXTS}
# How often each signs each sentence, and what for; joao is left-handed.
TAKES = {"anouk": 3, "hana": 1, "gildas": 1, "joao": 3}
SPLITS = {"anouk": "train", "hana": "train", "gildas": "dev", "joao": "test"}
SECONDS = 3600.0  # after which the browser is killed
NIGHT_S = 900.0
# A model, not three, and half the epochs: figures, no commands.
QUICK = {"epochs: 300": "epochs: 150"}
OPS = "{gate: {seeds: 1}}\n"
WIDTH, HEIGHT = 900, 800  # of pictures


class Walk:
    """The road, step by step."""

    def __init__(self, tab: Tab, camera: SignerBeforeCamera, project: Path, pictures: Path | None):
        self.tab, self.camera, self.project, self._pictures = tab, camera, project, pictures
        self._performances, self._taken = 0, set[str]()

    def picture(self, name: str, selector: str = "header", block: str = "start") -> None:
        """Take a picture of the window with a part at its start or end."""
        if self._pictures is None or name in self._taken:
            return
        self._taken.add(name)
        self.tab.run(f"document.querySelector({selector!r}).scrollIntoView({{block: {block!r}}})")
        screenshot = self.tab.send("Page.captureScreenshot", format="jpeg", quality=70)
        (self._pictures / f"first_{name}.jpg").write_bytes(base64.b64decode(screenshot["data"]))

    def record(self, takes: Mapping[str, int]) -> None:
        """Let signers record what the page proposes, and deliver it."""
        self.tab.run("location.hash = 'record'")
        wait_for(self.tab, READY)
        for signer, times in takes.items():
            self.camera.sit(signer)
            write(self.tab, "#signer", signer)
            for _ in range(times * len(TEXTS)):
                text = self.tab.run("document.querySelector('#sentence').value")
                begin(self.tab)
                signing = threading.Thread(target=self.sign, args=(signer, text))
                signing.start()
                time.sleep(1.5)
                self.picture("record")
                signing.join()
                press(self.tab, "#stop")
                # The video of the take before is there, too, but hidden.
                wait_for(self.tab, "!document.querySelector('#taken').hidden")
                wait_for(self.tab, "document.querySelector('#taken video')?.readyState > 1")
                self.picture("take", "#taken", "end")
                press(self.tab, "#keep")
        self.tab.run("location.hash = 'clips'")
        wait_for(self.tab, "document.querySelectorAll('#list > li').length > 0")
        press(self.tab, "#deliver")
        count = len(TEXTS) * sum(takes.values())
        wait_for(self.tab, f"document.querySelector('#message').textContent.includes('{count}')")
        self.picture("delivered")

    def sign(self, signer: str, text: str) -> None:
        """Sign a sentence, each time a little differently."""
        self._performances += 1
        self.camera.sign(signer, GLOSSES[text], seed=self._performances)

    def found(self) -> None:
        """Make the corpus, each person for what she is for."""
        self.tab.run("location.hash = 'nights'")
        wait_for(self.tab, "document.querySelectorAll('#founding select').length == 4")
        for signer, split in SPLITS.items():
            choice = f"document.querySelector('#founding select[aria-label$={signer}]')"
            if self.tab.run(f"{choice}.value") != split:
                self.tab.run(
                    f"window.before = {choice}; before.value = {split!r}; "
                    "before.dispatchEvent(new Event('change'))"
                )
                wait_for(self.tab, f"!before.isConnected && {choice}.value === {split!r}")
        self.picture("corpus", "#founding")
        press(self.tab, "#found")
        wait_for(self.tab, "!document.querySelector('#learning').hidden")
        params = self.project / "params.yaml"
        text = params.read_text(encoding="utf-8")
        for old, new in QUICK.items():
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        params.write_text(text, encoding="utf-8")

    def learn(self) -> None:
        """Begin a night, stop it, and begin it again."""
        press(self.tab, "#learn")
        going = "document.querySelector('#going').textContent"
        wait_for(self.tab, f"{going}.includes('finding hands')")
        self.tab.run("window.confirm = () => true")
        press(self.tab, "#cancel")
        self.wait_for_end("it was stopped; the next night goes on where it was")
        press(self.tab, "#learn")
        wait_for(self.tab, f"{going}.includes('learning')", NIGHT_S)
        self.wait_for_end("is the first champion")

    def wait_for_end(self, verdict: str) -> None:
        expression = "document.querySelector('#night').textContent"
        ended = "!document.querySelector('#learn').hidden"
        wait_for(self.tab, f"{ended} && {expression}.includes({verdict!r})", NIGHT_S)

    def understand(self, signer: str, model: str) -> list[str]:
        """Sign all sentences while the page translates; return what it said."""
        self.tab.run("location.hash = 'translate'")
        wait_for(self.tab, f"document.querySelector('#model').textContent.includes('{model}')")
        self.camera.sit(signer)
        begin_live(self.tab)
        texts = [
            sign_live(self.tab, self.camera, signer, GLOSSES[text], seed=1000 + n, until=text)
            for n, text in enumerate(TEXTS)
        ]
        self.picture("live", "#translate-camera")
        return texts


def walk(folder: Path, pictures: Path | None = None) -> tuple[list[str], Walk]:
    """Go from an empty project to translations of what is signed live."""
    project = folder / "signs of mine, ä"
    make_project(project)
    (project / "sentences.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    (project / "ops.yaml").write_text(OPS, encoding="utf-8")
    camera, server = SignerBeforeCamera(folder / "camera.y4m"), Server(project)
    camera.sit("anouk")
    address = server.start("--prompts", "sentences.txt")
    try:
        with open_tab(folder / "profile", SECONDS, camera.flags) as tab:
            tab.show(address, width=WIDTH, height=HEIGHT)
            visit = Walk(tab, camera, project, pictures)
            visit.record(TAKES)
            visit.found()
            visit.learn()
            visit.picture("night")
            return visit.understand("anouk", "champion 1"), visit
    finally:
        server.stop()


@pytest.mark.slow
@pytest.mark.mediapipe
@NEEDS_CHROMIUM
def test_who_records_herself_in_the_page_is_understood_after_a_night(tmp_path: Path) -> None:
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    texts, visit = walk(tmp_path, pictures)
    assert texts == list(TEXTS)
    assert ModelStore(visit.project / MODELS).champion() == 1
    assert visit.tab.complaints == []
    assert len(list(pictures.iterdir())) == 6


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Take the pictures of docs/ops/first_signs.md.")
    parser.add_argument("--pictures", type=Path, required=True, metavar="FOLDER")
    with tempfile.TemporaryDirectory() as folder:
        print(walk(Path(folder), parser.parse_args().pictures)[0])
