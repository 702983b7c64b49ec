"""MLflow's server as a person starts it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.processes import free_port, wait_for_answer


class MlflowServer:
    """`mlflow server` with a SQLite backend, as a person starts it."""

    def __init__(self, folder: Path) -> None:
        self.port, self.folder = free_port(), folder

    def start(self) -> None:
        command = [
            "server",
            "--host",
            "127.0.0.1",
            "--port",
            str(self.port),
            "--workers",
            "1",
            "--backend-store-uri",
            f"sqlite:///{self.folder / 'server.db'}",
            "--artifacts-destination",
            str(self.folder / "artifacts"),
        ]
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mlflow", *command],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        url, log = f"http://127.0.0.1:{self.port}/health", self.folder / "server.log"
        wait_for_answer(url, self.process, log)

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
