"""A running app and a client of it, for the tests of its routes."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

from signloom_ops.app.connections import build_server
from signloom_ops.app.guard import Guard
from signloom_ops.app.server import App

PASSWORD = "arbres, forêts"


class Asker:
    """A client of a running server.

    Attributes:
        guard: Its token may be used.
    """

    def __init__(self, guard: Guard, app: App, port: int) -> None:
        self.guard, self.app, self.port = guard, app, port
        self.host = f"127.0.0.1:{port}"

    def ask(
        self, method: str, path: str, body: Any = None, *, token: bool = True, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        if token:
            named["cookie"] = f"signloom={self.guard.token}"
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        sent = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        line.request(method, path, sent, {"host": self.host, **named})
        answer = line.getresponse()
        content = answer.read()
        line.close()
        return answer.status, {key.lower(): value for key, value in answer.getheaders()}, content

    def change(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        status, _, content = self.ask(method, path, body, x_signloom="1")
        return status, json.loads(content)


def serve(*, password: str = "") -> Iterator[Asker]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        app = App(prompts=["oui"])
        guard = Guard(app.build(), hosts=[f"127.0.0.1:{port}"], password=password, secure=False)
        app.login = guard.login
        running = build_server(guard, log_level="error", access_log=False)
        thread = threading.Thread(target=running.run, args=([listener],))
        thread.start()
        while not running.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield Asker(guard, app, port)
        running.should_exit = True
        thread.join()
