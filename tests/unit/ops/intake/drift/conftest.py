"""Few exchanges of old and new clips, where the overall figure is not what is tested."""

import pytest

from signloom_ops.intake.drift import check


@pytest.fixture(autouse=True)
def few_exchanges(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "classifier" not in request.node.name:
        monkeypatch.setattr(check, "_EXCHANGES", 1)
