"""The scores that later runs are compared with."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from signloom.config import check_shape
from signloom.evaluation import records
from signloom.evaluation.names import Metric, shown_metrics
from signloom.files import write_file
from signloom.report.stage_files import VERSIONS, score_of, why_not_comparable


def keep_baseline(metrics: Mapping[str, Any], path: Path) -> None:
    """Write reports/baseline.json: the scores that later reports are compared with.

    Args:
        metrics: The content of reports/metrics.json.
        path: The file; it is committed, so that the report depends on no state of Git.
    """
    content = {"format_version": VERSIONS["baseline.json"], "metrics": metrics}
    write_file(path, json.dumps(content, ensure_ascii=False, indent=2) + "\n")


def read_committed(path: Path) -> dict[str, Any]:
    """Return the metrics file of the last commit; empty if there is none, or no Git."""
    try:
        done = subprocess.run(
            ["git", "show", f"HEAD:./{path.name}"],
            cwd=path.parent, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return dict(check_shape(json.loads(done.stdout), records.KEPT, where=path, hint=""))
    except (OSError, subprocess.CalledProcessError, ValueError):
        return {}


@dataclass(frozen=True, slots=True)
class MetricChange:
    """One score of a split, before and now."""

    split: str
    metric: str
    before: float
    now: float


def list_changes(now: Mapping[str, Any], before: Mapping[str, Any]) -> list[MetricChange]:
    """Return what changed, of the splits and metrics that both have and that can be compared."""
    return [
        MetricChange(split, metric, score_of(before[split], metric), score_of(found, metric))
        for split, found in now.items()
        if split in before and not why_not_comparable(found, before[split])
        for metric in shown_metrics(found.get("headline", Metric.BLEU4))
        if isinstance(found.get(metric), int | float)
        and isinstance(before[split].get(metric), int | float)
    ]
