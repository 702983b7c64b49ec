"""A headless Chromium, driven through the DevTools protocol over a pipe: no further package."""

import base64
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-extensions",
    "--disable-background-networking",
    "--remote-debugging-pipe",
)
COMMAND_FD, ANSWER_FD = 3, 4  # as the flag above wants them


def find_chromium() -> str | None:
    """Return the path of the first browser found."""
    return next(filter(None, map(shutil.which, NAMES)), None)


NEEDS_CHROMIUM = pytest.mark.skipif(find_chromium() is None, reason="no Chromium on this machine")


class Tab:
    """One page of the browser; what its console and its scripts complain about is kept."""

    def __init__(self, command_fd: int, answer_fd: int) -> None:
        self._commands, self._answers = command_fd, answer_fd
        self._buffer, self._number, self._session = b"", 0, ""
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._loaded = False
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and return its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == message["id"]:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return dict(answer["result"])

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            chunk = os.read(self._answers, 1 << 20)
            assert chunk, "the browser has closed its pipe"
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        params = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(str(params["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                self.complaints.append(str(params["args"]))
            case "Log.entryAdded":
                self.complaints.append(params["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Page.loadEventFired":
                self._loaded = True
        return message

    def show(self, path: Path | str, *, width: int, height: int = 900, **media: str) -> None:
        """Open a file in a window of that size and wait until it is loaded.

        Args:
            path: The page, or its address.
            width: Of the window, CSS pixels; narrow ones are phones.
            height: Of the window, CSS pixels.
            media: Features to emulate, `prefers_color_scheme="dark"`.
        """
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        features = [{"name": k.replace("_", "-"), "value": v} for k, v in media.items()]
        self.send("Emulation.setEmulatedMedia", features=features)
        self._loaded = False
        self.send("Page.navigate", url=path if isinstance(path, str) else path.resolve().as_uri())
        while not self._loaded:
            self._receive()

    def run(self, expression: str) -> Any:
        """Return the value of a JavaScript expression; promises are waited for."""
        reply = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in reply, reply["exceptionDetails"]
        return reply["result"].get("value")

    def picture(self, path: Path) -> None:
        """Write a picture of the whole page."""
        size = self.send("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        screenshot = self.send("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(screenshot["data"]))


@contextmanager
def open_tab(profile: Path, seconds: float = 120.0, flags: Sequence[str] = ()) -> Iterator[Tab]:
    """Start a browser for some seconds at most and hand out its tab.

    Args:
        profile: An empty folder for what the browser keeps.
        seconds: When a browser that hangs is killed, so that a test fails and does not wait.
        flags: Further ones of its command line.
    """
    program = find_chromium()
    assert program is not None
    command_read, command_write = os.pipe()
    answer_read, answer_write = os.pipe()

    def place() -> None:  # by way of high numbers, for the pipes may hold 3 and 4 themselves
        high = [os.dup2(fd, 100 + n) for n, fd in enumerate((command_read, answer_write))]
        os.dup2(high[0], COMMAND_FD)
        os.dup2(high[1], ANSWER_FD)

    process = subprocess.Popen(
        [program, *FLAGS, *flags, f"--user-data-dir={profile}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(COMMAND_FD, ANSWER_FD),
        preexec_fn=place,
    )
    os.close(command_read)
    os.close(answer_write)
    watchdog = threading.Timer(seconds, process.kill)
    watchdog.start()
    try:
        yield Tab(command_write, answer_read)
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()
        os.close(command_write)
        os.close(answer_read)


PHONE, DESK = 390, 1280
