"""Training is killed for real, in a child of this process; what comes out is as if it was not."""

import dataclasses
import logging
import os
import random
import resource
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from signloom.checkpoint import save_checkpoint
from signloom.errors import UserError
from signloom.training.loop import EpochRecord
from signloom.training.snapshots import ABANDONED_S, Snapshots, hold_snapshots, open_snapshots
from signloom.training.train import RunOptions, train, write_history
from tests import tiny
from tests.processes import fork, wait

CHANCE = dataclasses.replace(tiny.MODEL, dropout=0.2, layer_drop=0.2)
RECIPES = {
    "cosine, early stop": {"epochs": 12, "patience": 2, "learning_rate": 0.05},
    "inverse root, last epoch, adam, text of every fourth batch": {
        "schedule": "inverse_sqrt", "patience": 0, "accumulate": 2, "optimizer": "adam",
        "ctc_weight": 0.9,
    },
}  # fmt: skip


def ignore(_: EpochRecord) -> None:
    """Log nothing."""


def options(**changes: object) -> RunOptions:
    """Return options whose every source of chance is at work, with a snapshot at every step."""
    every = {"epochs": 6, "patience": 6, "max_frames": 40, "snapshot_s": 0.0, **changes}
    return dataclasses.replace(tiny.run_options(**every), model=CHANCE)


def run(folder: Path, chosen: RunOptions, log: Callable[[EpochRecord], None] = ignore) -> None:
    """Train with snapshots; write weights and history below the folder."""
    checkpoint, fit = train(
        tiny.training_data(), chosen, provenance={}, log=log, snapshots=Snapshots(folder / "kept")
    )
    save_checkpoint(folder / "model", checkpoint)
    write_history(folder / "history.json", fit)


def results(folder: Path) -> dict[str, bytes]:
    files = [*sorted((folder / "model").iterdir()), folder / "history.json"]
    return {path.name: path.read_bytes() for path in files}


@pytest.mark.parametrize(
    "recipe",
    [
        pytest.param(recipe, id=name, marks=[] if "cosine" in name else [pytest.mark.slow])
        for name, recipe in RECIPES.items()
    ],
)
def test_a_stop_after_any_snapshot_changes_no_bit(
    recipe: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen, written, write = options(**{**recipe, "epochs": 4}), 0, Snapshots.write
    run(tmp_path / "expected", chosen)

    def write_and_stop(self: Snapshots, *values: Any, **more: Any) -> bool:
        nonlocal written
        outcome, written = write(self, *values, **more), written + 1
        if written in (1, 4, 6):
            raise KeyboardInterrupt
        return outcome

    monkeypatch.setattr(Snapshots, "write", write_and_stop)
    folder = tmp_path / "stopped"
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            run(folder, chosen)
    run(folder, chosen)
    assert results(folder) == results(tmp_path / "expected")


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_kills_at_any_moment_change_no_bit(recipe: dict[str, object], tmp_path: Path) -> None:
    """Quick twin: test_a_stop_after_any_snapshot_changes_no_bit."""
    chosen, dice = options(**recipe), random.Random(1)
    run(tmp_path / "expected", chosen)
    began = time.monotonic()
    run(tmp_path / "again", chosen)
    span_s = time.monotonic() - began
    kills, folder = 0, tmp_path / "killed"
    while kills < 3:
        pid = fork(lambda: run(folder, chosen))
        time.sleep(dice.uniform(0, span_s / 2))
        os.kill(pid, signal.SIGKILL)
        if wait(pid) == -signal.SIGKILL:
            kills += 1
        elif (folder / "model").exists():
            shutil.rmtree(folder)
    assert wait(fork(lambda: run(folder, chosen))) == 0
    assert results(folder) == results(tmp_path / "expected")


def stop_after(folder: Path, chosen: RunOptions, epochs: int) -> None:
    """Train until an epoch is over, as if the process ended there."""

    def stop(record: EpochRecord) -> None:
        if record.epoch == epochs:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(folder, chosen, stop)


def test_a_torn_snapshot_is_left_out_and_the_one_before_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    chosen = options()
    run(tmp_path / "expected", chosen)
    stop_after(tmp_path, chosen, epochs=4)
    newest, older = Snapshots(tmp_path / "kept").paths()
    assert {newest, older} == {*(tmp_path / "kept").iterdir()}  # two are kept, and nothing else
    newest.write_bytes(newest.read_bytes()[:-100])
    caplog.set_level(logging.INFO)
    run(tmp_path, chosen)
    assert f"{newest} is left out: it is torn" in caplog.text
    epoch, step = (int(number) for number in older.stem.split("-")[:2])
    assert f"training goes on at epoch {epoch}, step {step + 1} of " in caplog.text
    assert results(tmp_path) == results(tmp_path / "expected")


def test_what_is_trained_to_the_end_is_not_trained_again(tmp_path: Path) -> None:
    run(tmp_path, options())
    before = results(tmp_path)
    shutil.rmtree(tmp_path / "model")
    heard: list[EpochRecord] = []
    run(tmp_path, options(), heard.append)
    assert heard == []
    assert results(tmp_path) == before


def test_training_outlives_a_full_disk(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Files may grow up to the weights' size, not up to a snapshot's."""
    chosen = options(epochs=3)
    run(tmp_path / "expected", chosen)
    most = 2 * (tmp_path / "expected/model/model.safetensors").stat().st_size

    def starve() -> None:
        logging.basicConfig(force=True)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        run(tmp_path, chosen)

    assert wait(fork(starve)) == 0
    assert "no snapshot could be written" in capfd.readouterr().err
    assert list((tmp_path / "kept").iterdir()) == []
    assert results(tmp_path) == results(tmp_path / "expected")


def test_other_options_other_data_or_another_torch_find_no_snapshots(tmp_path: Path) -> None:
    snapshots = open_snapshots(tmp_path, {"seed": 1}, {"landmarks": "abc"})
    assert open_snapshots(tmp_path, {"seed": 1}, {"landmarks": "abc"}).folder == snapshots.folder
    assert open_snapshots(tmp_path, {"seed": 2}, {"landmarks": "abc"}).folder != snapshots.folder
    assert open_snapshots(tmp_path, {"seed": 1}, {"landmarks": "abd"}).folder != snapshots.folder


def test_a_training_is_not_continued_on_another_code_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    begun = open_snapshots(tmp_path, {"seed": 1})
    assert begun.write({}, epoch=1, step=1)
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    assert open_snapshots(tmp_path, {"seed": 2}).paths() == []
    assert not caplog.text
    assert open_snapshots(tmp_path, {"seed": 1}).paths() == []
    assert f"{begun.folder} holds this training as another code path began it" in caplog.text
    monkeypatch.delenv("OPENBLAS_CORETYPE")
    assert open_snapshots(tmp_path, {"seed": 1}).paths() == begun.paths()


def test_two_trainings_do_not_share_their_snapshots(tmp_path: Path) -> None:
    with hold_snapshots(tmp_path, []):
        with pytest.raises(UserError, match="another training"), hold_snapshots(tmp_path, []):
            pass
        assert wait(fork(lambda: os._exit(7))) == 7  # a child's end does not let go of it
        with pytest.raises(UserError, match="another training"), hold_snapshots(tmp_path, []):
            pass
    with hold_snapshots(tmp_path, []):
        pass


def test_leftovers_are_removed(tmp_path: Path) -> None:
    current, young, old = (open_snapshots(tmp_path, number) for number in range(3))
    for snapshots in (current, young, old):
        assert snapshots.write({}, epoch=1, step=1)
        (snapshots.folder / ".1.tmp").touch()  # of a process that died while it wrote
    for snapshots in (current, old):
        os.utime(snapshots.folder, (0, time.time() - ABANDONED_S - 60))
    with hold_snapshots(tmp_path, [current]):
        assert not old.folder.exists()
        assert len(young.paths()) == 1
        assert list(current.folder.iterdir()) == current.paths()
