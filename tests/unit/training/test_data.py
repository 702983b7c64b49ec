import dataclasses
from pathlib import Path

import pytest

from signloom.errors import UserError
from signloom.features.targets import write_targets
from signloom.training.data import TRAINED, TrainingData
from signloom.training.loop import EpochRecord
from signloom.training.seeds import open_run
from signloom.training.train import train
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


def test_a_model_is_trained_without_the_texts_of_its_clips(tmp_path: Path) -> None:
    files, losses = tiny.write_project(tmp_path), []
    for columns in (None, TRAINED):
        data = files.load(cache_mb=10, columns=columns)
        assert {bool(target.text) for target in data.train.targets} == {columns is None}
        records: list[EpochRecord] = []
        train(data, tiny.run_options(epochs=1), provenance={}, log=records.append)
        losses.append((records[0].train_loss, records[0].dev_loss))
    assert losses[0] == losses[1]


@pytest.mark.parametrize("decoder_layers", [0, 1])
def test_texts_are_read_where_they_say_how_good_dev_is(tmp_path: Path, decoder_layers: int) -> None:
    files, options = tiny.write_project(tmp_path), tiny.run_options()
    model = dataclasses.replace(options.model, decoder_layers=decoder_layers)
    options = dataclasses.replace(options, model=model)
    data = open_run(files, options, tmp_path / "snapshots").data
    assert {bool(target.text) for target in data.dev.targets} == {decoder_layers == 0}
