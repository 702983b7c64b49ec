"""The tabs Record and Clips: recordings, their labels, consents, and their delivery."""

import tempfile
from dataclasses import asdict
from datetime import date
from pathlib import Path, PurePosixPath
from typing import Any

from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from signloom.config import parse_options
from signloom.corpus.manifest import read_day
from signloom.detection.video import Video
from signloom.errors import ClipError, UserError
from signloom.paths import PARAMS
from signloom_ops.app import first_corpus
from signloom_ops.app.labels import SUFFIXES, read_labels
from signloom_ops.app.night_process import find_refusal
from signloom_ops.app.requests import AppRequest, FilmResponse, route
from signloom_ops.app.takes import (
    MAX_PIECE,
    Consent,
    FilmPart,
    Take,
    TakeError,
    TakeStore,
    one_line,
)
from signloom_ops.options import load_ops
from signloom_tools.importing.person_names import name_key

MAX_NAME = 100  # letters of a signer's name


class Recordings:
    """Routes of the recordings of a project."""

    def __init__(self, takes: TakeStore) -> None:
        self._takes = takes

    def routes(self) -> list[Route]:
        """Return them."""
        address = "/api/takes/{id}"
        return [
            route("/api/takes", self._list),
            route("/api/takes", self._begin, "POST", status=201),
            route(address, self._change, "PATCH"),
            route(
                address, lambda request: self._takes.remove(self._takes.get(request.id)), "DELETE"
            ),
            route(f"{address}/film", self._film),
            route(f"{address}/film", self._append, "PUT", most=MAX_PIECE),
            route(f"{address}/whole", self._finish, "POST"),
            route("/api/labels", self._label, "POST", most=MAX_PIECE),
            route("/api/consents", self._agree, "POST", status=201),
            route("/api/deliver", self._deliver, "POST"),
        ]

    def _list(self, _: AppRequest) -> list[dict[str, Any]]:
        today = date.today().isoformat()
        consents = self._takes.last_consents()
        agreed = {signer for signer, consent in consents.items() if consent.day == today}
        return [
            asdict(take)
            | {"bytes": self._takes.size(take), "agreed": name_key(take.signer) in agreed}
            for take in self._takes.list_takes()
        ]

    def _begin(self, request: AppRequest) -> Take:
        content = request.content
        names = ("text", "signer", "suffix", "name")
        return self._takes.begin(**{name: str(content.get(name, "")) for name in names})

    def _append(self, request: AppRequest) -> Any:
        """Keep a piece of a film; a piece that was cut off on the way is not kept."""
        take = self._takes.get(request.id)
        try:
            offset = int(request.query.get("offset", ""))
        except ValueError:
            offset = -1
        if offset < 0:
            raise TakeError("offset: expected a number of bytes")
        try:
            return {"size": self._takes.append(take, offset, request.body)}
        except TakeError as error:
            content = {"error": str(error), "size": self._takes.size(take)}
            return JSONResponse(content, error.status)

    def _finish(self, request: AppRequest) -> Take:
        take, size = self._takes.get(request.id), request.content.get("size")
        if not isinstance(size, int):
            raise TakeError("size: expected a number of bytes")
        finished = self._takes.finish(take, size)
        if (
            take.state == "recording" and finished.name
        ):  # a file from elsewhere, which may be anything
            try:
                Video(self._takes.film(finished)).close()
            except ClipError:
                self._takes.remove(finished)
                raise
        return finished

    def _change(self, request: AppRequest) -> Take:
        content = request.content
        changes: Any = {name: str(content[name]) for name in ("text", "signer") if name in content}
        if "parts" in content:
            changes["parts"] = parse_options(content["parts"], list[FilmPart], where="parts")
        return self._takes.change(self._takes.get(request.id), **changes)

    def _film(self, request: AppRequest) -> Response:
        film = self._takes.film(self._takes.get_whole(request.id))
        try:
            return FilmResponse(film, stat_result=film.stat())
        except FileNotFoundError:  # another request has just removed it
            raise TakeError("there is no such recording", 404) from None

    def _label(self, request: AppRequest) -> dict[str, Any]:
        """Give films the sentences of a file that was dropped together with them."""
        name = one_line(PurePosixPath(request.query.get("name", "")).name)
        if Path(name).suffix.lower() not in SUFFIXES or "\0" in name or len(name.encode()) > 255:
            raise TakeError(f"{name!r} is no film, and no {', '.join(SUFFIXES)} file", 415)
        takes = [take for take in self._takes.list_takes() if take.state == "whole"]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, name)
            path.write_bytes(request.body)
            try:
                by_take, problems = read_labels(
                    path, [(take, self._takes.film(take)) for take in takes]
                )
            except UserError as error:
                raise TakeError(str(error).replace(str(path), name), 422) from None
        for take_id, labels in by_take.items():
            self._takes.change(
                self._takes.get(take_id),
                text=labels.text,
                signer=labels.signer,
                parts=labels.parts or None,
            )
        return {"takes": list(by_take), "left": problems}

    def _agree(self, request: AppRequest) -> None:
        values = {**request.content, "day": date.today().isoformat()}
        consent = parse_options(values, Consent, where="consent")
        name = consent.signer.strip()
        if not name or len(name) > MAX_NAME or not name.isprintable():
            raise TakeError(
                f"signer: expected a name of at most {MAX_NAME} letters that can be seen"
            )
        if consent.until:
            try:
                read_day(consent.until)
            except ValueError:
                raise TakeError("until: expected a day such as 2027-12-31") from None
        self._takes.agree(consent)

    def _deliver(self, request: AppRequest) -> dict[str, Any]:
        ids = request.content.get("ids")
        if ids is not None and not (isinstance(ids, list) and all(isinstance(i, str) for i in ids)):
            raise TakeError("ids: expected a list")
        delivered = self._takes.deliver(load_ops(PARAMS).inbox, ids)
        folder = delivered.folder.as_posix() if delivered.folder else None
        is_founded = first_corpus.is_founded()
        return {
            "folder": folder,
            "takes": delivered.takes,
            "left": delivered.left,
            "founded": is_founded,
            "refused": find_refusal() if is_founded else "",
        }
