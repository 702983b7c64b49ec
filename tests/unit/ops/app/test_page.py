"""From films to live translation in the page, with what is cheap: a quick twin of test_app_circle.

Films come by HTTP instead of from the camera, and the champion is a tiny model of two signs.
"""

import dataclasses
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from signloom.checkpoint import save_checkpoint
from signloom.corpus.manifest import read_manifest
from signloom.extraction.extract import extract_video, extractor_fingerprint
from signloom.features.targets import NO_LABELS, Target
from signloom.features.tokenizer import Tokenizer
from signloom.training.data import TrainingData
from signloom.training.train import train
from signloom_demo.draw import write_video
from signloom_ops.app.server import PAGES
from signloom_ops.nightly.store import ModelStore
from tests import tiny
from tests.browser import DESK, NEEDS_CHROMIUM, open_tab
from tests.camera import FPS, READY, SignerBeforeCamera, begin_live, draw, sign_live, wait_for
from tests.extraction import OPTIONS
from tests.unit.ops.app.serving import Asker

SIGNS = {"bonjour": ("BONJOUR",), "maison": ("MAISON",)}
REST = 6  # pictures, before and after
PEOPLE = ("anouk", "bakary", "fatou")


@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
@pytest.mark.parametrize("status", ["undefined", "401", "429", "503", "507"])
def test_a_page_keeps_a_film_until_the_app_takes_it_again(status: str) -> None:
    """The app is killed in the middle, is back with another cookie, and gets it at last."""
    script = (PAGES / "app.js").read_text(encoding="utf-8")
    sender = script[script.index("const FOR_NOW") : script.index("// --- camera")]
    code = f"""
const start = {{ piece: 4 }}, got = [], tell = () => {{}}, say = (name) => name;
const pause = async () => {{}};
let away = 3;
async function ask(method, path, body) {{
  if (got.length && away-- > 0) throw Object.assign(new Error("no"), {{ status: {status} }});
  got.push(method === "PUT" ? await body.text() : body.size);
  if (method === "POST") return got;
  away += got.length === 3 ? 2 : 0;
}}
{sender}
const film = new Sender("x");
film.add(new Blob(["one film"]));
film.add(new Blob([" more"]));
film.finish().then((all) => console.log(JSON.stringify(all)));
"""
    process = subprocess.run(["node", "-e", code], capture_output=True, text=True, timeout=60)
    assert json.loads(process.stdout) == ["one ", "film", " mor", "e", 13], process.stderr


def deliver(asker: Asker, folder: Path) -> Path:
    """Send a film of each sign by each person, agree to training, deliver; return the delivery."""
    for number, signer in enumerate(PEOPLE):
        asker.change(
            "POST",
            "/api/consents",
            {
                "signer": signer,
                "purposes": ["training"],
                "until": "",
                "wording": "yes",
            },
        )
        for text, glosses in SIGNS.items():
            pictures = draw(signer, glosses, 320, 240, seed=number)
            pictures = pictures[:1] * REST + pictures + pictures[-1:] * REST
            film = folder / f"{signer}-{text}.mp4"
            write_video(film, iter(pictures), FPS, (320, 240))
            _, take = asker.change(
                "POST", "/api/takes", {"text": text, "signer": signer, "suffix": ".mp4"}
            )
            content = film.read_bytes()
            path = f"/api/takes/{take['id']}"
            asker.ask("PUT", f"{path}/film?offset=0", content, x_signloom="1")
            asker.change("POST", f"{path}/whole", {"size": len(content)})
    # What is delivered of a recording that was looked at is what was signed, without its rests.
    looked_at = asker.change("POST", f"{path}/look", {})[1]["signed"]
    _, delivery = asker.change("POST", "/api/deliver", {})
    assert len(delivery["takes"]) == len(PEOPLE) * len(SIGNS)
    rows = Path(delivery["folder"], "table.tsv").read_text(encoding="utf-8").splitlines()
    (row,) = (line.split("\t") for line in rows if line.startswith(take["id"]))
    assert [f"{time_s:.3f}" for time_s in looked_at] == row[2:4]
    assert 0.0 < looked_at[0] < looked_at[1] < (len(pictures) - REST / 2) / FPS
    return Path(delivery["folder"])


def crown_a_model_of(manifest: Path) -> None:
    """Train a tiny model on the clips of who signs live and make it the champion."""
    clips = [clip for clip in read_manifest(manifest) if clip.signer == PEOPLE[0]]
    tokenizer = Tokenizer.build(list(SIGNS), "pruned")
    examples = []
    for clip in clips:
        assert clip.video
        ids = [tokenizer.bos, *tokenizer.encode(clip.text), tokenizer.eos]
        target = Target(
            clip_id=clip.clip_id,
            split=clip.split,
            signer=clip.signer,
            text=clip.text,
            ids=ids,
            gloss="",
            labels=[],
        )
        examples.append(
            tiny.Example(
                target,
                extract_video(
                    clip.video, OPTIONS.detector_options, clip.start_s, clip.end_s, threads=2
                ),
            )
        )
    extractor = json.loads(extractor_fingerprint(OPTIONS.detector_options))
    data = TrainingData(
        train=tiny.hold_clips(examples, extractor),
        dev=tiny.hold_clips(examples, extractor),
        tokenizer=tokenizer,
        labels=NO_LABELS,
    )
    options = dataclasses.replace(
        tiny.run_options(
            epochs=80,
            patience=80,
            max_frames=300,
            learning_rate=0.01,
            ctc_weight=0.0,
            token_drop=0.0,
            label_smoothing=0.0,
        ),
        augment=tiny.NO_AUGMENT,
    )
    checkpoint, _ = train(data, options, provenance={}, log=lambda _: None)
    save_checkpoint(Path("made"), checkpoint)
    store = ModelStore()
    Path("scores").mkdir()
    store.promote(store.add(Path("made"), Path("scores"), {}), by="a test")


@pytest.mark.slow
@pytest.mark.mediapipe
@NEEDS_CHROMIUM
def test_films_found_a_corpus_and_its_champion_translates_live_in_the_page(
    asker: Asker, tmp_path: Path
) -> None:
    """Quick twins: test_first_corpus.py (deliveries found a corpus), test_live.py."""
    camera = SignerBeforeCamera(tmp_path / "camera.y4m")
    camera.sit(PEOPLE[0])
    with open_tab(tmp_path / "profile", 600.0, camera.flags) as tab:
        tab.show(f"http://{asker.host}/?token={asker.guard.token}", width=DESK)
        wait_for(tab, READY)
        deliver(asker, tmp_path)
        tab.run("location.hash = 'nights'")
        wait_for(tab, "document.querySelectorAll('#founding td').length == 12")
        assert "2 clips" in tab.run("document.querySelector('#founding').innerText")  # of the test
        # In another language what the server says is, too.
        tab.run(
            "const one = document.querySelector('#language'); one.value = 'fr'; "
            "one.dispatchEvent(new Event('change'))"
        )
        wait_for(tab, "document.querySelector('#founding').textContent.includes('époques')")
        tab.run("document.querySelector('#found').click()")
        wait_for(tab, "!document.querySelector('#learning').hidden")
        crown_a_model_of(Path("data/raw/mine/manifest.tsv"))
        tab.run("location.hash = 'translate'")  # of a page that was opened before
        wait_for(tab, "document.querySelector('#model').textContent.includes('champion 1')")
        begin_live(tab)
        for text, glosses in SIGNS.items():
            assert sign_live(tab, camera, PEOPLE[0], glosses, seed=0, until=text) == text
        assert tab.complaints == []
