"""The draws of many random generators at once.

Each clip has a generator of its own in each epoch. To make one takes longer than to draw from it,
so where one number of every clip is asked for, all of them are computed together.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_Words = npt.NDArray[np.uint32]
# Of NumPy's SeedSequence (O'Neill 2015, "Developing a seed_seq alternative").
_INIT_A, _MULT_A, _INIT_B, _MULT_B = 0x43B0D7E5, 0x931E8875, 0x8B51F9DD, 0x58F38DED
_MIX_L, _MIX_R = np.uint32(0xCA01F9DD), np.uint32(0x4973F715)
_POOL = 4
# Of PCG64 (O'Neill 2014): from the seed to the second draw are three steps.
_MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
_AT_ONCE = 100_000  # clips, so that few of their wide numbers are in memory


def draw_second(seed: Sequence[int], numbers: npt.NDArray[np.int64], *stream: int) -> list[float]:
    """Return the second `random()` of `np.random.default_rng([*seed, number, *stream])`.

    NumPy promises these streams for ever (NEP 19).

    Args:
        seed: Numbers before each generator's own, none negative.
        numbers: Each generator's own, below 2**32.
        stream: Numbers after it.

    Returns:
        A number of each generator, 0 <= number < 1.
    """
    drawn: list[float] = []
    for start in range(0, len(numbers), _AT_ONCE):
        own = numbers[start : start + _AT_ONCE].astype(np.uint32)
        before, after = (_split_words(part) for part in (seed, stream))
        words = [*(np.full_like(own, w) for w in before), own]
        words += [np.full_like(own, w) for w in after]
        drawn += map(_second, *(half.tolist() for half in _seed_states(words)))
    return drawn


def _split_words(numbers: Sequence[int]) -> list[int]:
    """Return numbers in words of 32 bits, the low one first."""
    count = [max(1, -(-number.bit_length() // 32)) for number in numbers]
    return [n >> 32 * i & 0xFFFFFFFF for n, c in zip(numbers, count, strict=True) for i in range(c)]


def _seed_states(words: list[_Words]) -> list[npt.NDArray[np.uint64]]:
    """Return the four numbers of 64 bits with which PCG64 is seeded, of every generator."""
    factor = _INIT_A

    def mix_in(word: _Words) -> _Words:
        nonlocal factor
        word = word ^ np.uint32(factor)
        factor = factor * _MULT_A & 0xFFFFFFFF
        return _fold(word * np.uint32(factor))

    blank = np.zeros_like(words[0])
    pool = [mix_in(word) for word in (*words, *[blank] * _POOL)[:_POOL]]
    for source in range(_POOL):
        for place in range(_POOL):
            if place != source:
                pool[place] = _fold(pool[place] * _MIX_L - mix_in(pool[source]) * _MIX_R)
    for word in words[_POOL:]:
        for place in range(_POOL):
            pool[place] = _fold(pool[place] * _MIX_L - mix_in(word) * _MIX_R)
    halves, factor = [], _INIT_B
    for number in range(8):
        word = pool[number % _POOL] ^ np.uint32(factor)
        factor = factor * _MULT_B & 0xFFFFFFFF
        halves.append(_fold(word * np.uint32(factor)).astype(np.uint64))
    return [halves[n] | halves[n + 1] << np.uint64(32) for n in range(0, 8, 2)]


def _fold(word: _Words) -> _Words:
    return word ^ word >> np.uint32(16)


def _second(high: int, low: int, step_high: int, step_low: int) -> float:
    step = (step_high << 64 | step_low) << 1 | 1
    state = step + (high << 64 | low)
    for _ in range(3):
        state = state * _MULTIPLIER + step
    state &= (1 << 128) - 1
    word, turn = (state >> 64 ^ state) & 0xFFFFFFFFFFFFFFFF, state >> 122
    return (((word >> turn | word << 64 - turn) & 0xFFFFFFFFFFFFFFFF) >> 11) / 2**53
