"""Made-up sentences and their noisy copies, for the tests of metrics."""

import random
from typing import Any

from signloom.evaluation.metrics import ScoreOptions

WORDS = ["je", "vais", "à", "la", "maison", ",", "demain", ".", "elle", "l'", "eau", "Le"]


def options(*, tokenizer: Any = "13a", resamples: int = 200, seed: int = 1) -> ScoreOptions:
    return ScoreOptions(tokenizer=tokenizer, resamples=resamples, seed=seed)


def sentences(count: int, *, seed: int, shortest: int = 1) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(shortest, 9))) for _ in range(count)]


def noisy(refs: list[str], *, seed: int) -> list[str]:
    """References with words replaced, lost and, for every seventh, nothing left."""
    rng = random.Random(seed)
    hyps = []
    for number, ref in enumerate(refs):
        words = [rng.choice(WORDS) if rng.random() < 0.2 else word for word in ref.split()]
        hyps.append("" if number % 7 == 0 else " ".join(w for w in words if rng.random() < 0.9))
    return hyps
