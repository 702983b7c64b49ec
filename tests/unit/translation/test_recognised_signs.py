"""Signs that a CTC head reads: the likeliest sequence, with an n-gram, and where each lies."""

import itertools
import math

import numpy as np
import pytest

from signloom.config import parse_options
from signloom.errors import UserError
from signloom.translation.labels import rank_signs, search_signs
from signloom.translation.ngram import NGram, count_ngrams
from signloom.translation.options import SignSearch
from signloom.translation.recognised_signs import read_signs
from tests.unit.evaluation.world import corpus, untrained

LINES = [[1, 2], [2, 1], [1, 2, 2]]
NGRAMS = count_ngrams(LINES)


def spell(path: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(label for label, _ in itertools.groupby(path) if label)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("weight", "bonus"), [(0.0, 0.0), (0.0, 1.5), (0.8, 0.0), (0.6, 1.0)])
def test_the_signs_are_those_of_all_paths_together(seed: int, weight: float, bonus: float) -> None:
    log_probs = np.log(np.random.default_rng(seed).dirichlet(np.ones(3), 5)).astype(np.float32)
    search = SignSearch(weight=weight, bonus=bonus, ngrams=NGRAMS)
    ngram = NGram(NGRAMS)
    chances: dict[tuple[int, ...], float] = {}
    for path in itertools.product(range(3), repeat=5):
        chance = math.exp(sum(log_probs[place, label] for place, label in enumerate(path)))
        chances[spell(path)] = chances.get(spell(path), 0.0) + chance

    def worth(labels: tuple[int, ...]) -> float:
        ngram_log_prob = sum(
            ngram.log_prob(label, labels[:n]) for n, label in enumerate((*labels, 0))
        )
        return math.log(chances[labels]) + weight * ngram_log_prob + bonus * len(labels)

    assert search_signs(log_probs, search) == list(max(chances, key=worth))
    assert all(ranked.log_prob > -math.inf for ranked in rank_signs(log_probs, search))


def written_out(label: int, before: tuple[int, ...]) -> float:
    """Interpolate as Witten and Bell do, by counting in the lines themselves."""
    if len(before) > 3:
        return written_out(label, before[-3:])
    followers = [
        line[n]
        for line in ((0, 0, 0, *line, 0) for line in LINES)
        for n in range(3, len(line))
        if line[n - len(before) : n] == before
    ]
    lower = written_out(label, before[1:]) if before else 1 / 4  # three kinds, and one unseen
    kinds = len({*followers})
    if not followers:
        return lower
    return (followers.count(label) + kinds * lower) / (len(followers) + kinds)


@pytest.mark.parametrize("before", [(), (1,), (1, 2), (1, 2, 2), (2, 1, 2, 2), (7,), (1, 7, 2)])
def test_the_ngram_is_that_of_witten_and_bell(before: tuple[int, ...]) -> None:
    ngram = NGram(NGRAMS)
    chances = [math.exp(ngram.log_prob(label, before)) for label in (0, 1, 2, 9)]
    expected = [written_out(label, (0, 0, 0, *before)) for label in (0, 1, 2, 9)]
    assert chances == pytest.approx(expected, rel=1e-9)
    assert sum(chances) == pytest.approx(1, rel=1e-9)


def test_pairs_of_an_earlier_version_are_still_read() -> None:
    old = parse_options(
        {"weight": 0.4, "bonus": 1.0, "pairs": [[0, 1, 2], [1, 2, 2]]}, SignSearch, where="signs"
    )
    assert old.ngrams == ((0, 1, 2), (1, 2, 2))
    assert NGram(old.ngrams).log_prob(2, (5, 1)) > NGram(old.ngrams).log_prob(1, (5, 1))


def test_a_sign_that_is_made_twice_is_read_twice_where_a_blank_lies_between() -> None:
    def sure(labels: list[int]) -> np.ndarray:
        return np.log(np.full((len(labels), 3), 0.01) + 0.97 * np.eye(3)[labels]).astype(np.float32)

    assert search_signs(sure([1, 1, 0, 1]), SignSearch()) == [1, 1]
    assert search_signs(sure([1, 1, 1, 1]), SignSearch()) == [1]
    assert search_signs(sure([0, 0]), SignSearch()) == []


def test_a_model_that_reads_no_signs_says_what_to_train() -> None:
    with pytest.raises(UserError, match=r"reads no signs.*it has none.*ctc: glosses"):
        read_signs(untrained(), [*corpus().values()])
