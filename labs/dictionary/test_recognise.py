"""Connected recognition from takes."""

import numpy as np

from labs.dictionary.recognise import Costs, Dictionary

RANDOM = np.random.default_rng(3)
TAKES = [np.cumsum(RANDOM.normal(size=(12, 6)), axis=0).astype(np.float32) for _ in range(5)]
NAMES = ["A", "B", "C", "D", "E"]
COSTS = Costs(sign=1.0, filler=0.8)


def at_another_pace(take: np.ndarray, factor: float) -> np.ndarray:
    places = np.linspace(0, len(take) - 1, round(factor * len(take)))
    return np.stack([np.interp(places, range(len(take)), c) for c in take.T], 1).astype(np.float32)


def test_signs_are_found_in_their_order_at_another_pace_and_with_rests_between() -> None:
    dictionary = Dictionary.of_takes(NAMES, TAKES)
    rest = np.full((5, 6), 9.0, np.float32)
    for order, pace in (([2, 0, 4], 1.0), ([1, 1, 3], 1.3), ([3], 0.8), ([4, 2], 1.1)):
        parts = [rest]
        for place in order:
            parts += [at_another_pace(TAKES[place], pace), rest]
        assert dictionary.recognise(np.concatenate(parts), COSTS) == [NAMES[n] for n in order]


def test_a_clip_that_is_like_no_take_has_no_sign() -> None:
    dictionary = Dictionary.of_takes(NAMES, TAKES)
    assert dictionary.recognise(np.full((30, 6), 40.0, np.float32), COSTS) == []
