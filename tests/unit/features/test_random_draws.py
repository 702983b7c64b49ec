from collections.abc import Sequence

import numpy as np
import pytest

from signloom.features.random_draws import draw_second

NUMBERS = np.array([0, 1, 159, 999_999, 2**32 - 1])


@pytest.mark.parametrize("seed", [[], [1, 2], [0, 0], [2**32, 7], [3, 2**70 + 5, 1]])
@pytest.mark.parametrize("stream", [[], [2], [0, 2**40]])
def test_all_generators_together_draw_what_each_draws_alone(
    seed: Sequence[int], stream: Sequence[int]
) -> None:
    alone = [np.random.default_rng([*seed, n, *stream]).random(2)[1] for n in NUMBERS.tolist()]
    assert draw_second(seed, NUMBERS, *stream) == alone
