"""Settings of every test."""

import contextlib
import gc
import ipaddress
import os
import re
import socket
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock
from hypothesis import settings

# Tiny tensors gain nothing from threads, and two threads on a busy machine wait for each other. A
# stage that a test runs in this process would set its own number, and a fork after it would hang.
os.environ.setdefault("OMP_NUM_THREADS", "1")
torch.set_num_threads(1)

# How long an example takes says how busy the machine is.
settings.register_profile("signloom", deadline=None)
settings.load_profile("signloom")

# Tests that kill, fork or limit processes, as only POSIX has it.
NEEDS_POSIX = re.compile(r"^import (fcntl|resource)$|^from tests\.processes import", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out on Windows what could not even be imported there."""
    is_test = sys.platform == "win32" and collection_path.suffix == ".py"
    if is_test and NEEDS_POSIX.search(collection_path.read_text(encoding="utf-8")):
        return True
    return None  # pytest decides


def pytest_collection_finish() -> None:
    """Leave what all tests import out of garbage collections, each of which would walk it."""
    gc.freeze()


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse connections to the internet: a test that needs it is red everywhere."""
    connect = socket.socket.connect

    def connect_here(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6):
            with contextlib.suppress(ValueError):  # a name, such as localhost
                if ipaddress.ip_address(address[0].split("%")[0]).is_global:
                    raise OSError(f"a test connects to {address[0]}; tests are offline")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect_here)


@pytest.fixture(scope="session")
def mlflow_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty `mlflow.db` to copy: MLflow takes seconds to make the tables of one."""
    shared = tmp_path_factory.getbasetemp().parent / f"mlflow-{version('mlflow')}"
    path = shared / "mlflow.db"
    with FileLock(f"{shared}.lock"):  # of all workers of pytest-xdist, and of earlier runs
        if not path.is_file():
            from mlflow import MlflowClient

            draft = path.with_suffix(".new")
            shared.mkdir(exist_ok=True)
            draft.unlink(missing_ok=True)
            MlflowClient(f"sqlite:///{draft}").search_experiments()
            draft.replace(path)
    return path
