"""Rules that turn signals into events: a threshold, hysteresis and a shortest length each."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from signloom.features.rests import STILL, find_runs
from signloom_tools.tiers.signals import CLOSED, SHAKE_DEG, SIDES, UNITS, Signals
from signloom_tools.translate.segmentation import LEAST_S, PAUSE_S


@dataclass(frozen=True, slots=True)
class EventRule:
    """When something is an event.

    It begins where the signal reaches `on` and has not left `off` before or after. If `on` is
    below `off`, it does so from above.

    Attributes:
        tier: In which its events stand, one at a time: an earlier rule of the tier goes first.
        value: As it is called.
        signal: Of `Signals.values`.
        on: Threshold, in the unit of the signal.
        off: Likewise.
        least_s: A shorter one is none.
        join_s: Two that are nearer are one.
        number: The signal whose farthest value says how strong it is; empty: `signal`.
        source: Of the thresholds.
    """

    tier: str
    value: str
    signal: str
    on: float
    off: float
    least_s: float
    join_s: float = 0.1
    number: str = ""
    source: str = ""

    @property
    def unit(self) -> str:
        """Of the number."""
        return UNITS[(self.number or self.signal).removeprefix("right_").removeprefix("left_")]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that is seen from one time to another."""

    tier: str
    value: str
    start_s: float
    end_s: float
    number: float
    unit: str


_DRAWN = "drawn signers"
_FILMS = "features/rests.py, on films"


def _of_hand(side: str) -> tuple[EventRule, ...]:
    hand, place = f"{side} hand", f"{side} hand place"
    return (
        EventRule(hand, "moving", f"{side}_speed", STILL, 0.6 * STILL, 0.12, 0.1, source=_FILMS),
        EventRule(
            hand, "held", f"{side}_raised_speed", 0.6 * STILL, STILL, 0.12, 0.1, source=_FILMS
        ),
        EventRule(place, "face", f"{side}_to_face", 0.25, 0.35, 0.1, source=_DRAWN),
        EventRule(place, "side", f"{side}_to_middle", 0.8, 0.7, 0.1, source=_DRAWN),
        EventRule(place, "chest", f"{side}_to_chest", 0.5, 0.6, 0.1, source=_DRAWN),
    )


# Stern, Walrath and Goldstein, The endogenous eyeblink (1984), give 0.1 to 0.4 s for a blink.
RULES = (
    EventRule("signing", "signing", "signing", 0.5, 0.5, LEAST_S, PAUSE_S, "speed", _FILMS),
    *(rule for side in SIDES for rule in _of_hand(side)),
    EventRule("leading hand", "right", "lead", 0.4, 0.2, 0.3, source=_DRAWN),
    EventRule("leading hand", "left", "lead", -0.4, -0.2, 0.3, source=_DRAWN),
    EventRule("hands", "two-handed", "raised", 1.6, 1.5, 0.2, number="speed", source=_DRAWN),
    EventRule("hands", "one-handed", "raised", 1.4, 1.5, 0.2, number="speed", source=_DRAWN),
    EventRule("hands apart", "together", "between", 0.45, 0.6, 0.15, source=_DRAWN),
    EventRule("hands apart", "apart", "between", 1.0, 0.85, 0.15, source=_DRAWN),
    EventRule("head movement", "shake", "shake", SHAKE_DEG, 1.5, 0.3, 0.3, source=_DRAWN),
    EventRule("head movement", "nod", "nod", 4.5, 2.0, 0.2, 0.3, source=_DRAWN),
    EventRule("head turn", "left", "yaw", 10.0, 6.0, 0.3, source=_DRAWN),
    EventRule("head turn", "right", "yaw", -10.0, -6.0, 0.3, source=_DRAWN),
    EventRule("head tilt", "left", "roll", 6.0, 4.0, 0.3, source=_DRAWN),
    EventRule("head tilt", "right", "roll", -6.0, -4.0, 0.3, source=_DRAWN),
    EventRule("brows", "up", "brow", 0.015, 0.009, 0.2, source=_DRAWN),
    EventRule("brows", "down", "brow", -0.01, -0.006, 0.2, source=_DRAWN),
    EventRule("eyes", "blink", "closing", 0.4, CLOSED, 0.06, 0.04, source="Stern 1984; " + _DRAWN),
    EventRule("eyes", "wide", "aperture", 0.12, 0.08, 0.2, source=_DRAWN),
    EventRule("gaze", "left", "gaze_side", 0.1, 0.06, 0.15, source=_DRAWN),
    EventRule("gaze", "right", "gaze_side", -0.1, -0.06, 0.15, source=_DRAWN),
    EventRule("gaze", "down", "gaze_down", 0.1, 0.06, 0.2, source=_DRAWN),
    EventRule("mouth", "open", "mouth_open", 0.04, 0.02, 0.1, source=_DRAWN),
    EventRule("mouth", "stretched", "mouth_width", 0.03, 0.02, 0.15, source=_DRAWN),
    EventRule("mouth", "rounded", "mouth_width", -0.03, -0.02, 0.15, source=_DRAWN),
    EventRule("mouth movement", "moving", "mouthing", 0.03, 0.015, 0.3, 0.3, source=_DRAWN),
)
"""All of them; docs/tiers.md has the table."""

# What a tier with events holds where there is none.
BETWEEN = {"signing": "rest", "mouth": "closed"}
TIERS = tuple(dict.fromkeys(rule.tier for rule in RULES))


def find_events(signals: Signals) -> list[Event]:
    """Return the events of a film in the order of `TIERS`, then of time."""
    events: list[Event] = []
    is_signing = np.zeros(len(signals.values["signing"]), np.bool_)
    for tier in TIERS:
        # Of hands that rest even their movement is none.
        is_free = is_signing.copy() if "hand" in tier else np.ones_like(is_signing)
        spans: list[tuple[int, int, EventRule]] = []
        for rule in RULES:
            if rule.tier == tier and rule.signal in signals.values:
                found = list(_find_spans(signals, rule, is_free))
                for start, stop in found:
                    is_free[start:stop] = False
                spans += [(*span, rule) for span in found]
        if tier == "signing":
            is_signing = ~is_free
        events += _name(tier, sorted(spans, key=lambda span: span[0]), signals)
    return events


def _find_spans(
    signals: Signals, rule: EventRule, is_free: npt.NDArray[np.bool_]
) -> Iterator[tuple[int, int]]:
    """Yield the frames of a rule's events: the first one, and the first one after."""
    sign = 1.0 if rule.on >= rule.off else -1.0
    with np.errstate(invalid="ignore"):  # NaN is no event
        is_near = (sign * signals.values[rule.signal] >= sign * rule.off) & is_free
        is_strong = (sign * signals.values[rule.signal] >= sign * rule.on) & is_free
    runs = [run for run in find_runs(is_near) if is_strong[slice(*run)].any()]
    joined: list[tuple[int, int]] = []
    for start, stop in runs:
        last = joined[-1] if joined else (0, -1)
        is_near_last = joined and start - last[1] < rule.join_s * signals.fps
        if is_near_last and is_free[last[1] : start].all():
            joined[-1] = last[0], stop
        else:
            joined.append((start, stop))
    # Rounded down: what lasts 0.06 s shows at 15 frames a second as well.
    least = max(1, int(rule.least_s * signals.fps))
    yield from (span for span in joined if span[1] - span[0] >= least)


def _name(tier: str, spans: list[tuple[int, int, EventRule]], signals: Signals) -> Iterator[Event]:
    """Yield the events of a tier, and what lies between them."""

    def seconds(frame: int) -> float:
        return signals.start_s + frame / signals.fps

    last_stop = 0
    for start, stop, rule in spans:
        if tier in BETWEEN and start > last_stop:
            yield Event(tier, BETWEEN[tier], seconds(last_stop), seconds(start), np.nan, "")
        numbers = signals.values[rule.number or rule.signal][start:stop]
        is_low = rule.on < rule.off and rule.on >= 0  # nearer or slower is stronger
        sizes = np.nan_to_num(np.abs(numbers), nan=np.inf if is_low else -np.inf)
        number = numbers[np.argmin(sizes) if is_low else np.argmax(sizes)]
        yield Event(tier, rule.value, seconds(start), seconds(stop), float(number), rule.unit)
        last_stop = stop
    frames = len(signals.values["signing"])
    if spans and tier in BETWEEN and last_stop < frames:
        yield Event(tier, BETWEEN[tier], seconds(last_stop), seconds(frames), np.nan, "")
