"""`signloom scores`: the last evaluation is printed beside its floors and earlier runs."""

import argparse
from pathlib import Path
from typing import Any

from signloom.config import read_json
from signloom.errors import UserError
from signloom.paths import METRICS, REPORT_PAGE
from signloom.report.stage_files import Change, changes, keep, read_baseline, read_committed

NAMES = {"bleu4": "BLEU-4", "chrf": "chrF", "wer": "WER"}
# What stands beside a score: the floors, then the model without its input and with a wrong one.
FLOORS = {
    "floor": "constant", "random": "random", "retrieval": "retrieval", "blind": "blind",
    "swapped": "swapped", "copy": "copy",
}  # fmt: skip


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Describe the command."""
    parser = commands.add_parser("scores", help="print the last evaluation beside its floors")
    parser.add_argument("--metrics", type=Path, default=METRICS)
    parser.add_argument(
        "--keep",
        action="store_true",
        help="keep these scores in baseline.json beside them: later reports are compared with them",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print the scores of each split, what they must be compared with, and where to look."""
    hint = "run `dvc repro evaluate` first"
    if options.metrics.is_dir():
        raise UserError(f"{options.metrics} is a folder, expected a file such as metrics.json")
    metrics = read_json(options.metrics, hint=hint)
    baseline = options.metrics.with_name("baseline.json")
    try:
        tables = [format_scores(split, found) for split, found in metrics.items()]
    except (AttributeError, KeyError, TypeError):
        raise UserError(f"{options.metrics} holds no scores of an evaluation; {hint}") from None
    print(*tables, sep="\n")
    earlier = (
        ("last commit", read_committed(options.metrics)),
        ("kept run", _read_kept(baseline, is_replaced=options.keep)),
    )
    for name, before in earlier:
        if found := changes(metrics, before):
            print(f"against the {name}:\n{format_changes(found)}\n")
    if options.keep:
        keep(metrics, baseline)
        print(f"kept in {baseline}; commit it, `dvc repro report` compares with it\n")
    print(f"report:  open {REPORT_PAGE} in a browser")
    # MLflow's own front page shows GenAI traces, of which there are none.
    print("runs:    make ui, then http://127.0.0.1:5000 > Experiments > Model training")


def _read_kept(path: Path, *, is_replaced: bool) -> dict[str, Any]:
    """Read the kept run; a damaged one is no reason not to replace it."""
    try:
        return read_baseline(path)
    except UserError:
        if not is_replaced:
            raise
        return {}


def format_scores(split: str, scores: dict[str, Any]) -> str:
    """Return a split's scores as a small table."""
    floors = [name for name in FLOORS if f"{name}_bleu4" in scores]

    def line(name: str, key: str) -> str:
        interval = f"[{scores[f'{key}_low']:.2f}, {scores[f'{key}_high']:.2f}]"
        beside = "".join(
            f"{scores[f'{floor}_{key}']:>10.2f}" for floor in floors if f"{floor}_{key}" in scores
        )
        return f"  {name:<8}{scores[key]:>7.2f}  {interval:<17}{beside}".rstrip()

    lines = [
        f"{split}: {scores['clips']} clips, 95 % intervals".ljust(36)
        + "".join(f"{FLOORS[floor]:>10}" for floor in floors),
        line("BLEU-4", "bleu4"),
        line("BLEU-1", "bleu1"),
        line("chrF", "chrf"),
        line("WER %", "wer"),
        line("CER %", "cer"),
    ]
    if "seeds" in scores:
        spreads = (
            f"{NAMES[name]} {found['mean']:.2f} ± {found['std']:.2f}"
            for name, found in scores["seeds"].items()
        )
        count = scores["seeds"]["bleu4"]["n"]
        lines.append(f"  mean and standard deviation of {count} seeds: {', '.join(spreads)}")
    if scores.get("ignores_input"):
        lines.append("  THIS MODEL IGNORES ITS INPUT: another clip's video gets the same score")
    return "\n".join((*lines, f"  {scores['signature']}\n"))


def format_changes(found: list[Change]) -> str:
    """Return a line a split; how sure the changes are is for `signloom compare` to say."""
    lines = []
    for split in dict.fromkeys(change.split for change in found):
        parts = [
            f"{NAMES[change.metric]} {change.before:.2f} -> {change.now:.2f} "
            f"({change.now - change.before:+.2f})"
            for change in found
            if change.split == split
        ]
        lines.append(f"  {split}: " + ", ".join(parts))
    return "\n".join(lines)
