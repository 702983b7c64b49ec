"""Signs that a CTC head reads: the likeliest sequence, with a bigram, and where each lies."""

import itertools
import math

import numpy as np
import pytest

from signloom.errors import UserError
from signloom.translation.labels import Bigram, count_pairs, search_signs
from signloom.translation.options import SignSearch
from signloom.translation.signs import read_signs
from tests.unit.evaluation.world import corpus, untrained

PAIRS = count_pairs([[1, 2], [2, 1], [1, 2, 2]])


def spell(path: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(label for label, _ in itertools.groupby(path) if label)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("weight", "bonus"), [(0.0, 0.0), (0.0, 1.5), (0.8, 0.0), (0.6, 1.0)])
def test_the_signs_are_those_of_all_paths_together(seed: int, weight: float, bonus: float) -> None:
    log_probs = np.log(np.random.default_rng(seed).dirichlet(np.ones(3), 5)).astype(np.float32)
    search = SignSearch(weight=weight, bonus=bonus, pairs=PAIRS)
    bigram = Bigram(PAIRS)
    chances: dict[tuple[int, ...], float] = {}
    for path in itertools.product(range(3), repeat=5):
        chance = math.exp(sum(log_probs[place, label] for place, label in enumerate(path)))
        chances[spell(path)] = chances.get(spell(path), 0.0) + chance

    def worth(labels: tuple[int, ...]) -> float:
        said = sum(bigram.log_prob(b, a) for a, b in itertools.pairwise((0, *labels, 0)))
        return math.log(chances[labels]) + weight * said + bonus * len(labels)

    assert search_signs(log_probs, search) == list(max(chances, key=worth))


def test_what_follows_a_sign_is_certain_to_be_something() -> None:
    bigram = Bigram(PAIRS)
    for before in (0, 1, 2, 7):  # 7 is never seen
        assert 0.8 < sum(math.exp(bigram.log_prob(label, before)) for label in (0, 1, 2)) <= 1.0
    assert bigram.log_prob(2, 1) > bigram.log_prob(1, 1) > bigram.log_prob(9, 1)


def test_a_sign_that_is_made_twice_is_read_twice_where_a_blank_lies_between() -> None:
    def sure(labels: list[int]) -> np.ndarray:
        return np.log(np.full((len(labels), 3), 0.01) + 0.97 * np.eye(3)[labels]).astype(np.float32)

    assert search_signs(sure([1, 1, 0, 1]), SignSearch()) == [1, 1]
    assert search_signs(sure([1, 1, 1, 1]), SignSearch()) == [1]
    assert search_signs(sure([0, 0]), SignSearch()) == []


def test_a_model_that_reads_no_signs_says_what_to_train() -> None:
    with pytest.raises(UserError, match=r"reads no signs.*it has none.*ctc: glosses"):
        read_signs(untrained(), [*corpus().values()])
