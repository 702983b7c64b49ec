"""The tab Translate: what is seen in a recording, what it means, and translation while signing."""

import os
import tempfile
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from anyio import CapacityLimiter
from starlette.routing import Route

from signloom.corpus.manifest import VIDEO_SUFFIXES
from signloom.errors import ClipError, UserError
from signloom_ops.app.analysis import Analyst
from signloom_ops.app.films import CorpusFilms
from signloom_ops.app.live import unpack_frames
from signloom_ops.app.requests import AppRequest, route
from signloom_ops.app.takes import MAX_PIECE, Take, TakeError, TakeStore

MAX_SENT = 100_000_000  # bytes of a film that a program sends: a sentence has a hundredth of them


class TranslationTab:
    """Routes that need the model or the detector.

    Args:
        analyst: Looks at films.
        looking: Lets one request at a time to the analyst.
    """

    def __init__(
        self, takes: TakeStore, analyst: Analyst, films: CorpusFilms, looking: CapacityLimiter
    ) -> None:
        self._takes, self._analyst, self._films = takes, analyst, films
        self._looking = looking

    def routes(self) -> list[Route]:
        """Return them."""
        post = partial(route, method="POST", limiter=self._looking)
        return [
            post("/translate", self._translate, most=MAX_SENT),
            post("/api/takes/{id}/look", self._look),
            post("/api/takes/{id}/signs", self._find_signs),
            post("/api/live", lambda _: {"id": self._analyst.begin_live()}),
            route("/api/live/{id}", self._add, "PUT", most=MAX_PIECE, limiter=self._looking),
            post("/api/live/{id}/keep", self._keep, status=201),
        ]

    def _translate(self, request: AppRequest) -> dict[str, Any]:
        """Translate a film that a program sends; nothing of it is kept."""
        name, content = request.read_file("film")
        suffix = Path(name).suffix.lower()
        if suffix not in VIDEO_SUFFIXES:
            raise TakeError(f"{name}: expected a film, {', '.join(VIDEO_SUFFIXES)}", 415)
        with tempfile.TemporaryDirectory() as folder:
            film = Path(folder, f"film{suffix}")
            film.write_bytes(content)
            # The cache of landmarks notes the hashes of films that have not changed for a while.
            os.utime(film, (tomorrow := time.time() + 86_400, tomorrow))
            try:
                return self._analyst.translate(film)
            except (ClipError, UserError) as error:
                raise TakeError(str(error).replace(str(film), name), 422) from None

    def _look(self, request: AppRequest) -> dict[str, Any]:
        """Find the landmarks of a film, what is wrong with them, and what is signed."""
        take = self._takes.get_whole(request.id)
        analysis = self._analyst.look(self._takes.film(take))
        if analysis["signed"] and not take.name:  # a film from elsewhere was cut by its people
            self._takes.trim(take.id, *analysis["signed"])
        return analysis

    def _find_signs(self, request: AppRequest) -> dict[str, Any]:
        """Find the signs that are nearest to a recording, with their films."""
        signs = self._analyst.find_signs(self._takes.get_whole(request.id), self._takes)
        return {
            "signs": [
                {
                    **asdict(sign),
                    "film": f"/api/takes/{sign.clip_id}/film"
                    if sign.is_recording
                    else self._films.address(sign.clip_id),
                }
                for sign in signs
            ]
        }

    def _add(self, request: AppRequest) -> dict[str, Any]:
        return self._analyst.add_live(request.id, unpack_frames(request.body), self._takes)

    def _keep(self, request: AppRequest) -> Take:
        """Make a take of the last sentence, its text what was understood."""
        content = request.content
        text, signer = (str(content.get(name, "")) for name in ("text", "signer"))
        take = self._takes.begin(text=text, signer=signer, suffix=".mov")
        film = self._takes.film(take)
        live_film = self._analyst.write_live(request.id, film.parent)
        if live_film is None:
            self._takes.remove(take)
            raise TakeError("no sentence has ended yet", 404)
        live_film.rename(film)
        return self._takes.finish(take, film.stat().st_size)
