"""The tab Judge, and the clips of the corpus that it and others show."""

from typing import Any

from starlette.responses import FileResponse
from starlette.routing import Route

from signloom.config import parse_options
from signloom.evaluation.judgements import BlindAnswer, Judgements, show_blind
from signloom_ops.app.films import CorpusFilms
from signloom_ops.app.requests import AppRequest, route


class Judging:
    """Routes of the tasks of judges."""

    def __init__(self, films: CorpusFilms) -> None:
        self._films, self._judgements = films, Judgements()

    def routes(self) -> list[Route]:
        """Return them."""
        return [
            route(
                "/api/film",
                lambda request: FileResponse(self._films.film(request.query.get("clip", ""))),
            ),
            route(
                "/api/skeleton", lambda request: self._films.skeleton(request.query.get("clip", ""))
            ),
            route("/api/judge", lambda _: {"tasks": self._judgements.names()}),
            route("/api/judge/{id}", self._show_task),
            route("/api/judge/{id}", self._judge, "POST", status=201),
        ]

    def _show_task(self, request: AppRequest) -> dict[str, Any]:
        """What a judge has to do and has done, blind."""
        sheet = self._judgements.sheet(request.id, request.query.get("judge", ""))
        clips = show_blind(self._judgements.read(request.id), sheet)
        return {"clips": [{**clip, "film": self._films.address(clip["clip_id"])} for clip in clips]}

    def _judge(self, request: AppRequest) -> None:
        answer = parse_options(request.content, BlindAnswer, where="answer")
        self._judgements.answer(request.id, answer)
