"""`signloom compare`: two runs are compared on the same clips, with how sure the difference is."""

import argparse
import json

from signloom.errors import UserError
from signloom.evaluation.compare import Difference
from signloom.evaluation.metrics import LOWER_IS_BETTER
from signloom.paths import REPORTS

NAMES = {
    "bleu4": "BLEU-4", "bleu1": "BLEU-1", "chrf": "chrF", "chrfpp": "chrF++", "ter": "TER %",
    "wer": "WER %", "cer": "CER %", "rouge_l": "ROUGE-L", "exact": "exact %",
}  # fmt: skip


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "compare",
        help="say how two runs differ and how sure that is",
        description="Compare two runs on the clips that both translated, by the paired bootstrap. "
        "A run is a folder with an evaluation (reports, another checkout, an artifact folder of "
        "MLflow), or git:REVISION, also of a DVC experiment.",
    )
    parser.add_argument("run_a", metavar="RUN_A", help="e.g. git:HEAD")
    parser.add_argument("run_b", metavar="RUN_B", nargs="?", default=str(REPORTS),
                        help="default: reports")  # fmt: skip
    parser.add_argument("--split", help="dev or test; default: all that both have")
    parser.add_argument("--json", action="store_true", help="print JSON, with every sentence")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print a table for each split, or everything as JSON."""
    from signloom.evaluation.compare import compare_runs, comparison_map, read_run

    a, b = read_run(options.run_a), read_run(options.run_b)
    splits = [options.split] if options.split else sorted(a.splits.keys() & b.splits, reverse=True)
    if not splits:
        raise UserError(
            f"{a.name} has {', '.join(a.splits) or 'no split'}, {b.name} has "
            f"{', '.join(b.splits) or 'no split'}: nothing to compare"
        )
    found = {split: compare_runs(a, b, split) for split in splits}
    if options.json:
        print(json.dumps(comparison_map(a, b, found), ensure_ascii=False, indent=2))
        return
    print(f"A: {a.name}\nB: {b.name}")
    for split, part in found.items():
        left_out = f", {part.left_out} that only one has left out" if part.left_out else ""
        print(
            f"\n{split}: {len(part.clips)} clips{left_out}, paired bootstrap, "
            f"{a.options.resamples} resamples"
        )
        print(format_differences(part.differences))


def format_differences(differences: dict[str, Difference]) -> str:
    """Return a table with a line a metric and a sentence under it."""
    lines = [
        f"  {'':<8}{'A':>8}{'B':>8}{'B - A':>8}  {'95 % interval':<17}{'p':>6}"
        f"{'better':>8}{'worse':>7}{'equal':>7}"
    ]
    for name, found in differences.items():
        if name in ("bleu2", "bleu3"):
            continue
        interval = f"[{found.low:.2f}, {found.high:.2f}]"
        lines.append(
            f"  {NAMES.get(name, name):<8}{found.a:>8.2f}{found.b:>8.2f}{found.difference:>+8.2f}  "
            f"{interval:<17}{found.p_value:>6.3f}{found.wins:>8}{found.losses:>7}{found.ties:>7}"
        )
    return "\n".join([*lines, f"  {verdict(differences)}"])


def verdict(differences: dict[str, Difference]) -> str:
    """Say which run is better, on which metrics surely (the 95 % interval is off 0)."""
    sure: dict[str, list[str]] = {"better": [], "worse": []}
    for name, found in differences.items():
        if name in NAMES and (found.low > 0 or found.high < 0):
            gained = (found.low > 0) != (name in LOWER_IS_BETTER)
            sure["better" if gained else "worse"].append(NAMES[name].removesuffix(" %"))
    parts = [f"B is {word} on {', '.join(names)}" for word, names in sure.items() if names]
    return "; ".join(parts) + "." if parts else "No clear difference on these clips."
