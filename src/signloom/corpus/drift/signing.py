"""The landmarks of new and old clips come in, what is unlike in hands and movement goes out."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median, stdev

from signloom.corpus.drift.distances import ks_distance
from signloom.corpus.drift.findings import Finding, judge, worst
from signloom.corpus.drift.groups import Group
from signloom.corpus.drift.movement import STATISTICS, Movement, Statistic, value_of
from signloom.corpus.drift.options import DriftOptions, Limits
from signloom.corpus.quality import ClipQuality

_SIGNERS = 3  # fewest whose medians say how much signers differ

HAND_LABELS = {"any_hand": "a hand", "left_hand": "the left hand", "right_hand": "the right hand"}


def check_hands(
    groups: Sequence[Group], rows: Mapping[str, ClipQuality], options: DriftOptions
) -> list[Finding]:
    """Find signers whose hands were not found as often as usual."""
    found = [_compare_presence(groups, rows, "any_hand", options.lost_hands, options)]
    sides = ("left_hand", "right_hand")
    found += [_compare_presence(groups, rows, hand, options.lost_hand, options) for hand in sides]
    return found


def check_movement(
    groups: Sequence[Group],
    movements: Mapping[str, Movement],
    signers: Mapping[str, str],
    options: DriftOptions,
) -> list[Finding]:
    """Compare where and how the hands move, a finding a statistic: the worst group's.

    Args:
        groups: Who is held against whom.
        movements: Of all clips of the groups.
        signers: Who signs each clip.
        options: The limits.
    """
    old = {name for group in groups for name in group.old}
    found = []
    for name, statistic in STATISTICS.items():
        values = {
            clip: value
            for clip, movement in movements.items()
            if (value := value_of(movement, name)) is not None
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


def check_order(movements: Mapping[str, Movement], new: Sequence[str], limits: Limits) -> Finding:
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
        mend="left and right must be the signer's own; another tool may name them as the viewer's",
        clips=crossed,
    )


def measure_spread(
    values: Mapping[str, float], signers: Mapping[str, str], statistic: Statistic
) -> tuple[float, float]:
    """Return how much signers differ (a standard deviation), and the middle of them.

    From few signers nothing can be said of others, so the clips stand in for them.
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


def limits_of(statistic: str, options: DriftOptions) -> Limits:
    """Return the limits of a landmark statistic: speed has its own, as speed can ruin a model."""
    return options.speed if statistic == "speed" else options.movement


def _compare_presence(
    groups: Sequence[Group],
    rows: Mapping[str, ClipQuality],
    hand: str,
    limits: Limits,
    options: DriftOptions,
) -> Finding:
    check = "lost_hands" if hand == "any_hand" else f"lost_hand.{hand.removesuffix('_hand')}"
    parts = []
    for group in groups:
        now, before = (
            {name: share for name in names if (share := getattr(rows[name], hand)) is not None}
            for names in (group.new, group.old)
        )
        if not now or not before or not any(before.values()):
            continue
        new_share, old_share = (_share_of(part, rows) for part in (now, before))
        distance = ks_distance(list(now.values()), list(before.values()))
        lost = max(1 - new_share / old_share, 0.0) if distance.p_value < options.alpha else 0.0
        parts.append(
            judge(
                check,
                limits,
                lost,
                f"{group.name}: {HAND_LABELS[hand]} in {100 * new_share:.0f} % of the frames, "
                f"{100 * old_share:.0f} % in the old clips{_whose(group)}",
                mend="look whether the hands are in the picture, lit and unblurred, and whether "
                "red and blue are exchanged",
                clips=[name for name, share in now.items() if share < old_share / 2],
                figures={"new": new_share, "old": old_share, "p_value": distance.p_value},
            )
        )
    return worst(parts) if parts else judge(check, limits, None, f"{HAND_LABELS[hand]}: too few")


def _share_of(shares: Mapping[str, float], rows: Mapping[str, ClipQuality]) -> float:
    frames = sum(rows[name].frames for name in shares)
    return sum(share * rows[name].frames for name, share in shares.items()) / frames


def _compare_statistic(
    group: Group,
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
        return judge(check, limits, None, f"{group.name}: too few clips")
    usual = median(before) if group.is_known else middle
    distance = ks_distance(now, before)
    shift = abs(median(now) - usual) / spread if distance.p_value < options.alpha else 0.0
    return judge(
        check,
        limits,
        shift,
        f"{group.name}: {statistic.label} {median(now):.2f}, usually {usual:.2f}{_whose(group)}; "
        f"signers differ by {spread:.2f}",
        mend="look at some of the clips: another frame rate, camera or way of signing?",
        clips=group.new,
        figures={
            "new": median(now), "old": usual, "spread": spread,
            "ks": distance.value, "p_value": distance.p_value,
        },
    )  # fmt: skip


def _whose(group: Group) -> str:
    return " of the same signer" if group.is_known else ""
