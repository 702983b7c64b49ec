"""The app in a real browser: the drawn signer records herself and is taken into a corpus.

Quick twins: tests/unit/ops/app.
"""

import itertools
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import av
import psutil
import pytest
import torch

from signloom.checkpoint import load_checkpoint, save_checkpoint
from signloom.corpus.landmarks import HANDS_POSE
from signloom.corpus.manifest import read_manifest
from signloom.corpus.shards import write_shards
from signloom.evaluation.judgements import Judgements, Pair
from signloom.features.targets import CtcLabels
from signloom.paths import SHARDS
from signloom_demo.signer import TRAIN_SIGNERS
from signloom_ops.app.takes import TakeStore
from signloom_tools.cli.main import main
from signloom_tools.importing.captions import Cue, write_captions
from tests import camera
from tests.app_server import (
    WAIT_S,
    Server,
    agree,
    begin,
    camera_flags,
    open_page,
    press,
    wait_for,
    write,
)
from tests.attack.app import Client
from tests.browser import DESK, NEEDS_CHROMIUM, PHONE, Tab, open_tab
from tests.extraction import DRAWING
from tests.films import draw_film
from tests.intake import found_corpus
from tests.tiny import ROOT, sequence, write_checkpoint
from tests.unit.evaluation.judged import task
from tests.videos import write_video

pytestmark = [
    pytest.mark.slow,
    pytest.mark.mediapipe,
    NEEDS_CHROMIUM,
]
READY = camera.READY
EVIL = "<script>alert(1)</script> oui"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    found_corpus(project)
    text = (ROOT / "params.yaml").read_text(encoding="utf-8")
    text = text.replace("folder: data/demo/corpus", "folder: data/raw/weekly")
    (project / "params.yaml").write_text(text)
    (project / "ops.yaml").write_text("ingest: {settle_s: 0}\n")
    app_server = Server(project)
    yield app_server
    if app_server.process is not None and app_server.process.poll() is None:
        app_server.stop(signal.SIGKILL)


def press_named(tab: Tab, name: str) -> None:
    tab.run(
        "[...document.querySelectorAll('#list button')]"
        f".find((one) => one.textContent === {name!r}).click()"
    )


def seconds_of(tab: Tab, selector: str) -> float:
    return float(tab.run(f"document.querySelector({selector!r}).getAttribute('aria-valuenow')"))


def choose_files(tab: Tab, selector: str, *files: Path) -> None:
    """Choose files as a person does in the browser's dialog."""
    node = tab.send("Runtime.evaluate", expression=f"document.querySelector({selector!r})")
    names = [str(file.resolve()) for file in files]
    tab.send("DOM.setFileInputFiles", files=names, objectId=node["result"]["objectId"])


def drag(tab: Tab, selector: str, by: int) -> None:
    """Take something with the mouse and move it to the right."""
    node = f"document.querySelector({selector!r})"
    tab.run(f"{node}.scrollIntoView({{block: 'center', inline: 'center'}})")
    x, y, width, height = tab.run(
        f"(({{x, y, width, height}}) => [x, y, width, height])({node}.getBoundingClientRect())"
    )
    for kind, moved in (("mousePressed", 0), ("mouseMoved", by), ("mouseReleased", by)):
        tab.send(
            "Input.dispatchMouseEvent",
            type=kind,
            x=x + width / 2 + moved,
            y=y + height / 2,
            button="left",
            clickCount=1,
        )


def write_webm(source: Path, target: Path) -> None:
    """Write a film again so that every browser plays it."""
    with av.open(str(source)) as old, av.open(str(target), "w") as new:
        (film,) = old.streams.video
        stream = new.add_stream("libvpx", rate=film.average_rate)
        stream.width, stream.height, stream.pix_fmt = film.width, film.height, "yuv420p"
        stream.options = {"deadline": "realtime", "cpu-used": "8"}
        for number, frame in enumerate(old.decode(film)):
            frame.pts, frame.time_base = number, 1 / Fraction(film.average_rate or 25)
            new.mux(stream.encode(frame.reformat(format="yuv420p")))
        new.mux(stream.encode(None))


def test_sentences_are_translated_while_they_are_signed(server: Server, tmp_path: Path) -> None:
    write_checkpoint(server.project / "data/checkpoint")  # it knows nothing, but says something
    address = server.start()
    with open_tab(tmp_path / "profile", 240.0, camera_flags(tmp_path / "drawn")) as tab:
        tab.show(address, width=DESK)
        tab.run("location.hash = 'translate'")
        wait_for(tab, READY)
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


# The sign that stands over the skeleton at each quarter of a second, and whether it is drawn there.
READ_SIGNS = """
(async () => {
  const video = document.querySelector("#answer video");
  const canvas = document.querySelector("#answer canvas");
  const found = [];
  for (let at = 0.1; at < 2; at += 0.25) {
    video.currentTime = at;
    await new Promise((done) => video.addEventListener("seeked", done, { once: true }));
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    const pixels = canvas.getContext("2d").getImageData(0, 0, 120, 30).data;
    let letters = 0;
    for (let k = 0; k < pixels.length; k += 4) {
      letters += pixels[k] > 200 && pixels[k + 1] > 150 && pixels[k + 2] < 120;
    }
    found.push([canvas.dataset.sign, letters > 20]);
  }
  return found;
})()
"""


def test_the_sign_that_is_read_stands_over_the_moving_skeleton(
    server: Server, tmp_path: Path
) -> None:
    names = ("MOI", "MANGER", "ALLER")
    ctc = CtcLabels(kind="glosses", names=names)
    folder = write_checkpoint(server.project / "data/checkpoint", ctc=ctc)
    # It knows nothing, but reads some sign all the time: "none" is what its head believes least.
    checkpoint = load_checkpoint(folder, torch.device("cpu"))
    checkpoint.model.get_parameter("ctc.bias").data[0] -= 20
    save_checkpoint(folder, checkpoint)
    address = server.start()
    with open_tab(tmp_path / "profile", 240.0, camera_flags(tmp_path / "drawn")) as tab:
        open_page(tab, address, "translate")
        wait_for(tab, READY)
        press(tab, "#go")
        wait_for(tab, "!document.querySelector('#stop').hidden")
        time.sleep(3.0)
        press(tab, "#stop")
        wait_for(tab, "(document.querySelector('#answer video')?.readyState ?? 0) >= 2")
        assert tab.complaints == []  # reading pixels is one more
        readings = tab.run(READ_SIGNS)
    read = {sign for sign, _ in readings} - {""}
    assert read, readings
    assert read <= {*names}
    assert [is_drawn for _, is_drawn in readings] == [bool(sign) for sign, _ in readings]


def test_the_drawn_signer_records_herself_and_a_night_can_take_her_in(
    server: Server, tmp_path: Path
) -> None:
    address = server.start()
    with open_tab(tmp_path / "profile", 240.0, camera_flags(tmp_path / "drawn")) as tab:
        tab.show(address, width=DESK)
        wait_for(tab, READY)
        write(tab, "#signer", "zoe")
        write(tab, "#sentence", EVIL)
        begin(tab)
        time.sleep(3.5)
        press(tab, "#stop")
        wait_for(tab, "!document.querySelector('#taken').hidden")
        assert tab.run("document.querySelectorAll('#taken canvas').length") == 1
        wait_for(tab, "document.activeElement.id === 'keep'")
        assert tab.run(
            "(box => box.top >= 0 && box.bottom <= innerHeight)"
            "(document.querySelector('#keep').getBoundingClientRect())"
        )
        assert tab.run("document.querySelector('#camera').hidden")
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
        press(tab, "#keep")
        tab.complaints.clear()
        # In the third the camera is taken away; what there is stays, and the next one begins.
        write(tab, "#sentence", "rien")
        begin(tab)
        time.sleep(2.5)
        tab.run(
            "const one = document.querySelector('#preview').srcObject.getTracks()[0]; "
            "one.stop(); one.dispatchEvent(new Event('ended'))"
        )
        wait_for(tab, "document.querySelector('#message').textContent.includes('camera is gone')")
        press(tab, "#stop")
        wait_for(tab, "!document.querySelector('#taken').hidden")
        wait_for(tab, "document.querySelector('#taken video').currentTime > 0")  # not black
        press(tab, "#again")
        begin(tab)  # and stopped at once: with luck there is a picture, else it says so
        press(tab, "#stop")
        wait_for(
            tab,
            "!document.querySelector('#taken').hidden || document.querySelector("
            "'#message').textContent.includes('Nothing was recorded')",
        )
        assert not tab.run("document.querySelector('#go').hidden")
        if not tab.run("document.querySelector('#taken').hidden"):
            press(tab, "#again")
        for tab_name in ("clips", "nights", "clips"):
            tab.run(f"location.hash = {tab_name!r}")
            time.sleep(0.5)
        assert tab.run("document.querySelectorAll('#list > li').length") == 2
        assert EVIL in tab.run("[...document.querySelectorAll('#list input')].map((i) => i.value)")
        for width in (PHONE, DESK):
            tab.send(
                "Emulation.setDeviceMetricsOverride",
                width=width,
                height=900,
                deviceScaleFactor=1,
                mobile=width == PHONE,
            )
            assert tab.run("document.documentElement.scrollWidth <= innerWidth")
        press(tab, "#deliver")
        wait_for(tab, "document.querySelector('#message').textContent.includes('2')")
        assert tab.complaints == []
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
        SHARDS,
        {clip.clip_id: 12 for clip in clips},
        lambda _: sequence(),
        layout=HANDS_POSE,
        extractor="{}",
        frames_per_shard=1000,
    )
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
                    "Input.dispatchKeyEvent",
                    type=kind,
                    key=key,
                    text=text,
                    windowsVirtualKeyCode=code,
                )

    with open_tab(tmp_path / "profile", 240.0) as tab:
        tab.show(address, width=DESK)
        begin_judging(tab, 1)
        texts = tab.run(
            "[...document.querySelectorAll('#judging .said')].map((p) => p.textContent)"
        )
        assert sorted(texts) == ["(nothing)", EVIL]
        answer(tab)
        wait_for(tab, "document.activeElement.textContent.startsWith('Clip 2 of 2; 1 judged')")
        tab.run("location.reload()")
        wait_for(tab, "document.querySelector('#judge-name')?.value === ''")
        begin_judging(tab, 2)
        answer(tab)
        wait_for(tab, "document.querySelector('#judging').textContent.includes('Thank you')")
        # There is no camera here, and a player says that it cannot play.
        assert [
            complaint
            for complaint in tab.complaints
            if "CSP" in complaint or "Refused" in complaint
        ] == []
    (sheet,) = Judgements().sheets("t")
    order = [prepared.order("anna", clip.clip_id) for clip in clips]
    assert [answer.preferred for answer in sheet.answers.values()] == [first for first, _ in order]
    assert all({answer.a, answer.b} == {90, 10} for answer in sheet.answers.values())


def test_a_long_film_with_captions_is_cut_on_a_timeline_and_taken_in_as_clips(
    server: Server, tmp_path: Path
) -> None:
    drawn, film, captions = (tmp_path / name for name in ("day.mp4", "day.webm", "day.vtt"))
    signed = [("MOI", "MANGER"), ("TOI", "ALLER")]
    first, second = draw_film(drawn, signed, [1.5], TRAIN_SIGNERS[0], DRAWING, seed=1)
    write_webm(drawn, film)
    cue = Cue(start_s=first[0], end_s=first[1], text="elle mange du pain")
    write_captions(captions, [cue], film)
    start, end = (f".part:nth-of-type({n}) .{name}" for n, name in ((3, "start_s"), (2, "end_s")))
    with open_tab(tmp_path / "profile", 240.0) as tab:
        open_page(tab, server.start(), "clips")
        choose_files(tab, "#files", captions, film)
        wait_for(tab, "document.querySelector('#list').innerText.includes('1 clip')")
        press_named(tab, "Cut into clips")
        wait_for(tab, "document.querySelectorAll('.part').length === 1")
        press_named(tab, "Suggest clips")
        wait_for(tab, "document.querySelectorAll('.part').length === 2")
        found_s = seconds_of(tab, start)
        assert abs(found_s - second[0]) < 0.5
        tab.run(f"document.querySelector({start!r}).focus()")
        for kind in ("keyDown", "keyUp"):
            tab.send("Input.dispatchKeyEvent", type=kind, key="ArrowRight")
        assert seconds_of(tab, start) == pytest.approx(found_s + 0.1, abs=1e-6)
        before = seconds_of(tab, end)
        drag(tab, end, 8)
        assert before < seconds_of(tab, end) < before + 1
        write(tab, "#list ol li:nth-of-type(2) input", "maman boit du café")
        tab.run(
            "document.querySelector('#list ol li:nth-of-type(2) input')"
            ".dispatchEvent(new Event('change'))"
        )
        write(tab, "#list input", "zoe")
        press_named(tab, "Save")
        agree(tab)
        wait_for(tab, "!document.querySelector('#consent').open")
        time.sleep(0.5)
        press(tab, "#deliver")
        wait_for(tab, "document.querySelector('#message').textContent.includes('1')")
        assert tab.complaints == []
    main(["ingest", "data/inbox"])
    clips = read_manifest(server.project / "data/raw/weekly/manifest.tsv")[-2:]
    assert [clip.text for clip in clips] == ["elle mange du pain", "maman boit du café"]
    assert clips[0].start_s == pytest.approx(first[0], abs=0.002)
    assert clips[1].start_s == pytest.approx(found_s + 0.1, abs=0.002)
    assert clips[0].video == clips[1].video


def test_a_server_that_is_killed_while_translating_is_said_and_translates_again(
    server: Server, tmp_path: Path
) -> None:
    write_checkpoint(server.project / "data/checkpoint")
    address = server.start()
    with open_tab(tmp_path / "profile", 240.0, camera_flags(tmp_path / "drawn")) as tab:
        open_page(tab, address, "translate")
        wait_for(tab, READY)
        press(tab, "#live")
        wait_for(tab, "document.querySelector('#state').textContent.includes('behind')")
        server.stop(signal.SIGKILL)
        wait_for(tab, "document.querySelector('#message').textContent.includes('does not answer')")
        assert tab.run("document.querySelector('#live').ariaPressed") == "false"
        tab.complaints.clear()
        token = server.start().partition("token=")[2]
        tab.send("Network.setCookie", name="signloom", value=token, url=address.partition("?")[0])
        press(tab, "#live")
        wait_for(tab, "document.querySelectorAll('#said > li').length >= 1")


def limit_upload(tab: Tab, bytes_a_second: float) -> None:
    fast = {"offline": False, "latency": 0, "downloadThroughput": -1}
    tab.send("Network.emulateNetworkConditions", **fast, uploadThroughput=bytes_a_second)


def begin_upload(tab: Tab, address: str, film: Path, store: TakeStore) -> Path:
    """Send a film of 9 MB slowly, and return it when its first piece has arrived."""
    write_video(film)
    with film.open("ab") as file:
        file.write(bytes(9_000_000))
    open_page(tab, address, "clips")
    limit_upload(tab, 2e6)
    choose_files(tab, "#files", film)
    until = time.monotonic() + WAIT_S
    while not any(store.size(take) for take in store.list_takes()):
        assert time.monotonic() < until, tab.run("document.body.innerText")
        tab.run("new Promise((done) => setTimeout(done, 100))")
    return film


def test_an_upload_that_was_cut_goes_on_when_the_film_is_chosen_again(
    server: Server, tmp_path: Path
) -> None:
    address, store = server.start(), TakeStore()
    with open_tab(tmp_path / "profile", 240.0) as tab:
        film = begin_upload(tab, address, tmp_path / "day.mp4", store)
        (size,) = map(store.size, store.list_takes())
        tab.show("about:blank", width=DESK)
        assert size < film.stat().st_size
        limit_upload(tab, -1)
        open_page(tab, address.partition("?")[0], "clips")
        choose_files(tab, "#files", film)
        wait_for(tab, "document.querySelector('#list').innerText.includes('not delivered')")
    (take,) = store.list_takes()
    assert (take.state, take.name) == ("whole", "day.mp4")
    assert store.film(take).read_bytes() == film.read_bytes()


def test_a_film_that_is_sent_while_the_app_is_started_again_is_whole(
    server: Server, tmp_path: Path
) -> None:
    """Until the new address is opened, the app answers that it does not know the page."""
    address, store = server.start(), TakeStore()
    with open_tab(tmp_path / "profile", 240.0) as tab:
        film = begin_upload(tab, address, tmp_path / "day.mp4", store)
        server.stop(signal.SIGKILL)
        token = server.start().partition("token=")[2]
        until = time.monotonic() + WAIT_S
        while sum("401" in complaint for complaint in tab.complaints) < 2:
            assert time.monotonic() < until, tab.run("document.body.innerText")
            tab.run("new Promise((done) => setTimeout(done, 100))")
        (take,) = store.list_takes()
        assert (take.state, store.size(take) < film.stat().st_size) == ("recording", True)
        limit_upload(tab, -1)
        tab.send("Network.setCookie", name="signloom", value=token, url=address.partition("?")[0])
        wait_for(tab, "document.querySelector('#list').innerText.includes('not delivered')")
    (take,) = store.list_takes()
    assert (take.state, take.name) == ("whole", "day.mp4")
    assert store.film(take).read_bytes() == film.read_bytes()


def test_two_hundred_uploads_leave_memory_as_it_was_and_nothing_twice(
    server: Server, tmp_path: Path
) -> None:
    client, content = Client(server.start()), bytes(range(256)) * 400
    assert server.process is not None
    process, used = psutil.Process(server.process.pid), []
    for number in range(200):
        film = client.begin()
        for offset in (0, 50_000):
            piece = content[offset : offset + 50_000]
            assert client.ask("PUT", f"{film}/film?offset={offset}", piece)[0] == 200
        assert client.ask("POST", f"{film}/whole", {"size": 100_000})[0] == 200
        if number in (19, 199):
            used.append(process.memory_info().rss)
    assert used[1] - used[0] < 20e6
    takes = TakeStore().list_takes()
    assert len(takes) == len(list(Path("data/app/takes").iterdir())) == 200
    assert all(TakeStore().film(take).read_bytes() == content[:100_000] for take in takes)


def test_a_disk_that_is_full_is_said_and_the_upload_goes_on_when_there_is_room(
    server: Server, tmp_path: Path
) -> None:
    if subprocess.run(["unshare", "-rm", "true"], check=False, capture_output=True).returncode:
        pytest.skip("this system lets nobody mount a small disk")
    (server.project / "data/app").mkdir(parents=True)
    mount = 'mount -t tmpfs -o size=300k tmpfs data/app && exec "$@"'
    client = Client(server.start(by=["unshare", "-rm", "sh", "-c", mount, "sh"]))
    other_film, film = client.begin(), client.begin()
    assert client.ask("PUT", f"{other_film}/film?offset=0", bytes(100_000))[0] == 200
    content, sent = os.urandom(200_000), 0
    while True:
        status, answer = client.ask(
            "PUT", f"{film}/film?offset={sent}", content[sent : sent + 4096]
        )
        if status != 200:
            break
        sent = answer["size"]
    assert (status, answer["size"]) == (507, sent)
    assert "the disk takes no more" in answer["error"]
    status, answer = client.ask("POST", "takes", {"suffix": ".mp4"})
    assert (status, "the disk is full" in answer["error"]) == (507, True)
    assert client.ask("DELETE", other_film)[0] == 200
    assert client.ask("PUT", f"{film}/film?offset={sent}", content[sent:])[0] == 200
    assert client.ask("POST", f"{film}/whole", {"size": len(content)})[0] == 200


def test_axe_finds_nothing_serious_in_any_tab(server: Server, tmp_path: Path) -> None:
    axe = pytest.importorskip("axe_core_python", reason="axe-core-python, which has axe, is absent")
    script = Path(axe.__file__).with_name("axe.min.js").read_text(encoding="utf-8")
    rules = (
        "axe.run().then(({violations}) => violations.map((v) => [v.impact, v.id, v.nodes[0].html]))"
    )
    film = write_video(tmp_path / "film.mp4")
    address = server.start()
    with open_tab(tmp_path / "profile", 240.0, camera_flags(tmp_path / "drawn")) as tab:
        open_page(tab, address, "clips")
        choose_files(tab, "#files", film)
        wait_for(tab, "document.querySelector('#list').innerText.includes('not delivered')")
        for width, scheme in itertools.product((PHONE, DESK), ("light", "dark")):
            page = address.partition("?")[0]
            open_page(tab, page, "clips", width, prefers_color_scheme=scheme)
            wait_for(tab, "!!document.querySelector('#list button')")
            tab.send("Runtime.evaluate", expression=script)
            names = tab.run("[...document.querySelectorAll('nav a')].map((a) => a.hash.slice(1))")
            assert len(names) >= 5
            press_named(tab, "Cut into clips")
            press_named(tab, "Add a clip here")
            for name in ("clips", *names):  # the timeline first
                tab.run(f"location.hash = {name!r}")
                wait_for(tab, f"!document.querySelector('#{name}').hidden")
                for direction in ("rtl", "ltr"):
                    tab.run(f"document.documentElement.dir = {direction!r}")
                    assert tab.run("document.documentElement.scrollWidth") <= width, name
                violations = tab.run(rules)
                assert [
                    violation for violation in violations if violation[0] in ("serious", "critical")
                ] == [], name
