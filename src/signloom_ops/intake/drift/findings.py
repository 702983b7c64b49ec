"""Findings of drift checks, the clips they are about, and their report."""

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from signloom.corpus.manifest import Clip
from signloom.files import write_file
from signloom_ops.options import DriftLimits


@dataclass(frozen=True, kw_only=True, slots=True)
class SignerGroup:
    """Some new clips, and the old ones that they should be like."""

    signer: str | None
    """The signer of the new ones; None: the group is the whole batch."""
    new: tuple[str, ...]
    old: tuple[str, ...]
    """Clips of the same signer, if the signer is known; else of all signers."""
    is_known: bool
    """Whether the old ones are the same signer's."""

    @property
    def label(self) -> str:
        """A description of the clips that names no person."""
        return "all new clips" if self.signer is None else "one signer"


def form_groups(
    old: Sequence[Clip], new: Sequence[Clip], measured: Collection[str], min_clips: int
) -> list[SignerGroup]:
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
        groups.append(SignerGroup(signer=None, new=batch, old=everyone, is_known=False))
    for signer, names in sorted(now.items()):
        own = before.get(signer, ())
        is_known = len(own) >= min_clips
        groups.append(
            SignerGroup(
                signer=signer, new=names, old=own if is_known else everyone, is_known=is_known
            )
        )
    return [group for group in groups if min(len(group.new), len(group.old)) >= min_clips]


def _by_signer(clips: Sequence[Clip], measured: Collection[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = defaultdict(list)
    for clip in clips:
        if clip.clip_id in measured:
            found[clip.signer].append(clip.clip_id)
    return {signer: tuple(names) for signer, names in found.items()}


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
    """Limit from which on it is a warning."""
    stop: float | None
    """Limit from which on a delivery is refused: it is withdrawn, and the night goes on or, if all
    new deliveries were refused, ends with exit code 5."""
    what: str
    """Description of the finding, a phrase that names no person."""
    hint: str
    """Advice for a person; empty if there is nothing to do."""
    clips: tuple[str, ...] = ()
    """New clips that are the reason, if some are more than others."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """Numbers from which the statistic was computed."""
    signer: str | None = None
    """The signer it is about, if it is about one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Overall:
    """How well a classifier tells the new clips from the old ones; for information only."""

    auc: float
    """Area under the ROC curve of clips that it did not see, 0.5 (alike) to 1 (apart)."""
    usual_auc: float
    """Median AUC where old and new were exchanged at random."""
    p_value: float
    """Share of the exchanges that were distinguished as well."""
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
        findings = [{**asdict(found), "clips": list(found.clips)} for found in self.findings]
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
    limits: DriftLimits,
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
