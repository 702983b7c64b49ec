"""Trained models come in, the folder of the stage `train` goes out."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import safetensors

from signloom.checkpoint import Checkpoint, save_checkpoint
from signloom.config import UserError
from signloom.reproducibility import write_atomically
from signloom.training.records import Fit

HISTORY, SEEDS = "history.json", "seeds.json"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Result:
    """What training with one seed gave."""

    seed: int
    checkpoint: Checkpoint
    fit: Fit


def write_results(folder: Path, results: Sequence[Result]) -> None:
    """Write the checkpoint of the first seed, below it those of the others.

    With several seeds, `seeds.json` has their dev losses with mean and spread, and `seeds/N/` the
    checkpoint of each seed N but the first.

    Raises:
        UserError: If the disk is full, or something else forbids writing.
    """
    first, *others = results
    try:
        _write(folder, first)
        for result in others:
            _write(folder / "seeds" / str(result.seed), result)
        if others:
            content = {
                "format_version": 1,
                "dev_loss": spread(results),
                "seeds": [
                    {"seed": r.seed, "best_epoch": r.fit.best_epoch, "dev_loss": r.fit.dev_loss}
                    for r in results
                ],
            }
            write_atomically(folder / SEEDS, json.dumps(content, indent=1) + "\n")
    except (OSError, safetensors.SafetensorError) as error:
        raise UserError(
            f"the trained model could not be written to {folder}: {error}; make room, then run "
            "the same command: it goes on from the last snapshot and only writes"
        ) from error


def spread(results: Sequence[Result]) -> dict[str, float]:
    """Return mean and standard deviation of the dev losses; nothing of a single one."""
    losses = [result.fit.dev_loss for result in results]
    if len(losses) == 1:
        return {}
    return {"mean": statistics.mean(losses), "deviation": statistics.stdev(losses)}


def write_history(path: Path, fit: Fit) -> None:
    """Write the epochs of a training run as JSON."""
    content = {
        "format_version": 1,
        "best_epoch": fit.best_epoch,
        "epochs": [asdict(record) for record in fit.history],
    }
    write_atomically(path, json.dumps(content, indent=1) + "\n")


def _write(folder: Path, result: Result) -> None:
    save_checkpoint(folder, result.checkpoint)
    write_history(folder / HISTORY, result.fit)
