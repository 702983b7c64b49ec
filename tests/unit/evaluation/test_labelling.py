"""Signers who exchanged two signs are named."""

import numpy as np
import pytest

from signloom.evaluation.labelling import find_exchanged

SIGNS, TAKES = 6, 3


def draw(people: int, *, noise: float, seed: int) -> tuple[np.ndarray, list[str], list[str]]:
    """Takes of people with ways of their own."""
    rng = np.random.default_rng(seed)
    signs, vectors = rng.normal(size=(SIGNS, 40)), []
    rows = [(p, s) for p in range(people) for s in range(SIGNS) for _ in range(TAKES)]
    ways = rng.normal(scale=noise, size=(people, SIGNS, 40))
    vectors = [signs[s] + ways[p, s] + rng.normal(scale=0.3, size=40) for p, s in rows]
    texts = [f"sign {s}" for _, s in rows]
    return np.array(vectors, np.float32), texts, [f"p{p}" for p, _ in rows]


def exchange(texts: list[str], signers: list[str], signer: str, pair: tuple[str, str]) -> list[str]:
    other = {pair[0]: pair[1], pair[1]: pair[0]}
    return [
        other.get(text, text) if who == signer else text
        for text, who in zip(texts, signers, strict=True)
    ]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("people", [3, 8, 16])
def test_nobody_is_named_whose_labels_are_right(people: int, seed: int) -> None:
    assert find_exchanged(*draw(people, noise=0.8, seed=seed)) == []


@pytest.mark.parametrize("seed", range(5))
def test_each_signer_is_named_with_the_signs_and_the_share_that_is_right(seed: int) -> None:
    vectors, texts, signers = draw(9, noise=0.5, seed=seed)
    vectors[::7, :5] = np.nan  # lost
    vectors[:, -1] = np.nan  # never there
    wrong = exchange(texts, signers, "p2", ("sign 1", "sign 4"))
    wrong = exchange(wrong, signers, "p7", ("sign 0", "sign 4"))
    assert sorted(find_exchanged(vectors, wrong, signers)) == [
        "signer p2: `sign 1` and `sign 4` seem exchanged, 67 -> 100 %",
        "signer p7: `sign 0` and `sign 4` seem exchanged, 67 -> 100 %",
    ]


def test_two_signers_cannot_say_which_of_them_is_wrong() -> None:
    vectors, texts, signers = draw(2, noise=0.3, seed=1)
    wrong = exchange(texts, signers, "p0", ("sign 1", "sign 4"))
    assert find_exchanged(vectors, wrong, signers) == []


def test_one_take_of_a_sign_accuses_nobody() -> None:
    vectors, texts, signers = draw(8, noise=0.3, seed=1)
    wrong = exchange(texts, signers, "p3", ("sign 1", "sign 4"))
    assert find_exchanged(vectors, wrong, signers)
    firsts = [n for n in range(len(texts)) if signers[n] != "p3" or n % TAKES == 0]
    few = ([wrong[n] for n in firsts], [signers[n] for n in firsts])
    assert find_exchanged(vectors[firsts], *few) == []
