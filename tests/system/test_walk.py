"""Every command and every route once, as a user meets them, with a model that knows words.

The project is the one that `make smoke` leaves in build/smoke; .ci/run makes it before the tests.
"""

import http.client
import itertools
import json
import re
import shutil
import struct
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from signloom.paths import HYPOTHESES_NAME
from signloom_tools.cli.main import find_commands
from tests.app_server import Server, camera_flags, open_page
from tests.browser import NEEDS_CHROMIUM, open_tab
from tests.films import jpeg
from tests.tiny import ROOT

SMOKE = ROOT / "build/smoke"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.mediapipe,
    pytest.mark.skipif(
        not (SMOKE / "reports/evaluation" / HYPOTHESES_NAME).is_file(),
        reason="build/smoke has no project: run `make smoke`",
    ),
]
CLIP, OWN = "data/demo/corpus/videos/anouk-001.mp4", "data/raw/own"
TABLE = ["--table", "table.tsv", "--videos", "films"]
# In this order: what one leaves, the next finds. The exit code is 0 unless a number stands first.
WALK: list[tuple[int, list[str]]] = [
    (0, ["summary"]),
    (0, ["scores"]),
    (0, ["compare", "reports/evaluation", "reports/evaluation"]),
    (0, ["stress", "--split", "dev"]),
    (1, ["outlook"]),  # too few signers
    (0, ["upload-runs"]),
    (0, ["cache"]),
    (0, ["translate", CLIP, "--json", "--signs"]),
    (0, ["lookup", CLIP]),
    (0, ["landmarks", CLIP, "--to", "holistic"]),
    (0, ["import", "holistic", "--to", "imported"]),
    (0, ["export", "poses"]),
    (0, ["export-model", "served", "--format", "mlflow"]),
    (0, ["champion", "add"]),
    (0, ["champion", "list"]),
    (0, ["champion", "promote", "1", "--force"]),
    (0, ["judge", "reports/evaluation", "data/models/0001/evaluation", "--name", "one"]),
    (0, ["project", "beside"]),
    (0, ["merge", "merged", "a=data/demo/corpus", "b=data/demo/corpus", "--copy"]),
    (0, ["compose", "composed", "--recombine", "2"]),
    (1, ["ingest", "films", "--table", "table.tsv"]),  # a stage draws the corpus
    (0, ["init", OWN, *TABLE, "--copy", "--use"]),
    (1, ["drift"]),
    (1, ["withdraw", "nothing", "--reason", "none"]),
    (1, ["forget", "nobody", "--yes"]),
    (0, ["retrain", "--dry-run"]),
    (0, ["adopt"]),
    (1, ["tune-worker"]),
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("walk") / "project"
    shutil.copytree(SMOKE, folder, symlinks=True, ignore=shutil.ignore_patterns("src"))
    for name in ("src", "presets", "schemas"):
        (folder / name).symlink_to(ROOT / name)
    for name in (".gitignore", ".dvcignore"):
        shutil.copyfile(ROOT / name, folder / name)
    shutil.copytree(folder / "data/demo/corpus/videos", folder / "films")
    lines = (folder / "data/demo/corpus/manifest.tsv").read_text("utf-8").splitlines()[1:]
    table = "\n".join(line.replace("videos/", "") for line in lines)
    (folder / "table.tsv").write_text(f"{table}\n", "utf-8")
    return folder


def test_every_command_runs_once(project: Path) -> None:
    program, wrong = Path(sys.executable).with_name("signloom"), []
    for expected, arguments in WALK:
        process = subprocess.run(
            [program, *arguments],
            cwd=project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=170,
        )
        if process.returncode != expected or "Traceback" in process.stdout + process.stderr:
            wrong.append((arguments, process.returncode, (process.stdout + process.stderr)[-600:]))
    assert wrong == []
    commands = {name for group in find_commands().values() for name in group}
    assert {arguments[0] for _, arguments in WALK} == commands - {"app"}
    assert str(ROOT) not in (project / "served/MLmodel").read_text("utf-8")


def test_every_route_answers_as_its_page_asks(project: Path) -> None:
    server = Server(project)
    address = server.start()
    try:
        walk_routes(Browser(address), project)
        show_manual(project, address.partition("?")[0].rstrip("/"))
    finally:
        server.stop()


def show_manual(project: Path, server: str) -> None:
    """Run what the pages on Python and on serving have, as it stands there."""
    for name in ("film.mp4", "new.mp4"):
        shutil.copyfile(project / CLIP, project / name)
    output = ""
    for page in ("python", "serving"):
        text = (ROOT / f"docs/{page}.md").read_text("utf-8")
        text = text.replace("http://localhost:8000", server)
        for kind, run in (("python", [sys.executable, "-", "new.mp4"]), ("sh", ["sh", "-e"])):
            code = "\n".join(re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL))
            process = subprocess.run(
                run, input=code, cwd=project, capture_output=True, text=True, check=False
            )
            assert process.returncode == 0, process.stderr[-600:]
            output += process.stdout
    best = json.loads(output.splitlines()[-1])["text"]
    assert best
    assert output.count(best) >= 4  # by Python, of several, by a client, by curl


PAGES = ("record", "clips", "translate", "nights", "judge")
# Presses the next button that is seen on a page, in an open dialog first, and returns its name;
# null if none comes within some seconds.
PRESS = """(async () => {
  window.confirm = () => true;
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  for (let tried = 0; tried < 8; tried += 1) {
    const room = document.querySelector("dialog[open]") || document.querySelector("#main");
    const boxes = room.querySelectorAll("dialog[open] input[type=checkbox]:not(:checked)");
    boxes.forEach((one) => one.click());
    for (const one of room.querySelectorAll("input:not([type]), input[type=text], textarea")) {
      if (one.value || !one.checkVisibility()) continue;
      one.value = "anouk";
      one.dispatchEvent(new Event("input", { bubbles: true }));
      one.dispatchEvent(new Event("change", { bubbles: true }));
    }
    const next = [...room.querySelectorAll("button")].find((one) =>
      one.checkVisibility() && !one.disabled && !one.dataset.pressed);
    if (next) {
      next.dataset.pressed = "yes";
      next.click();
      await wait(1000);
      return next.id || next.textContent.trim();
    }
    await wait(500);
  }
  return null;
})()"""


@NEEDS_CHROMIUM
def test_every_button_is_pressed_once(project: Path, tmp_path: Path) -> None:
    server, pressed = Server(project), dict[str, list[str]]()
    address = server.start()
    try:
        with open_tab(tmp_path / "browser", 170, camera_flags(tmp_path)) as tab:
            for page in PAGES:
                open_page(tab, address, page)
                names = iter(lambda tab=tab: tab.run(PRESS), None)
                pressed[page] = list(itertools.islice(names, 8))
            text = tab.run("document.body.innerText")
    finally:
        server.stop()
    assert all(len(pressed[page]) > 0 for page in PAGES if page != "judge"), pressed
    failed = [
        complaint
        for complaint in tab.complaints
        if "status of 500" in complaint or "Uncaught" in complaint
    ]
    assert (failed, "Internal Server Error" in text) == ([], False), pressed


class Browser:
    """Asks as a page does, with the cookie that the printed address gives."""

    def __init__(self, address: str) -> None:
        self._host, _, path = address.removeprefix("http://").partition("/")
        self._cookie = ""
        self._cookie = self._send("GET", f"/{path}")[1].split(";")[0]

    def ask(self, method: str, path: str, body: Any = None, *, expected: int = 200) -> Any:
        """Return the answer, which is of the expected status."""
        status, _, content = self._send(method, path, body)
        assert (status, path) == (expected, path), content[-600:]
        is_json = path.startswith("/api/") and not path.endswith("/film") and "film?" not in path
        return json.loads(content) if is_json else content

    def _send(self, method: str, path: str, body: Any = None) -> tuple[int, str, bytes]:
        sent = body if isinstance(body, bytes | None) else json.dumps(body)
        with closing(http.client.HTTPConnection(self._host, timeout=120)) as line:
            line.request(method, path, sent, {"cookie": self._cookie, "x-signloom": "1"})
            answer = line.getresponse()
            return answer.status, answer.getheader("set-cookie", ""), answer.read()


def walk_routes(tab: Browser, project: Path) -> None:
    """Open the pages, then record, look, translate live, deliver, judge and see nights."""
    for path in ("/", "/app.js", "/app.css", "/report"):
        assert tab.ask("GET", path)
    assert tab.ask("GET", "/api/start")["model"]["train_clips"] > 0
    film = (project / CLIP).read_bytes()
    consent = {"signer": "anouk", "purposes": ["training"], "until": "", "wording": "may we?"}
    tab.ask("POST", "/api/consents", consent, expected=201)
    take = tab.ask("POST", "/api/takes", {"suffix": ".mp4"}, expected=201)["id"]
    take_url = f"/api/takes/{take}"
    tab.ask("PUT", f"{take_url}/film?offset=0", film)
    tab.ask("POST", f"{take_url}/whole", {"size": len(film)})
    looked = tab.ask("POST", f"{take_url}/look", {})
    assert looked["translation"]["text"]  # a model that knows words
    assert tab.ask("POST", f"{take_url}/signs", {})["signs"]
    tab.ask("PATCH", take_url, {"text": looked["translation"]["text"], "signer": "anouk"})
    assert tab.ask("GET", f"{take_url}/film") == film
    live, picture = f"/api/live/{tab.ask('POST', '/api/live', {})['id']}", jpeg(90, (320, 240))
    tab.ask("PUT", live, struct.pack("<dI", 1.0, len(picture)) + picture)
    tab.ask("POST", f"{live}/keep", {}, expected=404)  # no sentence has ended
    assert len(tab.ask("GET", "/api/takes")) == 1
    assert len(tab.ask("POST", "/api/deliver", {})["takes"]) == 1
    for path in ("/api/judge", "/api/nights", "/api/learn"):
        tab.ask("GET", path)
    tab.ask("DELETE", "/api/learn", {}, expected=422)  # none runs
    tab.ask("POST", "/api/rollback", {}, expected=409)  # no former champion
