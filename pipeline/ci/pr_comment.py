"""Write what a change does to the scores as Markdown, for a pull request's comment.

Scores and parameters come from Git. Curves and breakdowns are in DVC's cache or remote; where they
cannot be had, the comment says so and goes without.
"""

import argparse
import json
import logging
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.ci.lock_state import read_state
from pipeline.ci.markdown import code, folded, interval_bars, line_chart, table
from pipeline.stage import run
from signloom.errors import UserError
from signloom.evaluation.metric_names import Metric, metric_label, shown_metrics
from signloom.files import write_file
from signloom.paths import EVALUATION
from signloom.tables import read_rows
from signloom_tools.outputs import begins_as_ours

MARK = "<!-- signloom scores -->"
_BREAKDOWNS = {
    "by_signer": "signer",
    "by_words": "words of the reference",
    "by_sentence": "sentences that train knows, and new ones",
}
_LEAST_CHANGE = 0.05  # shown with one digit

_Diff = dict[str, dict[str, Any]]  # name -> old, new


def build_comment(base: str) -> str:
    """Compare the working tree with a commit.

    Args:
        base: The commit to compare with.

    Raises:
        UserError: If DVC cannot compare.
    """
    metrics = _diff("metrics", base, "--all")
    parts = [MARK, "### Scores", _headlines(metrics), _drawn(metrics), _all_metrics(metrics)]
    parts += ["### Learning", *_pictures(base)]
    parts += ["### Parameters", _parameters(_diff("params", base)), "### Stages", _stages()]
    return "\n\n".join(part for part in parts if part) + "\n"


def _diff(kind: str, base: str, *more: str) -> _Diff:
    command = [sys.executable, "-m", "dvc", kind, "diff", "--json", *more, base]
    process = subprocess.run(command, capture_output=True, text=True)
    if process.returncode:
        raise UserError(f"`dvc {kind} diff {base}`: {process.stderr.strip()}")
    files: dict[str, _Diff] = json.loads(process.stdout)
    return {name: change for names in files.values() for name, change in sorted(names.items())}


def _headlines(metrics: _Diff) -> str:
    rows = []
    if message := _other_clips(metrics):
        return message
    for split in ("test", "dev"):
        for key in _shown(metrics):
            name = f"{split}.{key}"
            if name in metrics:
                cells = [_with_interval(metrics, name, side) for side in ("old", "new")]
                rows.append([f"{split} {metric_label(key)}", *cells, _change(metrics[name])])
    if not rows:
        return "Neither side has scores: `reports/metrics.json` is missing."
    return table(("", "before", "after", "change"), rows)


def _shown(metrics: _Diff) -> tuple[Metric, ...]:
    return shown_metrics(metrics.get("test.headline", {}).get("new") or Metric.BLEU4)


def _other_clips(metrics: _Diff) -> str:
    """Say that the two sides were scored on other clips, if they were; empty: on the same."""
    for split in ("test", "dev"):
        sides = metrics.get(f"{split}.clips_hash", {})
        old, new = sides.get("old"), sides.get("new")
        if None not in (old, new) and old != new:
            names = (metrics.get(f"{split}.corpus", {}).get(side) for side in ("old", "new"))
            before, after = (code(name) for name in names)
            return (
                f"The clips or sentences of {split} are others on the two sides (corpus {before} "
                f"before, {after} after), so their scores are not compared."
            )
    return ""


def _with_interval(metrics: _Diff, name: str, side: str) -> str:
    low, high = (metrics.get(f"{name}_{end}", {}).get(side) for end in ("low", "high"))
    interval = f" ({_number(low)} to {_number(high)})" if low is not None else ""
    return _number(metrics[name].get(side)) + interval


def _number(value: object) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:.1f}" if isinstance(value, float) else str(value)
    return "none" if value is None else code(value)


def _change(values: Mapping[str, Any]) -> str:
    old, new = values.get("old"), values.get("new")
    if not isinstance(old, int | float) or not isinstance(new, int | float):
        return ""
    return f"{new - old:+.1f}" if abs(new - old) >= _LEAST_CHANGE else "0"


def _drawn(metrics: _Diff) -> str:
    rows = []
    for key in () if _other_clips(metrics) else _shown(metrics):
        for side, word in (("old", "before"), ("new", "after")):
            names = (f"test.{key}", f"test.{key}_low", f"test.{key}_high")
            values = [metrics.get(name, {}).get(side) for name in names]
            if None not in values:
                value, low, high = (float(number or 0) for number in values)
                rows.append((f"test {metric_label(key)} {word}", value, low, high))
    return interval_bars(rows, 100.0) if rows else ""


def _all_metrics(metrics: _Diff) -> str:
    rows = [
        [code(name), _number(values.get("old")), _number(values.get("new")), _change(values)]
        for name, values in metrics.items()
        if values.get("old") != values.get("new")
    ]
    if not rows:
        return "No metric has changed."
    return folded(
        f"All {len(rows)} metrics that changed", table(("", "before", "after", "change"), rows)
    )


def _parameters(params: _Diff) -> str:
    rows = [[code(k), *(code(v.get(side)) for side in ("old", "new"))] for k, v in params.items()]
    return table(("", "before", "after"), rows) if rows else "None has changed."


def _stages() -> str:
    stale = read_state()
    if not stale:
        return "`dvc.lock` covers the code and the parameters: the scores are those of this change."
    names = ", ".join(map(code, stale))
    return f"**The scores are not those of this change**: `dvc repro` would run {names}."


def _pictures(base: str) -> list[str]:
    """Return the curves and breakdowns of both sides, or why there are none."""
    with tempfile.TemporaryDirectory() as scratch:
        sides = {
            "before": _fetch(base, Path(scratch, "before")),
            "after": _fetch("HEAD", Path(scratch, "after")),
        }
        folders = {word: folder for word, folder in sides.items() if folder}
        if not folders:
            return ["Not here: curves and breakdowns are in DVC's remote (docs/start.md)."]
        return [*_curves(folders), *(_breakdown(folders, *names) for names in _BREAKDOWNS.items())]


def _fetch(revision: str, folder: Path) -> Path | None:
    """Get the evaluation of a commit from DVC's cache or remote; None if it cannot be had."""
    command = [sys.executable, "-m", "dvc", "get", "--quiet", ".", EVALUATION.as_posix()]
    process = subprocess.run(
        [*command, "--rev", revision, "--out", str(folder)], stderr=subprocess.PIPE
    )
    if process.returncode:
        logging.info("%s of %s: %s", EVALUATION, revision, process.stderr.decode().strip())
    return None if process.returncode else folder


def _curves(sides: Mapping[str, Path]) -> list[str]:
    lines = []
    for word, folder in sides.items():
        values = [float(row["dev_loss"]) for row in read_rows(folder / "curves.csv")]
        if len(values) > 1:
            lines.append((word, values))
    return [line_chart("dev loss after each epoch", "nats a token", lines)] if lines else []


def _breakdown(sides: Mapping[str, Path], name: str, title: str) -> str:
    columns = [
        {row["name"]: row["chrf"] for row in read_rows(folder / f"{name}.csv")}
        for folder in sides.values()
    ]
    rows = [
        [code(key), *(code(column.get(key, "")) for column in columns)]
        for key in dict.fromkeys(key for column in columns for key in column)
    ]
    return folded(f"chrF by {title}", table(("", *sides), rows))


def main() -> None:
    """Write the comment."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--base", required=True, help="the commit to compare with")
    parser.add_argument("--out", required=True, type=Path, help="the Markdown file to write")
    options = parser.parse_args()
    if not begins_as_ours(options.out, MARK):
        raise UserError(f"{options.out} is there and no comment of ours: name another file")
    write_file(options.out, build_comment(options.base))


if __name__ == "__main__":
    run(main)
