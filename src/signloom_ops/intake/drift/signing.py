"""Drift of hands and movement; mirrored videos.

A mirror image of a signer is a signer of the other hand, and nothing in the picture tells them
apart. But a known person does not change hands, and people of the rarer hand do not come in crowds.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean, median, stdev

from scipy.stats import binomtest

from signloom_ops.intake.drift.comparison import ALPHA, MIN_CLIPS, Comparison, compare
from signloom_ops.intake.drift.findings import Measured, worst

_CLEAR = 0.1  # mean preference below which a person counts as using both hands alike
_LEFT_HANDERS = 0.1  # share of people expected to sign with the hand that the fewer use
_PRIOR = 10  # people that `_LEFT_HANDERS` counts for, in addition to those of the corpus
_LEAST_CHANCE = 1e-9  # of a batch: of hundreds of people it would be 0
_LEAST_SPREAD = 0.1  # of a person's preferences, lest two equal clips prove a rule
_SIGNERS = 3  # fewest whose medians show how much signers differ

HAND_LABELS = {"any_hand": "a hand", "left_hand": "the left hand", "right_hand": "the right hand"}
STATISTICS = {
    "height": ("height of the hands", 0.15),
    "reach": ("reach of the hands", 0.15),
    "speed": ("speed of the hands", 0.2),
    "hand_size": ("size of the hands", 0.1),
    "shoulders": ("width of the shoulders in the picture", 0.3),
}
"""Parts of `Movement` whose distribution is compared: label, and the least difference between two
signers that counts, in its own unit."""


def measure_presence(batch: Comparison, hand: str) -> Measured:
    """Find the signer whose hands were lost most, in comparison with the old clips."""
    parts = []
    for group in batch.groups:
        now, before = (
            {name: share for name in names if (share := getattr(batch.quality[name], hand))
             is not None}
            for names in (group.new, group.old)
        )  # fmt: skip
        if not now or not before or not any(before.values()):
            continue
        new, old = (_mean_share(part, batch) for part in (now, before))
        p_value = compare([*now.values()], [*before.values()])[1]
        what = (
            f"{HAND_LABELS[hand]} in {100 * new:.0f} % of the frames, {100 * old:.0f} % in the old "
            "clips"
        )
        parts.append(
            Measured(
                max(1 - new / old, 0.0) if p_value < ALPHA else 0.0,
                group.describe(what),
                [name for name, share in now.items() if share < old / 2],
                {"new": new, "old": old, "p_value": p_value},
                group.signer,
            )
        )
    return worst(parts, f"{HAND_LABELS[hand]}: too few")


def _mean_share(shares: Mapping[str, float], batch: Comparison) -> float:
    frames = {name: batch.quality[name].frames for name in shares}
    return sum(share * frames[name] for name, share in shares.items()) / sum(frames.values())


def measure_shift(batch: Comparison, name: str) -> Measured:
    """Find the signer whose median of a part of `Movement` is farthest off; 0 by chance."""
    label, least = STATISTICS[name]
    values = {
        clip: float(value)
        for clip, movement in batch.movements.items()
        if (value := getattr(movement, name)) is not None
    }
    old = {clip for group in batch.groups for clip in group.old} & values.keys()
    spread, middle = measure_spread({clip: values[clip] for clip in old}, batch.signers, least)
    parts = []
    for group in batch.groups:
        now, before = (
            [values[clip] for clip in part if clip in values] for part in (group.new, group.old)
        )
        if min(len(now), len(before)) < MIN_CLIPS:
            continue
        new, usual = median(now), median(before) if group.is_known else middle
        distance, p_value = compare(now, before)
        what = group.describe(f"{label} {new:.2f}, usually {usual:.2f}")
        parts.append(
            Measured(
                abs(new - usual) / spread if p_value < ALPHA else 0.0,
                f"{what}; signers differ by {spread:.2f}",
                group.new,
                {"new": new, "old": usual, "spread": spread, "ks": distance, "p_value": p_value},
                group.signer,
            )
        )
    return worst(parts, f"{label}: too few clips")


def measure_spread(
    values: Mapping[str, float], signers: Mapping[str, str], least: float
) -> tuple[float, float]:
    """Return how much signers differ (a standard deviation, at least `least`), and their middle.

    From few signers nothing can be said of others, so the clips are taken instead.
    """
    by_signer: dict[str, list[float]] = defaultdict(list)
    for clip, value in values.items():
        by_signer[signers[clip]].append(value)
    medians = [median(row) for row in by_signer.values()]
    sample = medians if len(medians) >= _SIGNERS else list(values.values())
    if not sample:
        return least, 0.0
    spread = stdev(sample) if len(sample) > 1 else 0.0
    return max(spread, least), median(sample)


def measure_order(batch: Comparison) -> Measured:
    """Count the clips whose hands lie on the wrong sides."""
    orders = {
        clip.clip_id: found.order
        for clip in batch.new
        if (found := batch.movements.get(clip.clip_id)) and found.order is not None
    }
    if not orders:
        return Measured(None, "no clip shows both hands")
    crossed = [name for name, order in orders.items() if order > 0.5]
    what = f"in {len(crossed)} of {len(orders)} clips the left hand lies right of the right hand"
    return Measured(len(crossed) / len(orders), what, crossed)


Preferences = Mapping[str, Mapping[str, float]]
"""Signer to clip to preference, -1 (left) to 1 (right); signers with few clips are left out."""


def gather_preferences(batch: Comparison) -> tuple[Preferences, Preferences]:
    """Return the preferences of the new and of the old clips that show one."""
    parts = []
    for clips in (batch.new, batch.old):
        found: dict[str, dict[str, float]] = defaultdict(dict)
        for clip in clips:
            movement = batch.movements.get(clip.clip_id)
            if movement and movement.preference is not None:
                found[clip.signer][clip.clip_id] = movement.preference
        parts.append({who: rows for who, rows in found.items() if len(rows) >= MIN_CLIPS})
    return parts[0], parts[1]


def preferred_side(values: Sequence[float]) -> int:
    """Return -1 (left), 1 (right), or 0 where a person's two clips or more show neither."""
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


def measure_known_signers(batch: Comparison) -> Measured:
    """Find the known signer who changed hands most."""
    new, old = gather_preferences(batch)
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


def measure_new_signers(batch: Comparison) -> Measured:
    """Weigh how many new people sign with the hand that fewer of the old ones prefer."""
    new, old = gather_preferences(batch)
    known = {clip.signer for clip in batch.old if clip.clip_id in batch.movements}
    sides = [preferred_side(list(clips.values())) for clips in old.values()]
    fresh = {who: preferred_side([*new[who].values()]) for who in new if who not in known}
    clear = [side for side in fresh.values() if side]
    if not clear:
        return Measured(None, "no new signer who clearly prefers a hand")
    left, right = sides.count(-1), sides.count(1)
    rare = 1 if left > right else -1
    rate = (min(left, right) + _PRIOR * _LEFT_HANDERS) / (left + right + _PRIOR)
    found = clear.count(rare)
    hand = "right" if rare > 0 else "left"
    chance = float(binomtest(found, len(clear), rate, alternative="greater").pvalue)
    return Measured(
        1 / max(chance, _LEAST_CHANCE),
        f"{found} of {len(clear)} new signers prefer the {hand} hand, {100 * rate:.0f} % expected",
        [clip for signer, side in fresh.items() if side == rare for clip in new[signer]],
        {"people": float(found), "of": float(len(clear)), "rate": rate},
    )


def _lean(preference: float) -> str:
    hand = "right" if preference > 0 else "left"
    return f"the {hand} hand moves {100 * abs(preference):.0f} % more"
