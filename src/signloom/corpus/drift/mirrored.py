"""Which hand people prefer comes in; whether videos were mirrored goes out.

A mirror image of a signer is a signer of the other hand, and nothing in the picture tells them
apart. But a known person does not change hands, and people of the rarer hand do not come in crowds.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

from signloom.corpus.drift.distances import binomial_tail
from signloom.corpus.drift.findings import Finding, judge
from signloom.corpus.drift.movement import Movement
from signloom.corpus.drift.options import DriftOptions

_CLEAR = 0.1  # mean preference below which a person counts as using both hands alike
_PRIOR = 10  # people that `left_handers` counts for, beside those of the corpus
_LEAST_CHANCE = 1e-9  # of a batch: of hundreds of people it would be 0
_LEAST_SPREAD = 0.1  # of a person's preferences, lest two equal clips prove a rule

_MEND = "look whether the videos are mirrored (a selfie camera); mirror them back"

Preferences = Mapping[str, Mapping[str, float]]
"""Signer to clip to preference, -1 (left) to 1 (right)."""


def check_mirrored(old: Preferences, new: Preferences, options: DriftOptions) -> list[Finding]:
    """Look for known signers who changed hands, and for too many new ones of the rarer hand."""
    return [_check_known(old, new, options), _check_people(old, new, options)]


def gather_preferences(
    clips: Sequence[str], movements: Mapping[str, Movement], signers: Mapping[str, str]
) -> Preferences:
    """Return the preferences of those clips that show one."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for name in clips:
        if name in movements and (value := movements[name].preference) is not None:
            found[signers[name]][name] = value
    return found


def preferred_side(values: Sequence[float]) -> int:
    """Return -1 (left), 1 (right), or 0 where a person's two clips or more do not tell."""
    mean = fmean(values)
    if abs(mean) < max(_CLEAR, 2 * _standard_error(values)):
        return 0
    return 1 if mean > 0 else -1


def change_of_hands(before: Sequence[float], now: Sequence[float]) -> float:
    """Return by how many standard errors a person's preference has changed sides; 0: it has not."""
    means = fmean(before), fmean(now)
    if means[0] * means[1] >= 0 or min(map(abs, means)) < _CLEAR:
        return 0.0
    return abs(means[1] - means[0]) / math.hypot(_standard_error(before), _standard_error(now))


def _standard_error(values: Sequence[float]) -> float:
    return max(stdev(values), _LEAST_SPREAD) / math.sqrt(len(values))


def _check_known(old: Preferences, new: Preferences, options: DriftOptions) -> Finding:
    changes = {
        signer: change_of_hands(list(old[signer].values()), list(clips.values()))
        for signer, clips in new.items()
        if min(len(clips), len(old.get(signer, ()))) >= options.min_clips
    }
    if not changes:
        return judge("mirrored", options.mirrored, None, "no known signer with enough clips")
    signer = max(changes, key=lambda name: (changes[name], name))
    before, now = (fmean(part[signer].values()) for part in (old, new))
    return judge(
        "mirrored",
        options.mirrored,
        changes[signer],
        f"{signer}: {_lean(now)}, {_lean(before)} in the old clips",
        mend=_MEND,
        clips=list(new[signer]),
        figures={"new": now, "old": before, "signers": float(len(changes))},
    )


def _check_people(old: Preferences, new: Preferences, options: DriftOptions) -> Finding:
    """Weigh how many new people sign with the hand that fewer of the old ones prefer."""
    sides = {signer: preferred_side(list(clips.values())) for signer, clips in old.items()
             if len(clips) >= options.min_clips}  # fmt: skip
    fresh = {
        signer: preferred_side(list(clips.values()))
        for signer, clips in new.items()
        if signer not in old and len(clips) >= options.min_clips
    }
    told = [side for side in fresh.values() if side]
    if not told:
        what = "no new signer who clearly prefers a hand"
        return judge("mirrored_people", options.mirrored_people, None, what)
    counts = {side: list(sides.values()).count(side) for side in (-1, 1)}
    rare = 1 if counts[-1] > counts[1] else -1
    rate = (counts[rare] + _PRIOR * options.left_handers) / (sum(counts.values()) + _PRIOR)
    found = told.count(rare)
    hand = "right" if rare > 0 else "left"
    return judge(
        "mirrored_people",
        options.mirrored_people,
        1 / max(binomial_tail(found, len(told), rate), _LEAST_CHANCE),
        f"{found} of {len(told)} new signers prefer the {hand} hand, {100 * rate:.0f} % expected",
        mend=_MEND,
        clips=[clip for signer, side in fresh.items() if side == rare for clip in new[signer]],
        figures={"people": float(found), "of": float(len(told)), "rate": rate},
    )


def _lean(preference: float) -> str:
    hand = "right" if preference > 0 else "left"
    return f"the {hand} hand moves {100 * abs(preference):.0f} % more"
