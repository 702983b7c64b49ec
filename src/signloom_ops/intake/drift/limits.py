"""Options of the drift check: the limits of every check and how much is read.

The values are those of this file; `retrain.drift` of params.yaml replaces any of them.
"""

from dataclasses import fields
from typing import Annotated

from pydantic import Field

from signloom.config import Count, Natural, NonNegative, checked_dataclass


@checked_dataclass
class Limits:
    """The values of a statistic from which on a check warns, and refuses a delivery."""

    warn: NonNegative | None
    """Warn from here on; None: never."""
    stop: NonNegative | None
    """Refuse from here on, only for what ruins a model; None: never."""

    def __post_init__(self) -> None:
        if self.warn is not None and self.stop is not None and self.stop < self.warn:
            raise ValueError(f"stop: found {self.stop}, expected at least warn ({self.warn})")


@checked_dataclass
class DriftOptions:
    """The part `retrain.drift` of params.yaml: how much is read, and the limits of each check.

    Every statistic is 0 or more (a factor 1 or more), and more is worse. A delivery is refused only
    for what ruins a model; docs/ops/nights.md says what the limits were measured on. To replace
    one, name its check in params.yaml.
    """

    min_clips: Annotated[int, Field(ge=2)] = 5
    """Fewest clips, of a signer or a batch, whose distributions are judged."""
    old_clips: Count
    """Most old clips whose landmarks are read, evenly spaced in the manifest."""
    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.01
    """A distribution differs where chance would differ as much with a lower probability."""
    left_handers: Annotated[float, Field(gt=0, le=0.5)] = 0.1
    """Share of people expected to sign with the hand that the fewer use."""
    colour_clips: Natural
    """Most old clips whose pictures are looked at; 0: no check of colours."""
    colour_frames: Count = 5
    """Frames looked at in a clip."""

    unread: Limits = Limits(warn=0.1, stop=0.5)
    """Share of the new clips that have no landmarks."""
    signer_share: Limits = Limits(warn=0.5, stop=None)
    """Share of one new-coming signer in all clips."""
    tokens: Limits = Limits(warn=0.5, stop=None)
    """Kolmogorov-Smirnov distance of the tokens a sentence, 0 to 1."""
    seconds: Limits = Limits(warn=2.0, stop=4.0)
    """Factor between the median durations."""
    pace: Limits = Limits(warn=1.6, stop=3.0)
    """Factor between the median numbers of tokens a second."""
    pairing: Limits = Limits(warn=1.4, stop=2.0)
    """Factor between how much durations stray from what the lengths of the sentences promise."""
    new_words: Limits = Limits(warn=0.2, stop=0.6)
    """Share of words that the old text lacks, beyond what one more old clip would bring."""
    byte_tokens: Limits = Limits(warn=0.2, stop=0.6)
    """Share of tokens that the old text lacks and spells in bytes, likewise."""
    fps: Limits = Limits(warn=1.6, stop=None)
    """Factor between the frame rates of a new clip and of the old clip nearest to it."""
    pixels: Limits = Limits(warn=1.5, stop=None)
    """Factor by which a picture's shorter side is below that of the smallest old clip."""
    lost_hands: Limits = Limits(warn=0.2, stop=0.6)
    """Share of the usual frames with a hand that are missing."""
    lost_hand: Limits = Limits(warn=0.4, stop=None)
    """The same for the left and the right hand, each for itself."""
    movement: Limits = Limits(warn=3.0, stop=8.0)
    """Shift of a landmark statistic, in spreads: how much signers differ from each other."""
    speed: Limits = Limits(warn=2.5, stop=4.0)
    """The same for the speed of the hands."""
    sides: Limits = Limits(warn=0.2, stop=0.5)
    """Share of the clips whose left hand lies on the signer's right of the right hand."""
    mirrored: Limits = Limits(warn=3.0, stop=5.0)
    """For known signers: standard errors by which the preferred hand has changed sides."""
    mirrored_people: Limits = Limits(warn=5.0, stop=100.0)
    """For new signers: one batch in how many would have as many people of the rarer hand."""
    colour: Limits = Limits(warn=0.05, stop=0.2)
    """Share of the clips whose skin is bluer than red."""


LIMITS = tuple(field.name for field in fields(DriftOptions) if field.type is Limits)
