"""The attack on the app: clients that record, deliver, lie, stop half-way and crawl, all at once.

    python -m tests.attack.app [--clients 2 16] [--seconds 20] [--seed 1]

Every request is answered, with an error in words where it was wrong; no film is lost or delivered
twice, and the server's log has no traceback.
"""

import argparse
import contextlib
import hashlib
import http.client
import json
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.routing import Route

from signloom_ops.app.server import App
from tests.attack.inputs import WRONG
from tests.intake import found_corpus
from tests.processes import free_port
from tests.tiny import ROOT
from tests.videos import write_video

SIGNER, TEXT = "ada", "demain elle boit de l'eau"
UNWILLING = "eve"  # of whom one place has an older yes with a higher number
QUERIES = {
    "PUT /api/takes/{id}/film": "?offset=0",
    "GET /api/film": "?clip={id}",
    "GET /api/skeleton": "?clip={id}",
    "POST /api/labels": "?name={id}.vtt",
}
SPARED = ("POST /api/learn", "DELETE /api/learn", "POST /api/found")  # would change the project
ROUTES = [
    f"{name}{QUERIES.get(name, '')}".replace("/api/", "", 1)
    for route in App(prompts=[]).build().routes
    if isinstance(route, Route) and route.path.startswith("/api/")
    for method in sorted((route.methods or set()) - {"HEAD"})
    if (name := f"{method} {route.path}") not in SPARED
]
IDS = ("0" * 16, "..", "%2e%2e%2f", "%00", "a" * 5000, "%ed%a0%80", "1")


class Client:
    """A program that asks a server, by the address that it printed."""

    def __init__(self, address: str) -> None:
        self.host = address.split("/")[2]
        self._headers = {"x-signloom": "1", "cookie": f"signloom={address.partition('token=')[2]}"}

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Return the status and what the answer holds; bytes, if it is no JSON."""
        line = http.client.HTTPConnection(self.host, timeout=60)
        sent = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        line.request(method, f"/api/{path}", sent, self._headers)
        answer = line.getresponse()
        content = answer.read()
        line.close()
        is_json = "json" in (answer.getheader("content-type") or "")
        return answer.status, json.loads(content) if is_json else content

    def begin(self, **fields: str) -> str:
        """Return the path of a new recording."""
        status, take = self.ask("POST", "takes", {"suffix": ".mp4", **fields})
        assert status == 201, take
        return f"takes/{take['id']}"

    def head(self, length: int) -> bytes:
        """Return the head of a request whose body has so many bytes."""
        lines = [f"{name}: {value}" for name, value in self._headers.items()]
        lines += [f"host: {self.host}", f"content-length: {length}"]
        return "\r\n".join(["POST /api/takes HTTP/1.1", *lines, "", ""]).encode()


@dataclass
class Found:
    """What some clients did and saw."""

    kept: dict[str, str] = field(default_factory=dict)
    """Hash of each film that a client recorded, by its recording."""
    removed: set[str] = field(default_factory=set)
    """Recordings that somebody removed, delivered or not."""
    statuses: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def _found(folder: Path) -> None:
    """Make a project in a folder, where the consents of two places lie."""
    found_corpus(folder)
    text = (ROOT / "params.yaml").read_text(encoding="utf-8")
    text = text.replace("folder: data/demo/corpus", "folder: data/raw/weekly")
    (folder / "params.yaml").write_text(text, encoding="utf-8")
    (folder / "data/app/consents").mkdir(parents=True)
    for number, day, purposes in ((7, "2026-11-20", ["training"]), (2, "2026-11-22", [])):
        consent = {"signer": UNWILLING, "day": day, "purposes": purposes, "number": number}
        path = folder / f"data/app/consents/{number}.json"
        path.write_text(json.dumps({**consent, "until": "", "wording": "may we?"}))


@contextlib.contextmanager
def serving(folder: Path, *, is_killed: bool = False) -> Iterator[str]:
    """Serve a project, by a process of its own; yield the address."""
    code = "from signloom_tools.cli.main import main; main()"
    with (folder / "log").open("a") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", code, "app", "--no-browser", "--port", str(free_port())],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    try:
        with process.stdout as output:  # type: ignore[union-attr]
            yield output.readline().strip()
        assert process.poll() is None, "the server ended"
    finally:
        process.kill() if is_killed else process.terminate()
        process.wait(20)


def attack(folder: Path, clients: int, seconds: float, seed: int) -> Found:
    """Let clients work on a server and check what they leave."""
    tally, film = Found(), write_video(folder.with_suffix(".mp4"), 12).read_bytes()
    _found(folder)
    half = film + b"\0\0\0\x10freehalfhalf"
    with serving(folder, is_killed=True) as address:  # it goes away in the middle of an upload
        client = Client(address)
        take = client.begin(text=TEXT, signer=SIGNER)
        _expect(client, "PUT", f"{take}/film?offset=0", half[:900], tally)
    with serving(folder) as address:
        client = Client(address)
        _expect(client, "PUT", f"{take}/film?offset=500", half[500:], tally)
        _expect(client, "POST", f"{take}/whole", {"size": len(half)}, tally)
        tally.kept[take.partition("/")[2]] = hashlib.sha256(half).hexdigest()
        consent = {"signer": SIGNER, "purposes": ["training"], "until": "", "wording": "may we?"}
        assert client.ask("POST", "consents", consent)[0] == 201
        until = time.monotonic() + seconds
        threads = [
            threading.Thread(target=_work, args=(client, film, until, seed * 100 + number, tally))
            for number in range(clients)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        refused = client.begin(text=TEXT, signer=UNWILLING)
        _expect(client, "PUT", f"{refused}/film?offset=0", film, tally)
        _expect(client, "POST", f"{refused}/whole", {"size": len(film)}, tally)
        _expect(client, "POST", "deliver", {}, tally)
        _check(folder, client, tally)
    log = (folder / "log").read_text(encoding="utf-8")
    if "Traceback" in log:
        tally.faults.append(f"in the log: {log[-600:]}")
    return tally


def _work(client: Client, film: bytes, until: float, seed: int, tally: Found) -> None:
    chance, number = random.Random(seed), 0
    acts = (_record, _record, _lie, _lie, _lie, _stop, _crawl, _deliver, _meddle, _meddle)
    with contextlib.ExitStack() as half:
        while time.monotonic() < until:
            number += 1
            content = film + b"\0\0\0\x10free" + f"{seed:04d}{number:04d}".encode()
            try:
                chance.choice(acts)(client, content, chance, half, tally)
            except Exception as error:  # whatever it is, it is to be seen
                tally.faults.append(f"{type(error).__name__}: {error}")


def _expect(client: Client, method: str, path: str, body: object, tally: Found) -> Any:
    """Ask; an answer of 500, or an error without words, is a fault."""
    status, answer = client.ask(method, path, body)
    tally.statuses[status] += 1
    message = answer.get("error") if isinstance(answer, dict) else None
    if status == 500 or (status >= 400 and isinstance(answer, dict) and not message):
        tally.faults.append(f"{method} {path[:60]} {str(body)[:60]}: {status} {str(answer)[:200]}")
    return answer


def _record(client: Client, film: bytes, chance: random.Random, _: Any, tally: Found) -> None:
    take, cut = client.begin(text=TEXT, signer=SIGNER), chance.randrange(1, len(film))
    _expect(client, "PUT", f"{take}/film?offset=0", film[:cut], tally)
    _expect(client, "PUT", f"{take}/film?offset={cut}", film[cut:], tally)
    _expect(client, "POST", f"{take}/whole", {"size": len(film)}, tally)
    number = take.partition("/")[2]
    tally.kept[number] = hashlib.sha256(film).hexdigest()
    if chance.random() < 0.2:
        tally.removed.add(number)
        _expect(client, "DELETE", take, None, tally)


def _deliver(client: Client, _film: bytes, _: random.Random, _half: Any, tally: Found) -> None:
    _expect(client, "POST", "deliver", {}, tally)


def _meddle(client: Client, film: bytes, chance: random.Random, _: Any, tally: Found) -> None:
    """Change, look at or remove a recording that another client works on."""
    _expect(client, "GET", "nights", None, tally)
    takes = _expect(client, "GET", "takes", None, tally)[:3]
    for take in takes:
        path = f"takes/{take['id']}"
        _expect(client, "PATCH", path, {"text": TEXT}, tally)
        _expect(client, "GET", f"{path}/film", None, tally)
        _expect(client, "POST", f"{path}/whole", {"size": len(film)}, tally)
    if takes and chance.random() < 0.3:
        tally.removed.add(takes[0]["id"])
        _expect(client, "DELETE", f"takes/{takes[0]['id']}", None, tally)


def _lie(client: Client, film: bytes, chance: random.Random, _: Any, tally: Found) -> None:
    """Ask for anything with anything; films of others are left alone."""
    method, _, path = chance.choice(ROUTES).partition(" ")
    keys = ("text", "signer", "suffix", "size", "ids", "parts", "judge", "until")
    lies: dict[str, Any] = {key: chance.choice(WRONG) for key in chance.sample(keys, 3)}
    bodies = (None, b"", b"\xff{", b"[" * 50_000, chance.choice(WRONG), lies, film[:2000])
    path = path.format(id=chance.choice(IDS))
    _expect(client, method, path, chance.choice(bodies), tally)


def _stop(client: Client, film: bytes, chance: random.Random, half: Any, tally: Found) -> None:
    """Send a part of a request and hold the line, or leave."""
    host, port = client.host.split(":")
    line = socket.create_connection((host, int(port)), timeout=20)
    sent = client.head(50) + b'{"suffix": ".mp4", "te'
    line.sendall(sent[: chance.randrange(1, len(sent))])
    tally.statuses[0] += 1
    if chance.random() < 0.5:
        half.enter_context(line)
    else:
        line.close()


def _crawl(client: Client, film: bytes, chance: random.Random, _: Any, tally: Found) -> None:
    """Send a request in many small parts."""
    host, port = client.host.split(":")
    body = json.dumps({"suffix": ".mp4", "text": "slow"}).encode()
    with socket.create_connection((host, int(port)), timeout=20) as line:
        sent = client.head(len(body)) + body
        for place in range(0, len(sent), 40):
            line.sendall(sent[place : place + 40])
            time.sleep(chance.random() / 50)
        status = int(line.recv(12).split()[1])
    tally.statuses[status] += 1
    if status != 201:
        tally.faults.append(f"a slow request was answered with {status}")


def _check(folder: Path, client: Client, tally: Found) -> None:
    """Every film that was kept is there once, byte by byte."""
    status, takes = client.ask("GET", "takes")
    if status != 200:
        tally.faults.append(f"the list of recordings: {status} {takes}")
        return
    states = {take["id"]: take["state"] for take in takes}
    inbox = folder / "data/inbox"
    delivered = Counter(
        hashlib.sha256(path.read_bytes()).hexdigest() for path in inbox.rglob("*.mp4")
    )
    for take, digest in tally.kept.items():
        if delivered[digest] > 1 or (not delivered[digest] and take not in tally.removed):
            state = states.get(take, "gone")
            tally.faults.append(f"recording {take} ({state}) lies {delivered[digest]} times there")
    if more := sum(delivered.values()) - sum(delivered[digest] for digest in tally.kept.values()):
        tally.faults.append(f"{more} films in the inbox that nobody kept")


def main() -> None:
    """Attack with so many clients, one number after the other; end with 1 if a fault is found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, nargs="*", default=[2, 16])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    faults = 0
    for clients in options.clients:
        folder = Path(tempfile.mkdtemp(prefix="attack-"))
        tally = attack(folder / "project", clients, options.seconds, options.seed)
        shutil.rmtree(folder)
        faults += len(tally.faults)
        answers = ", ".join(f"{n} x {code or 'half'}" for code, n in sorted(tally.statuses.items()))
        print(f"{clients} clients: {len(tally.kept)} films, {answers}, {len(tally.faults)} faults")
        print(*Counter(tally.faults).most_common(20), sep="\n")
    sys.exit(faults > 0)


if __name__ == "__main__":
    main()
