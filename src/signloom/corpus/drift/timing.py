"""Lengths of sentences and clips come in; whether the ones go with the others goes out."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from signloom.corpus.drift.distances import factor, spread_p_value
from signloom.corpus.drift.findings import Finding, judge
from signloom.corpus.drift.options import DriftOptions
from signloom.corpus.manifest import Clip

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
