"""What a check found, and a report of all checks; JSON maps of both go out and come in."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from signloom.config import check_version, read_json
from signloom.corpus.drift.options import Limits
from signloom.reproducibility import write_atomically

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
    """What was found, a phrase."""
    mend: str
    """What to do about it; empty if nothing is."""
    clips: tuple[str, ...] = ()
    """New clips that are the reason, if some are more than others."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """What the statistic was made of."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DriftReport:
    """What all checks found of a batch of new clips."""

    batch: str
    new: int
    """New clips."""
    old: int
    """Old clips they were compared with."""
    findings: tuple[Finding, ...]

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
            {**asdict(found), "clips": list(found.clips), "figures": dict(found.figures)}
            for found in self.findings
        ]
        return {
            "format_version": FORMAT_VERSION,
            "batch": self.batch,
            "level": self.level,
            "new": self.new,
            "old": self.old,
            "findings": findings,
        }


def write_report(path: Path, report: DriftReport) -> None:
    """Write a report as JSON, atomically."""
    write_atomically(path, json.dumps(report.to_map(), ensure_ascii=False, indent=1) + "\n")


def read_report(path: Path) -> DriftReport:
    """Read what `write_report` wrote.

    Raises:
        UserError: If the file is missing, damaged or of another format version.
    """
    mend = "write it again with `signloom drift`"
    content = read_json(path, mend=mend)
    check_version(path, content, FORMAT_VERSION, mend=mend)
    findings = (Finding(**{**row, "clips": tuple(row["clips"])}) for row in content["findings"])
    return DriftReport(
        batch=content["batch"], new=content["new"], old=content["old"], findings=tuple(findings)
    )


def judge(
    check: str,
    limits: Limits,
    statistic: float | None,
    what: str,
    *,
    mend: str = "",
    clips: Collection[str] = (),
    figures: Mapping[str, float] | None = None,
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
        mend="" if level == "ok" else mend,
        clips=() if level == "ok" else tuple(sorted(clips)),
        figures={name: round(value, 6) for name, value in (figures or {}).items()},
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
