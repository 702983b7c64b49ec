"""Findings of drift checks and their report."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from signloom.files import write_file

FORMAT_VERSION = 1
LEVELS = ("ok", "warn", "stop")  # from good to bad

Level = Literal["ok", "warn", "stop"]


@dataclass(frozen=True, slots=True)
class Measured:
    """What a check measured of a batch."""

    statistic: float | None
    """More is worse; None: there is too little to measure."""
    what: str
    """Description, a phrase that names no person."""
    clips: Collection[str] = ()
    """New clips that are the reason, if some are more than others."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """Numbers from which the statistic was computed."""
    signer: str | None = None
    """The signer it is about, if it is about one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A measurement, judged by the limits of its check."""

    check: str
    """Name of the check."""
    level: Level
    statistic: float | None
    warn: float
    """Limit from which on it is a warning."""
    stop: float | None
    """Limit from which on a delivery is refused: it is withdrawn, and the night goes on or, if all
    new deliveries were refused, ends with exit code 5."""
    what: str
    hint: str
    """Advice for a person; empty if there is nothing to do."""
    clips: tuple[str, ...] = ()
    figures: Mapping[str, float] = field(default_factory=dict)
    signer: str | None = None


def worst(parts: Sequence[Measured], nothing: str) -> Measured:
    """Return the part with the largest statistic; `nothing` describes that there is none."""
    measured = [part for part in parts if part.statistic is not None]
    return max(measured, key=lambda part: part.statistic or 0.0, default=Measured(None, nothing))


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
        return max((finding.level for finding in self.findings), key=LEVELS.index, default="ok")

    def of(self, level: Level) -> list[Finding]:
        """Return the findings of one level."""
        return [finding for finding in self.findings if finding.level == level]

    def to_map(self) -> dict[str, Any]:
        """The report as plain values, for JSON."""
        head = {"format_version": FORMAT_VERSION, "batch": self.batch, "level": self.level}
        findings = [{**asdict(finding), "clips": list(finding.clips)} for finding in self.findings]
        return {**head, "new": self.new, "old": self.old, "findings": findings}


def write_report(path: Path, report: DriftReport) -> None:
    """Write a report as JSON, atomically."""
    write_file(path, json.dumps(report.to_map(), ensure_ascii=False, indent=1) + "\n")
