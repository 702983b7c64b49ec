"""How unlike the old clips new ones may be; docs/drift.md says what each check measures."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """From which value of its statistic on a check warns, and from which on it stops."""

    warn: float | None
    """None: never."""
    stop: float | None
    """None: never; only for what ruins a model."""

    def __post_init__(self) -> None:
        for name in ("warn", "stop"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValueError(f"{name}: found {value}, expected 0 or more, or null")
        if self.warn is not None and self.stop is not None and self.stop < self.warn:
            raise ValueError(f"stop: found {self.stop}, expected at least warn ({self.warn})")


@dataclass(frozen=True, kw_only=True, slots=True)
class DriftOptions:
    """The part `retrain.drift` of params.yaml: what is looked at, and the limits of each check.

    Every statistic is 0 or more (a factor 1 or more), and more is worse.
    """

    min_clips: int
    """Fewest clips, of a signer or a batch, whose distributions are judged; 2 or more."""
    old_clips: int
    """Most old clips whose landmarks are read, evenly spaced in the manifest; 1 or more."""
    alpha: float
    """A distribution differs where chance would differ as much with a lower probability; 0 to 1."""
    left_handers: float
    """Share of people expected to sign with the hand that the fewer use, above 0, at most 0.5."""
    colour_clips: int
    """Most old clips whose pictures are looked at; 0: no check of colours."""
    colour_frames: int
    """Frames looked at in a clip, 1 or more."""

    unread: Limits
    """Share of the new clips that have no landmarks."""
    signer_share: Limits
    """Share of one new-coming signer in all clips."""
    tokens: Limits
    """Kolmogorov-Smirnov distance of the tokens a sentence, 0 to 1."""
    seconds: Limits
    """Factor between the median durations."""
    pace: Limits
    """Factor between the median numbers of tokens a second."""
    pairing: Limits
    """Factor between how much durations stray from what the lengths of the sentences promise."""
    new_words: Limits
    """Share of words that the old text lacks, beyond what one more old clip would bring."""
    byte_tokens: Limits
    """Share of tokens that the old text lacks and spells in bytes, likewise."""
    fps: Limits
    """Factor between the frame rates of a new clip and of the old clip nearest to it."""
    pixels: Limits
    """Factor by which a picture's shorter side is below that of the smallest old clip."""
    lost_hands: Limits
    """Share of the usual frames with a hand that are missing."""
    lost_hand: Limits
    """The same for the left and the right hand, each for itself."""
    movement: Limits
    """Shift of a landmark statistic, in spreads: how much signers differ from each other."""
    speed: Limits
    """The same for the speed of the hands."""
    sides: Limits
    """Share of the clips whose left hand lies on the signer's right of the right hand."""
    mirrored: Limits
    """Of known signers: standard errors by which the preferred hand has changed sides."""
    mirrored_people: Limits
    """Of new signers: one batch in how many would have as many people of the rarer hand."""
    colour: Limits
    """Share of the clips whose skin is bluer than red."""

    def __post_init__(self) -> None:
        for name, least in (
            ("min_clips", 2), ("old_clips", 1), ("colour_clips", 0), ("colour_frames", 1)
        ):  # fmt: skip
            if getattr(self, name) < least:
                raise ValueError(f"{name}: found {getattr(self, name)}, expected {least} or more")
        if not 0 < self.alpha < 1:
            raise ValueError(f"alpha: found {self.alpha}, expected a number between 0 and 1")
        if not 0 < self.left_handers <= 0.5:
            raise ValueError(
                f"left_handers: found {self.left_handers}, expected above 0 and at most 0.5"
            )


LIMITS = tuple(field.name for field in fields(DriftOptions) if field.type is Limits)
"""Names of the checks, in the order in which they are reported."""
