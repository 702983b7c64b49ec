"""Drift of hands and movement; mirrored videos.

A mirror image of a signer is a signer of the other hand, and nothing in the picture tells them
apart. But a known person does not change hands.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean, median, stdev

from signloom.grouping import group_pairs
from signloom_ops.intake.drift.comparison import ALPHA, MIN_CLIPS, Comparison, compare
from signloom_ops.intake.drift.findings import Measured, worst

_CLEAR = 0.1  # mean preference below which a person counts as using both hands alike
_LEAST_SPREAD = 0.1  # of a person's preferences, lest two equal clips prove a rule
_LEAST_SPEEDS = 0.2  # octaves by which signers differ at least
_SIGNERS = 3  # fewest whose medians show how much signers differ


def measure_presence(comparison: Comparison) -> Measured:
    """Find the signer whose hands were lost most, in comparison with the old clips."""
    parts = []
    for group in comparison.groups:
        now, before = (
            {
                name: share
                for name in names
                if (share := comparison.quality[name].any_hand) is not None
            }
            for names in (group.new, group.old)
        )
        if not now or not before or not any(before.values()):
            continue
        new, old = (_mean_share(part, comparison) for part in (now, before))
        p_value = compare([*now.values()], [*before.values()])[1]
        text = f"a hand in {100 * new:.0f} % of the frames, {100 * old:.0f} % in the old clips"
        parts.append(
            Measured(
                max(1 - new / old, 0.0) if p_value < ALPHA else 0.0,
                group.describe(text),
                [name for name, share in now.items() if share < old / 2],
                {"new": new, "old": old, "p_value": p_value},
                group.signer,
            )
        )
    return worst(parts, "a hand: too few")


def _mean_share(shares: Mapping[str, float], comparison: Comparison) -> float:
    frames = {name: comparison.quality[name].frames for name in shares}
    return sum(share * frames[name] for name, share in shares.items()) / sum(frames.values())


def measure_speed(comparison: Comparison) -> Measured:
    """Find the signer whose median speed of the hands is farthest off; 0 by chance."""
    values = {
        clip: movement.speed
        for clip, movement in comparison.movements.items()
        if movement.speed is not None
    }
    old = {clip for group in comparison.groups for clip in group.old} & values.keys()
    spread, middle = measure_spread({clip: values[clip] for clip in old}, comparison.signers)
    parts = []
    for group in comparison.groups:
        now, before = (
            [values[clip] for clip in part if clip in values] for part in (group.new, group.old)
        )
        if min(len(now), len(before)) < MIN_CLIPS:
            continue
        new, usual = median(now), median(before) if group.is_known else middle
        distance, p_value = compare(now, before)
        text = group.describe(f"speed of the hands {new:.2f}, usually {usual:.2f}")
        parts.append(
            Measured(
                abs(new - usual) / spread if p_value < ALPHA else 0.0,
                f"{text}; signers differ by {spread:.2f}",
                group.new,
                {"new": new, "old": usual, "spread": spread, "ks": distance, "p_value": p_value},
                group.signer,
            )
        )
    return worst(parts, "speed of the hands: too few clips")


def measure_spread(values: Mapping[str, float], signers: Mapping[str, str]) -> tuple[float, float]:
    """Return how much signers' speeds differ (a standard deviation), and their middle.

    From few signers nothing can be said of others, so the clips are taken instead.
    """
    by_signer = group_pairs((signers[clip], value) for clip, value in values.items())
    medians = [median(row) for row in by_signer.values()]
    sample = medians if len(medians) >= _SIGNERS else list(values.values())
    if not sample:
        return _LEAST_SPEEDS, 0.0
    spread = stdev(sample) if len(sample) > 1 else 0.0
    return max(spread, _LEAST_SPEEDS), median(sample)


Preferences = Mapping[str, Mapping[str, float]]
"""Signer to clip to preference, -1 (left) to 1 (right); signers with few clips are left out."""


def gather_preferences(comparison: Comparison) -> tuple[Preferences, Preferences]:
    """Return the preferences of the new and of the old clips that show one."""
    parts = []
    for clips in (comparison.new, comparison.old):
        preferences: dict[str, dict[str, float]] = defaultdict(dict)
        for clip in clips:
            movement = comparison.movements.get(clip.clip_id)
            if movement and movement.preference is not None:
                preferences[clip.signer][clip.clip_id] = movement.preference
        parts.append({who: rows for who, rows in preferences.items() if len(rows) >= MIN_CLIPS})
    return parts[0], parts[1]


def change_of_hands(before: Sequence[float], now: Sequence[float]) -> float:
    """Return by how many standard errors a person's preference has changed sides; 0: it has not."""
    means = fmean(before), fmean(now)
    if means[0] * means[1] >= 0 or min(map(abs, means)) < _CLEAR:
        return 0.0
    return abs(means[1] - means[0]) / math.hypot(_standard_error(before), _standard_error(now))


def _standard_error(values: Sequence[float]) -> float:
    return max(stdev(values), _LEAST_SPREAD) / math.sqrt(len(values))


def measure_known_signers(comparison: Comparison) -> Measured:
    """Find the known signer who changed hands most."""
    new, old = gather_preferences(comparison)
    changes = {
        signer: change_of_hands(list(old[signer].values()), list(new[signer].values()))
        for signer in new.keys() & old.keys()
    }
    if not changes:
        return Measured(None, "no known signer with enough clips")
    signer = max(changes, key=lambda name: (changes[name], name))
    before, now = (fmean(part[signer].values()) for part in (old, new))
    return Measured(
        changes[signer],
        f"one signer: {_lean(now)}, {_lean(before)} in the old clips",
        list(new[signer]),
        {"new": now, "old": before, "signers": float(len(changes))},
        signer,
    )


def _lean(preference: float) -> str:
    hand = "right" if preference > 0 else "left"
    return f"the {hand} hand moves {100 * abs(preference):.0f} % more"
