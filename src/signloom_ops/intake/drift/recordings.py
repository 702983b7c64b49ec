"""Drift of recordings and their sentences: durations and words."""

import math
from collections import Counter
from collections.abc import Sequence
from statistics import median

import numpy as np
import numpy.typing as npt
from scipy.stats import f as f_distribution

from signloom.corpus.manifest import Clip
from signloom.corpus.words import find_words
from signloom.features.tokenizer import normalise_text
from signloom_ops.intake.drift.comparison import ALPHA, MIN_CLIPS, Comparison
from signloom_ops.intake.drift.findings import Measured

_LEAST = 0.02  # octaves that durations may stray where the old clips are all of one pace
_NAMED = 8  # new words in a message


def measure_unread(comparison: Comparison) -> Measured:
    """Count the new clips without landmarks."""
    unread = [clip.clip_id for clip in comparison.new if clip.clip_id not in comparison.quality]
    text = f"{len(unread)} of {len(comparison.new)} new clips have no landmarks"
    return Measured(len(unread) / len(comparison.new), text, unread)


def measure_seconds(comparison: Comparison) -> Measured:
    """Compare the median durations."""
    now, before = (
        median(row.seconds for row in rows) for rows in (comparison.new_rows, comparison.old_rows)
    )
    enough = min(len(comparison.old_rows), len(comparison.new_rows)) >= MIN_CLIPS
    return Measured(
        _factor(now, before) if enough else None,
        f"{now:.2f} s in the median clip, {before:.2f} s in the old ones",
        figures={"new": now, "old": before},
    )


def _factor(number_a: float, number_b: float) -> float:
    """How many times one number is the other, 1 or more whichever is larger; both above 0."""
    return max(number_a / number_b, number_b / number_a)


def measure_pace(comparison: Comparison) -> Measured:
    """Compare the tokens a second."""
    now, before = (_log_lengths(part, comparison) for part in (comparison.new, comparison.old))
    if min(len(now), len(before)) < MIN_CLIPS:
        return Measured(None, "too few clips to compare the pace")
    new, old = (2 ** float(np.median(part[:, 0] - part[:, 1])) for part in (now, before))
    text = f"{new:.2f} tokens of text a second of video, {old:.2f} in the old clips"
    return Measured(_factor(new, old), text, figures={"new": new, "old": old})


def measure_pairing(comparison: Comparison) -> Measured:
    """Compare how well durations follow the lengths of the sentences.

    A table that lost a row gives each video its neighbour's sentence: nothing but the durations
    shows it. So a line is laid through the old clips, duration over length, and the new clips may
    not lie much farther from it than the old ones do, each part around its own mean.
    """
    now, before = (_log_lengths(part, comparison) for part in (comparison.new, comparison.old))
    if min(len(now), len(before)) < MIN_CLIPS:
        return Measured(None, "too few clips to compare the pace")
    tokens, seconds = before.T
    if np.ptp(tokens) == 0 or np.ptp(seconds) == 0:
        text = "the old clips are of one length, so nothing shows which sentence is whose"
        return Measured(None, text)
    slope = float(np.polyfit(tokens, seconds, 1)[0])
    new, old = (
        max(float(np.std(part[:, 1] - slope * part[:, 0], ddof=1)), _LEAST)
        for part in (now, before)
    )
    # Chance of a ratio this large if both spread equally.
    p_value = float(f_distribution.sf((new / old) ** 2, len(now) - 1, len(before) - 1))
    return Measured(
        max(new / old, 1.0) if p_value < ALPHA else 1.0,
        f"durations spread by {new:.2f} octaves around what the sentences' lengths promise, "
        f"by {old:.2f} in the old clips",
        figures={"new": new, "old": old, "p_value": p_value},
    )


def _log_lengths(clips: Sequence[Clip], comparison: Comparison) -> npt.NDArray[np.float64]:
    """Return tokens and seconds of the clips that have both, logarithms of base 2, shape (N, 2)."""
    rows = [
        (math.log2(len(tokens)), math.log2(row.seconds))
        for clip in clips
        if (row := comparison.quality.get(clip.clip_id))
        and (tokens := comparison.tokens[clip.clip_id])
    ]
    return np.array(rows).reshape(-1, 2)


def measure_new_words(comparison: Comparison) -> Measured:
    """Return the share of words that the old text lacks, beyond what is expected.

    The words of the old text are those of its training clips: no other text decides the vocabulary.
    """
    old_clips = [clip for clip in comparison.old if clip.split == "train"] or comparison.old
    rows = [_find_words(clip) for clip in old_clips]
    vocabulary = {word for row in rows for word in row}
    new = {clip.clip_id: _find_words(clip) for clip in comparison.new}
    new_words = Counter(word for row in new.values() for word in row if word not in vocabulary)
    share = new_words.total() / max(sum(map(len, new.values())), 1)
    expected = unseen_by_others(rows)
    named = ", ".join(word for word, _ in new_words.most_common(_NAMED))
    more = ", ..." if len(new_words) > _NAMED else ""
    text = f"{100 * share:.0f} % of the words are new ({100 * expected:.0f} % expected)"
    return Measured(
        max(share - expected, 0.0),
        f"{text}: {named}{more}" if new_words else text,
        [name for name, row in new.items() if new_words.keys() & row],
        {"share": share, "expected": expected, "distinct": float(len(new_words))},
    )


def _find_words(clip: Clip) -> list[str]:
    return find_words(normalise_text(clip.text))


def unseen_by_others(rows: Sequence[Sequence[str]]) -> float:
    """Return the share of items that occur in no other row: what one row more would bring.

    Good (1953): the chance that the next item is a new one is the share of those seen once.
    """
    rows_with = Counter(item for row in rows for item in set(row))
    items = [item for row in rows for item in row]
    return sum(rows_with[item] == 1 for item in items) / max(len(items), 1)
