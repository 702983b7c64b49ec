"""How many of 1,000 years of nights promote a model that is not better, and what is missed for it.

Usage: python -m tests.bench.gate_years [--years 1000] [--clips 48] [--seed 1] [--fresh]

A drawn challenger every night for two years, tested on the same clips every night, as the frozen
test is. A model's score on a clip is its quality, in points, and its luck there; a challenger has
half of its champion's luck, since it starts from its weights. Four of five clips are the same for
both (SPARSE), as in the demo, and 48 clips tell 1.5 points either side. With `--fresh`, every night
has new test clips, and no champion keeps the luck that made it one. Compared: the level of one
night alone, tested anew every night, and that of the gate, which the refusals of a year share.
"""

import argparse
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy import stats

from signloom_ops.nightly.gate import TESTS, YEAR_DAYS, level_tonight

LEVEL, MARGIN = 0.05, 1.0  # retrain.gate.level and equal_margin
SD, INHERITED, SPARSE = 5.2, 0.5, 0.2  # of a clip's difference, points; of luck; of clips
NIGHTS = 2 * YEAR_DAYS
FloatArray = npt.NDArray[np.float64]
Gain = Callable[[np.random.Generator, FloatArray], FloatArray]
# World: the challenger's true gain in points, from the nights since the last promotion.
WORLDS: dict[str, Gain] = {
    "all equal": lambda _, waited: np.zeros_like(waited),
    "all 0.25 worse": lambda _, waited: np.full_like(waited, -0.25),
    "9 of 10 are 0.1 worse, 1 is 1.5 better": lambda rng, waited: np.where(
        rng.random(len(waited)) < 0.9, -0.1, 1.5
    ),
    "0.03 better a night by more data, +- 0.5": lambda rng, waited: (
        0.03 * waited + rng.normal(0, 0.5, len(waited))
    ),
    "cheaper, and 1 worse": lambda _, waited: np.full_like(waited, -MARGIN),
}


def simulate(
    world: str, tails: FloatArray, *, years: int, clips: int, seed: int, is_fresh: bool
) -> dict[str, float]:
    """Return shares of wrong years, the first and the second, and promotions in the second.

    Args:
        world: One of `WORLDS`.
        tails: Error probability of a night by the number refused in the year before.
        years: Projects that are drawn, each of two years.
        clips: Frozen test clips.
        seed: Of everything.
        is_fresh: Whether every night has test clips of its own.
    """
    rng = np.random.default_rng(seed)
    margin = MARGIN if "cheaper" in world else 0.0
    scale = SD / np.sqrt(2 * (1 - INHERITED) * SPARSE)

    def draw() -> FloatArray:
        shown = rng.random((years, clips)) < SPARSE
        found: FloatArray = scale * shown * rng.standard_normal((years, clips))
        return found

    luck, waited, behind = draw(), np.zeros(years), np.zeros(NIGHTS)
    refused, wrong = np.zeros((2, years, NIGHTS), dtype=bool)
    for night in range(NIGHTS):
        waited += 1
        luck = draw() if is_fresh else luck
        gain = WORLDS[world](rng, waited)
        child = INHERITED * luck + np.sqrt(1 - INHERITED**2) * draw()
        clip = gain[:, None] + child - luck
        error = clip.std(axis=1, ddof=1) / np.sqrt(clips)
        past = refused[:, max(0, night - YEAR_DAYS) : night].sum(axis=1)
        lowest = clip.mean(axis=1) - stats.t.isf(tails[past], clips - 1) * error
        taken = lowest > -margin
        refused[:, night], wrong[:, night] = ~taken, taken & (gain <= -margin)
        luck[taken], waited[taken] = child[taken], 0
        behind[night] = waited.mean()
    first, second = wrong[:, :YEAR_DAYS], wrong[:, YEAR_DAYS:]
    return {
        "wrong first year": float(first.any(axis=1).mean()),
        "second": float(second.any(axis=1).mean()),
        "promotions, second year": float((~refused[:, YEAR_DAYS:]).sum(axis=1).mean()),
        "mean nights since one": float(behind[YEAR_DAYS:].mean()),
    }


def main() -> None:
    """Print a line for each world and way of testing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--years", type=int, default=1000)
    parser.add_argument("--clips", type=int, default=48)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fresh", action="store_true", help="other test clips every night")
    options = parser.parse_args()
    ways = {
        "each night anew": np.full(NIGHTS, LEVEL / 2),
        "shared": np.array([level_tonight(LEVEL, past) for past in range(TESTS)]),
    }
    for world in WORLDS:
        for way, tails in ways.items():
            found = simulate(
                world, tails, years=options.years, clips=options.clips, seed=options.seed,
                is_fresh=options.fresh,
            )  # fmt: skip
            figures = ", ".join(f"{name} {value:.3g}" for name, value in found.items())
            print(f"{world} | {way} | {figures}", flush=True)


if __name__ == "__main__":
    main()
