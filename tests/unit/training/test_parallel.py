"""Processes that train together, over gloo, give what one process gives."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from signloom.errors import UserError
from signloom.training.loop import EpochRecord
from signloom.training.parallel import count_cores, count_jobs, open_devices, set_threads
from signloom.training.snapshots import Snapshots
from signloom.training.train import RunOptions, train, write_history
from tests import tiny
from tests.processes import fork_together, wait

# Two processes add up the same two gradients as one that takes its parts in turn: no difference was
# seen in 30 epochs. Parts of a batch are padded otherwise than the whole: sums in another order.
SAME, CLOSE = 1e-6, 1e-4
CHANCE = dataclasses.replace(tiny.MODEL, dropout=0.2, layer_drop=0.3)


def options(**changes: object) -> RunOptions:
    every = {"epochs": 4, "snapshot_s": 0.0, **changes}
    return dataclasses.replace(tiny.run_options(**every), model=CHANCE)


def run(folder: Path, chosen: RunOptions, stop_after: int = 99) -> None:
    """Train on this process's share; the first process writes the history."""
    fabric = open_devices(chosen.train)

    def stop(record: EpochRecord) -> None:
        if record.epoch == stop_after:
            raise KeyboardInterrupt

    _, fit = train(
        tiny.training_data(),
        chosen,
        provenance={},
        log=stop,
        fabric=fabric,
        snapshots=Snapshots(folder / "kept"),
    )
    if fabric.is_global_zero:
        write_history(folder / "history.json", fit)


def history(folder: Path) -> list[dict[str, Any]]:
    epochs: list[dict[str, Any]] = json.loads((folder / "history.json").read_text())["epochs"]
    return epochs


def run_together(folder: Path, chosen: RunOptions, **more: int) -> list[int]:
    torch.set_num_threads(1)
    return [wait(pid) for pid in fork_together(lambda: run(folder, chosen, **more), 2)]


def assert_close(
    records: list[dict[str, Any]], expected: list[dict[str, Any]], tolerance: float
) -> None:
    assert len(records) == len(expected)
    for record, reference in zip(records, expected, strict=True):
        for name in ("train_loss", "train_ctc_loss", "dev_loss", "grad_norm"):
            assert record[name] == pytest.approx(reference[name], rel=tolerance), (
                record["epoch"],
                name,
            )
        for name in ("epoch", "step", "ctc_skipped", "frames", "tokens"):
            assert record[name] == reference[name]


@pytest.fixture
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads")
def test_threads_follow_the_model_size(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(6)), raising=False)
    assert set_threads(1_000_000) == torch.get_num_threads() == 2
    assert set_threads(50_000_000) == torch.get_num_threads() == count_cores() <= 6
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    torch.set_num_threads(1)
    assert set_threads(50_000_000) == 1
    quota = tmp_path / "cpu.max"
    for content, cores in (("max 100000", 6), ("150000 100000", 2), ("50000 100000", 1)):
        quota.write_text(content)
        assert count_cores(quota) == cores


def test_as_many_seeds_at_a_time_as_there_are_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = open_devices(tiny.TRAIN)
    monkeypatch.setattr("signloom.training.parallel.count_cores", lambda: 6)
    assert [count_jobs(seeds, 2, fabric) for seeds in (1, 2, 9)] == [1, 2, 3]
    assert count_jobs(9, 6, fabric) == 1


def test_without_dropout_parts_give_the_losses_of_the_whole(tmp_path: Path) -> None:
    still = dataclasses.replace(options(token_drop=0.0), model=tiny.MODEL)
    run(tmp_path / "whole", still)
    parts = dataclasses.replace(still, train=dataclasses.replace(still.train, accumulate=3))
    run(tmp_path / "parts", parts)
    assert_close(history(tmp_path / "parts"), history(tmp_path / "whole"), CLOSE)


@pytest.mark.parametrize("first", [1, 2])
def test_training_goes_on_with_another_number_of_devices(tmp_path: Path, first: int) -> None:
    run(tmp_path / "expected", options(accumulate=2))
    if first == 1:
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, options(accumulate=2), stop_after=2)
        assert run_together(tmp_path, options()) == [0, 0]
    else:
        assert 1 in run_together(tmp_path, options(), stop_after=2)
        run(tmp_path, options(accumulate=2))
    assert_close(history(tmp_path), history(tmp_path / "expected"), SAME)


def test_convolutions_refuse_several_processes(tmp_path: Path) -> None:
    chosen = options(epochs=1)
    chosen = dataclasses.replace(
        chosen, model=dataclasses.replace(chosen.model, family="convolution")
    )

    def refused() -> None:
        with pytest.raises(UserError, match="one device, found 2"):
            run(tmp_path, chosen)

    torch.set_num_threads(1)
    assert [wait(pid) for pid in fork_together(refused, 2)] == [0, 0]
