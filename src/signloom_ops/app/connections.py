"""Connections to the app: how many there may be, and how long one may hold its place."""

import asyncio
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

HEADERS_S = 10.0  # from the first byte of a request, or of a connection, to the end of its headers
MOST_WAITING = 100  # connections that have asked nothing yet, or half
MOST_AT_WORK = 300  # beyond which a request is refused


class PromptConnection(H11Protocol):
    """A connection that ends if a request does not come whole in time.

    Without that a few hundred half requests, which need no password, would keep all others out.
    """

    _since_s = 0.0
    _ending: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a request; where too many do, the one that came first goes."""
        super().connection_made(transport)
        self._wait()
        waiting = [
            connection
            for connection in self.connections
            if isinstance(connection, PromptConnection) and connection.is_waiting
        ]
        if len(waiting) > MOST_WAITING:
            min(waiting, key=lambda connection: connection._since_s).transport.close()

    @property
    def is_waiting(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def data_received(self, data: bytes) -> None:
        """Take what came; a part of a request does not prolong the time that it has."""
        super().data_received(data)
        if not self.is_waiting:
            self._stop()
        elif self._ending is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the time."""
        self._stop()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._since_s = self.loop.time()
        self._ending = self.loop.call_later(HEADERS_S, self._end)

    def _stop(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None

    def _end(self) -> None:
        if self.is_waiting:
            self.transport.close()


def build_server(
    guard: ASGIApp, *, certificate: Path | None = None, key: Path | None = None, **more: Any
) -> uvicorn.Server:
    """Return the server of a guarded app.

    Args:
        certificate: For TLS, PEM; None: it speaks without.
        key: Of the certificate, PEM.
        more: Further options of `uvicorn.Config`.
    """
    options: dict[str, Any] = {
        "log_level": "warning",
        "server_header": False,
        "timeout_graceful_shutdown": 3,
        "limit_concurrency": MOST_AT_WORK,
        "http": PromptConnection,
        "ws": "none",
        "ssl_certfile": certificate,
        "ssl_keyfile": key,
    }
    return uvicorn.Server(uvicorn.Config(guard, **options | more))
