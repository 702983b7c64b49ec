"""A project that is served: as on one's own machine, or to a house with a password."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tiny import ROOT
from tests.unit.ops.app.serving import PASSWORD, Asker, serve


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "params.yaml").write_bytes((ROOT / "params.yaml").read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def asker(project: Path) -> Iterator[Asker]:
    yield from serve()


@pytest.fixture
def house(project: Path) -> Iterator[Asker]:
    yield from serve(password=PASSWORD)
