"""Who may ask the app: one token, known hosts, our own pages; what pages may load."""

import hmac
import secrets
import time
from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "signloom"
TRANSLATE = "/translate"  # for programs, which need no token
_FOREIGN = ("cross-site", "same-site")  # what browsers call requests of other sites' pages
# What a browser may have without a token.
OPEN = (
    "/login",
    "/app.css",
    "/login.js",
    "/server_messages.js",
    "/server_messages.json",
    "/texts.json",
)
_TRIES = 20  # wrong tokens and passwords of an address, before it must wait
_WINDOW_S = 60.0  # within which they count

# Nothing but files of this server: no inline script, no frame, no form elsewhere.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "media-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; frame-src 'self'"
)
# The report has its script inside. In this sandbox it belongs to no origin: it reaches no cookie
# and may ask this server for nothing.
REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'"
)


class Guard:
    """Lets through what brings the token, asks for one of our hosts and comes from our pages.

    Checking the host keeps out pages that let their name point to this machine (DNS rebinding);
    a header of our own on each request that changes something keeps out forms of other pages.

    Args:
        hosts: Values of the header `Host` that are ours.
        password: Needed besides, where others in the house may reach the server; empty: none.
    """

    def __init__(
        self, app: ASGIApp, *, hosts: Collection[str], password: str, secure: bool
    ) -> None:
        self.token = secrets.token_urlsafe(32)
        self._app, self._hosts, self._password, self._secure = app, hosts, password, secure
        self._wrong: dict[str, list[float]] = {}  # when, by the address of who asked

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass on with the headers that every answer has."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        refused = self._refusal(scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.setdefault("content-security-policy", POLICY)
                headers["x-content-type-options"] = "nosniff"
                headers["referrer-policy"] = "no-referrer"
                headers["cache-control"] = "no-store"
                headers["permissions-policy"] = "camera=(self), microphone=(), geolocation=()"
                headers["cross-origin-opener-policy"] = "same-origin"
            await send(message)

        await (refused or self._app)(scope, receive, send_with_headers)

    def login(self, password: str, client: str) -> Response:
        """Answer to a password that comes from an address."""
        if self._is_flooded(client):
            return _refuse("too many wrong tries: wait a minute", 429)
        if not self._password or not hmac.compare_digest(
            password.encode(), self._password.encode()
        ):
            self._note_wrong(client)
            return _refuse("wrong password", 403)
        answer = JSONResponse({})
        self._give(answer)
        return answer

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        if headers.get("host", "").lower() not in self._hosts:
            return _refuse("this server has another name", 421)
        method, path = scope["method"], scope["path"]
        if method not in ("GET", "HEAD") and self._is_from_another_page(headers, path):
            return _refuse("this comes from another page", 403)
        if path in OPEN or self._has_cookie(headers):
            return None
        if path == TRANSLATE and (method != "POST" or not self._password):
            return None  # pages of others were refused above, and there is nothing to guess
        client = (scope.get("client") or ("",))[0]
        if self._is_flooded(client):
            return _refuse("too many wrong tries: wait a minute", 429)
        if path == TRANSLATE:
            return self._check_bearer(headers, client)
        if path == "/" and self._password:
            return RedirectResponse("/login", 303)
        token = QueryParams(scope["query_string"]).get("token")
        if path == "/" and token is not None:
            if hmac.compare_digest(token.encode(), self.token.encode()):
                answer = RedirectResponse("/", 303)
                self._give(answer)
                return answer
            if headers.get("sec-fetch-site") not in _FOREIGN:  # who could lock all others out
                self._note_wrong(client)
        return _refuse("open the address that Signloom printed when it started", 401)

    def _is_from_another_page(self, headers: Headers, path: str) -> bool:
        origin = headers.get("origin")
        own_origin = f"{'https' if self._secure else 'http'}://{headers['host'].lower()}"
        is_form = headers.get("x-signloom") != "1" and path != TRANSLATE
        return origin not in (None, own_origin) or is_form

    def _has_cookie(self, headers: Headers) -> bool:
        cookie = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
        return hmac.compare_digest(cookie.encode(), self.token.encode())

    def _check_bearer(self, headers: Headers, client: str) -> Response | None:
        """Refuse a program that sends no password or a wrong one."""
        expected = f"Bearer {self._password}".encode()
        sent = headers.get("authorization", "").encode("latin-1")  # as Starlette decoded it
        if hmac.compare_digest(sent, expected):
            return None
        self._note_wrong(client)
        return _refuse("send the header Authorization: Bearer PASSWORD", 401)

    def _give(self, answer: Response) -> None:
        answer.set_cookie(
            COOKIE, self.token, httponly=True, samesite="strict", secure=self._secure, path="/"
        )

    def _note_wrong(self, client: str) -> None:
        self._wrong.setdefault(client, []).append(time.monotonic())

    def _is_flooded(self, client: str) -> bool:
        """Return whether an address has guessed too often; others may go on."""
        since = time.monotonic() - _WINDOW_S
        recent = {
            address: [t for t in times if t > since] for address, times in self._wrong.items()
        }
        self._wrong = {address: times for address, times in recent.items() if times}
        return len(self._wrong.get(client, ())) >= _TRIES


def _refuse(why: str, status: int) -> Response:
    return JSONResponse({"error": why}, status)
