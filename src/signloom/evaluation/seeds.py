"""Models that differ by their seed alone come in, mean and spread of their scores go out."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from signloom.config import UserError

METRICS = ("bleu4", "chrf", "wer")


def seed_folders(checkpoint: Path) -> list[Path]:
    """Return the checkpoints of the further seeds, by number.

    Args:
        checkpoint: The folder of the first; `seeds/` in it has a folder for each other one.

    Raises:
        UserError: If a folder is not named by a number.
    """
    folders = [path for path in (checkpoint / "seeds").glob("*") if path.is_dir()]
    wrong = sorted(path.name for path in folders if not path.name.isdigit())
    if wrong:
        raise UserError(
            f"{checkpoint / 'seeds'}: expected folders named by their seed, found "
            f"{', '.join(wrong)}; remove them or train again"
        )
    return sorted(folders, key=lambda path: int(path.name))


def seed_name(provenance: Mapping[str, Any]) -> str:
    """Return the seed of a checkpoint, from what it says about its making."""
    seeds = provenance.get("params", {}).get("train", {}).get("seeds", ["first"])
    return str(seeds[0])


def summarise_seeds(
    scores: Mapping[str, Mapping[str, Mapping[str, float]]], *, digits: int
) -> dict[str, Any] | None:
    """Summarise several models' scores.

    Args:
        scores: Name of the seed to split to metric to value, the first seed first.
        digits: Decimals kept.

    Returns:
        `names`, and `splits`: split to metric to `mean`, `std` (n - 1), `n` and `values`; None
        for a single model.
    """
    if len(scores) < 2:
        return None
    splits = {}
    for split in next(iter(scores.values())):
        splits[split] = {
            name: _spread([found[split][name] for found in scores.values()], digits)
            for name in METRICS
        }
    return {"names": list(scores), "splits": splits}


def _spread(values: Sequence[float], digits: int) -> dict[str, Any]:
    return {
        "mean": round(mean(values), digits),
        "std": round(stdev(values), digits),
        "n": len(values),
        "values": [round(value, digits) for value in values],
    }
