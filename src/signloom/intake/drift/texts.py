"""Drift of sentences and of their lengths beside the clips'."""

import math
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from signloom.corpus.manifest import Clip
from signloom.features.tokenizer import load_source, normalise_text
from signloom.intake.drift.findings import DriftOptions, Finding, Limits, judge
from signloom.intake.drift.statistics import factor, ks_distance, spread_p_value

_LEAST = 0.02  # octaves that durations may stray where the old clips are all of one pace


@dataclass(frozen=True, slots=True)
class _Lengths:
    """Lengths of the clips that have both, logarithms of base 2."""

    tokens: list[float]
    seconds: list[float]


def check_timing(
    old: Sequence[Clip],
    new: Sequence[Clip],
    tokens: Mapping[str, int],
    seconds: Mapping[str, float],
    options: DriftOptions,
) -> list[Finding]:
    """Compare the tokens a second, and how well the durations follow the lengths of sentences.

    A table that lost a row gives each video its neighbour's sentence: nothing but the durations
    shows it. So a line is laid through the old clips, duration over length, and the new clips may
    not lie much farther from it than the old ones do, each part around its own mean.
    """
    now, before = (_gather(part, tokens, seconds) for part in (new, old))
    if min(len(now.tokens), len(before.tokens)) < options.min_clips:
        return [
            judge("pace", options.pace, None, "too few clips to compare the pace"),
            judge("pairing", options.pairing, None, "too few clips to compare the pace"),
        ]
    paces = [2 ** median(_differences(part)) for part in (now, before)]
    return [
        judge(
            "pace",
            options.pace,
            factor(*paces),
            f"{paces[0]:.2f} tokens of text a second of video, {paces[1]:.2f} in the old clips",
            mend="look whether the frame rate is the true one, and each video has its sentence",
            figures={"new": paces[0], "old": paces[1]},
        ),
        _check_pairing(before, now, options),
    ]


def _gather(
    clips: Sequence[Clip], tokens: Mapping[str, int], seconds: Mapping[str, float]
) -> _Lengths:
    names = [c.clip_id for c in clips if tokens[c.clip_id] and seconds.get(c.clip_id)]
    return _Lengths(
        tokens=[math.log2(tokens[name]) for name in names],
        seconds=[math.log2(seconds[name]) for name in names],
    )


def _differences(lengths: _Lengths) -> list[float]:
    return [t - s for t, s in zip(lengths.tokens, lengths.seconds, strict=True)]


def _check_pairing(before: _Lengths, now: _Lengths, options: DriftOptions) -> Finding:
    tokens, seconds = np.array(before.tokens), np.array(before.seconds)
    if np.ptp(tokens) == 0 or np.ptp(seconds) == 0:
        what = "the old clips are of one length, so nothing shows which sentence is whose"
        return judge("pairing", options.pairing, None, what)
    slope = float(np.polyfit(tokens, seconds, 1)[0])
    new, old = (
        max(float(np.std(np.array(part.seconds) - slope * np.array(part.tokens), ddof=1)), _LEAST)
        for part in (now, before)
    )
    p_value = spread_p_value(new, old, len(now.tokens), len(tokens))
    return judge(
        "pairing",
        options.pairing,
        max(new / old, 1.0) if p_value < options.alpha else 1.0,
        f"durations spread by {new:.2f} octaves around what the sentences' lengths promise, "
        f"by {old:.2f} in the old clips",
        mend="look whether each video has its own sentence: is a row of the table missing?",
        figures={"new": new, "old": old, "p_value": p_value},
    )


_NAMED = 8  # new words in a message


def check_texts(
    old: Sequence[Clip], new: Sequence[Clip], seconds: Mapping[str, float], options: DriftOptions
) -> list[Finding]:
    """Compare length, timing, words and tokens.

    What the old text knows is the text of its training clips: no other decides the vocabulary.

    Args:
        old: At least one clip.
        new: At least one clip.
        seconds: Duration of every clip that has landmarks.
        options: The limits.
    """
    source = load_source()
    tokens = {clip.clip_id: source.encode(normalise_text(clip.text)) for clip in (*old, *new)}
    words = {clip.clip_id: split_words(clip.text) for clip in (*old, *new)}
    known = [clip for clip in old if clip.split == "train"] or old
    return [
        _compare_lengths(old, new, tokens, options),
        *check_timing(old, new, {name: len(row) for name, row in tokens.items()}, seconds, options),
        _find_new_words(known, new, words, options.new_words),
        _find_byte_tokens(known, new, tokens, options.byte_tokens),
    ]


def split_words(text: str) -> list[str]:
    """Return the words of a sentence without punctuation and case; marks alone are none."""
    characters = (
        " " if unicodedata.category(character)[0] in "PS" else character
        for character in normalise_text(text).casefold()
    )
    return "".join(characters).split()


def unseen_by_others(rows: Sequence[Sequence[str]] | Sequence[Sequence[int]]) -> float:
    """Return the share of items that stand in no other row: what one row more would bring.

    Good (1953): the chance that the next item is a new one is the share of those seen once.
    """
    rows_with = Counter(item for row in rows for item in set(row))
    items = [item for row in rows for item in row]
    return sum(rows_with[item] == 1 for item in items) / max(len(items), 1)


def _compare_lengths(
    old: Sequence[Clip], new: Sequence[Clip], tokens: Mapping[str, list[int]], options: DriftOptions
) -> Finding:
    lengths = [[float(len(tokens[clip.clip_id])) for clip in part] for part in (new, old)]
    medians = {"new": median(lengths[0]), "old": median(lengths[1])}
    what = f"{medians['new']:g} tokens in the median sentence, {medians['old']:g} in the old ones"
    if len(new) < options.min_clips:
        return judge("tokens", options.tokens, None, what, figures=medians)
    distance = ks_distance(*lengths)
    sure = distance.p_value < options.alpha
    return judge(
        "tokens",
        options.tokens,
        distance.value if sure else 0.0,
        what if sure else f"{what}: no sure difference",
        mend="look whether the table has whole sentences, one a clip",
        figures={**medians, "ks": distance.value, "p_value": distance.p_value},
    )


def _find_new_words(
    known: Sequence[Clip], new: Sequence[Clip], words: Mapping[str, list[str]], limits: Limits
) -> Finding:
    vocabulary = {word for clip in known for word in words[clip.clip_id]}
    found = Counter(
        word for clip in new for word in words[clip.clip_id] if word not in vocabulary
    )  # fmt: skip
    share = found.total() / max(sum(len(words[clip.clip_id]) for clip in new), 1)
    expected = unseen_by_others([words[clip.clip_id] for clip in known])
    named = ", ".join(word for word, _ in found.most_common(_NAMED))
    if len(found) > _NAMED:
        named += ", ..."
    what = f"{100 * share:.0f} % of the words are new ({100 * expected:.0f} % expected)"
    return judge(
        "new_words",
        limits,
        max(share - expected, 0.0),
        f"{what}: {named}" if named else what,
        mend="a few more clips of each new word teach it; if the words are none of your corpus's "
        "language, take the clips out",
        clips=[clip.clip_id for clip in new if set(words[clip.clip_id]) & found.keys()],
        figures={"share": share, "expected": expected, "distinct": float(len(found))},
    )


def _find_byte_tokens(
    known: Sequence[Clip], new: Sequence[Clip], tokens: Mapping[str, list[int]], limits: Limits
) -> Finding:
    """Measure how much of the text the old vocabulary must spell in bytes."""
    vocabulary = {token for clip in known for token in tokens[clip.clip_id]}
    found = [token for clip in new for token in tokens[clip.clip_id]]
    share = sum(token not in vocabulary for token in found) / max(len(found), 1)
    expected = unseen_by_others([tokens[clip.clip_id] for clip in known])
    return judge(
        "byte_tokens",
        limits,
        max(share - expected, 0.0),
        f"{100 * share:.0f} % of the tokens are none of the old text's, which must spell them in "
        f"bytes ({100 * expected:.0f} % expected)",
        mend="look at the language and script of the sentences",
        figures={"share": share, "expected": expected},
    )
