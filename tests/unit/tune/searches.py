"""A small search, for the tests of tuning."""

import dataclasses
from pathlib import Path
from typing import Any

from signloom.tracking.run import TrackingOptions
from signloom.training.train import RunOptions
from signloom.tune.search import Search, open_search, plan_search
from signloom.tune.space import TuneOptions
from tests import tiny

SPACE: dict[str, Any] = {
    "model.d_model": {"choices": [8, 16]},
    "model.head_width": {"choices": [4, 8]},
    "model.norm": {"choices": ["pre", "post"]},
    "model.encoder_layers": {"low": 1, "high": 2},
    "train.learning_rate": {"low": 0.001, "high": 0.02, "log": True},
}
OPTIONS = tiny.tune_options(seed=5, trials=3, epochs=2, space=SPACE)
OFF = TrackingOptions(enabled=False, experiment="off")
HASHES = {"landmarks": "x", "targets": "y"}


def search_in(
    folder: Path, options: TuneOptions = OPTIONS, base: RunOptions | None = None
) -> Search:
    """Open a search whose database lies in the folder."""
    options = dataclasses.replace(options, storage=f"sqlite:///{folder / 'optuna.db'}")
    base = base or tiny.run_options()
    return open_search(plan_search(tiny.training_data(), base, options, OFF, hashes=HASHES))
