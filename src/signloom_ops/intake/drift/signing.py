"""Drift of hands and movement; mirrored videos.

All are of `normalise`d landmarks: the middle of the shoulders is 0, their width is 1. Only two of
them ask which hand is which, so that right-handed and left-handed signers differ in those two only.

A mirror image of a signer is a signer of the other hand, and nothing in the picture tells them
apart. But a known person does not change hands, and people of the rarer hand do not come in crowds.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

import numpy as np
from scipy.stats import binomtest, ks_2samp

from signloom.corpus.landmarks import LandmarkSequence
from signloom.corpus.quality import ClipQuality
from signloom.features.features import HANDS, FloatArray, has_choice, normalise
from signloom_ops.intake.drift.findings import Finding, SignerGroup, judge, worst
from signloom_ops.options import DriftLimits, DriftOptions

_WRIST, _MIDDLE_KNUCKLE = 0, 9
_FRAMES = 5  # of a hand that are needed to say something of its movement
_LEAST = 1e-3  # of what goes into a logarithm: a hand at rest, a palm of no size
_CLEAR = 0.1  # mean preference below which a person counts as using both hands alike
_PRIOR = 10  # people that `left_handers` counts for, beside those of the corpus
_LEAST_CHANCE = 1e-9  # of a batch: of hundreds of people it would be 0
_LEAST_SPREAD = 0.1  # of a person's preferences, lest two equal clips prove a rule

_MIRRORED_HINT = "look whether the videos are mirrored (a selfie camera); mirror them back"
_SIGNERS = 3  # fewest whose medians say how much signers differ

HAND_LABELS = {"any_hand": "a hand", "left_hand": "the left hand", "right_hand": "the right hand"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Movement:
    """What is measured of a clip; None: the layout lacks the part, or it is hardly ever there."""

    height: float | None = None
    """Mean height of the busier wrist, shoulder widths above the shoulders."""
    reach: float | None = None
    """How far it gets from the middle of the shoulders in a tenth of the frames, likewise."""
    speed: float | None = None
    """Logarithm (of base 2) of its mean speed, shoulder widths a second; None if it flickers."""
    hand_size: float | None = None
    """Logarithm (of base 2) of the median palm, shoulder widths."""
    shoulders: float | None = None
    """Logarithm (of base 2) of the width of the shoulders, picture heights."""
    preference: float | None = None
    """-1: only the left hand moves; 1: only the right hand does."""
    order: float | None = None
    """Share of the frames with both hands whose left one lies on the signer's right; 0 to 1."""


@dataclass(frozen=True, slots=True)
class Statistic:
    """A part of `Movement` whose distribution is compared."""

    label: str
    spread: float
    """The least difference between two signers that is worth a word, in its own unit."""


STATISTICS: Mapping[str, Statistic] = {
    "height": Statistic("height of the hands", 0.15),
    "reach": Statistic("reach of the hands", 0.15),
    "speed": Statistic("speed of the hands", 0.2),
    "hand_size": Statistic("size of the hands", 0.1),
    "shoulders": Statistic("width of the shoulders in the picture", 0.3),
}


def measure_movement(sequence: LandmarkSequence) -> Movement:
    """Measure one clip, whatever its layout."""
    layout = sequence.layout
    shoulders = _measure_shoulders(sequence)
    if not has_choice(layout, "hands"):
        return Movement(shoulders=shoulders)
    points = normalise(sequence, "body")
    hands = [points[:, layout.slice(hand), :2] for hand in HANDS]
    seen = [sequence.present[:, layout.group(hand)] for hand in HANDS]
    way = [float(_steps(hand[:, _WRIST]).sum()) for hand in hands]
    both = seen[0] & seen[1]
    order = None
    if both.sum() >= _FRAMES:
        order = float((hands[0][both, _WRIST, 0] < hands[1][both, _WRIST, 0]).mean())
    busier = int(way[1] > way[0])
    wrist = hands[busier][seen[busier], _WRIST]
    if len(wrist) < _FRAMES:
        return Movement(shoulders=shoulders, order=order)
    palms = np.concatenate([hand[there] for hand, there in zip(hands, seen, strict=True)])
    palm = np.linalg.norm(palms[:, _MIDDLE_KNUCKLE] - palms[:, _WRIST], axis=1)
    steps = _steps(hands[busier][:, _WRIST])
    speed = float(steps.mean()) * sequence.fps if len(steps) >= _FRAMES else None
    return Movement(
        height=-float(wrist[:, 1].mean()),
        reach=float(np.quantile(np.linalg.norm(wrist, axis=1), 0.9)),
        speed=None if speed is None else math.log2(max(speed, _LEAST)),
        hand_size=math.log2(max(float(np.median(palm)), _LEAST)),
        shoulders=shoulders,
        preference=(way[1] - way[0]) / max(way[0] + way[1], _LEAST),
        order=order,
    )


def _measure_shoulders(sequence: LandmarkSequence) -> float | None:
    layout = sequence.layout
    if not has_choice(layout, "pose"):
        return None
    seen = sequence.present[:, layout.group("pose")]
    if seen.sum() < _FRAMES:
        return None
    left, right = (
        sequence.points[seen, layout.index("pose", f"{side}_shoulder"), :2]
        for side in ("left", "right")
    )
    scale = np.array([sequence.width / sequence.height, 1.0], np.float32)
    width = float(np.median(np.linalg.norm((left - right) * scale, axis=1)))
    return math.log2(max(width, _LEAST))


def _steps(wrist: FloatArray) -> FloatArray:
    """Lengths of the ways (S, 2) from frame to frame, where a hand is in both of them."""
    steps = np.linalg.norm(np.diff(wrist, axis=0), axis=1)
    return np.asarray(steps[np.isfinite(steps)], np.float32)


Preferences = Mapping[str, Mapping[str, float]]
"""Signer to clip to preference, -1 (left) to 1 (right)."""


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


def check_known_signers(old: Preferences, new: Preferences, options: DriftOptions) -> Finding:
    """Look for known signers who changed hands."""
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
        f"one signer: {_lean(now)}, {_lean(before)} in the old clips",
        hint=_MIRRORED_HINT,
        clips=list(new[signer]),
        figures={"new": now, "old": before, "signers": float(len(changes))},
        signer=signer,
    )


def check_new_signers(old: Preferences, new: Preferences, options: DriftOptions) -> Finding:
    """Weigh how many new people sign with the hand that fewer of the old ones prefer."""
    sides, fresh = (
        {
            signer: preferred_side(list(clips.values()))
            for signer, clips in part.items()
            if len(clips) >= options.min_clips
        }
        for part in (old, {signer: new[signer] for signer in new if signer not in old})
    )
    told = [side for side in fresh.values() if side]
    if not told:
        what = "no new signer who clearly prefers a hand"
        return judge("mirrored_people", options.mirrored_people, None, what)
    counts = {side: list(sides.values()).count(side) for side in (-1, 1)}
    rare = 1 if counts[-1] > counts[1] else -1
    rate = (counts[rare] + _PRIOR * options.left_handers) / (sum(counts.values()) + _PRIOR)
    found = told.count(rare)
    hand = "right" if rare > 0 else "left"
    chance = float(binomtest(found, len(told), rate, alternative="greater").pvalue)
    return judge(
        "mirrored_people",
        options.mirrored_people,
        1 / max(chance, _LEAST_CHANCE),
        f"{found} of {len(told)} new signers prefer the {hand} hand, {100 * rate:.0f} % expected",
        hint=_MIRRORED_HINT,
        clips=[clip for signer, side in fresh.items() if side == rare for clip in new[signer]],
        figures={"people": float(found), "of": float(len(told)), "rate": rate},
    )


def _lean(preference: float) -> str:
    hand = "right" if preference > 0 else "left"
    return f"the {hand} hand moves {100 * abs(preference):.0f} % more"


def check_hands(
    groups: Sequence[SignerGroup], rows: Mapping[str, ClipQuality], options: DriftOptions
) -> list[Finding]:
    """Find signers whose hands were not found as often as usual."""
    return [_compare_presence(groups, rows, hand, options) for hand in HAND_LABELS]


def check_movement(
    groups: Sequence[SignerGroup],
    movements: Mapping[str, Movement],
    signers: Mapping[str, str],
    options: DriftOptions,
) -> list[Finding]:
    """Compare where and how the hands move, a finding a statistic: the worst group's.

    Args:
        groups: Who is held against whom.
        movements: Movement of each clip of the groups.
        signers: Who signs each clip.
        options: The limits.
    """
    old = {name for group in groups for name in group.old}
    found = []
    for name, statistic in STATISTICS.items():
        values = {
            clip: value
            for clip, movement in movements.items()
            if (value := getattr(movement, name)) is not None
        }
        spread, middle = measure_spread(
            {clip: value for clip, value in values.items() if clip in old}, signers, statistic
        )
        parts = [
            _compare_statistic(group, values, name, spread, middle, options) for group in groups
        ]
        known = [part for part in parts if part.statistic is not None]
        limits = limits_of(name, options)
        nothing = judge(f"movement.{name}", limits, None, f"{statistic.label}: too few clips")
        found.append(worst(known) if known else nothing)
    return found


def check_order(
    movements: Mapping[str, Movement], new: Sequence[str], limits: DriftLimits
) -> Finding:
    """Count the clips whose hands lie on the wrong sides; needs no old clip."""
    orders = {
        name: order
        for name in new
        if name in movements and (order := movements[name].order) is not None
    }
    if not orders:
        return judge("sides", limits, None, "no clip shows both hands")
    crossed = [name for name, order in orders.items() if order > 0.5]
    return judge(
        "sides",
        limits,
        len(crossed) / len(orders),
        f"in {len(crossed)} of {len(orders)} clips the left hand lies right of the right hand",
        hint="left and right must be the signer's own; another tool may name them as the viewer's",
        clips=crossed,
    )


def measure_spread(
    values: Mapping[str, float], signers: Mapping[str, str], statistic: Statistic
) -> tuple[float, float]:
    """Return how much signers differ (a standard deviation), and the middle of them.

    From few signers nothing can be said of others, so the clips are taken instead.
    """
    by_signer: dict[str, list[float]] = defaultdict(list)
    for clip, value in values.items():
        by_signer[signers[clip]].append(value)
    medians = [median(row) for row in by_signer.values()]
    sample = medians if len(medians) >= _SIGNERS else list(values.values())
    if not sample:
        return statistic.spread, 0.0
    spread = stdev(sample) if len(sample) > 1 else 0.0
    return max(spread, statistic.spread), median(sample)


def limits_of(statistic: str, options: DriftOptions) -> DriftLimits:
    """Return the limits of a landmark statistic: speed has its own, as speed can ruin a model."""
    return options.speed if statistic == "speed" else options.movement


def _compare_presence(
    groups: Sequence[SignerGroup], rows: Mapping[str, ClipQuality], hand: str, options: DriftOptions
) -> Finding:
    check, limits = f"lost_hand.{hand.removesuffix('_hand')}", options.lost_hand
    if hand == "any_hand":
        check, limits = "lost_hands", options.lost_hands
    parts = []
    for group in groups:
        now, before = (
            {name: share for name in names if (share := getattr(rows[name], hand)) is not None}
            for names in (group.new, group.old)
        )
        if not now or not before or not any(before.values()):
            continue
        new_share, old_share = (_share_of(part, rows) for part in (now, before))
        p_value = float(ks_2samp(list(now.values()), list(before.values())).pvalue)
        lost = max(1 - new_share / old_share, 0.0) if p_value < options.alpha else 0.0
        parts.append(
            judge(
                check,
                limits,
                lost,
                f"{group.label}: {HAND_LABELS[hand]} in {100 * new_share:.0f} % of the frames, "
                f"{100 * old_share:.0f} % in the old clips{_whose(group)}",
                hint="look whether the hands are in the picture, lit and unblurred, and whether "
                "red and blue are exchanged",
                clips=[name for name, share in now.items() if share < old_share / 2],
                figures={"new": new_share, "old": old_share, "p_value": p_value},
                signer=group.signer,
            )
        )
    return worst(parts) if parts else judge(check, limits, None, f"{HAND_LABELS[hand]}: too few")


def _share_of(shares: Mapping[str, float], rows: Mapping[str, ClipQuality]) -> float:
    frames = sum(rows[name].frames for name in shares)
    return sum(share * rows[name].frames for name, share in shares.items()) / frames


def _compare_statistic(
    group: SignerGroup,
    values: Mapping[str, float],
    name: str,
    spread: float,
    middle: float,
    options: DriftOptions,
) -> Finding:
    """Measure the shift of a group's median; 0 where chance might have made the difference."""
    check, statistic = f"movement.{name}", STATISTICS[name]
    limits = limits_of(name, options)
    now, before = (
        [values[clip] for clip in names if clip in values] for names in (group.new, group.old)
    )
    if min(len(now), len(before)) < options.min_clips:
        return judge(check, limits, None, f"{group.label}: too few clips")
    usual = median(before) if group.is_known else middle
    distance = ks_2samp(now, before)
    shift = abs(median(now) - usual) / spread if distance.pvalue < options.alpha else 0.0
    return judge(
        check,
        limits,
        shift,
        f"{group.label}: {statistic.label} {median(now):.2f}, usually {usual:.2f}{_whose(group)}; "
        f"signers differ by {spread:.2f}",
        hint="look at some of the clips: another frame rate, camera or way of signing?",
        clips=group.new,
        figures={
            "new": median(now), "old": usual, "spread": spread,
            "ks": float(distance.statistic), "p_value": float(distance.pvalue),
        },
        signer=group.signer,
    )  # fmt: skip


def _whose(group: SignerGroup) -> str:
    return " of the same signer" if group.is_known else ""
