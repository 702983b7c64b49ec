import json
import resource
from pathlib import Path
from statistics import mean, stdev

import pytest

from signloom.checkpoint import load_checkpoint
from signloom.errors import UserError
from signloom.training.parallel import open_devices
from signloom.training.snapshots import Snapshots
from signloom.training.train import (
    deciding_options,
    each_seed,
    spread,
    train_seed,
    write_results,
)
from tests import tiny
from tests.processes import fork, wait


def test_each_seed_gives_a_model_and_the_first_stands_in_front(tmp_path: Path) -> None:
    options, data = tiny.run_options(seeds=[5, 1], epochs=2), tiny.training_data()
    fabric, heard = open_devices(options.train), []
    results = [
        train_seed(
            data,
            seed_options,
            {},
            fabric,
            Snapshots(tmp_path / "kept"),
            lambda metrics, step=0: heard.append((step, metrics)),
        )
        for seed_options in each_seed(options)[:1]
    ]
    results += [
        train_seed(data, seed_options, {}, fabric, Snapshots(tmp_path / "other"))
        for seed_options in each_seed(options)[1:]
    ]
    assert [epoch for epoch, _ in heard] == [1, 2, 0]
    assert heard[0][1]["system"]["frames_per_s"] > 0
    folder = tmp_path / "checkpoint"
    write_results(folder, results)
    for place, seed in ((folder, 5), (folder / "seeds/1", 1)):
        checkpoint = load_checkpoint(place, fabric.device)
        assert checkpoint.spec.provenance["params"]["train"]["seeds"] == [seed]
        assert json.loads((place / "history.json").read_text())["best_epoch"] == 2
    losses = [result.fit.dev_loss for result in results]
    assert losses[0] != losses[1]
    assert spread(results) == {"mean": mean(losses), "deviation": stdev(losses)}


def test_a_checkpoint_without_room_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    def starve() -> None:
        options = tiny.run_options(epochs=1)
        result = train_seed(
            tiny.training_data(),
            options,
            {},
            open_devices(options.train),
            Snapshots(tmp_path / "kept"),
        )
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        with pytest.raises(UserError, match=r"could not be written to .* make room"):
            write_results(tmp_path / "checkpoint", [result])

    assert wait(fork(starve)) == 0
    assert not (tmp_path / "checkpoint").exists()


def test_how_the_work_is_divided_decides_no_weights() -> None:
    base = deciding_options(tiny.run_options())
    same = {"accumulate": 4, "device": "auto", "cache_mb": 1, "snapshot_s": 1.0}
    assert deciding_options(tiny.run_options(**same)) == base
    for name, value in {"seeds": [9], "learning_rate": 0.1, "precision": "bfloat16"}.items():
        assert deciding_options(tiny.run_options(**{name: value})) != base


@pytest.mark.parametrize("seeds", [[], [-1], [2, 2]])
def test_seeds_that_are_none_are_refused(seeds: list[int]) -> None:
    with pytest.raises(ValueError, match=r"seeds(\[0\])?: found"):
        tiny.run_options(seeds=seeds)
