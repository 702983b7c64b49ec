"""The model's counted sentences come in, its scores on groups of clips go out."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from signloom.corpus.targets import Target
from signloom.evaluation.systems import ClipFacts, SplitResult
from signloom.metrics import ScoreOptions, Statistics, score_statistics, split_words

LENGTHS = ((1, 3), (4, 6), (7, 9), (10, 14), (15, 20), (21, 10**9))  # words of a reference
HANDS = (0.0, 0.25, 0.5, 0.75, 0.9, 0.99)  # lower ends: share of the frames with a hand
RATES = (0.0, 12.0, 18.0, 24.0, 27.0, 45.0)  # lower ends: frames a second, the usual ones inside
KINDS = ("sentence", "words", "signer", "hands", "fps")
OF_LANDMARKS = ("hands", "fps")  # kinds without rows where the clips are glosses
COLUMNS = (
    "group", "clips", "bleu4", "chrf", "wer", "cer", "bleu4_low", "bleu4_high", "chrf_low",
    "chrf_high", "wer_low", "wer_high",
)  # fmt: skip

_GroupOf = Callable[[Target, ClipFacts], str]


def break_down(
    result: SplitResult,
    statistics: Statistics,
    train_texts: frozenset[str],
    options: ScoreOptions,
    *,
    digits: int,
) -> dict[str, list[dict[str, Any]]]:
    """Score the model on groups of clips.

    Args:
        result: The clips of a split.
        statistics: What was counted in the model's sentences.
        train_texts: Tells which sentences were seen in training.
        options: For the intervals.
        digits: Decimals kept.

    Returns:
        Each of `KINDS` to its rows. An interval of one or two clips says little, so every row has
        its number of clips.
    """
    group_of: dict[str, _GroupOf] = {
        "sentence": lambda target, _: "seen in train" if target.text in train_texts else "unseen",
        "words": lambda target, _: _length_name(len(split_words([target.text], options)[0])),
        "signer": lambda target, _: target.signer,
        "hands": lambda _, facts: _hands_name(facts),
        "fps": lambda _, facts: _rate_name(facts),
    }
    left_out = OF_LANDMARKS if result.unknown is not None else ()
    return {
        kind: _rows(result, statistics, group_of[kind], options, digits)
        if kind not in left_out
        else []
        for kind in KINDS
    }


def _rows(
    result: SplitResult,
    statistics: Statistics,
    group_of: _GroupOf,
    options: ScoreOptions,
    digits: int,
) -> list[dict[str, Any]]:
    groups: dict[str, list[int]] = {}
    for index, (target, facts) in enumerate(zip(result.targets, result.facts, strict=True)):
        groups.setdefault(group_of(target, facts), []).append(index)
    rows = []
    for group, indices in sorted(groups.items()):
        scores = score_statistics(statistics.select(np.array(indices)), options)
        row: dict[str, Any] = {"group": group, "clips": len(indices)}
        for name in ("bleu4", "chrf", "wer", "cer"):
            row[name] = round(scores[name].value, digits)
        for name in ("bleu4", "chrf", "wer"):
            row[f"{name}_low"] = round(scores[name].low, digits)
            row[f"{name}_high"] = round(scores[name].high, digits)
        rows.append(row)
    return rows


# Names sort as text.


def _length_name(words: int) -> str:
    low, high = next((low, high) for low, high in LENGTHS if words <= high)
    return f"{low:02}+" if high >= 10**9 else f"{low:02}-{high:02}"


def _hands_name(facts: ClipFacts) -> str:
    if facts.hands is None:
        return "no hands in the layout"
    low, high = _bounds(facts.hands, HANDS)
    return f"{100 * low:02.0f}-{100 * (1 if high is None else high):02.0f} %"


def _rate_name(facts: ClipFacts) -> str:
    low, high = _bounds(facts.fps or 0.0, RATES)
    return f"{low:02.0f}+" if high is None else f"{low:02.0f}-{high:02.0f}"


def _bounds(value: float, ends: Sequence[float]) -> tuple[float, float | None]:
    place = max(index for index, low in enumerate(ends) if value >= low)
    return ends[place], ends[place + 1] if place + 1 < len(ends) else None
