"""The app's server, asked as a browser asks and as others might."""

import ast
import contextlib
import json
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route

import signloom
from signloom.errors import ClipError
from signloom.extraction import cache
from signloom.extraction.cache import cache_folder
from signloom_ops.app import analysis, connections, server
from signloom_ops.app.connections import MOST_WAITING
from signloom_ops.app.guard import OPEN, TRANSLATE, Guard
from signloom_ops.app.requests import MOST_LOOKING
from signloom_ops.app.server import PAGES, App
from signloom_ops.app.takes import MAX_PIECE
from signloom_ops.cli.app import hosts_of
from signloom_ops.nightly.record import NightRecord, StepResult
from tests.expect_error import expect_error
from tests.tiny import ROOT, write_checkpoint
from tests.unit.ops.app.serving import PASSWORD, Asker, serve
from tests.videos import write_video

AGREED = {"signer": "a", "purposes": ["training"], "until": "", "wording": "may we?"}


def routes(app: App) -> list[tuple[str, str]]:
    served = [route for route in app.build().routes if isinstance(route, Route)]
    assert len(served) > 15
    return [
        (method, route.path.replace("{id}", "0" * 16))
        for route in served
        for method in route.methods or ()
    ]


def test_no_route_answers_without_the_token(asker: Asker) -> None:
    for method, path in routes(asker.app):
        if path not in (*OPEN, TRANSLATE):
            status, _, content = asker.ask(method, path, b"", token=False, x_signloom="1")
            assert (status, path) == (401, path)
            assert method == "HEAD" or b"open the address" in content


def test_the_printed_address_opens_the_page_and_leaves_no_token_in_it(asker: Asker) -> None:
    status, headers, _ = asker.ask("GET", f"/?token={asker.guard.token}", token=False)
    assert (status, headers["location"]) == (303, "/")
    assert re.search(r"HttpOnly.*SameSite=strict", headers["set-cookie"], re.IGNORECASE)
    status, headers, content = asker.ask("GET", "/")
    assert status == 200
    assert b"<h1>Signloom</h1>" in content
    assert "script-src 'self';" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]


def test_another_name_and_other_pages_are_refused(asker: Asker) -> None:
    status, _, content = asker.ask("GET", "/api/takes", host="evil.example")
    assert (status, b"another name" in content) == (421, True)
    new = {"text": "", "signer": "", "suffix": ".webm"}
    for headers in ({}, {"x_signloom": "1", "origin": "http://evil.example"}):
        status, _, content = asker.ask("POST", "/api/takes", new, **headers)
        assert (status, b"another page" in content) == (403, True)
    origin = f"http://{asker.host}"
    assert asker.ask("POST", "/api/takes", new, x_signloom="1", origin=origin)[0] == 201


def test_programs_translate_without_a_token_and_pages_of_others_do_not(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "_SETTLED_NS", 0)  # a film that was written a while ago
    cache_folder().mkdir(parents=True)
    form: Any = {"content_type": "multipart/form-data; boundary=b"}
    head = b'--b\r\nContent-Disposition: form-data; filename="../a.mp4"; name=film\r\n\r\n'
    film = write_video(Path("own.mp4")).read_bytes()

    def translate(content: bytes, **headers: str) -> tuple[int, Any]:
        body = head + content + b"\r\n--b--\r\n"
        status, _, answer = asker.ask("POST", TRANSLATE, body, token=False, **form | headers)
        return status, json.loads(answer)

    assert translate(film) == (422, {"error": "there is no model yet: let one learn"})
    expected = signloom.load(write_checkpoint(Path("data/checkpoint"))).predict("own.mp4")
    assert translate(film) == (200, expected)
    assert "/film." not in "".join(path.read_text() for path in cache_folder().glob("*.jsonl"))
    status, answer = translate(film[:100])
    assert (status, answer["error"].split(":")[0]) == (422, "../a.mp4")
    assert translate(film, origin="http://evil.example")[0] == 403
    assert translate(film, content_type="text/plain")[0] == 415


def test_more_films_than_may_wait_are_not_kept_in_memory(asker: Asker) -> None:
    half = f"POST {TRANSLATE} HTTP/1.1\r\nhost: {asker.host}\r\ncontent-length: 9\r\n\r\nfilm"
    with contextlib.ExitStack() as lines:
        for _ in range(1 + MOST_LOOKING):
            line = socket.create_connection(("127.0.0.1", asker.port))
            lines.enter_context(line).sendall(half.encode())
        wait_until(lambda: asker.ask("POST", TRANSLATE, bytes(10**7), token=False)[0] == 503)
        assert asker.ask("POST", TRANSLATE, bytes(10**8 + 1), token=False)[0] == 413
    wait_until(lambda: asker.ask("POST", TRANSLATE, b"", token=False)[0] == 415)


def test_programs_of_a_house_send_its_password(house: Asker) -> None:
    right = PASSWORD.encode().decode("latin-1")  # http.client sends Latin-1, and curl bytes
    for password, expected in ((right, 415), ("trees", 401), ("", 401)):
        sent = {"authorization": f"Bearer {password}"} if password else {}
        assert house.ask("POST", TRANSLATE, b"", token=False, **sent)[0] == expected
    assert {house.ask("GET", TRANSLATE, token=False)[0] for _ in range(22)} == {405}
    client: dict[str, Any] = {}
    manual = (ROOT / "docs/serving.md").read_text(encoding="utf-8").split("```python\n")[1]
    exec(manual.partition("\nfor film in")[0], client)
    Path("a.mp4").write_bytes(bytes(3 * 10**7))
    # With a wrong password the connection ends before the film is sent.
    for password, why in ((PASSWORD, "there is no model yet"), ("trees", "(?i)password")):
        with pytest.raises(RuntimeError, match=why):
            client["translate"]("a.mp4", f"http://{house.host}", password)


def test_guessing_ends_and_pages_of_others_keep_nobody_out(asker: Asker) -> None:
    for site in ["cross-site", "same-site"] * 20:
        assert asker.ask("GET", "/?token=x", token=False, sec_fetch_site=site)[0] == 401
    answers = [asker.ask("GET", f"/?token={n}", token=False)[0] for n in range(22)]
    assert (set(answers[:20]), set(answers[20:])) == ({401}, {429})
    assert asker.ask("POST", TRANSLATE, b"", token=False)[0] == 415  # has nothing to guess


HOUSE = ["--host", "signs.lan", "--password-file", "password.txt"]
ALL_FILES = ["--password-file", "none.txt", "--certificate", "none.pem", "--key", "none.pem"]


def test_in_a_house_the_password_opens_and_the_token_of_an_address_does_not(house: Asker) -> None:
    assert house.ask("GET", f"/?token={house.guard.token}", token=False)[1]["location"] == "/login"
    status, headers, _ = house.ask(
        "POST", "/login", {"password": PASSWORD}, token=False, x_signloom="1"
    )
    assert (status, house.guard.token in headers["set-cookie"]) == (200, True)


def test_half_a_surrogate_is_a_wrong_password(house: Asker) -> None:
    for password, expected in (("\ud800", 403), (PASSWORD, 200)):
        status, _, _ = house.ask(
            "POST", "/login", {"password": password}, token=False, x_signloom="1"
        )
        assert status == expected


@pytest.mark.parametrize("host", ["signs.lan:8000", "SIGNS.LAN:8000"])
def test_a_house_has_its_name_in_capitals_too(host: str) -> None:
    hosts = hosts_of(["Signs.Lan"], 8000, is_secure=True)
    guard = Guard(App(prompts=[]).build(), hosts=hosts, password="trees and stones", secure=True)
    scope = {
        "type": "http", "method": "POST", "path": "/login", "query_string": b"",
        "headers": [
            (b"host", host.encode()), (b"origin", b"https://signs.lan:8000"), (b"x-signloom", b"1")
        ],
    }  # fmt: skip
    assert guard._refusal(scope) is None


def test_nothing_that_a_client_sends_becomes_a_path(asker: Asker, project: Path) -> None:
    (project / "secret.txt").write_text("secret")
    for path in (
        "/..%2fparams.yaml",
        "/api/takes/..%2f..%2f/film",
        "/%2e%2e/params.yaml",
        "/api/takes/%2e%2e/film",
        "/pages/../guard.py",
    ):
        status, _, content = asker.ask("GET", path)
        assert status == 404, path
        assert b"corpus" not in content


def test_a_film_comes_in_pieces_and_a_cut_piece_is_not_kept(asker: Asker) -> None:
    status, take = asker.change(
        "POST", "/api/takes", {"text": "<b>oui", "signer": "anna", "suffix": ".webm"}
    )
    assert (status, take["text"]) == (201, "<b>oui")
    film = f"/api/takes/{take['id']}/film"
    assert asker.change("PUT", f"{film}?offset=0", bytes(3000)) == (200, {"size": 3000})
    assert asker.change("PUT", f"{film}?offset=9000", bytes(10))[1]["size"] == 3000
    assert asker.change("PUT", f"{film}?offset=-1", b"x")[0] == 400
    assert asker.change("PUT", f"{film}?offset=0", bytes(MAX_PIECE + 1))[0] == 413
    with socket.create_connection(("127.0.0.1", asker.port)) as line:  # cut in the middle
        line.sendall(
            f"PUT {film}?offset=3000 HTTP/1.1\r\nhost: {asker.host}\r\nx-signloom: 1\r\n"
            f"cookie: signloom={asker.guard.token}\r\ncontent-length: 5000\r\n\r\n".encode()
            + bytes(2000)
        )
    assert asker.change("POST", f"/api/takes/{take['id']}/whole", {"size": 3000})[0] == 200
    status, answer = asker.change("POST", f"/api/takes/{take['id']}/look", {})
    assert status == 422
    assert "video" in answer["error"]
    assert asker.ask("GET", film)[2] == bytes(3000)


def test_an_upload_that_is_no_film_is_refused_and_not_kept(asker: Asker) -> None:
    new = {"suffix": ".mp4", "name": "day.mp4"}
    path = f"/api/takes/{asker.change('POST', '/api/takes', new)[1]['id']}"
    assert asker.change("PUT", f"{path}/film?offset=0", b"MZ" + bytes(3000))[0] == 200
    status, content = asker.change("POST", f"{path}/whole", {"size": 3002})
    assert (status, "no video" in content["error"]) == (422, True)
    assert asker.ask("GET", "/api/takes")[2] == b"[]"


def test_labels_are_of_films_and_no_name_leads_elsewhere(asker: Asker, project: Path) -> None:
    for name in ("..", "/etc/passwd", "a.exe", "", "x" * 300 + ".srt", "%00.srt"):
        status, content = asker.change("POST", f"/api/labels?name={name}", b"x")
        assert (status, "is no film" in content["error"]) == (415, True), name
    status, content = asker.change("POST", "/api/labels?name=../../day.csv", b"text,video\noui,day")
    assert status == 200
    assert content["left"] == ["day.csv line 2: no film called 'day' is here; upload it first"]
    status, content = asker.change("POST", "/api/labels?name=day.srt", b"x")
    assert (status, content["error"][:8]) == (422, "day.srt:")


@pytest.mark.parametrize(
    ("method", "path", "body", "said"),
    [
        ("POST", "/api/takes", b"[1]", "JSON object"),
        ("POST", "/api/takes", b"{", "expected JSON"),
        ("POST", "/api/takes", b"[" * 200_000, "expected JSON"),
        ("POST", "/api/takes", b"x" * 2_000_000, "bytes at once"),
        ("POST", "/api/consents", {"signer": "a", "purposes": ["war"]}, "purposes"),
        *(
            ("POST", "/api/consents", {**AGREED, "until": day}, "until: expected a day such as")
            for day in ("20271231", "2027-W01-1", "soon")
        ),
        *(
            ("POST", "/api/consents", {**AGREED, "signer": name}, "signer: expected a name")
            for name in ("a\0", "a\u200b", "a" * 101, " ")
        ),
        ("POST", "/api/deliver", {"ids": 3}, "expected a list"),
        ("POST", "/api/deliver", {"ids": ["../.."]}, "no such recording"),
        ("POST", "/api/rollback", {}, "champion"),
    ],
)
def test_wrong_requests_end_in_words(
    asker: Asker, method: str, path: str, body: Any, said: str
) -> None:
    status, content = asker.change(method, path, body)
    assert 400 <= status < 500
    assert said in content["error"]


def test_a_project_without_a_model_can_record(asker: Asker) -> None:
    _, _, content = asker.ask("GET", "/api/start")
    assert json.loads(content)["model"] is None
    assert asker.ask("GET", "/api/nights")[0] == 200


def test_the_last_night_is_told(asker: Asker) -> None:
    record = NightRecord()
    for name, text in (("ingest", "3 new clips, 0 known"), ("plan", "a new model is wanted")):
        record.step(name, StepResult, text=text)
    record.note(outcome="refused", verdict="version 2 does not become champion")
    night = json.loads(asker.ask("GET", "/api/nights")[2])["night"]
    assert night["verdict"] == "version 2 does not become champion"
    assert night["messages"] == ["3 new clips, 0 known"]
    assert date.fromisoformat(night["started"][:10])


@pytest.mark.parametrize(
    "night", [{"version": "1"}, {"steps": [{"text": "x"}]}, {"warnings": 3}, [1]], ids=str
)
def test_a_night_of_another_shape_is_told_in_words(asker: Asker, night: Any) -> None:
    NightRecord().path.write_text(json.dumps(night))
    status, _, content = asker.ask("GET", "/api/nights")
    assert (status, "night.json" in content.decode()) == (422, True)


def test_words_of_consent_that_are_not_utf_8_are_told(asker: Asker) -> None:
    Path("data/app").mkdir(parents=True, exist_ok=True)
    Path("data/app/consent.txt").write_bytes("êtes-vous d'accord ?".encode("latin-1"))
    status, _, content = asker.ask("GET", "/api/start")
    assert status == 422
    assert "consent.txt: byte 0 is 0xea, expected UTF-8" in json.loads(content)["error"]
    expect_error("save it as UTF-8", ["app", "--no-browser"])


def test_the_question_of_consent_may_be_a_film(asker: Asker) -> None:
    assert not json.loads(asker.ask("GET", "/api/start")[2])["consent_film"]
    assert asker.ask("GET", "/api/consent-film")[0] == 404
    Path("data/app").mkdir(parents=True, exist_ok=True)
    Path("data/app/consent.webm").write_bytes(b"a film")
    assert json.loads(asker.ask("GET", "/api/start")[2])["consent_film"]
    status, _, content = asker.ask("GET", "/api/consent-film")
    assert (status, content) == (200, b"a film")


@pytest.mark.parametrize("name", ["params.yaml", "ops.yaml"])
def test_unreadable_parameters_end_the_app_before_its_address(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(b"\xff\xfe")
    expect_error(
        f"{name}: byte 0 is 0xff, expected UTF-8", ["app", "--no-browser", "--port", "8799"]
    )
    assert capsys.readouterr().out == ""


def upload(asker: Asker) -> str:
    """Record a film of four bytes; return the take's path."""
    path = f"/api/takes/{asker.change('POST', '/api/takes', {'suffix': '.webm'})[1]['id']}"
    asker.change("PUT", f"{path}/film?offset=0", b"film")
    asker.change("POST", f"{path}/whole", {"size": 4})
    return path


def test_the_page_opens_while_films_wait_and_further_ones_are_refused(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end = threading.Event()

    def look(*_: Any, **__: Any) -> None:
        may_end.wait(20)
        raise ClipError("it is long", "cut it")

    monkeypatch.setattr(analysis, "extract_video", look)
    path, waiting = upload(asker), asker.app.looking.statistics
    with ThreadPoolExecutor(50) as clients:
        futures = [clients.submit(asker.change, "POST", f"{path}/look", {}) for _ in range(50)]
        wait_until(lambda: sum(future.done() for future in futures) == 49 - MOST_LOOKING)
        status, headers, _ = asker.ask("POST", f"{path}/look", b"{}", x_signloom="1")
        assert (status, headers["retry-after"]) == (503, "10")
        assert asker.ask("GET", "/")[0] == 200
        assert asker.ask("GET", "/api/start")[0] == 200
        may_end.set()
        statuses = Counter(future.result()[0] for future in futures)
        assert statuses == {503: 49 - MOST_LOOKING, 422: 1 + MOST_LOOKING}
    assert (waiting().tasks_waiting, waiting().borrowed_tokens) == (0, 0)


def test_a_client_who_gives_up_leaves_the_queue(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end, looked = threading.Event(), []

    def look(*_: Any, **__: Any) -> None:
        looked.append(1)
        may_end.wait(20)
        raise ClipError("it is long", "cut it")

    monkeypatch.setattr(analysis, "extract_video", look)
    path, waiting = upload(asker), asker.app.looking.statistics
    with ThreadPoolExecutor(1) as clients:
        first = clients.submit(asker.change, "POST", f"{path}/look", {})
        wait_until(lambda: waiting().borrowed_tokens == 1)
        with socket.create_connection(("127.0.0.1", asker.port)) as line:
            line.sendall(
                f"POST {path}/look HTTP/1.1\r\nhost: {asker.host}\r\nx-signloom: 1\r\n"
                f"cookie: signloom={asker.guard.token}\r\ncontent-length: 2\r\n\r\n{{}}".encode()
            )
            wait_until(lambda: waiting().tasks_waiting == 1)
        wait_until(lambda: waiting().tasks_waiting == 0)
        may_end.set()
        assert first.result()[0] == 422
    assert looked == [1]


def wait_until(is_so: Callable[[], bool], seconds: float = 15.0) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


def has_ended(line: socket.socket) -> bool:
    """Send a byte, which prolongs nothing, and tell whether the other side hung up."""
    line.settimeout(0.2)
    try:
        line.sendall(b"x")
        return line.recv(100) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_half_requests_keep_nobody_out_and_end(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "HEADERS_S", 1.0)
    lines = [socket.create_connection(("127.0.0.1", asker.port)) for _ in range(MOST_WAITING + 30)]
    try:
        for line in lines:
            line.sendall(b"GET / HTTP/1.1\r\nhost: ")
        assert asker.ask("GET", "/")[0] == 200
        wait_until(lambda: has_ended(lines[-1]))
    finally:
        for line in lines:
            line.close()


def test_a_password_that_never_ends_is_not_awaited(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "LOGIN_S", 0.3)
    with (
        contextlib.contextmanager(serve)(password="trees and stones") as house,
        socket.create_connection(("127.0.0.1", house.port)) as line,
    ):
        line.sendall(
            f"POST /login HTTP/1.1\r\nhost: {house.host}\r\nx-signloom: 1\r\n"
            'content-length: 5000\r\n\r\n{"pass'.encode()
        )
        line.settimeout(10)
        assert b" 408 " in line.recv(1000)


def test_wrong_passwords_of_one_machine_keep_no_other_out() -> None:
    guard = Guard(App(prompts=[]).build(), hosts=["a"], password="trees and stones", secure=True)
    answers = [guard.login("x", "10.0.0.1").status_code for _ in range(21)]
    assert answers == [403] * 20 + [429]
    assert guard.login("trees and stones", "10.0.0.1").status_code == 429
    assert guard.login("trees and stones", "10.0.0.2").status_code == 200


def test_a_browser_leaves_the_usual_port_out() -> None:
    assert hosts_of(["signs.lan"], 443, is_secure=True) == ["signs.lan:443", "signs.lan"]
    assert hosts_of(["localhost"], 80, is_secure=False) == ["localhost:80", "localhost"]
    assert hosts_of(["localhost"], 443, is_secure=False) == ["localhost:443"]
    assert hosts_of(["Signs.Lan"], 8000, is_secure=True) == ["signs.lan:8000"]  # all write so


def test_every_text_of_the_pages_is_in_every_language() -> None:
    texts = json.loads((PAGES / "texts.json").read_text(encoding="utf-8"))
    keys = {name: list(words) for name, words in texts.items()}
    assert set(keys) == {"en", "fr", "de"}
    assert keys["fr"] == keys["en"] == keys["de"]
    pages = "".join(path.read_text(encoding="utf-8") for path in PAGES.glob("*.html"))
    code = "".join(path.read_text(encoding="utf-8") for path in PAGES.glob("*.js"))
    used = set(re.findall(r'data-[tl]="(\w+)"', pages)) | set(re.findall(r'say\("(\w+)"', code))
    assert used <= set(keys["en"])
    assert "`" not in "".join("".join(language_texts.values()) for language_texts in texts.values())
    assert "innerHTML" not in code
    assert not re.search(r"<script(?![^>]* src=)|\son\w+=|style=", pages)


def test_every_message_that_is_translated_is_said_by_the_code() -> None:
    constants = set[str]()
    for path in (ROOT / "src").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        constants |= {
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
    code = "\0".join(constants)
    messages = json.loads((PAGES / "server_messages.json").read_text(encoding="utf-8"))
    for template, translations in messages.items():
        parts = re.split(r"\{\w+\}|; ", template)
        assert [part for part in parts if part.strip(" ;") not in code] == [], template
        names = set(re.findall(r"\{(\w+)\}", template))
        assert set(re.findall(r"\{(\w+)\}", "".join(translations))) <= names, template
        assert "`" not in template + "".join(translations)  # nothing of a terminal reaches a page


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--host", "signs.lan"], "--certificate, --key, --password-file"),
        (["--key", "key.pem"], "only with --host"),
        *(
            (["--host", host, *ALL_FILES], f"--host {re.escape(host)}: expected the name of this")
            for host in ("0.0.0.0", "::", "*", "https://signs.lan", "signs.lan:8000", "0")
        ),
        (["--prompts", "none.txt"], "there is no such file"),
        (["--prompts", "latin.txt"], "latin.txt: byte 1 is 0xe9, expected UTF-8"),
        ([*HOUSE, "--certificate", "latin.txt", "--key", "latin.txt"], "no TLS can be spoken"),
    ],
)
def test_the_command_refuses_what_would_be_unsafe_or_is_not_there(
    project: Path, options: list[str], said: str
) -> None:
    Path("latin.txt").write_bytes(b"h\xe9")
    Path("password.txt").write_text("trees and stones")
    expect_error(said, ["app", "--no-browser", *options])
