import dataclasses

import numpy as np
import pytest

from pipeline.studies.coffee.study import (
    Take,
    compose,
    find_sittings,
    measure_framing,
    split_blocks,
    takes_of,
)
from tests.tiny import lose, sequence


def test_composing_keeps_the_takes_and_moves_evenly_between_them() -> None:
    first, second = sequence(1, frames=5), sequence(2, frames=4)
    joined = compose([first, second], gap_frames=3)
    assert len(joined.points) == 12
    np.testing.assert_array_equal(joined.points[:5], first.points)
    np.testing.assert_array_equal(joined.points[8:], second.points)
    middle = (first.points[-1] + second.points[0]) / 2
    np.testing.assert_allclose(joined.points[6], middle, atol=1e-6)  # of three steps the second
    assert joined.present.all()
    np.testing.assert_array_equal(compose([first], gap_frames=3).points, first.points)


def test_a_hand_is_in_the_gap_only_if_both_edges_show_it() -> None:
    first = lose(sequence(1, frames=5), "left_hand", slice(4, 5))
    second = lose(sequence(2, frames=4), "right_hand", slice(0, 1))
    joined = compose([first, second], gap_frames=2)
    left, right, pose = (joined.layout.group(name) for name in ("left_hand", "right_hand", "pose"))
    assert not joined.present[5:7, [left, right]].any()
    assert joined.present[5:7, pose].all()


def test_takes_that_do_not_fit_are_refused() -> None:
    first = sequence(1)
    with pytest.raises(ValueError, match="takes differ in their fps"):
        compose([first, dataclasses.replace(first, fps=25.0)], gap_frames=0)


def test_framing_says_where_the_signer_stands() -> None:
    steady = sequence(0)  # shoulders at x 0.38 and 0.62, y 0.45
    unseen = lose(sequence(1), "pose", slice(None))
    np.testing.assert_allclose(measure_framing([steady, unseen]), [0.5, 0.45, 0.24], atol=1e-6)
    assert np.isnan(measure_framing([unseen])).all()


def test_blocks_that_a_chain_connects_are_one_sitting() -> None:
    places = {0: 0.0, 1: 0.5, 2: 0.02, 3: 0.04, 4: 0.52, 5: 0.9}
    framings = {block: np.array([x, 0.0, 0.0]) for block, x in places.items()}
    assert find_sittings(framings, within=0.03) == [[0, 2, 3], [1, 4], [5]]
    assert find_sittings(framings, within=0.001) == [[block] for block in range(6)]


@pytest.mark.parametrize(
    ("sittings", "train", "dev", "test"),
    [
        ([[0, 1, 2], [3], [4]], [0, 1, 2], [3], [4]),
        ([[0, 1, 2], [3]], [0, 1], [2], [3]),  # dev has to share a sitting with train
        ([[0, 1], [2], [3], [4], [5], [6], [7], [8], [9], [10]],
         [0, 1, 2, 3, 4, 5, 6], [7, 8], [9, 10]),
    ],
)  # fmt: skip
def test_no_sitting_of_test_is_elsewhere(
    sittings: list[list[int]], train: list[int], dev: list[int], test: list[int]
) -> None:
    assert split_blocks(sittings) == {"train": train, "dev": dev, "test": test}


@pytest.mark.parametrize("sittings", [[[0, 1, 2]], [[0], [1]], [[0], [1, 2]]])
def test_too_few_sittings_are_refused(sittings: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="found sittings"):
        split_blocks(sittings)


def test_takes_are_sorted_by_sign_and_block() -> None:
    takes = [
        Take(clip_id=name, sign=sign, block=block)
        for name, sign, block in (("3", "tea", 1), ("1", "tea", 0), ("2", "no", 0), ("4", "tea", 1))
    ]
    assert takes_of(takes) == {"no": {0: ["2"]}, "tea": {0: ["1"], 1: ["3", "4"]}}
