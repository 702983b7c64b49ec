"""The scores of an earlier run: the last committed one, or the one that was kept."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from signloom.config import check_version, read_json
from signloom.reproducibility import write_atomically

FORMAT_VERSION = 1
METRICS = ("bleu4", "chrf", "wer")


@dataclass(frozen=True, slots=True)
class Change:
    """One score of a split, before and now."""

    split: str
    metric: str
    before: float
    now: float


def keep(metrics: Mapping[str, Any], path: Path) -> None:
    """Write reports/baseline.json: the scores that later reports are compared with.

    Args:
        metrics: The content of reports/metrics.json.
        path: The file; it is committed, so that the report depends on no state of Git.
    """
    content = {"format_version": FORMAT_VERSION, "metrics": metrics}
    write_atomically(path, json.dumps(content, ensure_ascii=False, indent=2) + "\n")


def read_baseline(path: Path) -> dict[str, Any]:
    """Return the metrics of the kept run; empty if none was kept.

    Raises:
        UserError: If the file is damaged or of another format version.
    """
    if not path.is_file():
        return {}
    mend = "write it again with `signloom scores --keep`"
    content = read_json(path, mend=mend)
    check_version(path, content, FORMAT_VERSION, mend=mend)
    metrics: dict[str, Any] = content["metrics"]
    return metrics


def read_committed(path: Path) -> dict[str, Any]:
    """Return the metrics file of the last commit; empty if there is none, or no Git."""
    try:
        done = subprocess.run(
            ["git", "show", f"HEAD:./{path.name}"],
            cwd=path.parent, capture_output=True, text=True, check=True,
        )  # fmt: skip
        content = json.loads(done.stdout)
    except (OSError, subprocess.CalledProcessError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def changes(now: Mapping[str, Any], before: Mapping[str, Any]) -> list[Change]:
    """Return what changed, of the splits and metrics that both have."""
    return [
        Change(split, metric, float(before[split][metric]), float(found[metric]))
        for split, found in now.items()
        if split in before
        for metric in METRICS
        if metric in found and metric in before[split]
    ]
