"""Distances and chances against numbers worked out by hand, or by simulation."""

import itertools

import numpy as np
import pytest

from signloom.intake.drift.statistics import binomial_tail, factor, ks_distance, spread_p_value


def test_the_distance_is_the_largest_step_between_the_distribution_functions() -> None:
    # Below 3: half of the one, a quarter of the other; nowhere is the gap larger than after 2.
    assert ks_distance([1.0, 2.0, 5.0, 6.0], [1.0, 5.0, 5.5, 7.0]).value == pytest.approx(0.25)
    assert ks_distance([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]).value == 1
    same = ks_distance([1.0, 2.0, 3.0], [3.0, 1.0, 2.0])
    assert (same.value, same.p_value) == (0, 1)


@pytest.mark.parametrize("sizes", [(20, 200), (8, 30)])
def test_small_samples_of_one_distribution_are_rarely_called_different(
    sizes: tuple[int, int],
) -> None:
    rng = np.random.default_rng(0)
    pairs = ([rng.normal(size=size).tolist() for size in sizes] for _ in range(1000))
    alarms = sum(ks_distance(*pair).p_value < 0.05 for pair in pairs)
    assert 15 <= alarms <= 65  # of 1,000; a test of level 0.05 that errs, if at all, to be careful


def test_p_values_fall_with_the_size_of_the_samples() -> None:
    found = [
        ks_distance([float(i) for i in range(n)], [i + n / 2 for i in range(n)]).p_value
        for n in (4, 8, 16, 32)
    ]
    assert all(later < earlier for earlier, later in itertools.pairwise(found))


def test_an_empty_sample_is_refused() -> None:
    with pytest.raises(ValueError, match="empty sample"):
        ks_distance([], [1.0])


def test_the_chance_of_so_many_successes() -> None:
    assert binomial_tail(0, 5, 0.1) == pytest.approx(1.0)
    assert binomial_tail(3, 3, 0.1) == pytest.approx(0.001)
    assert binomial_tail(1, 2, 0.5) == pytest.approx(0.75)
    assert binomial_tail(1500, 3000, 0.5) == pytest.approx(0.5, abs=0.01)  # beyond floats' range


def test_spreads_of_equal_samples_are_rarely_called_different() -> None:
    rng = np.random.default_rng(1)
    pairs = [[float(rng.normal(size=size).std(ddof=1)) for size in (8, 100)] for _ in range(1000)]
    alarms = sum(spread_p_value(one, other, 8, 100) < 0.05 for one, other in pairs)
    assert 10 <= alarms <= 60
    assert spread_p_value(2.0, 1.0, 24, 200) < 1e-4


def test_a_factor_is_the_same_both_ways() -> None:
    assert factor(2.0, 3.0) == factor(3.0, 2.0) == 1.5
