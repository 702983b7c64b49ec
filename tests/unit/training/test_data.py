import dataclasses
import logging
from pathlib import Path

import pytest

from signloom.errors import UserError
from signloom.features.batches import TrainingBatches
from signloom.features.targets import Target, write_targets
from signloom.training.data import TrainingData
from tests import tiny


def load(folder: Path, *, cache_mb: int = 10, drop: str = "") -> TrainingData:
    """Write the tiny corpus, without the targets of a split, with some of no landmarks; load it."""
    folder.mkdir(exist_ok=True)
    files = tiny.write_project(folder)
    data = tiny.training_data()
    targets = [
        target for target in (*data.train.targets, *data.dev.targets) if target.split != drop
    ]
    lost = [dataclasses.replace(data.train.targets[0], clip_id=f"lost{n}") for n in range(7)]
    write_targets(files.targets, sorted([*targets, *lost], key=name))
    return files.load(cache_mb=cache_mb)


def name(target: Target) -> str:
    return target.clip_id


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


def test_what_does_not_fit_streams(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    streamed, kept = load(tmp_path / "a", cache_mb=0), load(tmp_path / "b")
    assert "0 of 12 clips fit into train.cache_mb: 0" in caplog.text
    assert caplog.text.count("fit into") == 1
    one, other = (
        TrainingBatches(d.train, tiny.FEATURES, tiny.AUGMENT, max_frames=60, pad=0, seed=1)
        for d in (streamed, kept)
    )
    assert one.plan(1) == other.plan(1)
    assert all((one.build(1, c).src == other.build(1, c).src).all() for c in one.plan(1))
