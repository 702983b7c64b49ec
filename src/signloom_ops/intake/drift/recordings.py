"""Drift of recordings and their sentences: signers, sizes, rates, colours, lengths and words."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from scipy.stats import f as f_distribution

from signloom.corpus.manifest import Clip
from signloom.corpus.novelty import find_words
from signloom.features.tokenizer import normalise_text
from signloom_ops.intake.drift.comparison import ALPHA, MIN_CLIPS, Comparison, compare
from signloom_ops.intake.drift.findings import Measured

FAR_RATE, SMALL = 1.6, 1.5  # factors from which on a clip is named
T = TypeVar("T", str, int)

_LEAST = 0.02  # octaves that durations may stray where the old clips are all of one pace
_NAMED = 8  # new words in a message


def measure_unread(batch: Comparison) -> Measured:
    """Count the new clips without landmarks."""
    unread = [clip.clip_id for clip in batch.new if clip.clip_id not in batch.quality]
    what = f"{len(unread)} of {len(batch.new)} new clips have no landmarks"
    return Measured(len(unread) / len(batch.new), what, unread)


def measure_signers(batch: Comparison) -> Measured:
    """Return which share of all clips one signer of the batch has."""
    known = {clip.signer for clip in batch.old}
    comes = Counter(clip.signer for clip in batch.new)
    total = Counter(clip.signer for clip in (*batch.old, *batch.new))
    largest = max(comes, key=lambda signer: (total[signer], signer))
    fresh = len(comes.keys() - known)
    share = total[largest] / total.total()
    named = f", {fresh} of them new" if fresh else ", all known"
    people = f"{len(comes)} signer{'s' * (len(comes) > 1)}{named}"
    return Measured(
        share,
        f"{people}; one signs {100 * share:.0f} % of all clips now",
        figures={"signers": float(len(comes)), "new_signers": float(fresh)},
        signer=largest,
    )


def measure_seconds(batch: Comparison) -> Measured:
    """Compare the median durations."""
    now, before = (median(row.seconds for row in rows) for rows in (batch.new_rows, batch.old_rows))
    enough = min(len(batch.old_rows), len(batch.new_rows)) >= MIN_CLIPS
    return Measured(
        _factor(now, before) if enough else None,
        f"{now:.2f} s in the median clip, {before:.2f} s in the old ones",
        figures={"new": now, "old": before},
    )


def measure_rates(batch: Comparison) -> Measured:
    """Compare each frame rate with the nearest old one."""
    rates = sorted({round(row.fps, 2) for row in batch.old_rows})
    factors = {row.clip_id: min(_factor(row.fps, rate) for rate in rates) for row in batch.new_rows}
    new, old = ([row.fps for row in rows] for rows in (batch.new_rows, batch.old_rows))
    return Measured(
        max(factors.values()),
        f"{_span(new)} frames a second, {_span(rates)} in the old clips",
        [name for name, found in factors.items() if found >= FAR_RATE],
        {"new": median(new), "old": median(old)},
    )


def measure_sizes(batch: Comparison) -> Measured:
    """Compare the shorter sides of the pictures with the smallest old one."""
    smallest = min(min(row.width, row.height) for row in batch.old_rows)
    sides = {row.clip_id: float(min(row.width, row.height)) for row in batch.new_rows}
    fewest = min(sides.values())
    return Measured(
        max(smallest / fewest, 1.0),
        f"{_span([*sides.values()])} pixels on the shorter side, at least {smallest} in the old "
        "clips",
        [name for name, side in sides.items() if smallest / side >= SMALL],
        {"new": fewest, "old": float(smallest)},
    )


def _span(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"


def _factor(one: float, other: float) -> float:
    """How many times one number is the other, 1 or more whichever is larger; both above 0."""
    return max(one / other, other / one)


def measure_lengths(batch: Comparison) -> Measured:
    """Compare the tokens a sentence."""
    new, old = (
        [float(len(batch.tokens[clip.clip_id])) for clip in part] for part in (batch.new, batch.old)
    )
    figures = {"new": median(new), "old": median(old)}
    what = f"{figures['new']:g} tokens in the median sentence, {figures['old']:g} in the old ones"
    if len(new) < MIN_CLIPS:
        return Measured(None, what, figures=figures)
    distance, p_value = compare(new, old)
    figures |= {"ks": distance, "p_value": p_value}
    if p_value >= ALPHA:
        return Measured(0.0, f"{what}: no sure difference", figures=figures)
    return Measured(distance, what, figures=figures)


def measure_pace(batch: Comparison) -> Measured:
    """Compare the tokens a second."""
    now, before = (_log_lengths(part, batch) for part in (batch.new, batch.old))
    if min(len(now), len(before)) < MIN_CLIPS:
        return Measured(None, "too few clips to compare the pace")
    new, old = (2 ** float(np.median(part[:, 0] - part[:, 1])) for part in (now, before))
    what = f"{new:.2f} tokens of text a second of video, {old:.2f} in the old clips"
    return Measured(_factor(new, old), what, figures={"new": new, "old": old})


def measure_pairing(batch: Comparison) -> Measured:
    """Compare how well durations follow the lengths of the sentences.

    A table that lost a row gives each video its neighbour's sentence: nothing but the durations
    shows it. So a line is laid through the old clips, duration over length, and the new clips may
    not lie much farther from it than the old ones do, each part around its own mean.
    """
    now, before = (_log_lengths(part, batch) for part in (batch.new, batch.old))
    if min(len(now), len(before)) < MIN_CLIPS:
        return Measured(None, "too few clips to compare the pace")
    tokens, seconds = before.T
    if np.ptp(tokens) == 0 or np.ptp(seconds) == 0:
        what = "the old clips are of one length, so nothing shows which sentence is whose"
        return Measured(None, what)
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


def _log_lengths(clips: Sequence[Clip], batch: Comparison) -> npt.NDArray[np.float64]:
    """Return tokens and seconds of the clips that have both, logarithms of base 2, shape (N, 2)."""
    rows = [
        (math.log2(len(tokens)), math.log2(row.seconds))
        for clip in clips
        if (row := batch.quality.get(clip.clip_id)) and (tokens := batch.tokens[clip.clip_id])
    ]
    return np.array(rows).reshape(-1, 2)


def measure_new_words(batch: Comparison) -> Measured:
    """Return the share of words that the old text lacks, beyond what is expected."""
    words = {
        clip.clip_id: find_words(normalise_text(clip.text)) for clip in (*batch.old, *batch.new)
    }
    share, expected, found = _measure_unknown(batch, words)
    named = ", ".join(word for word, _ in found.most_common(_NAMED))
    more = ", ..." if len(found) > _NAMED else ""
    what = f"{100 * share:.0f} % of the words are new ({100 * expected:.0f} % expected)"
    return Measured(
        max(share - expected, 0.0),
        f"{what}: {named}{more}" if found else what,
        [clip.clip_id for clip in batch.new if found.keys() & words[clip.clip_id]],
        {"share": share, "expected": expected, "distinct": float(len(found))},
    )


def measure_byte_tokens(batch: Comparison) -> Measured:
    """Return how much of the text the old vocabulary must spell in bytes, beyond the expected."""
    share, expected, _ = _measure_unknown(batch, batch.tokens)
    return Measured(
        max(share - expected, 0.0),
        f"{100 * share:.0f} % of the tokens are none of the old text's, which must spell them in "
        f"bytes ({100 * expected:.0f} % expected)",
        figures={"share": share, "expected": expected},
    )


def _measure_unknown(
    batch: Comparison, items: Mapping[str, Sequence[T]]
) -> tuple[float, float, Counter[T]]:
    """Return the share of new items that the old text lacks, the expected share, and the items.

    What the old text knows is the text of its training clips: no other decides the vocabulary.
    """
    known = [clip for clip in batch.old if clip.split == "train"] or batch.old
    rows = [items[clip.clip_id] for clip in known]
    vocabulary = {item for row in rows for item in row}
    new = [item for clip in batch.new for item in items[clip.clip_id]]
    found = Counter(item for item in new if item not in vocabulary)
    return found.total() / max(len(new), 1), unseen_by_others(rows), found


def unseen_by_others(rows: Sequence[Sequence[object]]) -> float:
    """Return the share of items that occur in no other row: what one row more would bring.

    Good (1953): the chance that the next item is a new one is the share of those seen once.
    """
    rows_with = Counter(item for row in rows for item in set(row))
    items = [item for row in rows for item in row]
    return sum(rows_with[item] == 1 for item in items) / max(len(items), 1)


def measure_colour(batch: Comparison) -> Measured:
    """Count the clips with blue skin, beyond the share that the old clips have of them."""
    names = {clip.clip_id for clip in batch.new}
    now = {name: value for name, value in batch.redness.items() if name in names}
    before = [value for name, value in batch.redness.items() if name not in names]
    if not now:
        return Measured(None, "no video to measure")
    blue = [name for name, value in now.items() if value < 0]
    usual = sum(value < 0 for value in before) / max(len(before), 1)
    figures = {"new": median(now.values()), "usual_share": usual}
    return Measured(
        max(len(blue) / len(now) - usual, 0.0),
        f"in {len(blue)} of {len(now)} clips the skin is bluer than red",
        blue,
        figures | ({"old": median(before)} if before else {}),
    )
