"""Requests: their bodies, bounded in size and time, and answers as JSON, errors with a reason."""

import contextlib
import email
import errno
import json
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

from anyio import CapacityLimiter, create_task_group, fail_after, to_thread
from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from signloom.errors import ClipError, UserError
from signloom_ops.app.takes import TakeError

MAX_JSON = 1_000_000  # bytes
_HEAD = 4096  # bytes that the head of a part of a form may have
_PIECE_S = 60.0  # between two parts of a request
MOST_LOOKING = 4  # requests that wait for the model; it works on one
_RETRY_S = 10
_FULL = (errno.ENOSPC, errno.EDQUOT)
_UNWRITABLE = (*_FULL, errno.EACCES, errno.EPERM, errno.EROFS)


class OverloadedError(Exception):
    """Too many requests wait for the model."""


@dataclass(frozen=True, slots=True)
class AppRequest:
    """A request that came whole."""

    id: str  # the part of the path that varies; empty: there is none
    query: QueryParams
    body: bytes
    client: str  # the address of who asks; empty: not known
    kind: str  # the header Content-Type; empty: there is none

    @property
    def content(self) -> dict[str, Any]:
        """The JSON object that the body holds.

        Raises:
            TakeError: If it holds none.
        """
        try:
            # Half a surrogate, which JSON can say, can be encoded nowhere: it becomes "?".
            text = json.dumps(json.loads(self.body), ensure_ascii=False)
            content = json.loads(text.encode(errors="replace"))
        except (ValueError, RecursionError):  # or lists that lie in each other too deep
            raise TakeError("expected JSON") from None
        if not isinstance(content, dict):
            raise TakeError("expected a JSON object")
        return content

    def read_file(self, field: str) -> tuple[str, bytes]:
        """Return name and content of the file in a field of a form, as RFC 7578 has it.

        Raises:
            TakeError: If there is none.
        """
        boundary = re.search(r'boundary="?([^";,]+)', self.kind)
        mark = f"\r\n--{boundary[1]}".encode() if boundary else None
        for part in (b"\r\n" + self.body).split(mark)[1:] if mark else ():
            head, _, content = part.partition(b"\r\n\r\n")
            message = email.message_from_string(head[:_HEAD].decode(errors="replace").lstrip())
            name = message.get_filename()
            if name is not None and message.get_param("name", "", "content-disposition") == field:
                return name, content
        raise TakeError(f"expected a form with a file: curl -F {field}=@FILE", 415)


def route(
    path: str,
    work: Callable[[AppRequest], Any],
    method: str = "GET",
    *,
    status: int = 200,
    most: int = MAX_JSON,
    within_s: float | None = None,
    limiter: CapacityLimiter | None = None,
) -> Route:
    """Return a route whose work is done in a thread.

    With a limiter, the bodies of at most `MOST_LOOKING` requests and the one that is worked on are
    in memory. Those of others are awaited all the same, as clients read no answer before.

    Args:
        path: Of the address; `{id}` in it varies.
        work: Returns a response, or a dataclass, plain values or nothing, which become JSON.
        method: Of HTTP.
        status: Of HTTP, where the work raises nothing.
        most: Bytes of the body.
        within_s: For how long the body is awaited; None: as long as its parts come.
        limiter: How many such requests are worked on in parallel; None: many.
    """
    held: set[Request] = set()

    async def endpoint(request: Request) -> Response:
        is_full = limiter is not None and len(held) > MOST_LOOKING
        if not is_full:
            held.add(request)
        try:
            return await answer(request, is_full=is_full)
        finally:
            held.discard(request)

    async def answer(request: Request, *, is_full: bool) -> Response:
        with fail_after(within_s):
            body = b"" if method == "GET" else await _read_body(request, most, is_kept=not is_full)
        if is_full:
            raise OverloadedError
        client = request.client.host if request.client else ""
        number = request.path_params.get("id", "")
        kind = request.headers.get("content-type", "")
        whole_request = AppRequest(number, request.query_params, body, client, kind)
        async with _turn(request, limiter):
            outcome = await to_thread.run_sync(work, whole_request)
        if isinstance(outcome, Response):
            return outcome
        if is_dataclass(outcome) and not isinstance(outcome, type):
            outcome = asdict(outcome)
        return JSONResponse({} if outcome is None else outcome, status)

    return Route(path, endpoint, methods=[method])


@contextlib.asynccontextmanager
async def _turn(request: Request, limiter: CapacityLimiter | None) -> AsyncIterator[None]:
    """Wait until a request may be worked on; its client may go meanwhile.

    Raises:
        OverloadedError: If too many wait already.
        ClientDisconnect: If the client has gone.
    """
    if limiter is None:
        yield
        return
    if limiter.statistics().tasks_waiting >= MOST_LOOKING:
        raise OverloadedError
    has_turn = False
    async with create_task_group() as task_group:

        async def leave() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            task_group.cancel_scope.cancel()

        task_group.start_soon(leave)
        await limiter.acquire()
        has_turn = True
        task_group.cancel_scope.cancel()
    if not has_turn:
        raise ClientDisconnect
    try:
        yield
    finally:
        limiter.release()


async def _read_body(request: Request, most: int, *, is_kept: bool) -> bytes:
    """Return the body of a request, which never takes more memory than allowed."""
    size, content, parts = 0, bytearray(), request.stream()
    while True:
        with fail_after(_PIECE_S):
            part = await anext(parts, None)
        if part is None:
            return bytes(content)
        size += len(part)
        if is_kept:
            content += part
        if size > most:
            raise TakeError(f"more than {most} bytes at once", 413)


class FilmResponse(FileResponse):
    """A film that another request may remove before its first byte goes out."""

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


async def _refuse(_request: Request, error: Exception) -> Response:
    status = error.status if isinstance(error, TakeError) else 422
    return JSONResponse({"error": str(error)}, status)


async def _refuse_unwritable(_request: Request, error: Exception) -> Response:
    if not isinstance(error, OSError) or error.errno not in _UNWRITABLE:
        raise error
    if error.errno in _FULL:
        return JSONResponse({"error": f"the disk is full ({error.strerror}): free some room"}, 507)
    why = f"{error.filename} cannot be written ({error.strerror})"
    return JSONResponse({"error": f"{why}; give this user the right to write there"}, 507)


async def _refuse_late(_request: Request, _error: Exception) -> Response:
    headers = {"connection": "close"}
    return JSONResponse({"error": "the request did not come whole"}, 408, headers)


async def _refuse_busy(_request: Request, _error: Exception) -> Response:
    why = f"others are being looked at: try again in {_RETRY_S} seconds"
    return JSONResponse({"error": why}, 503, {"retry-after": str(_RETRY_S)})


HANDLERS: dict[Any, Any] = {
    OverloadedError: _refuse_busy,
    TakeError: _refuse,
    ClipError: _refuse,
    UserError: _refuse,
    OSError: _refuse_unwritable,
    TimeoutError: _refuse_late,
    ClientDisconnect: _refuse,  # no client receives it; what was sent is not kept
}
