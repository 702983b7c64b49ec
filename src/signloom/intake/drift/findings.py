"""Findings of drift checks, their limits and their report."""

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from signloom.config import Count, Natural, NonNegative, checked_dataclass
from signloom.corpus.manifest import Clip
from signloom.files import write_file


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Some new clips, and the old ones that they should be like."""

    signer: str | None
    """Who signs the new ones; None: all of them."""
    new: tuple[str, ...]
    old: tuple[str, ...]
    """Of the same signer, if the signer is known; else of all."""
    is_known: bool
    """Whether the old ones are the same signer's."""

    @property
    def label(self) -> str:
        """What to call the clips without a name."""
        return "all new clips" if self.signer is None else "one signer"


def form_groups(
    old: Sequence[Clip], new: Sequence[Clip], measured: Collection[str], min_clips: int
) -> list[Group]:
    """Return each signer of the batch, and the batch as a whole if it has several.

    One bad signer hides among good ones, and a bad batch in signers of too few clips.

    Args:
        old: Clips to compare with.
        new: Clips of the batch.
        measured: Clips that have landmarks; the others are left out.
        min_clips: Fewest clips on each side.
    """
    before, now = _by_signer(old, measured), _by_signer(new, measured)
    everyone = tuple(name for names in before.values() for name in names)
    batch = tuple(name for names in now.values() for name in names)
    groups = []
    if len(now) > 1:
        groups.append(Group(signer=None, new=batch, old=everyone, is_known=False))
    for signer, names in sorted(now.items()):
        own = before.get(signer, ())
        is_known = len(own) >= min_clips
        groups.append(
            Group(signer=signer, new=names, old=own if is_known else everyone, is_known=is_known)
        )
    return [group for group in groups if min(len(group.new), len(group.old)) >= min_clips]


def _by_signer(clips: Sequence[Clip], measured: Collection[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = defaultdict(list)
    for clip in clips:
        if clip.clip_id in measured:
            found[clip.signer].append(clip.clip_id)
    return {signer: tuple(names) for signer, names in found.items()}


@checked_dataclass
class Limits:
    """From which value of its statistic on a check warns, and from which on it stops."""

    warn: NonNegative | None
    """None: never."""
    stop: NonNegative | None
    """None: never; only for what ruins a model."""

    def __post_init__(self) -> None:
        if self.warn is not None and self.stop is not None and self.stop < self.warn:
            raise ValueError(f"stop: found {self.stop}, expected at least warn ({self.warn})")


@checked_dataclass
class DriftOptions:
    """The part `retrain.drift` of params.yaml: what is looked at, and the limits of each check.

    Every statistic is 0 or more (a factor 1 or more), and more is worse. Limits stop the night only
    for what ruins a model; docs/nights.md says what they were measured on. A project that knows
    better names a check with its own limits in params.yaml.
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
    """Of known signers: standard errors by which the preferred hand has changed sides."""
    mirrored_people: Limits = Limits(warn=5.0, stop=100.0)
    """Of new signers: one batch in how many would have as many people of the rarer hand."""
    colour: Limits = Limits(warn=0.05, stop=0.2)
    """Share of the clips whose skin is bluer than red."""


LIMITS = tuple(field.name for field in fields(DriftOptions) if field.type is Limits)
"""Names of the checks, in the order in which they are reported."""

FORMAT_VERSION = 1
LEVELS = ("ok", "warn", "stop")  # from good to bad

Level = Literal["ok", "warn", "stop"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """What one check found."""

    check: str
    """Name of the check: a field of `DriftOptions`, for landmarks `movement.STATISTIC`."""
    level: Level
    statistic: float | None
    """More is worse; None: there is too little to measure."""
    warn: float | None
    """Where warnings begin."""
    stop: float | None
    """Where the night stops."""
    what: str
    """What was found, a phrase that names no person."""
    hint: str
    """What to do about it; empty if nothing is. In files: `mend`."""
    clips: tuple[str, ...] = ()
    """New clips that are the reason, if some are more than others."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """What the statistic was made of."""
    signer: str | None = None
    """Whom it is about, if it is about one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Overall:
    """How well a classifier tells the new clips from the old ones; for information only."""

    auc: float
    """Area under the ROC curve of clips that it did not see, 0.5 (alike) to 1 (apart)."""
    usual_auc: float
    """Its median where old and new were exchanged at random."""
    p_value: float
    """Share of the exchanges that were told apart as well."""
    is_grouped: bool
    """Whether all clips of a signer were kept out together."""

    @property
    def what(self) -> str:
        """The figure as a phrase."""
        return (
            f"a classifier tells new clips from old ones with an AUC of {self.auc:.2f}, by chance "
            f"{self.usual_auc:.2f} (p {self.p_value:.2f})"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class DriftReport:
    """What all checks found of a batch of new clips."""

    batch: str
    new: int
    """New clips."""
    old: int
    """Old clips they were compared with."""
    findings: tuple[Finding, ...]
    overall: Overall | None = None
    """All measures of the clips together; None: there are too few."""

    @property
    def level(self) -> Level:
        """The worst level of any finding."""
        return max((found.level for found in self.findings), key=LEVELS.index, default="ok")

    def of(self, level: Level) -> list[Finding]:
        """Return the findings of one level."""
        return [found for found in self.findings if found.level == level]

    def to_map(self) -> dict[str, Any]:
        """The report as plain values, for JSON."""
        findings = [
            {
                "mend" if name == "hint" else name: list(value) if name == "clips" else value
                for name, value in asdict(found).items()
            }
            for found in self.findings
        ]
        return {
            "format_version": FORMAT_VERSION,
            "batch": self.batch,
            "level": self.level,
            "new": self.new,
            "old": self.old,
            "findings": findings,
            "overall": self.overall and asdict(self.overall),
        }


def write_report(path: Path, report: DriftReport) -> None:
    """Write a report as JSON, atomically."""
    write_file(path, json.dumps(report.to_map(), ensure_ascii=False, indent=1) + "\n")


def judge(
    check: str,
    limits: Limits,
    statistic: float | None,
    what: str,
    *,
    hint: str = "",
    clips: Collection[str] = (),
    figures: Mapping[str, float] | None = None,
    signer: str | None = None,
) -> Finding:
    """Hold a statistic against its limits."""
    level: Level = "ok"
    if statistic is not None:
        if limits.stop is not None and statistic >= limits.stop:
            level = "stop"
        elif limits.warn is not None and statistic >= limits.warn:
            level = "warn"
    return Finding(
        check=check,
        level=level,
        statistic=None if statistic is None else round(statistic, 4),
        warn=limits.warn,
        stop=limits.stop,
        what=what,
        hint="" if level == "ok" else hint,
        clips=() if level == "ok" else tuple(sorted(clips)),
        figures={name: round(value, 6) for name, value in (figures or {}).items()},
        signer=signer,
    )


def worst(findings: Sequence[Finding]) -> Finding:
    """Return the finding with the highest level; of several, that with the largest statistic."""
    return max(
        findings,
        key=lambda found: (
            LEVELS.index(found.level),
            -1.0 if found.statistic is None else found.statistic,
        ),
    )
