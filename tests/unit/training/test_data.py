import dataclasses
from pathlib import Path

import pytest

from signloom.errors import UserError
from signloom.features.targets import write_targets
from signloom.training.data import TrainingData
from tests import tiny


@pytest.fixture(autouse=True, params=["objects", "columns"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read targets as those of a small corpus, and again as those of a large one."""
    if request.param == "columns":
        monkeypatch.setattr("signloom.features.targets.LARGE_ROWS", 0)


def load(folder: Path, *, drop: str = "") -> TrainingData:
    """Write the tiny corpus, without the targets of a split, with some of no landmarks; load it."""
    files = tiny.write_project(folder)
    data = tiny.training_data()
    targets = [
        target for target in (*data.train.targets, *data.dev.targets) if target.split != drop
    ]
    lost = [dataclasses.replace(data.train.targets[0], clip_id=f"lost{n}") for n in range(7)]
    write_targets(files.targets, sorted([*targets, *lost], key=lambda target: target.clip_id))
    return files.load(cache_mb=10)


def test_missing_landmarks_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    data = load(tmp_path)
    assert "7 of 15 train clips have no landmarks" in caplog.text
    assert "lost0, lost1, lost2, lost3, lost4, ..." in caplog.text
    assert len(data.train) == 8
    assert {target.split for target in data.dev.targets} == {"dev"}
    assert data.source.extractor == {"detector": "tiny"}


def test_a_split_without_landmarks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no clip of split dev has landmarks"):
        load(tmp_path, drop="dev")
