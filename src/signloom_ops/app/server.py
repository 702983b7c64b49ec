"""The routes of the app: pages, recordings, translations, nights."""

import contextlib
import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from datetime import date
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, ParamSpec, TypeVar

from anyio import CapacityLimiter, fail_after, to_thread
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from signloom.config import check_shape, load_section, parse_options, read_json, read_text, shape
from signloom.corpus.manifest import VIDEO_SUFFIXES, CorpusOptions, read_day
from signloom.detection.video import Video
from signloom.errors import ClipError, UserError
from signloom.evaluation.judge import BlindAnswer, Judgements, show_blind
from signloom.features.targets import read_targets
from signloom.paths import APP, NIGHTS, PARAMS, REPORT_PAGE, TARGETS
from signloom_ops.app import founding
from signloom_ops.app.analysis import Analyst
from signloom_ops.app.films import CorpusFilms
from signloom_ops.app.guard import REPORT_POLICY
from signloom_ops.app.labels import SUFFIXES, read_labels
from signloom_ops.app.learning import Learning
from signloom_ops.app.live import unpack_frames
from signloom_ops.app.takes import (
    MAX_PIECE,
    Consent,
    FilmPart,
    Take,
    TakeError,
    TakeStore,
    one_line,
)
from signloom_ops.app.wanted import count_signers, list_wanted
from signloom_ops.intake.changes import read_rejects
from signloom_ops.nightly.record import NIGHT
from signloom_ops.nightly.store import ModelStore
from signloom_ops.options import load_ops

PAGES = Path(__file__).parent / "pages"
FILES = (
    "app.css", "app.js", "clips.js", "judge.js", "login.js", "server_messages.js",
    "server_messages.json", "nights.js", "texts.json", "timeline.js",
)  # fmt: skip
_MAX_JSON = 1_000_000  # bytes
_MAX_LOGIN, _LOGIN_S = 10_000, 10.0  # bytes, and seconds for them
_PIECE_S = 60.0  # between two parts of a request
MAX_NAME = 100  # letters of a signer's name
_CONSENT = "consent.txt"  # in data/app: the organisation's own words

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class _Film(FileResponse):
    """A film that somebody may remove before its first byte goes out."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; nothing has begun until the file was opened."""
        begun: list[Message] = []

        async def send_later(message: Message) -> None:
            if message["type"] == "http.response.start":
                begun.append(message)
                return
            while begun:
                await send(begun.pop())
            await send(message)

        try:
            await super().__call__(scope, receive, send_later)
        except FileNotFoundError:
            raise TakeError("there is no such recording", 404) from None


class App:
    """The server's parts: recordings, the model, the inbox."""

    def __init__(
        self, *, prompts: list[str], login: Callable[[str, str], Response] | None = None
    ) -> None:
        self.takes, self._analyst = TakeStore(), Analyst()
        self._films, self._judgements = CorpusFilms(self.takes), Judgements()
        self._prompts, self._night = prompts, Learning()
        # The analyst looks at one film after the other; who waits for that takes no thread, so
        # that pages open meanwhile.
        self._looking = CapacityLimiter(1)
        self.login = login

    def build(self) -> Starlette:
        """Return the application without its guard."""
        routes = [
            Route("/", self._page),
            Route("/login", self._login_page),
            Route("/login", self._log_in, methods=["POST"]),
            *(Route(f"/{name}", self._file) for name in FILES),
            Route("/report", self._report),
            Route("/api/start", self._start),
            Route("/api/takes", self._list),
            Route("/api/takes", self._begin, methods=["POST"]),
            Route("/api/takes/{id}", self._change, methods=["PATCH"]),
            Route("/api/takes/{id}", self._remove, methods=["DELETE"]),
            Route("/api/takes/{id}/film", self._film),
            Route("/api/takes/{id}/film", self._append, methods=["PUT"]),
            Route("/api/takes/{id}/whole", self._finish, methods=["POST"]),
            Route("/api/takes/{id}/look", self._look, methods=["POST"]),
            Route("/api/takes/{id}/signs", self._find_signs, methods=["POST"]),
            Route("/api/film", self._corpus_film),
            Route("/api/skeleton", self._skeleton),
            Route("/api/judge", self._list_tasks),
            Route("/api/judge/{id}", self._show_task),
            Route("/api/judge/{id}", self._judge, methods=["POST"]),
            Route("/api/labels", self._label, methods=["POST"]),
            Route("/api/live", self._begin_live, methods=["POST"]),
            Route("/api/live/{id}", self._add_live, methods=["PUT"]),
            Route("/api/live/{id}/keep", self._keep_live, methods=["POST"]),
            Route("/api/live/{id}/faults", self._end_watching, methods=["POST"]),
            Route("/api/consents", self._agree, methods=["POST"]),
            Route("/api/deliver", self._deliver, methods=["POST"]),
            Route("/api/wanted", self._wanted),
            Route("/api/nights", self._nights),
            Route("/api/rollback", self._roll_back, methods=["POST"]),
            Route("/api/found", self._found, methods=["POST"]),
            Route("/api/propose", self._propose, methods=["POST"]),
            Route("/api/learn", self._learning),
            Route("/api/learn", self._learn, methods=["POST"]),
            Route("/api/learn", self._stop_learning, methods=["DELETE"]),
        ]

        @contextlib.asynccontextmanager
        async def life(_app: Starlette) -> AsyncIterator[None]:
            await to_thread.run_sync(self.takes.settle, _inbox())
            yield

        handlers: Any = {TakeError: _say, ClipError: _say, UserError: _say, OSError: _say_full}
        handlers[TimeoutError] = _say_late
        handlers[ClientDisconnect] = _say  # nobody hears it; what was sent is not kept
        return Starlette(routes=routes, lifespan=life, exception_handlers=handlers)

    async def _look_at(
        self, work: Callable[Arguments, Result], *given: Arguments.args, **named: Arguments.kwargs
    ) -> Result:
        """Have the analyst do something, when it is this one's turn."""
        return await to_thread.run_sync(lambda: work(*given, **named), limiter=self._looking)

    def _take(self, request: Request) -> Take:
        return self.takes.get(request.path_params["id"])

    def _whole_take(self, request: Request) -> Take:
        take = self._take(request)
        if take.state == "recording":
            raise TakeError("this recording is not whole yet", 409)
        return take

    async def _page(self, _request: Request) -> Response:
        return FileResponse(PAGES / "index.html")

    async def _login_page(self, _request: Request) -> Response:
        return FileResponse(PAGES / "login.html")

    async def _log_in(self, request: Request) -> Response:
        if self.login is None:
            raise TakeError("no password is asked for here", 404)
        with fail_after(_LOGIN_S):  # nobody has said yet who they are
            given = await _read_json(request, _MAX_LOGIN)
        return self.login(str(given.get("password", "")), _client(request))

    async def _file(self, request: Request) -> Response:
        return FileResponse(PAGES / request.url.path.removeprefix("/"))

    async def _report(self, _request: Request) -> Response:
        if not REPORT_PAGE.is_file():
            raise TakeError("there is no report yet: run `dvc repro`", 404)
        return FileResponse(REPORT_PAGE, headers={"content-security-policy": REPORT_POLICY})

    async def _start(self, _request: Request) -> Response:
        """What a page needs to begin."""

        def find() -> dict[str, Any]:
            usage = shutil.disk_usage(APP.parent if APP.parent.is_dir() else Path())
            return {
                "prompts": self._prompts,
                "consent": read_consent(),
                "model": self._analyst.describe(),
                "free_gb": round(usage.free / 1e9, 1),
                "piece": MAX_PIECE // 2,
                "videos": VIDEO_SUFFIXES,
            }

        return JSONResponse(await to_thread.run_sync(find))

    async def _list(self, _request: Request) -> Response:
        def find() -> list[dict[str, Any]]:
            today = date.today().isoformat()
            consents = self.takes.last_consents()
            agreed = {signer for signer, one in consents.items() if one.day == today}
            return [
                {**asdict(take), "bytes": self.takes.size(take), "agreed": take.signer in agreed}
                for take in self.takes.list_takes()
            ]

        return JSONResponse(await to_thread.run_sync(find))

    async def _begin(self, request: Request) -> Response:
        given = await _read_json(request)
        values = {name: str(given.get(name, "")) for name in ("text", "signer", "suffix", "name")}
        take = await to_thread.run_sync(lambda: self.takes.begin(**values))
        return JSONResponse(asdict(take), 201)

    async def _append(self, request: Request) -> Response:
        """Take a piece of a film; a piece that was cut off on the way is not kept."""
        take = self._take(request)
        try:
            offset = int(request.query_params.get("offset", ""))
        except ValueError:
            raise TakeError("offset: expected a number of bytes") from None
        if offset < 0:
            raise TakeError("offset: expected a number of bytes")
        piece = await _read_body(request, MAX_PIECE)
        try:
            size = await to_thread.run_sync(self.takes.append, take, offset, piece)
        except TakeError as error:
            size = self.takes.size(take)
            return JSONResponse({"error": str(error), "size": size}, error.status)
        return JSONResponse({"size": size})

    async def _finish(self, request: Request) -> Response:
        given = await _read_json(request)
        take = self._take(request)
        size = given.get("size")
        if not isinstance(size, int):
            raise TakeError("size: expected a number of bytes")

        def finish() -> Take:
            is_new = take.state == "recording"
            done = self.takes.finish(take, size)
            if is_new and done.name:  # a file from elsewhere, which may be anything
                try:
                    Video(self.takes.film(done)).close()
                except ClipError:
                    self.takes.remove(done)
                    raise
            return done

        return JSONResponse(asdict(await to_thread.run_sync(finish)))

    async def _change(self, request: Request) -> Response:
        given = await _read_json(request)
        take = self._take(request)
        asked: Any = {name: str(given[name]) for name in ("text", "signer") if name in given}
        if "parts" in given:
            asked["parts"] = parse_options(given["parts"], list[FilmPart], where="parts")
        return JSONResponse(
            asdict(await to_thread.run_sync(lambda: self.takes.change(take, **asked)))
        )

    async def _label(self, request: Request) -> Response:
        """Give films the sentences of a file that was dropped beside them."""
        name = one_line(PurePosixPath(request.query_params.get("name", "")).name)
        if Path(name).suffix.lower() not in SUFFIXES or "\0" in name or len(name.encode()) > 255:
            raise TakeError(f"{name!r} is no film, and no {', '.join(SUFFIXES)} file", 415)
        body = await _read_body(request, MAX_PIECE)

        def label() -> dict[str, Any]:
            takes = [one for one in self.takes.list_takes() if one.state == "whole"]
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, name)
                path.write_bytes(body)
                try:
                    found, left = read_labels(path, [(t, self.takes.film(t)) for t in takes])
                except UserError as error:
                    raise TakeError(str(error).replace(str(path), name), 422) from None
            for take_id, labels in found.items():
                self.takes.change(
                    self.takes.get(take_id), text=labels.text, signer=labels.signer,
                    parts=labels.parts or None,
                )  # fmt: skip
            return {"takes": list(found), "left": left}

        return JSONResponse(await to_thread.run_sync(label))

    async def _remove(self, request: Request) -> Response:
        take = self._take(request)
        await to_thread.run_sync(self.takes.remove, take)
        return JSONResponse({})

    async def _film(self, request: Request) -> Response:
        take = self._whole_take(request)
        film = self.takes.film(take)
        try:
            found = await to_thread.run_sync(film.stat)
        except FileNotFoundError:  # somebody removed it just now
            raise TakeError("there is no such recording", 404) from None
        return _Film(film, stat_result=found)

    async def _look(self, request: Request) -> Response:
        """Find the landmarks of a film, what is wrong with them, and what is signed."""
        take = self._whole_take(request)
        found = await self._look_at(self._analyst.look, self.takes.film(take))
        if found["signed"] and not take.name:  # a film from elsewhere was cut by its people
            self.takes.trim(take.id, *found["signed"])
        return JSONResponse(found)

    async def _find_signs(self, request: Request) -> Response:
        """Find the signs that are nearest to a recording, with their films."""
        take = self._whole_take(request)

        def find() -> list[dict[str, Any]]:
            return [
                {
                    **asdict(sign),
                    "film": f"/api/takes/{sign.clip_id}/film"
                    if sign.is_recording
                    else self._films.address(sign.clip_id),
                }
                for sign in self._analyst.find_signs(take, self.takes)
            ]

        return JSONResponse({"signs": await self._look_at(find)})

    async def _corpus_film(self, request: Request) -> Response:
        clip_id = request.query_params.get("clip", "")
        return FileResponse(await to_thread.run_sync(self._films.film, clip_id))

    async def _skeleton(self, request: Request) -> Response:
        clip_id = request.query_params.get("clip", "")
        return JSONResponse(await to_thread.run_sync(self._films.skeleton, clip_id))

    async def _list_tasks(self, _request: Request) -> Response:
        return JSONResponse({"tasks": await to_thread.run_sync(self._judgements.names)})

    async def _show_task(self, request: Request) -> Response:
        """What a judge has to do and has done, blind."""
        name, judge = request.path_params["id"], request.query_params.get("judge", "")

        def show() -> list[dict[str, Any]]:
            clips = show_blind(self._judgements.read(name), self._judgements.sheet(name, judge))
            return [{**one, "film": self._films.address(one["clip_id"])} for one in clips]

        return JSONResponse({"clips": await to_thread.run_sync(show)})

    async def _judge(self, request: Request) -> Response:
        given = parse_options(await _read_json(request), BlindAnswer, where="answer")
        name = request.path_params["id"]
        await to_thread.run_sync(self._judgements.answer, name, given)
        return JSONResponse({}, 201)

    async def _begin_live(self, request: Request) -> Response:
        is_watched = (await _read_json(request)).get("watched") is True
        begin = partial(self._analyst.begin_live, is_watched=is_watched)
        return JSONResponse({"id": await self._look_at(begin)})

    async def _end_watching(self, request: Request) -> Response:
        session = request.path_params["id"]
        return JSONResponse(await self._look_at(self._analyst.end_watching, session))

    async def _add_live(self, request: Request) -> Response:
        frames = unpack_frames(await _read_body(request, MAX_PIECE))
        session = request.path_params["id"]
        return JSONResponse(await self._look_at(self._analyst.add_live, session, frames))

    async def _keep_live(self, request: Request) -> Response:
        """Make a take of the last sentence, its text what was understood."""
        given = await _read_json(request)
        session, text = request.path_params["id"], str(given.get("text", ""))

        def keep() -> dict[str, Any]:
            take = self.takes.begin(text=text, signer=str(given.get("signer", "")), suffix=".mov")
            film = self.takes.film(take)
            made = self._analyst.write_live(session, film.parent)
            if made is None:
                self.takes.remove(take)
                raise TakeError("no sentence has ended yet", 404)
            made.rename(film)
            return asdict(self.takes.finish(take, film.stat().st_size))

        return JSONResponse(await self._look_at(keep), 201)

    async def _agree(self, request: Request) -> Response:
        given = await _read_json(request)
        values = {**given, "day": date.today().isoformat()}
        consent = parse_options(values, Consent, where="consent")
        name = consent.signer.strip()
        if not name or len(name) > MAX_NAME or not all(map(str.isprintable, name)):
            raise TakeError(
                f"signer: expected a name of at most {MAX_NAME} letters that can be seen"
            )
        if consent.until:
            try:
                read_day(consent.until)
            except ValueError:
                raise TakeError("until: expected a day such as 2027-12-31") from None
        await to_thread.run_sync(self.takes.agree, consent)
        return JSONResponse({}, 201)

    async def _deliver(self, request: Request) -> Response:
        given = await _read_json(request)
        ids = given.get("ids")
        if ids is not None and not (isinstance(ids, list) and all(isinstance(i, str) for i in ids)):
            raise TakeError("ids: expected a list")
        done = await to_thread.run_sync(self.takes.deliver, _inbox(), ids)
        folder = done.folder.as_posix() if done.folder else None
        return JSONResponse({"folder": folder, "takes": done.takes, "left": done.left})

    async def _wanted(self, _request: Request) -> Response:
        return JSONResponse(await to_thread.run_sync(find_wanted))

    async def _nights(self, _request: Request) -> Response:
        def find() -> dict[str, Any]:
            store = ModelStore()
            return {
                "founding": None if founding.is_founded() else asdict(founding.propose()),
                "champion": store.champion(),
                "versions": store.versions(),
                "history": [asdict(change) for change in store.pointer().history],
                "night": _tell_night(store),
                "again": _find_again(),
                "report": REPORT_PAGE.is_file(),
                "bytes": _weigh(APP),
                "free_gb": round(shutil.disk_usage(Path()).free / 1e9, 1),
            }

        return JSONResponse(await to_thread.run_sync(find))

    async def _found(self, request: Request) -> Response:
        """Found the corpus of what was delivered; a second press finds it founded."""
        await to_thread.run_sync(founding.found, await _read_splits(request))
        return JSONResponse({}, 201)

    async def _propose(self, request: Request) -> Response:
        """Say what a corpus with other splits would lack."""
        found = await to_thread.run_sync(founding.propose, await _read_splits(request))
        return JSONResponse(asdict(found))

    async def _learning(self, _request: Request) -> Response:
        return JSONResponse(asdict(await to_thread.run_sync(self._night.state)))

    async def _learn(self, _request: Request) -> Response:
        await to_thread.run_sync(self._night.start)
        return JSONResponse({}, 202)

    async def _stop_learning(self, _request: Request) -> Response:
        await to_thread.run_sync(self._night.stop)
        return JSONResponse({}, 202)

    async def _roll_back(self, _request: Request) -> Response:
        """Go back as `signloom champion rollback` does, DVC and the registry told."""
        program = Path(sys.executable).with_name("signloom")
        command = [str(program), "champion", "rollback"]

        def run() -> "subprocess.CompletedProcess[str]":
            return subprocess.run(command, capture_output=True, text=True, check=False)

        done = await to_thread.run_sync(run)
        if done.returncode:
            raise TakeError(done.stderr.strip().splitlines()[-1], 409)
        return JSONResponse({"champion": ModelStore().champion()})


def _weigh(folder: Path) -> int:
    """Return the bytes of the files below a folder, while others remove some."""
    size_bytes = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                size_bytes += Path(root, name).stat().st_size
    return size_bytes


_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS)
_CAME_IN = ("consents", "ingest")  # steps of a night that change the corpus
_LEAVE = "remove it: the next night writes it again"
_STEP: Any = shape(name=str, text=(str, ""))
_NIGHT = shape(
    outcome=(str | None, None), verdict=(str | None, None), started=(str | None, None),
    version=(int | None, None), steps=(list[_STEP], []), warnings=(list[str], []),
)  # fmt: skip


def _tell_night(store: ModelStore) -> dict[str, Any] | None:
    """Return what the last night took in and decided; None: there was none."""
    path = NIGHTS / NIGHT
    if not path.is_file():
        return None
    night = check_shape(read_json(path, hint=_LEAVE), _NIGHT, where=path, hint=_LEAVE)
    decision = store.decision(night["version"]) if night.get("version") else None
    steps = night.get("steps", ())
    came_in = [step.get("text", "") for step in steps if step["name"] in _CAME_IN]
    told = [*came_in, *night.get("warnings", ())]
    rules = (decision or {}).get("rules", ())
    kept = {key: night.get(key) for key in ("outcome", "verdict", "started")}
    return {**kept, "told": told, "rules": rules}


def find_wanted() -> dict[str, Any]:
    """Return what to record next, for JSON."""
    return {
        "sentences": [asdict(one) for one in list_wanted()],
        "signers": count_signers(read_targets(TARGETS)),
        "again": _find_again(),
    }


def _find_again() -> list[dict[str, str]]:
    """Return what was left out of the corpus and could be recorded again."""
    corpus = load_section(PARAMS, "corpus", CorpusOptions)
    return [
        {"clip": one.where, "reason": one.reason, "hint": one.hint} for one in read_rejects(corpus)
    ]


def _inbox() -> Path:
    """Return the folder that nights take deliveries from."""
    return load_ops(PARAMS).inbox


async def _say(_request: Request, error: Exception) -> Response:
    status = error.status if isinstance(error, TakeError) else 422
    return JSONResponse({"error": str(error)}, status)


async def _say_full(_request: Request, error: Exception) -> Response:
    if not isinstance(error, OSError) or error.errno not in _UNWRITABLE:
        raise error
    if error.errno in _UNWRITABLE[:2]:
        return JSONResponse({"error": f"the disk is full ({error.strerror}): free some room"}, 507)
    why = f"{error.filename} cannot be written ({error.strerror})"
    return JSONResponse({"error": f"{why}; give this user the right to write there"}, 507)


async def _say_late(_request: Request, _error: Exception) -> Response:
    headers = {"connection": "close"}
    return JSONResponse({"error": "the request did not come whole"}, 408, headers)


def _client(request: Request) -> str:
    return request.client.host if request.client else ""


def read_consent() -> str:
    """Return the organisation's own words of consent; empty: it has none.

    Raises:
        UserError: If they cannot be read.
    """
    path = APP / _CONSENT
    return read_text(path, hint="save it as UTF-8, or remove it") if path.is_file() else ""


async def _read_json(request: Request, most: int = _MAX_JSON) -> dict[str, Any]:
    body = await _read_body(request, most)
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):  # or lists that lie in each other too deep
        raise TakeError("expected JSON") from None
    if not isinstance(content, dict):
        raise TakeError("expected a JSON object")
    return content


async def _read_splits(request: Request) -> dict[str, str]:
    splits = (await _read_json(request)).get("splits")
    if not isinstance(splits, dict) or not all(isinstance(one, str) for one in splits.values()):
        raise TakeError("splits: expected a split for each signer")
    return splits


async def _read_body(request: Request, most: int) -> bytes:
    """Return the body of a request, which never takes more memory than allowed."""
    found, parts = bytearray(), request.stream()
    while True:
        with fail_after(_PIECE_S):
            part = await anext(parts, None)
        if part is None:
            return bytes(found)
        found += part
        if len(found) > most:
            raise TakeError(f"more than {most} bytes at once", 413)
