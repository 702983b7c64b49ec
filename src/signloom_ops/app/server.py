"""The server of the app: its pages, its login, and the routes of its tabs."""

import contextlib
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

from anyio import CapacityLimiter, to_thread
from starlette.applications import Starlette
from starlette.responses import FileResponse, Response

from signloom.config import read_text
from signloom.corpus.manifest import VIDEO_SUFFIXES
from signloom.paths import APP, PARAMS, REPORT_PAGE
from signloom_ops.app.analysis import Analyst
from signloom_ops.app.films import CorpusFilms
from signloom_ops.app.guard import REPORT_POLICY
from signloom_ops.app.requests import HANDLERS, AppRequest, route
from signloom_ops.app.tabs.judging import Judging
from signloom_ops.app.tabs.nights import Nights
from signloom_ops.app.tabs.recordings import Recordings
from signloom_ops.app.tabs.translation import TranslationTab
from signloom_ops.app.takes import MAX_PIECE, TakeError, TakeStore
from signloom_ops.options import load_ops
from signloom_tools.dvc import stages_at_work

PAGES = Path(__file__).parent / "pages"
FILES = (
    "app.css",
    "app.js",
    "clips.js",
    "judge.js",
    "login.js",
    "server_messages.js",
    "server_messages.json",
    "nights.js",
    "texts.json",
    "timeline.js",
)
_MAX_LOGIN, LOGIN_S = 10_000, 10.0  # bytes and seconds: no password is needed to send them
_CONSENT = "consent.txt"  # in data/app: the organisation's own words
_CONSENT_FILM = "consent.webm"  # there, too: the same, signed


class App:
    """The server's parts: recordings, the model, the inbox.

    Attributes:
        looking: Films are looked at one after the other; what waits for that takes no thread, so
            that pages open meanwhile.
    """

    def __init__(
        self, *, prompts: list[str], login: Callable[[str, str], Response] | None = None
    ) -> None:
        self.login, self.looking = login, CapacityLimiter(1)
        self._prompts, self._takes, self._analyst = prompts, TakeStore(), Analyst()
        films = CorpusFilms(self._takes)
        self._tabs = (
            Recordings(self._takes),
            TranslationTab(self._takes, self._analyst, films, self.looking),
            Judging(films),
            Nights(),
        )

    def build(self) -> Starlette:
        """Return the application without its guard."""
        routes = [
            route("/", partial(_send_page, "index.html")),
            route("/login", partial(_send_page, "login.html")),
            route("/login", self._log_in, "POST", most=_MAX_LOGIN, within_s=LOGIN_S),
            *(route(f"/{name}", partial(_send_page, name)) for name in FILES),
            route("/report", _send_report),
            route("/api/start", self._start),
            route("/api/consent-film", _send_consent_film),
            *(tab_route for tab in self._tabs for tab_route in tab.routes()),
        ]

        @contextlib.asynccontextmanager
        async def life(_app: Starlette) -> AsyncIterator[None]:
            await to_thread.run_sync(self._takes.settle, load_ops(PARAMS).inbox)
            yield

        return Starlette(routes=routes, lifespan=life, exception_handlers=HANDLERS)

    def _log_in(self, request: AppRequest) -> Response:
        if self.login is None:
            raise TakeError("no password is asked for here", 404)
        return self.login(str(request.content.get("password", "")), request.client)

    def _start(self, _: AppRequest) -> dict[str, Any]:
        """What a page needs to begin."""
        model = self._analyst.describe()
        return {
            "prompts": self._prompts,
            "consent": read_consent(),
            "consent_film": (APP / _CONSENT_FILM).is_file(),
            "model": model,
            "in_training": model is None and bool(stages_at_work()),
            "piece": MAX_PIECE // 2,
            "videos": VIDEO_SUFFIXES,
        }


def _send_page(name: str, _: AppRequest) -> Response:
    return FileResponse(PAGES / name)


def _send_report(_: AppRequest) -> Response:
    if not REPORT_PAGE.is_file():
        raise TakeError("there is no report yet: the first night writes it", 404)
    return FileResponse(REPORT_PAGE, headers={"content-security-policy": REPORT_POLICY})


def _send_consent_film(_: AppRequest) -> Response:
    if not (APP / _CONSENT_FILM).is_file():
        raise TakeError("there is no such recording", 404)
    return FileResponse(APP / _CONSENT_FILM)


def read_consent() -> str:
    """Return the organisation's own words of consent; empty: it has none.

    Raises:
        UserError: If they cannot be read.
    """
    path = APP / _CONSENT
    return read_text(path, hint="save it as UTF-8, or remove it") if path.is_file() else ""
